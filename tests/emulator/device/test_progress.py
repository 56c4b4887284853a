"""Progress of slow kernels."""

import sys

from rocke_cupy.emulator.device import progress


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


def run(monkeypatch, times, terminal):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress.Progress("kernel") as call:
        for done, seconds in enumerate(times):
            clock.now = 100 + seconds
            call(done, 50)


def test_a_quick_kernel_says_nothing(monkeypatch, capsys):
    run(monkeypatch, [0.1, 1, 2.9], True)
    assert capsys.readouterr().err == ""


def test_a_slow_kernel_rewrites_its_line_on_a_terminal(monkeypatch, capsys):
    run(monkeypatch, [1, 3, 3.2, 4], True)
    assert capsys.readouterr().err == (
        "\rrocke_cupy: kernel: 1 of 50 workgroups after 3 s"
        "\rrocke_cupy: kernel: 3 of 50 workgroups after 4 s\n"
    )


def test_a_slow_kernel_writes_a_line_now_and_then_elsewhere(monkeypatch, capsys):
    run(monkeypatch, [1, 3, 4, 12, 13], False)
    assert capsys.readouterr().err == (
        "rocke_cupy: kernel: 1 of 50 workgroups after 3 s\n"
        "rocke_cupy: kernel: 4 of 50 workgroups after 13 s\n"
    )

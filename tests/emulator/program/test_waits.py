"""The counts of s_waitcnt: where they stand, and which waits are looser."""

import pytest

from rocke_cupy.emulator.program.waits import Wait


@pytest.mark.parametrize(
    ("immediate", "wait"),
    [
        # vmcnt(n) alone is 0x0f70 | n, lgkmcnt(0) alone 0xc07f.
        (0x0F70, Wait(vmcnt=0, lgkmcnt=15)),
        (0x0F74, Wait(vmcnt=4, lgkmcnt=15)),
        (0x4F71, Wait(vmcnt=17, lgkmcnt=15)),
        (0x4F70, Wait(vmcnt=16, lgkmcnt=15)),
        (0xC07F, Wait(vmcnt=63, lgkmcnt=0)),
        (0x0072, Wait(vmcnt=2, lgkmcnt=0)),
    ],
)
def test_the_fields_of_the_immediate(immediate, wait):
    assert Wait.of(immediate) == wait
    assert wait.immediate == immediate


def test_looser():
    assert list(Wait(4, 0).looser()) == [
        Wait(5, 0), Wait(6, 0), Wait(63, 0), Wait(4, 1), Wait(4, 2), Wait(4, 15),
    ]  # fmt: skip
    assert list(Wait(63, 0).looser()) == [Wait(63, 1), Wait(63, 2), Wait(63, 15)]
    assert list(Wait(61, 15).looser()) == [Wait(62, 15), Wait(63, 15)]
    assert list(Wait(63, 15).looser()) == []

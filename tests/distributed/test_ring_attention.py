"""Ring attention under mpiexec: ring_cases.py is what each rank runs."""

import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from rocke_cupy.distributed import ring_attention, shares
from rocke_cupy.distributed.shares import pieces

RANKS = Path(__file__).with_name("ring_cases.py")
MPIEXEC = shutil.which(
    "mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)


def command(ranks, *arguments, python=(sys.executable,)):
    return [MPIEXEC, "-n", str(ranks), *python, str(RANKS), *arguments]


def environment(**more):
    """Return this environment without a device, and with a root's mpiexec allowed."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("ROCKE_EMULATOR")}
    return {**plain, **more}


def run(ranks, *arguments, python=(sys.executable,), **variables):
    done = subprocess.run(
        command(ranks, *arguments, python=python), capture_output=True, text=True, timeout=500,
        env=environment(**variables),
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("right\n", 0), done.stdout + done.stderr
    return done.stderr


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_numpy_arrays_give_what_one_call_gives(ranks):
    run(ranks, "parity")


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_cupy_arrays_give_what_one_call_gives_on_a_device_a_rank(ranks, cp):
    on_devices = (sys.executable, "-m", "rocke_cupy.emulator")
    said = run(ranks, "parity", "cupy", python=on_devices, ROCKE_EMULATOR_DEVICES=str(ranks))
    assert said.count("this MPI does not say that it takes GPU memory") == (ranks > 1)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_mistake_on_one_rank_is_an_error_on_all(ranks):
    run(ranks, "errors")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_each_share_travels_once_and_the_work_is_even(ranks):
    run(ranks, "traffic")


def test_ctrl_c_ends_all_ranks():
    with subprocess.Popen(
        command(3, "interrupt"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(), start_new_session=True,
    ) as running:  # fmt: skip
        assert running.stdout.readline() == "started\n"
        time.sleep(1)
        os.killpg(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode != 0
    assert "rocke_cupy: interrupted on rank" in said or running.returncode == -signal.SIGINT


class TestShares:
    @pytest.mark.parametrize("order", ["contiguous", "zigzag"])
    @pytest.mark.parametrize(("seqlen", "size"), [(0, 1), (1, 3), (7, 2), (100, 7), (64, 4)])
    def test_each_token_is_held_once_and_evenly(self, seqlen, size, order):
        tokens = [
            [i for piece in own for i in range(seqlen)[piece]]
            for own in shares(seqlen, size, order)
        ]
        assert sorted(chain(*tokens)) == list(range(seqlen))
        assert {len(own) for own in tokens} <= {seqlen // size, seqlen // size + 1}

    def test_zigzag_pairs_a_piece_with_its_opposite(self):
        assert pieces([4, 3, 5], "zigzag") == [
            [slice(0, 2), slice(10, 12)], [slice(2, 4), slice(9, 10)], [slice(4, 7), slice(7, 9)],
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("arguments", "error", "sentence"),
        [
            ((-1, 2), ValueError, "seqlen=-1 must be a whole number, 0 or more"),
            ((4, 0), ValueError, "size=0 must be a whole number, 1 or more"),
            ((4.0, 2), TypeError, "seqlen=4.0 must be"),
            ((4, 2, "ring"), ValueError, "order='ring' must be one of 'contiguous', 'zigzag'"),
        ],
    )
    def test_what_it_refuses(self, arguments, error, sentence):
        with pytest.raises(error, match=sentence):
            shares(*arguments)


def test_a_communicator_of_something_else_is_refused():
    q = np.ones((1, 2, 1, 8), np.float16)
    with pytest.raises(TypeError, match=r"comm must be an mpi4py.MPI.Intracomm, not int"):
        ring_attention(q, q, q, comm=0)


def test_without_mpi4py_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(ImportError, match=r"pip install \"rocke_cupy\[distributed\]\""):
        ring_attention(None, None, None, comm=None)

"""What both Python and the C sources state is the same in both: limits, numbers, structures."""

import ctypes
import json
import re
from pathlib import Path

import pytest

from rocke_cupy import arch
from rocke_cupy.emulator.core import gfx950, layouts, library, numbers
from rocke_cupy.emulator.device import hip_abi, stand_ins, variables
from rocke_cupy.emulator.execution import dispatch
from rocke_cupy.emulator.hazards.wait_states import LONGEST
from rocke_cupy.emulator.program import waits
from rocke_cupy.emulator.timing import constants

CORE, RUNTIME = Path(library.__file__).parent, stand_ins.SOURCES


def text_of(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def constants_of(path, included=None):
    """Return all enumerators and numeric macros of a file, and those it includes."""
    text, found = text_of(path), dict(included or {})
    for name, value in re.findall(r"#define (\w+) (0x[0-9a-f]+|\d+)u?\n", text):
        found[name] = int(value, 0)
    for body in re.findall(r"\benum\s*\{([^}]*)\}", text):
        following = 0
        for entry in filter(None, map(str.strip, body.split(","))):
            name, _, value = (part.strip() for part in entry.partition("="))
            found[name] = eval(value, dict(found)) if value else following
            following = found[name] + 1
    return found


MACHINE, TIMING = constants_of(CORE / "machine.h"), constants_of(CORE / "timing.h")


def in_order(constants, prefix):
    """Return the names behind a prefix by their numbers, which have no gaps."""
    named = {v: n.removeprefix(prefix) for n, v in constants.items() if n.startswith(prefix)}
    return [named[k].lower() for k in range(len(named))]


@pytest.mark.parametrize(
    ("file", "facts"),
    [
        (
            CORE / "machine.h",
            {
                "LANES": gfx950.LANES,
                "MAX_WAVES": gfx950.MAX_THREADS // gfx950.LANES,
                "VGPR_ROWS": gfx950.VGPRS,
                "SGPR_ROWS": gfx950.SGPRS,
                "VCC": gfx950.VCC,
                "M0": gfx950.M0,
                "EXEC": gfx950.EXEC,
                "POISON": gfx950.POISON,
            },
        ),
        (
            CORE / "global.h",
            {"APERTURE_LDS": gfx950.SHARED_BASE, "APERTURE_SCRATCH": gfx950.PRIVATE_BASE},
        ),
        (
            CORE / "hazards.h",
            {
                "HAZARD_REGISTERS": numbers.HAZARD_REGISTERS,
                "FOREVER_STATES": numbers.FOREVER_STATES,
                "MARK_MATRIX": numbers.MARK_MATRIX,
                "MARK_ALL_LANES": numbers.MARK_ALL_LANES,
                "MARK_MAY_TAKE_ZERO": numbers.MARK_MAY_TAKE_ZERO,
            },
        ),
        (CORE / "hazards.c", {"LONGEST": LONGEST}),
        (
            CORE / "timing.c",
            {
                "VM_LIMIT": waits.VMCNT_MAX,
                "LGKM_LIMIT": waits.LGKMCNT_MAX,
                "MAX_COPIES": gfx950.WAVES_OF_SIMD,
                "MAX_SIMDS": constants()["simds"],
            },
        ),
        (
            RUNTIME / "runtime.h",
            {
                "WARP_SIZE": gfx950.LANES,
                "MAX_THREADS_PER_BLOCK": gfx950.MAX_THREADS,
                "LDS_BYTES": gfx950.LDS_BYTES,
                "INTERRUPTED": hip_abi.INTERRUPTED,
                "SUCCESS": hip_abi.SUCCESS,
                "INVALID_VALUE": hip_abi.INVALID_VALUE,
                "OUT_OF_MEMORY": hip_abi.OUT_OF_MEMORY,
                "INVALID_IMAGE": hip_abi.INVALID_IMAGE,
                "NO_BINARY_FOR_GPU": hip_abi.NO_BINARY_FOR_GPU,
                "NOT_FOUND": hip_abi.NOT_FOUND,
                "LAUNCH_FAILURE": hip_abi.LAUNCH_FAILURE,
                "NOT_SUPPORTED": hip_abi.NOT_SUPPORTED,
                "UNKNOWN": hip_abi.UNKNOWN,
            },
        ),
        (RUNTIME / "device.c", {"STACK_BYTES": dispatch.STACK_SIZE}),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_limits(file, facts):
    stated = constants_of(file, MACHINE if file.parent == CORE else None)
    assert {name: stated.get(name) for name in facts} == facts


def test_waiting_memory_operations_are_limited_by_their_counters():
    limits = re.search(r"LIMIT_OF\[QUEUES\] = \{(\d+), (\d+),", text_of(CORE / "pending.c"))
    assert tuple(map(int, limits.groups())) == (waits.VMCNT_MAX, waits.LGKMCNT_MAX)


@pytest.mark.parametrize(
    ("constants", "prefix", "names"),
    [
        (MACHINE, "UNIT_", numbers.UNITS),
        (MACHINE, "FAULT_", numbers.FAULTS),
        (MACHINE, "SCHEDULE_", numbers.SCHEDULES),
        (TIMING, "TIMED_", numbers.TIMED_KINDS),
        (MACHINE, "UNUSED_", [name.removeprefix("UNUSED_").lower() for name in numbers.UNUSED]),
        (MACHINE, "SEL_", [name.replace("_", "").lower() for name in numbers.SELECTIONS]),
    ],
)
def test_names_stand_in_the_same_order(constants, prefix, names):
    assert in_order(constants, prefix) == list(names)


def test_what_the_timing_model_counts():
    busy = in_order({n: v for n, v in TIMING.items() if n != "BUSY_UNITS"}, "BUSY_")
    assert busy == list(numbers.TIMING_UNITS)
    stalls = in_order({n: v for n, v in TIMING.items() if n != "STALL_REASONS"}, "STALL_")
    longer = {"wait_vm": "vmcnt", "wait_lgkm": "lgkmcnt"}
    assert [longer.get(name, name) for name in stalls] == list(numbers.STALLS)


@pytest.mark.parametrize(
    ("prefix", "but"),
    [
        ("OPERAND_", ()),
        ("TYPE_", ()),
        ("MOD_", ()),
        ("FLAG_", ("PLAIN", "ATOMIC")),  # set by the core itself
        ("FORMAT_", ()),
    ],
)
def test_numbers_of_the_records(prefix, but):
    theirs = {n.removeprefix(prefix): v for n, v in MACHINE.items() if n.startswith(prefix)}
    assert len(theirs) > 4
    assert {n: getattr(numbers, n, None) for n in theirs if n not in but} == {
        n: v for n, v in theirs.items() if n not in but
    }


def fields_of(path, name):
    """Return the names of a structure's members in order."""
    text = text_of(path)
    body = re.search(rf"\bstruct {name} \{{([^}}]*)\}}|\{{([^}}]*)\}} {name};", text)
    body = body[1] or body[2]
    found = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        if pointer := re.search(r"\(\*(\w+)\)", declaration):
            found.append(pointer[1])
            continue
        first, *others = declaration.split(",")
        found += [re.findall(r"\w+", re.sub(r"\[.*?\]", "", part))[-1] for part in (first, *others)]
    return found


STRUCTURES = {
    CORE / "machine.h": {
        "Operand": layouts.OPERAND,
        "Instruction": layouts.INSTRUCTION,
        "Launch": layouts.Launch,
        "Fault": layouts.Fault,
        "RaceRecord": layouts.RaceRecord,
        "Op": layouts.OpRow,
    },
    CORE / "hazards.h": {
        "HazardMarks": layouts.HAZARD_MARKS,
        "HazardSpan": layouts.HAZARD_SPAN,
    },
    CORE / "timing.h": {
        "TimedInstruction": layouts.TIMED_INSTRUCTION,
        "TimingModel": layouts.TimingModel,
        "TimedWorkgroup": layouts.TimedWorkgroup,
        "TraceEntry": layouts.TRACE_ENTRY,
    },
    RUNTIME / "runtime.h": {
        "Allocation": hip_abi.Allocation,
        "FunctionInfo": hip_abi.FunctionInfo,
        "LaunchRequest": hip_abi.LaunchRequest,
        "MatrixProduct": hip_abi.MatrixProduct,
        "RandomSeed": hip_abi.RandomSeed,
        "RandomDraw": hip_abi.RandomDraw,
        "Callbacks": hip_abi.Callbacks,
    },
}


@pytest.mark.parametrize(
    ("file", "name"), [(file, name) for file, names in STRUCTURES.items() for name in names]
)
def test_members_stand_in_the_same_order(file, name):
    layout = STRUCTURES[file][name]
    if isinstance(layout, type) and issubclass(layout, ctypes.Structure):
        ours = [field[0] for field in layout._fields_]
    else:
        ours = list(layout.names)
    assert fields_of(file, name) == ours


def test_the_product_knows_the_same_device():
    assert arch.LDS_BYTES == gfx950.LDS_BYTES
    assert arch.VGPRS_PER_SIMD_LANE == gfx950.VGPRS
    assert constants_of(RUNTIME / "runtime.h")["COMPUTE_UNITS"] == arch.COMPUTE_UNITS


def test_the_model_has_a_constant_for_each_member():
    stated = json.loads(
        (Path(library.__file__).parents[1] / "timing/gfx950_timing.json").read_text()
    )
    members = {name for name, _ in layouts.TimingModel._fields_} - {"copies"}
    assert members <= set(stated)


def test_who_cannot_import_the_names_of_the_variables_has_the_same(monkeypatch):
    script = Path(variables.__file__).with_name("sitecustomize.py").read_text()
    assert f'os.environ.get("{variables.PACKAGE}")' in script
    monkeypatch.delenv(variables.ROOT, raising=False)
    assert not arch.is_virtual()
    monkeypatch.setenv(variables.ROOT, "/somewhere")
    assert arch.is_virtual()

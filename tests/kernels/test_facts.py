"""Numbers that both the HIP sources and Python have: stated in each, equal in both."""

import re

import numpy as np
import pytest

from rocke_cupy import arch, spec
from rocke_cupy.kernels import rows
from rocke_cupy.kernels.source import kernels_src
from rocke_cupy.rules.masks import UNLIMITED
from rocke_cupy.rules.parts import MAX_PARTS

CONSTANTS = {
    ("tile/kv_layout.h", "keys_per_tile"): spec.TILE,
    ("tile/kv_layout.h", "k_line_bytes"): spec.LINE_BYTES + spec.K_LINE_PADDING,
    ("tile/kv_layout.h", "v_line_bytes"): spec.LINE_BYTES + spec.V_LINE_PADDING,
    ("tile/kv_layout.h", "lines_per_group"): spec.TILE * 2 * 64 // spec.LINE_BYTES,
    ("tile/kv_layout.h", "rows_per_wave"): 32,
    ("tile/kv_layout.h", "lds_bytes_of_compute_unit"): arch.LDS_BYTES,
    ("tile/row_layout.h", "row_lines"): spec.ROW_LINES,
    ("common/math.h", "wave_lanes"): spec.WAVE,
    ("parts/work_order.h", "xcds"): arch.XCDS,
    ("parts/walk.h", "walk_lanes"): rows.LANES,
    ("parts/columns.h", "columns_per_lane"): rows.COLUMNS_PER_LANE,
    ("attention/merge_states.hip", "max_parts"): MAX_PARTS,
}


def text(name):
    return (kernels_src() / name).read_text()


@pytest.mark.parametrize("file_and_name", CONSTANTS, ids=" ".join)
def test_a_constant_is_the_same_in_both(file_and_name):
    file, name = file_and_name
    (value,) = re.findall(rf"constexpr int {name} = ([\d +*]+);", text(file))
    assert eval(value) == CONSTANTS[file_and_name]


def enumerators(file, name, prefix):
    (body,) = re.findall(rf"enum {name} \{{([^}}]*)\}}", text(file))
    return {n: int(v) for n, v in re.findall(rf"{prefix}(\w+) = (\d+)", body)}


def test_work_orders_have_the_same_numbers():
    names = {"xcd": "xcd", "qb_major": "query_major", "hkv_major": "kv_head_major"}
    ours = {names.get(name, name): number for name, number in spec.WORK_ORDERS.items()}
    assert enumerators("parts/work_order.h", "WorkOrder", "order_") == ours


def test_element_types_have_the_same_numbers():
    ours = {np.dtype(dtype).name: number for dtype, number in rows.KINDS.items()}
    assert enumerators("common/element.h", "ElementKind", "element_") == ours


def test_no_limit_of_a_window_is_the_same_number():
    assert UNLIMITED == 2**30
    assert "2**30 is unlimited" in text("common/arguments.h")

"""The work items that the device code makes of workgroup numbers."""

import numpy as np

from helpers.compiled import compile_source
from rocke_cupy.emulator import run
from rocke_cupy.gpu.launch import divisor
from rocke_cupy.kernels.build import OPTIONS, KernelSource
from rocke_cupy.kernels.source import translation_unit
from rocke_cupy.kernels.variant import KernelVariant
from rocke_cupy.spec import WORK_ORDERS, AttentionDenseSpec

PROBE = """
extern "C" __global__ __launch_bounds__(64) void probe(
    int* items, rocke::WorkCount work, int total) {
  for (int id = threadIdx.x; id < total; id += 64) {
    const rocke::WorkItem item = rocke::decode_work<Variant>(id, work);
    items[4 * id] = item.query_block, items[4 * id + 1] = item.head;
    items[4 * id + 2] = item.batch, items[4 * id + 3] = item.split;
  }
}
"""


def decode(order, blocks, heads, group, batch, splits=1, causal=True):
    """Return (query block, head, batch entry, split) of each id, as the device code finds them."""
    spec = AttentionDenseSpec(1, 256, 256, 1, 1, 64, causal=causal, num_splits=splits)
    constants = KernelVariant.of(spec).constants() | {"work_order": WORK_ORDERS[order]}
    text = translation_unit(
        "attention/flash_forward.hip", "// no kernel but the probe", "probe", constants
    )
    name, code = compile_source(KernelSource("probe", text + PROBE, OPTIONS), "7.0")
    total = blocks * heads * batch * splits
    items = np.full((total, 4), -1, np.int32)
    counts = [divisor(n) for n in (blocks, heads // group, group, batch, splits)]
    run(code, name, (1,), (64,), [items, np.array(counts).astype("i4").tobytes(), np.int32(total)])
    return items

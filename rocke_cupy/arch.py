"""What the product knows about the GPU: gfx950's limits, and which arch a device has."""

from __future__ import annotations

import os
import re
from typing import Any

ARCH = "gfx950"

LDS_BYTES = 160 * 1024
"""LDS of one compute unit, all of which one workgroup may take."""

VGPRS_PER_SIMD_LANE = 512
"""Vector registers a lane has, shared by the waves that live on its SIMD."""

MAX_GRID_X = (2**32 - 1) // 512
"""HIP counts a grid axis in work-items, in 32 bits; our workgroups have 512."""

MAX_GRID_YZ = 65_535

COMPUTE_UNITS = 256
XCDS = 8


def arch_of(gcn_arch_name: bytes | str) -> str:
    """Return the plain arch of a device's ``gcnArchName``: ``gfx950:sramecc+:xnack-`` is gfx950.

    A malformed arch makes hipRTC of ROCm 7.0 crash the process, so it is refused here.
    """
    name = gcn_arch_name.decode() if isinstance(gcn_arch_name, bytes) else gcn_arch_name
    plain = name.split(":", 1)[0]
    if not re.fullmatch(r"gfx[0-9a-f]{3,5}", plain):
        raise ValueError(f"gcnArchName={name!r} does not start with an arch such as {ARCH}")
    return plain


def require_supported(arch: str, what: str) -> None:
    """Raise NotImplementedError unless kernels exist for ``arch``."""
    if arch != ARCH:
        raise NotImplementedError(f"{what} has kernels for {ARCH} only, this is {arch}")


def is_virtual() -> bool:
    """Return whether this process runs on the virtual device, as ``rocke_cupy.emulator`` says."""
    return "ROCKE_EMULATOR_ROOT" in os.environ


def device_arch(device_id: int) -> str:
    """Ask CuPy for the arch of a device; its arrays must already exist."""
    import cupy

    properties: dict[str, Any] = cupy.cuda.runtime.getDeviceProperties(device_id)
    if "gcnArchName" not in properties:
        raise NotImplementedError(
            f"device {device_id}, {properties['name'].decode()}, is not an AMD GPU: rocke_cupy "
            "needs a CuPy built for ROCm, which the package cupy-rocm-7-0 has"
        )
    return arch_of(properties["gcnArchName"])

"""The limits of a gfx950 compute unit, and the numbers of its registers."""

LANES = 64
"""Lanes of a wave."""

LDS_BYTES = 160 * 1024
"""LDS of a compute unit, all of which one workgroup may take."""

MAX_THREADS = 1024
"""Threads of the largest workgroup."""

WAVES_OF_SIMD = 8
"""Waves that live on a SIMD at once."""

VGPRS = 512
"""Vector registers of a lane, which the waves of a SIMD share."""

SGPRS = 128
"""Scalar registers of a wave by hardware number, VCC, M0 and EXEC among them."""

FLAT_SCRATCH, VCC, M0, EXEC = 102, 106, 124, 126

SHARED_BASE, PRIVATE_BASE = 0x10000, 0x20000
"""High halves of the flat apertures of LDS and scratch."""

POISON = 0x7FF97FF9
"""What registers and LDS hold before anything is written: a NaN in fp32, fp64, fp16 and bf16."""

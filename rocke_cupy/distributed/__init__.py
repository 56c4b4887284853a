"""Attention over sequences that are spread over several GPUs, one for each rank of mpi4py.

Needs ``pip install "rocke_cupy[distributed]"`` and an MPI.
"""

from .ring_attention import ring_attention
from .shares import shares

__all__ = ["ring_attention", "shares"]

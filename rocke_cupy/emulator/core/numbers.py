"""The numbers by which Python and the core mean the same, as machine.h and timing.h give them."""

# Of an operand: where it is, how its bits are read, what is done to it before.
NONE, VGPR, SGPR, CONST, AGPR = range(5)
INT, F32, F64, F16, MASK, PAIR_F32, PAIR_16 = range(7)
NEG, ABS, SEXT, NEG_HI, SEL, SEL_HI = (1 << k for k in range(6))
SELECTIONS = ("DWORD", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1")
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")

# Flags of an instruction.
CLAMP, MUL2, MUL4, DIV2, DPP, BOUND_CTRL, OFFEN, IDXEN, LDS, RETURN, SC0, SC1 = (
    1 << k for k in range(12)
)

# How the operands of an instruction are read.
PLAIN, SOPP, SOPK, SMEM, DS, BUFFER, GLOBAL, FLAT, SCRATCH = range(1, 10)

# Of the rules on hazards, as hazards.h gives them: registers by number, states of a lock that only
# another one ends, and what an instruction is to them.
HAZARD_REGISTERS, FOREVER_STATES = 768, 255
MARK_MATRIX, MARK_ALL_LANES, MARK_MAY_TAKE_ZERO = (1 << k for k in range(3))

UNITS = (
    "none", "salu", "valu", "trans", "mfma", "lds", "vmem", "lds_dma", "smem", "branch", "wait",
    "barrier",
)  # fmt: skip
"""The execution units."""

SCHEDULES = ("lockstep", "to_barrier", "random")
"""The orders in which waves take turns."""

FAULTS = (
    "other", "bounds", "race", "early", "barrier", "hang", "unknown", "lds_bounds",
    "scratch_bounds", "trap", "alignment", "unwritten", "hazard", "global_race",
)  # fmt: skip
"""Why a launch stopped."""

TIMED_KINDS = (
    "salu", "valu", "packed", "mfma", "lds", "vmem", "dma", "smem", "branch", "wait", "barrier",
    "nop", "priority", "end",
)  # fmt: skip
"""What the timing model tells apart."""

TIMING_UNITS = ("mfma", "vector", "scalar", "lds", "memory")
"""Units of the timing model that may be busy."""

STALLS = (
    "none", "operand", "vector", "mfma", "lds", "memory", "vmcnt", "lgkmcnt", "barrier",
)  # fmt: skip
"""What a wave of the timing model may wait for."""

"""The linter's rules, each with its source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes
    ----------
    text : str
        What must not be.
    source : str
        Where that is from.
    """

    text: str
    source: str


def _llvm(function: str) -> str:
    return f"LLVM GCNHazardRecognizer.cpp, {function}"


RULES = {
    "R01": Rule(
        "vector memory uses a scalar register too soon after a vector instruction wrote it",
        _llvm("checkVMEMHazards"),
    ),
    "R02": Rule(
        "a vector instruction reads a scalar register too soon after another wrote it",
        _llvm("checkVALUHazards, hasVDecCoExecHazard"),
    ),
    "R03": Rule(
        "a lane is read or written too soon after a vector instruction wrote EXEC",
        _llvm("checkVALUHazards, hasVDecCoExecHazard"),
    ),
    "R04": Rule(
        "a lane is read too soon after a vector instruction wrote the register",
        _llvm("checkVALUHazards, hasVDecCoExecHazard"),
    ),
    "R05": Rule(
        "a lane is chosen too soon after a vector instruction wrote its number",
        _llvm("checkRWLaneHazards"),
    ),
    "R06": Rule(
        "v_div_fmas comes too soon after a vector instruction wrote VCC",
        _llvm("checkDivFMasHazards"),
    ),
    "R07": Rule(
        "a transcendental's result is read too soon by another kind of vector instruction",
        _llvm("checkVALUHazards, hasTransForwardingHazard"),
    ),
    "R08": Rule(
        "a result that went to a part of its register is used too soon",
        _llvm("checkVALUHazards, hasDstSelForwardingHazard, hasCvtScaleForwardingHazard"),
    ),
    "R09": Rule(
        "the data of a store of more than 8 bytes are overwritten too soon",
        _llvm("checkVALUHazards; measured on gfx950 in LLVM PR 197267"),
    ),
    "R10": Rule(
        "a matrix instruction reads too soon what a vector instruction wrote",
        _llvm("checkMAIHazards90A"),
    ),
    "R11": Rule(
        "a matrix instruction comes too soon after a vector instruction wrote EXEC",
        _llvm("checkMAIHazards90A"),
    ),
    "R12": Rule(
        "a matrix instruction adds too soon to another's result, and is not the same with the "
        "same registers",
        _llvm("checkMAIHazards90A; LLVM PR 218363 for two kinds"),
    ),
    "R13": Rule(
        "a matrix instruction reads another's result too soon as A or B",
        _llvm("checkMAIHazards90A"),
    ),
    "R14": Rule("a matrix result is read too soon", _llvm("checkMAIVALUHazards")),
    "R15": Rule(
        "a matrix result is overwritten too soon",
        _llvm("checkMAIVALUHazards; LLVM PR 126132"),
    ),
    "R16": Rule("a matrix instruction's C is overwritten too soon", _llvm("checkMAIVALUHazards")),
    "R17": Rule("the result of a dot product is used too soon", _llvm("checkMAIVALUHazards")),
    "R18": Rule(
        "an fp64 fma comes too soon after an fp64 matrix instruction",
        _llvm("checkMAIVALUHazards"),
    ),
    "R19": Rule(
        "lanes are exchanged by DPP too soon after the register or EXEC was written",
        _llvm("checkDPPHazards"),
    ),
    "R20": Rule(
        "lanes are swapped too soon after the register or EXEC was written",
        _llvm("checkPermlaneHazards; LLVM PRs 117286 and 117287"),
    ),
    "R21": Rule(
        "M0 is used too soon after a scalar instruction wrote it", _llvm("checkReadM0Hazards")
    ),
    "R22": Rule(
        "a hardware register is used too soon after s_setreg",
        _llvm("checkGetRegHazards, checkSetRegHazards"),
    ),
    "R23": Rule(
        "vccz or execz is read as data too soon after a vector instruction wrote VCC or EXEC",
        "AMD's ISA manuals, manually inserted wait states",
    ),
    "R24": Rule("s_rfe comes too soon after s_setreg of TRAPSTS", _llvm("checkRFEHazards")),
    "R25": Rule(
        "a vector instruction comes too soon after s_setreg of MODE.vskip",
        "AMD's ISA manuals, manually inserted wait states",
    ),
    "R26": Rule(
        "a branch on vccz comes after one half of VCC was written, which does not update vccz",
        "LLVM SIInsertWaitcnts.cpp, partialVCCWritesUpdateVCCZ",
    ),
    "R27": Rule(
        "the low half of a packed fp32 instruction may be computed with 0 in place of its second "
        "source, if other waves of the compute unit multiply matrices meanwhile",
        "ROCm/rocMLIR PR 2459 (ROCM-29896); GCNHazardRecognizer.cpp of "
        "zhihuidu-amd/llvm-project, fixPkF32OpSelBug",
    ),
    "R28": Rule(
        "a tuple of vector registers starts at an odd one",
        "LLVM GCNSubtarget.h, needsAlignedVGPRs",
    ),
    "R29": Rule(
        "memory instructions stand together that must not be executed again together, as XNACK "
        "has it",
        _llvm("checkSoftClauseHazards"),
    ),
    "R30": Rule(
        "a transposed LDS read needs all lanes, and EXEC is not proved to have them",
        "CDNA4 manual, DS_READ_B64_TR_B16",
    ),
    "R31": Rule("no instruction is encoded here", "LLVM's disassembler"),
    "K01": Rule("the code object is none of version 4, 5 or 6", "LLVM AMDGPU usage, ELF header"),
    "K02": Rule(
        "more LDS than the 163,840 bytes of a compute unit", "CDNA4 manual, local data share"
    ),
    "K03": Rule(
        "a register beyond those that the descriptor allocates",
        "LLVM AMDGPU usage, compute_pgm_rsrc1 and compute_pgm_rsrc3",
    ),
    "K04": Rule(
        "the largest workgroup does not fit into the registers of a compute unit",
        "CDNA4 manual, vector registers: 512 a lane and SIMD",
    ),
    "K05": Rule(
        "arguments are preloaded into registers: after many memory faults such kernels lost waves",
        "ROCm/rocm-systems PRs 10145 and 10146",
    ),
    "K06": Rule(
        "the kernel does not start at a multiple of 256 bytes",
        "LLVM AMDGPU usage, kernel_code_entry_byte_offset",
    ),
}

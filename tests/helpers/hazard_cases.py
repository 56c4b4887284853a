"""Pairs of instructions for each rule on wait states, with the states that it asks for."""

XDL_2 = "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[32:33], v[34:35], v[0:3]"
XDL_4 = "v_mfma_f32_16x16x32_bf16 v[0:3], v[32:35], v[36:39], v[0:3]"
XDL_8 = "v_mfma_f32_32x32x16_bf16 v[0:15], v[32:35], v[36:39], v[0:15]"
XDL_16 = "v_mfma_f32_32x32x4_2b_bf16 v[0:31], v[32:33], v[34:35], v[0:31]"
FP8_16 = "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[32:39], v[40:47], v[0:15]"
FP4_8 = "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[32:35], v[40:43], v[0:15] cbsz:4 blgp:4"
SPARSE_8 = "v_smfmac_f32_32x32x32_bf16 v[0:15], v[32:35], v[40:47], v48"
INTEGER_4 = "v_mfma_i32_16x16x64_i8 v[0:3], v[32:35], v[36:39], v[0:3]"
FP32_2 = "v_mfma_f32_4x4x1_16b_f32 v[0:3], v32, v33, v[0:3]"
FP32_8 = "v_mfma_f32_16x16x4_f32 v[0:3], v32, v33, v[0:3]"
FP32_16 = "v_mfma_f32_32x32x2_f32 v[0:15], v32, v33, v[0:15]"
FP64_4 = "v_mfma_f64_4x4x4_4b_f64 v[0:1], v[32:33], v[34:35], v[0:1]"
FP64_16 = "v_mfma_f64_16x16x4_f64 v[0:7], v[32:33], v[34:35], v[0:7]"
ACCUMULATE = "v_mfma_f32_32x32x16_f16 a[0:15], v[32:35], v[36:39], a[0:15]"
OTHER_C = "v_mfma_f32_16x16x32_bf16 v[48:51], v[32:35], v[36:39], v[2:5]"
AS_A = "v_mfma_f32_16x16x32_bf16 v[48:51], v[0:3], v[36:39], v[48:51]"
FP32_OTHER_C = "v_mfma_f32_16x16x4_f32 v[48:51], v40, v41, v[2:5]"
FP64_OTHER_C = "v_mfma_f64_16x16x4_f64 v[48:55], v[40:41], v[42:43], v[2:9]"
DPP = "quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf"
READ, WRITE = "v_mov_b32_e32 v60, v0", "v_mov_b32_e32 v0, v60"
STORE, LOAD = "global_store_dword v[62:63], v0, off", "global_load_dword v0, v[62:63], off"
SET_ROUNDING = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0"
LDS_DMA = "global_load_lds_dword v[62:63], off"

# Rule, first instruction, second, wait states: of hazards known from LLVM's source, whose numbers
# the compilers were seen to keep.
CASES = [
    ("R01", "v_readfirstlane_b32 s4, v0", "global_load_dword v1, v2, s[4:5]", 5),
    ("R01", "v_cmp_eq_u32_e64 s[4:5], v0, v1", "buffer_load_dword v1, v2, s[4:7], 0 offen", 5),
    ("R01", "v_cmpx_eq_u32_e32 vcc, v0, v1", "global_load_dword v1, v[2:3], off", 5),
    ("R02", "v_cmp_eq_u32_e32 vcc, v0, v1", "v_cndmask_b32_e32 v2, v0, v1, vcc", 2),
    ("R02", "v_readfirstlane_b32 s4, v0", "v_add_u32_e32 v1, s4, v2", 2),
    ("R02", "v_add_co_u32_e32 v0, vcc, v1, v2", "v_addc_co_u32_e32 v3, vcc, v4, v5, vcc", 2),
    ("R03", "v_cmpx_eq_u32_e32 vcc, v0, v1", "v_readfirstlane_b32 s4, v2", 4),
    ("R03", "v_cmpx_eq_u32_e32 vcc, v0, v1", "v_writelane_b32 v2, s4, 3", 4),
    ("R04", "v_mov_b32_e32 v0, v1", "v_readfirstlane_b32 s4, v0", 1),
    ("R04", "v_mov_b32_e32 v0, v1", "v_readlane_b32 s4, v0, 3", 1),
    ("R05", "v_readfirstlane_b32 s4, v0", "v_readlane_b32 s5, v1, s4", 4),
    ("R06", "v_cmp_eq_u32_e32 vcc, v0, v1", "v_div_fmas_f32 v2, v3, v4, v5", 4),
    ("R07", "v_exp_f32_e32 v0, v1", "v_add_f32_e32 v2, v0, v1", 1),
    ("R07", "v_rcp_f64_e32 v[0:1], v[2:3]", "v_fma_f64 v[4:5], v[0:1], v[2:3], v[6:7]", 1),
    ("R08", "v_cvt_f16_f32_sdwa v0, v1 dst_sel:WORD_1 src0_sel:DWORD", READ, 1),
    ("R08", "v_cvt_f16_f32_sdwa v0, v1 dst_sel:WORD_1 src0_sel:DWORD", WRITE, 1),
    ("R08", "v_fma_f16 v0, v1, v2, v3 op_sel:[0,0,0,1]", READ, 1),
    ("R08", "v_cvt_sr_fp8_f32 v0, v1, v2 op_sel:[0,0,1,0]", READ, 1),
    ("R08", "v_cvt_scalef32_sr_pk_fp4_f32 v0, v[2:3], v4, v5", READ, 1),
    ("R09", "global_store_dwordx4 v[4:5], v[0:3], off", WRITE, 2),
    ("R09", "buffer_store_dwordx3 v[0:2], v4, s[4:7], 0 offen", WRITE, 2),
    ("R09", "buffer_store_dwordx4 v[0:3], v4, s[4:7], s8 offen", WRITE, 1),
    ("R10", "v_mov_b32_e32 v32, v60", XDL_8, 2),
    ("R10", "v_accvgpr_write_b32 a1, v60", ACCUMULATE, 2),
    ("R11", "v_cmpx_eq_u32_e32 vcc, v60, v61", XDL_8, 4),
    *[("R12", first, OTHER_C, states) for first, states in (
        (XDL_2, 4), (XDL_4, 6), (XDL_8, 10), (XDL_16, 18), (FP8_16, 18), (FP4_8, 10))],
    *[("R12", first, FP32_OTHER_C, states) for first, states in (
        (XDL_2, 3), (XDL_4, 6), (XDL_8, 10), (XDL_16, 18),
        (FP32_2, 2), (FP32_8, 8), (FP32_16, 16), (FP64_16, 17))],
    ("R12", FP64_4, FP64_4, 4),
    ("R12", FP64_4, "v_mfma_f32_16x16x4_f32 v[48:51], v40, v41, v[0:3]", 4),
    ("R12", FP64_16, FP64_OTHER_C, 17),
    ("R12", XDL_2, XDL_2, 2),
    # Two kinds of matrix instruction, the same registers: LLVM PR 218363, in neither compiler.
    ("R12", XDL_4, "v_mfma_f32_16x16x16_bf16 v[0:3], v[32:33], v[34:35], v[0:3]", 6),
    *[("R13", first, AS_A, states) for first, states in (
        (XDL_2, 5), (XDL_4, 8), (XDL_8, 12), (XDL_16, 20), (SPARSE_8, 12), (INTEGER_4, 8),
        (FP32_2, 4), (FP32_8, 10), (FP32_16, 18), (FP64_4, 6), (FP64_16, 19))],
    *[("R14", first, READ, states) for first, states in (
        (XDL_2, 5), (XDL_4, 8), (XDL_8, 12), (XDL_16, 20),
        (FP32_2, 4), (FP32_8, 10), (FP32_16, 18), (FP64_4, 6), (FP64_16, 19))],
    *[("R14", first, STORE, states) for first, states in (
        (XDL_8, 12), (FP32_16, 18), (FP64_4, 9), (FP64_16, 18))],
    ("R14", XDL_8, "ds_write_b32 v60, v0", 12),
    ("R14", ACCUMULATE, "v_accvgpr_read_b32 v60, a15", 12),
    *[("R15", first, write, states) for write in (WRITE, LOAD) for first, states in (
        (XDL_2, 5), (XDL_4, 8), (XDL_8, 12), (XDL_16, 20),
        (FP32_2, 4), (FP32_8, 10), (FP32_16, 18), (FP64_4, 6), (FP64_16, 11))],
    ("R15", XDL_8, "ds_read_b32 v0, v60", 12),
    ("R16", "v_mfma_f32_4x4x4_16b_f16 v[48:51], v[32:33], v[34:35], v[0:3]", WRITE, 1),
    ("R16", OTHER_C, "v_mov_b32_e32 v4, v60", 3),
    ("R16", "v_mfma_f32_32x32x16_bf16 v[16:31], v[32:35], v[36:39], v[0:15]", LOAD, 7),
    ("R16", "v_mfma_f32_32x32x4_2b_bf16 a[0:31], v[32:33], v[34:35], a[32:63]",
     "v_accvgpr_write_b32 a40, v60", 15),
    ("R17", "v_dot2_f32_f16 v0, v1, v2, v3", READ, 3),
    ("R17", "v_dot2_f32_f16 v0, v1, v2, v3", WRITE, 3),
    ("R17", "v_dot2_f32_f16 v0, v1, v2, v3", "v_dot2_f32_f16 v4, v0, v5, v6", 3),
    ("R17", "v_dot2_f32_f16 v0, v1, v2, v3", STORE, 3),
    ("R18", FP64_4, "v_fma_f64 v[40:41], v[42:43], v[44:45], v[46:47]", 2),
    ("R19", "v_mov_b32_e32 v0, v1", f"v_mov_b32_dpp v2, v0 {DPP}", 2),
    ("R19", "v_mov_b32_e32 v2, v1", f"v_mov_b32_dpp v2, v0 {DPP}", 2),
    ("R19", "ds_read_b32 v0, v1", f"v_mov_b32_dpp v2, v0 {DPP}", 2),
    ("R19", "v_cmpx_eq_u32_e32 vcc, v4, v5", f"v_mov_b32_dpp v2, v0 {DPP}", 5),
    ("R20", "v_mov_b32_e32 v0, v2", "v_permlane32_swap_b32_e32 v0, v1", 2),
    ("R20", "v_mov_b32_e32 v1, v2", "v_permlane16_swap_b32_e32 v0, v1", 2),
    ("R20", "v_cmpx_eq_u32_e32 vcc, v4, v5", "v_permlane32_swap_b32_e32 v0, v1", 4),
    ("R21", "s_mov_b32 m0, s4", LDS_DMA, 1),
    ("R21", "s_add_i32 m0, m0, 64", "buffer_load_dwordx4 v0, s[4:7], 0 offen lds", 1),
    ("R21", "s_mov_b32 m0, s4", "s_sendmsg sendmsg(MSG_INTERRUPT)", 1),
    ("R21", "s_mov_b32 m0, s4", "ds_gws_init v0 gds", 1),
    ("R22", SET_ROUNDING, "s_getreg_b32 s4, hwreg(HW_REG_MODE)", 2),
    ("R22", SET_ROUNDING, "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s4", 2),
    ("R23", "v_cmp_eq_u32_e32 vcc, v0, v1", "v_mov_b32_e32 v2, src_vccz", 5),
    ("R23", "v_cmpx_eq_u32_e32 vcc, v0, v1", "v_mov_b32_e32 v2, src_execz", 5),
    ("R24", "s_setreg_b32 hwreg(HW_REG_TRAPSTS), s4", "s_rfe_b64 s[4:5]", 1),
    ("R25", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 0", "v_mov_b32_e32 v0, v1", 2),
]  # fmt: skip

# What looks alike and needs nothing.
HARMLESS = [
    ("v_mov_b32_e32 v0, v1", "global_store_dword v[2:3], v0, off"),
    ("s_mov_b64 s[4:5], s[6:7]", "global_load_dword v1, v2, s[4:5]"),
    ("v_exp_f32_e32 v0, v1", "v_exp_f32_e32 v2, v0"),
    ("v_cvt_f16_f32_sdwa v0, v1 dst_sel:DWORD src0_sel:DWORD", READ),
    ("v_pk_mul_f32 v[0:1], v[2:3], v[4:5]", READ),
    ("v_cvt_sr_fp8_f32 v0, v1, v2", READ),
    ("global_store_dwordx2 v[4:5], v[0:1], off", WRITE),
    ("global_store_dwordx4 v[4:5], v[0:3], off", "v_mov_b32_e32 v4, v60"),
    ("v_dot2_f32_f16 v0, v1, v2, v3", "v_dot2_f32_f16 v0, v4, v5, v0"),
    ("v_dot2_f32_f16 v32, v1, v2, v3", XDL_8),
    ("s_mov_b64 exec, -1", XDL_8),
    (XDL_8, XDL_8),
    (FP32_8, OTHER_C),
    (FP64_16, OTHER_C),
    (XDL_8, "v_mov_b32_e32 v60, v32"),
    (FP32_16, "v_mov_b32_e32 v32, v60"),
    (XDL_8, "v_fma_f64 v[40:41], v[42:43], v[44:45], v[46:47]"),
    ("s_mov_b32 m0, s4", "ds_read_b32 v0, v1"),
    ("s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s4", "s_setreg_b32 hwreg(HW_REG_TRAPSTS, 0, 2), s4"),
    (SET_ROUNDING, "v_mov_b32_e32 v0, v1"),
]  # fmt: skip


def nops(states):
    """Instructions that are as many wait states."""
    return "".join(f"s_nop {min(16, states - k) - 1}\n" for k in range(0, states, 16))

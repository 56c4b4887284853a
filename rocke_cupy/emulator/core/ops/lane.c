#include "../arithmetic.h"
#include "../lanes.h"
#include "../machine_tables.h"

static inline u32 lanes_below(int i) { return i <= 0 ? 0 : i >= 32 ? ~0u : (1u << i) - 1; }

#include "../define_lanes.h"
#include "lane.inc"

/* With no lane on, lane 0 is read. */
static void v_readfirstlane_b32(Wave *w, const Instruction *in) {
    u64 exec = exec_of(w);
    int lane = exec ? __builtin_ctzll(exec) : 0;
    const Operand *o = &in->src[0];
    w->s[in->dst[0].index] = o->kind == OPERAND_VGPR ? w->v[o->index][lane] : scalar32(w, o);
}

static void v_readlane_b32(Wave *w, const Instruction *in) {
    u32 lane = scalar32(w, &in->src[1]) % LANES;
    w->s[in->dst[0].index] = w->v[in->src[0].index][lane];
}

static void v_writelane_b32(Wave *w, const Instruction *in) {
    u32 lane = scalar32(w, &in->src[1]) % LANES;
    w->v[in->dst[0].index][lane] = scalar32(w, &in->src[0]);
}

/* Swap `width` lanes of the destination's upper part with the lower part of the source, in each 2 * width lanes.
   Of a pair with both lanes off nothing is written. With one of them off the sources disagree: LLVM treats EXEC as
   for any vector instruction, AMD's simulator ignores it (ROCm/rocm-systems, rocjitsu). */
static void swap_lanes(Wave *w, const Instruction *in, int width) {
    u32 *a = w->v[in->dst[0].index], *b = w->v[in->dst[1].index];
    u64 exec = exec_of(w);
    for (int i = 0; i < LANES; i++) {
        if (i & width) continue;
        int high = i + width;
        if ((exec >> i ^ exec >> high) & 1) {
            fail(w, in, FAULT_UNKNOWN, exec >> i & 1 ? i : high, "a lane swap with one of the two lanes off is not defined");
            return;
        }
        u32 from_a = a[high], from_b = b[i];
        if (exec >> high & 1) a[high] = from_b;
        if (exec >> i & 1) b[i] = from_a;
    }
}
static void v_permlane32_swap_b32(Wave *w, const Instruction *in) { swap_lanes(w, in, 32); }
static void v_permlane16_swap_b32(Wave *w, const Instruction *in) { swap_lanes(w, in, 16); }

static void v_swap_b32(Wave *w, const Instruction *in) {
    u32 *a = w->v[in->dst[0].index], *b = w->v[in->dst[1].index], old[LANES];
    memcpy(old, a, sizeof old);
    blend(a, b, exec_of(w));
    blend(b, old, exec_of(w));
}

/* ---- registers chosen at run time: M0 has what is added to their number (7:0) and which operands it moves (15:12) ---- */

enum { MOVES_SOURCE = 1, MOVES_RESULT = 8 };

static void set_index(Wave *w, u32 index) { w->s[M0] = (w->s[M0] & ~0xffu) | (index & 0xff); }
static void set_index_mode(Wave *w, u32 mode) { w->s[M0] = (w->s[M0] & ~0xf000u) | (mode & 15) << 12; }

static void s_set_gpr_idx_on(Wave *w, const Instruction *in) {
    set_index(w, scalar32(w, &in->src[0]));
    set_index_mode(w, in->imm);
}
static void s_set_gpr_idx_idx(Wave *w, const Instruction *in) { set_index(w, scalar32(w, &in->src[0])); }
static void s_set_gpr_idx_mode(Wave *w, const Instruction *in) { set_index_mode(w, in->imm); }

/* The register that M0 makes of one. Returns 0 if there is none, or if a load into it has not been waited for. */
static int move_register(Wave *w, const Instruction *in, Operand *o) {
    const Launch *l = &w->group->machine->launch;
    u32 end = o->index < l->accum_offset && l->accum_offset <= l->n_vgprs ? l->accum_offset : l->n_vgprs;
    u32 index = o->index + (w->s[M0] & 0xff);
    if (index >= end) {
        fail(w, in, FAULT_UNKNOWN, -1, "M0 moves v%u to v%u, past the kernel's %u registers", o->index, index, end);
        return 0;
    }
    o->index = (u16)index;
    if (!w->tag_v[index]) return 1;
    fail(w, in, FAULT_EARLY, -1, "early use of v%u: its load has not been waited for", index);
    return 0;
}

/* v_mov_b32 behind s_set_gpr_idx_on */
static void v_mov_b32_indexed(Wave *w, const Instruction *in) {
    Instruction moved = *in;
    if (in->imm & MOVES_SOURCE && in->src[0].kind == OPERAND_VGPR && !move_register(w, in, &moved.src[0])) return;
    if (in->imm & MOVES_RESULT && !move_register(w, in, &moved.dst[0])) return;
    u32 temp[2][LANES];
    const u32 *rows[2];
    fetch_rows(w, &moved, 0, temp, rows);
    blend(w->v[moved.dst[0].index], rows[0], exec_of(w));
}

#include "../list_lanes.h"
const Op lane_ops[] = {
#include "lane.inc"
    {"v_readfirstlane_b32", "u32:u32", FORMAT_PLAIN, UNIT_VALU, v_readfirstlane_b32, NULL},
    {"v_readlane_b32", "u32:u32,u32", FORMAT_PLAIN, UNIT_VALU, v_readlane_b32, NULL},
    {"v_writelane_b32", "u32:u32,u32", FORMAT_PLAIN, UNIT_VALU, v_writelane_b32, NULL},
    {"v_permlane32_swap_b32", "u32,u32:", FORMAT_PLAIN, UNIT_VALU, v_permlane32_swap_b32, NULL},
    {"v_permlane16_swap_b32", "u32,u32:", FORMAT_PLAIN, UNIT_VALU, v_permlane16_swap_b32, NULL},
    {"v_swap_b32", "u32,u32:", FORMAT_PLAIN, UNIT_VALU, v_swap_b32, NULL},
    {"v_mov_b32_indexed", "b32:b32", FORMAT_PLAIN, UNIT_VALU, v_mov_b32_indexed, NULL},
    {"s_set_gpr_idx_on", ":u32", FORMAT_PLAIN, UNIT_SALU, s_set_gpr_idx_on, NULL},
    {"s_set_gpr_idx_idx", ":u32", FORMAT_PLAIN, UNIT_SALU, s_set_gpr_idx_idx, NULL},
    {"s_set_gpr_idx_mode", ":", FORMAT_SOPP, UNIT_SALU, s_set_gpr_idx_mode, NULL},
    {"s_set_gpr_idx_off", ":", FORMAT_SOPP, UNIT_SALU, execute_nothing, NULL},
    {0}};

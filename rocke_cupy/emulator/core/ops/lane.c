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

#include "../list_lanes.h"
const Op lane_ops[] = {
#include "lane.inc"
    {"v_readfirstlane_b32", "u32:u32", FORMAT_PLAIN, UNIT_VALU, v_readfirstlane_b32, NULL},
    {"v_readlane_b32", "u32:u32,u32", FORMAT_PLAIN, UNIT_VALU, v_readlane_b32, NULL},
    {"v_writelane_b32", "u32:u32,u32", FORMAT_PLAIN, UNIT_VALU, v_writelane_b32, NULL},
    {"v_permlane32_swap_b32", "u32,u32:", FORMAT_PLAIN, UNIT_VALU, v_permlane32_swap_b32, NULL},
    {"v_permlane16_swap_b32", "u32,u32:", FORMAT_PLAIN, UNIT_VALU, v_permlane16_swap_b32, NULL},
    {"v_swap_b32", "u32,u32:", FORMAT_PLAIN, UNIT_VALU, v_swap_b32, NULL},
    {0}};

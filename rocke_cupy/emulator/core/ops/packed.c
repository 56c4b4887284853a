#include "../lanes.h"
#include "../arithmetic.h"
#include "../machine_tables.h"

#include "../define_lanes.h"
#include "packed.inc"

/* The low result is a half of source 0, the high result a half of source 1, as op_sel says. */
static void v_pk_mov_b32(Wave *w, const Instruction *in) {
    u32 temp[2][2][LANES], result[2][LANES];
    const u32 *rows[2][2];
    for (int k = 0; k < 2; k++) {
        fetch_rows(w, in, k, temp[k], rows[k]);
        memcpy(result[k], rows[k][in->src[k].mods & MOD_SEL ? 1 : 0], sizeof result[k]);
    }
    for (int k = 0; k < 2; k++) blend(w->v[in->dst[0].index + k], result[k], exec_of(w));
}

/* Mixed precision: op_sel_hi says that a source is fp16 and op_sel which half of the register it is. */
static void mix_source(Wave *w, const Instruction *in, int k, double out[LANES]) {
    u32 temp[2][LANES];
    const u32 *rows[2];
    const Operand *o = &in->src[k];
    fetch_rows(w, in, k, temp, rows);
    int shift = o->mods & MOD_SEL ? 16 : 0;
    for (int i = 0; i < LANES; i++) {
        double x = o->mods & MOD_SEL_HI ? f16_to_f32(rows[0][i] >> shift & 0xffff) : as_f32(rows[0][i]);
        if (o->mods & MOD_NEG_HI) x = fabs(x);
        out[i] = o->mods & MOD_NEG ? -x : x;
    }
}

/* place: -1 for an fp32 result, else the bit where the fp16 result goes. */
static void fma_mix(Wave *w, const Instruction *in, int place) {
    double a[LANES], b[LANES], c[LANES];
    u32 result[LANES], *d = w->v[in->dst[0].index];
    mix_source(w, in, 0, a);
    mix_source(w, in, 1, b);
    mix_source(w, in, 2, c);
    for (int i = 0; i < LANES; i++) {
        if (place < 0) result[i] = bits_f32(fmaf((float)a[i], (float)b[i], (float)c[i]));
        else result[i] = (d[i] & ~(0xffffu << place)) | f64_to_f16(fma(a[i], b[i], c[i])) << place;
    }
    blend(d, result, exec_of(w));
}
static void v_fma_mix_f32(Wave *w, const Instruction *in) { fma_mix(w, in, -1); }
static void v_fma_mixlo_f16(Wave *w, const Instruction *in) { fma_mix(w, in, 0); }
static void v_fma_mixhi_f16(Wave *w, const Instruction *in) { fma_mix(w, in, 16); }

#include "../list_lanes.h"
const Op packed_ops[] = {
#include "packed.inc"
    {"v_pk_mov_b32", "pf32:pf32,pf32", FORMAT_PLAIN, UNIT_VALU, v_pk_mov_b32, NULL},
    {"v_pk_fmac_f16", "pe16:pe16,pe16,=pe16", FORMAT_PLAIN, UNIT_VALU, execute_packed16, lanes_v_pk_fma_f16},
    {"v_fma_mix_f32", "b32:mix,mix,mix", FORMAT_PLAIN, UNIT_VALU, v_fma_mix_f32, NULL},
    {"v_fma_mixlo_f16", "b32:mix,mix,mix", FORMAT_PLAIN, UNIT_VALU, v_fma_mixlo_f16, NULL},
    {"v_fma_mixhi_f16", "b32:mix,mix,mix", FORMAT_PLAIN, UNIT_VALU, v_fma_mixhi_f16, NULL},
    {0}};

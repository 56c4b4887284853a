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

#include "../list_lanes.h"
const Op packed_ops[] = {
#include "packed.inc"
    {"v_pk_mov_b32", "pf32:pf32,pf32", FORMAT_PLAIN, UNIT_VALU, v_pk_mov_b32, NULL},
    {0}};

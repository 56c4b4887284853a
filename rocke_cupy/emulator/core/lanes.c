/* Operands of vector instructions: registers, constants, modifiers, SDWA, DPP, and results under EXEC. */
#include "lanes.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

u64 mask_of_row(const u32 *row) {
    u64 mask = 0;
#if defined(__AVX2__)
    for (int i = 0; i < 8; i++) {
        __m256 part = _mm256_loadu_ps((const float *)(row + 8 * i));
        mask |= (u64)(u32)_mm256_movemask_ps(part) << (8 * i);
    }
#else
    for (int i = 0; i < LANES; i++) mask |= (u64)(row[i] & 1) << i;
#endif
    return mask;
}

void row_of_mask(u64 mask, u32 *row) {
    for (int half = 0; half < 2; half++) {
        u32 bits = (u32)(mask >> (32 * half));
        for (int i = 0; i < 32; i++) row[32 * half + i] = 0u - (bits >> i & 1);
    }
}

void blend(u32 *into, const u32 *from, u64 mask) {
    u32 row[LANES];
    row_of_mask(mask, row);
    FOR_LANES into[i] = (from[i] & row[i]) | (into[i] & ~row[i]);
}

static void broadcast(u32 *row, u32 value) { FOR_LANES row[i] = value; }

static void select_part(const u32 *from, u32 *to, int sel, int sign_extend) {
    int shift = sel >= SEL_WORD0 ? 16 * (sel - SEL_WORD0) : 8 * (sel - SEL_BYTE0);
    int width = sel >= SEL_WORD0 ? 16 : 8;
    if (sign_extend) {
        FOR_LANES to[i] = (u32)((i32)(from[i] << (32 - width - shift)) >> (32 - width));
    } else {
        u32 mask = (1u << width) - 1;
        FOR_LANES to[i] = from[i] >> shift & mask;
    }
}

static void apply_sign(const Operand *o, u32 temp[2][LANES]) {
    u32 *row = o->type == TYPE_F64 ? temp[1] : temp[0];
    u32 sign = o->type == TYPE_F16 ? 0x8000u : 0x80000000u;
    if (o->mods & MOD_ABS) FOR_LANES row[i] &= ~sign;
    if (o->mods & MOD_NEG) FOR_LANES row[i] ^= sign;
}

void fetch_rows(Wave *w, const Instruction *in, int k, u32 temp[2][LANES], const u32 *rows[2]) {
    const Operand *o = &in->src[k];
    if (o->type == TYPE_MASK) {
        row_of_mask(scalar64(w, o), temp[0]);
        rows[0] = temp[0];
        return;
    }
    if (o->kind == OPERAND_VGPR) {
        rows[0] = w->v[o->index];
        rows[1] = o->width > 1 ? w->v[o->index + 1] : NULL;
    } else {
        u64 value = scalar64(w, o);
        broadcast(temp[0], (u32)value);
        rows[0] = temp[0];
        if (o->width > 1) {
            broadcast(temp[1], (u32)(value >> 32));
            rows[1] = temp[1];
        }
    }
    int sign = o->mods & (MOD_NEG | MOD_ABS) && o->type <= TYPE_F16;
    if (!sign && o->sel == SEL_DWORD) return;
    if (rows[0] != temp[0]) memcpy(temp[0], rows[0], sizeof temp[0]);
    if (o->width > 1 && rows[1] != temp[1]) memcpy(temp[1], rows[1], sizeof temp[1]);
    if (o->sel != SEL_DWORD) select_part(temp[0], temp[0], o->sel, o->mods & MOD_SEXT);
    if (sign) apply_sign(o, temp);
    rows[0] = temp[0];
    rows[1] = temp[1];
}

/* ---- DPP: source 0 comes from another lane ---- */

enum { DPP_ROW_SHL = 0x100, DPP_ROW_SHR = 0x110, DPP_ROW_ROR = 0x120, DPP_WAVE_SHL = 0x130, DPP_WAVE_ROL = 0x134,
       DPP_WAVE_SHR = 0x138, DPP_WAVE_ROR = 0x13c, DPP_ROW_MIRROR = 0x140, DPP_ROW_HALF_MIRROR = 0x141,
       DPP_ROW_BCAST15 = 0x142, DPP_ROW_BCAST31 = 0x143, DPP_ROW_NEWBCAST = 0x150 };

/* The lane that lane i reads, or -1 where the shift runs past its row. */
static int dpp_lane(u32 ctrl, int i) {
    int row = i & ~15, in_row = i & 15, n = ctrl & 15;
    if (ctrl < 0x100) return (i & ~3) + (ctrl >> 2 * (i & 3) & 3);
    if (ctrl < DPP_ROW_SHR) return in_row + n < 16 ? i + n : -1;
    if (ctrl < DPP_ROW_ROR) return in_row - n >= 0 ? i - n : -1;
    if (ctrl < DPP_WAVE_SHL) return row + ((in_row - n) & 15);
    switch (ctrl) {
    case DPP_WAVE_SHL: return i + 1 < LANES ? i + 1 : -1;
    case DPP_WAVE_ROL: return (i + 1) % LANES;
    case DPP_WAVE_SHR: return i - 1;
    case DPP_WAVE_ROR: return (i + LANES - 1) % LANES;
    case DPP_ROW_MIRROR: return row + 15 - in_row;
    case DPP_ROW_HALF_MIRROR: return (i & ~7) + 7 - (i & 7);
    case DPP_ROW_BCAST15: return row ? row - 1 : -1;
    case DPP_ROW_BCAST31: return i >= 32 ? 31 : -1;
    }
    return row + n; /* row_newbcast */
}

/* Rearranges source 0 and returns the lanes that may be written. */
static u64 fetch_dpp(Wave *w, const Instruction *in, u32 temp[2][LANES], const u32 *rows[2]) {
    u64 write = 0, exec = exec_of(w);
    u32 moved[LANES], moved_high[LANES];
    int wide = in->src[0].width > 1;
    for (int i = 0; i < LANES; i++) {
        int from = dpp_lane(in->dpp_ctrl, i);
        int enabled = in->dpp_rows >> (i / 16) & in->dpp_banks >> (i / 4 % 4) & 1;
        int valid = from >= 0 && exec >> from & 1;
        moved[i] = valid ? rows[0][from] : 0;
        if (wide) moved_high[i] = valid ? rows[1][from] : 0;
        if (enabled && (valid || in->flags & FLAG_BOUND_CTRL)) write |= 1ull << i;
    }
    memcpy(temp[0], moved, sizeof moved);
    rows[0] = temp[0];
    if (wide) {
        memcpy(temp[1], moved_high, sizeof moved_high);
        rows[1] = temp[1];
    }
    return write;
}

/* ---- results ---- */

static void scale_f32(u32 *row, u32 flags) {
    float factor = flags & FLAG_MUL2 ? 2.0f : flags & FLAG_MUL4 ? 4.0f : 0.5f;
    if (flags & (FLAG_MUL2 | FLAG_MUL4 | FLAG_DIV2)) FOR_LANES row[i] = bits_f32(as_f32(row[i]) * factor);
    if (flags & FLAG_CLAMP) FOR_LANES {
        float x = as_f32(row[i]);
        row[i] = bits_f32(x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f); /* DX10_CLAMP: NaN gives 0 */
    }
}

static void place_part(const Operand *o, const u32 *old, u32 *row) {
    int shift = o->sel >= SEL_WORD0 ? 16 * (o->sel - SEL_WORD0) : 8 * (o->sel - SEL_BYTE0);
    int width = o->sel >= SEL_WORD0 ? 16 : 8;
    u32 mask = ((1u << width) - 1) << shift;
    for (int i = 0; i < LANES; i++) {
        u32 part = row[i] << shift & mask;
        u32 sign = part >> (shift + width - 1) & 1 ? ~((mask << 1) - 1) & ~mask : 0;
        row[i] = o->unused == UNUSED_PRESERVE ? part | (old[i] & ~mask) : o->unused == UNUSED_SEXT ? part | sign : part;
    }
}

static void write_rows(Wave *w, const Instruction *in, u32 temp[2][LANES], u64 mask) {
    const Operand *o = &in->dst[0];
    if (in->flags & (FLAG_CLAMP | FLAG_MUL2 | FLAG_MUL4 | FLAG_DIV2)) scale_f32(temp[0], in->flags);
    if (o->sel != SEL_DWORD) place_part(o, w->v[o->index], temp[0]);
    blend(w->v[o->index], temp[0], mask);
    if (o->width > 1) blend(w->v[o->index + 1], temp[1], mask);
}

void execute_lanes(Wave *w, const Instruction *in) {
    u32 temp[5][2][LANES] __attribute__((aligned(64)));
    u32 result[2][LANES] __attribute__((aligned(64))), mask_row[LANES] __attribute__((aligned(64)));
    Rows r;
    u64 exec = exec_of(w), write = exec;
    r.imm = in->imm;
    r.mode = w->mode;
    r.mask = mask_row;
    for (int k = 0; k < in->n_src; k++) fetch_rows(w, in, k, temp[k], r.s[k]);
    if (in->flags & FLAG_DPP) write &= fetch_dpp(w, in, temp[0], r.s[0]);
    u32(*v)[LANES] = w->v + in->dst[0].index;
    int wide = in->dst[0].width > 1;
    if (write == ~0ull && in->flags & FLAG_PLAIN) {
        r.d[0] = v[0];
        r.d[1] = v[wide];
        in->lanes(&r);
    } else {
        memcpy(result[0], v[0], sizeof result[0]);
        if (wide) memcpy(result[1], v[1], sizeof result[1]);
        r.d[0] = result[0];
        r.d[1] = result[1];
        in->lanes(&r);
        write_rows(w, in, result, write);
    }
    if (in->n_dst > 1) set_pair(w->s, in->dst[1].index, mask_of_row(mask_row) & exec);
}

/* fp64 keeps its denormals whatever the fp32 flush mode is. */
void execute_lanes_wide(Wave *w, const Instruction *in) {
    set_float_mode(w->mode | 0xf0);
    execute_lanes(w, in);
    set_float_mode(w->mode);
}

static u64 compare(Wave *w, const Instruction *in) {
    u32 temp[2][2][LANES] __attribute__((aligned(64))), mask_row[LANES] __attribute__((aligned(64)));
    Rows r;
    r.mask = mask_row;
    r.imm = in->imm;
    for (int k = 0; k < in->n_src; k++) fetch_rows(w, in, k, temp[k], r.s[k]);
    int wide = in->src[0].type == TYPE_F64;
    if (in->flags & FLAG_DPP) fetch_dpp(w, in, temp[0], r.s[0]);
    if (wide) set_float_mode(w->mode | 0xf0);
    in->lanes(&r);
    if (wide) set_float_mode(w->mode);
    return mask_of_row(mask_row) & exec_of(w);
}

void execute_compare(Wave *w, const Instruction *in) { set_pair(w->s, in->dst[0].index, compare(w, in)); }

void execute_compare_exec(Wave *w, const Instruction *in) {
    u64 mask = compare(w, in);
    set_pair(w->s, in->dst[0].index, mask);
    set_pair(w->s, EXEC, mask);
}

/* ---- packed: two results, each from its own half of every source ---- */

void execute_packed32(Wave *w, const Instruction *in) {
    u32 temp[3][2][LANES] __attribute__((aligned(64))), signs[3][LANES] __attribute__((aligned(64)));
    u32 result[2][LANES] __attribute__((aligned(64)));
    const u32 *rows[3][2];
    Rows r;
    for (int k = 0; k < in->n_src; k++) fetch_rows(w, in, k, temp[k], rows[k]);
    for (int half = 0; half < 2; half++) {
        for (int k = 0; k < in->n_src; k++) {
            const Operand *o = &in->src[k];
            const u32 *row = rows[k][o->mods & (half ? MOD_SEL_HI : MOD_SEL) ? 1 : 0];
            if (o->mods & (half ? MOD_NEG_HI : MOD_NEG)) {
                FOR_LANES signs[k][i] = row[i] ^ 0x80000000u;
                row = signs[k];
            }
            r.s[k][0] = row;
        }
        r.d[0] = result[half];
        in->lanes(&r);
        if (in->flags & FLAG_CLAMP) scale_f32(result[half], FLAG_CLAMP);
    }
    u64 exec = exec_of(w);
    for (int half = 0; half < 2; half++) {
        u32 *v = w->v[in->dst[0].index + half];
        if (exec == ~0ull) memcpy(v, result[half], sizeof result[half]);
        else blend(v, result[half], exec);
    }
}

void execute_packed16(Wave *w, const Instruction *in) {
    u32 temp[3][2][LANES] __attribute__((aligned(64))), part[3][LANES] __attribute__((aligned(64)));
    u32 result[2][LANES] __attribute__((aligned(64)));
    const u32 *rows[3][2];
    Rows r;
    for (int k = 0; k < in->n_src; k++) fetch_rows(w, in, k, temp[k], rows[k]);
    for (int half = 0; half < 2; half++) {
        for (int k = 0; k < in->n_src; k++) {
            const Operand *o = &in->src[k];
            int shift = o->mods & (half ? MOD_SEL_HI : MOD_SEL) ? 16 : 0;
            u32 sign = o->mods & (half ? MOD_NEG_HI : MOD_NEG) ? 0x8000 : 0;
            FOR_LANES part[k][i] = (rows[k][0][i] >> shift & 0xffff) ^ sign;
            r.s[k][0] = part[k];
        }
        r.d[0] = result[half];
        in->lanes(&r);
    }
    FOR_LANES result[0][i] = (result[0][i] & 0xffff) | result[1][i] << 16;
    blend(w->v[in->dst[0].index], result[0], exec_of(w));
}

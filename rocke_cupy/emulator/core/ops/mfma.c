/* Matrix instructions: operands, modifiers and formats. matrix.c multiplies. Modifiers lie in the immediate as in the
   encoding of the instruction's words: cbsz (2:0), abid (6:3), blgp (9:7). All lanes take part, whatever EXEC says. */
#include "../matrix.h"
#include "../numeric.h"
#include "../machine_tables.h"

static u32 cbsz(const Instruction *in) { return in->imm & 7; }
static u32 abid(const Instruction *in) { return in->imm >> 3 & 15; }
static u32 blgp(const Instruction *in) { return in->imm >> 7 & 7; }

/* The result may lie on the accumulator, row on row. Across it only one of up to four registers may, for the assembler
   refuses larger ones (LLVM's validateMFMA), and compilers make use of that. */
enum { MAY_OVERLAP = 4 };

static int results_clash(Wave *w, const Instruction *in) {
    const Operand *d = &in->dst[0], *c = &in->src[2];
    int across = c->kind == OPERAND_VGPR && d->index != c->index && d->index < c->index + c->width && c->index < d->index + d->width;
    int clash = across && d->width > MAY_OVERLAP;
    if (clash) fail(w, in, FAULT_UNKNOWN, -1, "a matrix result that overlaps its accumulator in part");
    return clash;
}

typedef u32 Saved[MAY_OVERLAP][LANES];

/* `saved` keeps what a result across it would change, or a constant. */
static Accumulator accumulator_of(const Wave *w, const Operand *c, Saved saved) {
    if (c->kind != OPERAND_VGPR) {
        for (int i = 0; i < LANES; i++) saved[0][i] = scalar32(w, c);
        return (Accumulator){saved[0], 0};
    }
    if (c->width > MAY_OVERLAP) return (Accumulator){w->v[c->index], LANES};
    memcpy(saved, w->v[c->index], sizeof(u32) * LANES * c->width);
    return (Accumulator){saved[0], LANES};
}

/* Denormals are kept whatever the mode says (CDNA4 manual 7.4). */
#define KEEPING_DENORMALS(statement)                                                                                  \
    set_float_mode(0xf0);                                                                                             \
    statement;                                                                                                        \
    set_float_mode(w->mode);

enum { INTEGER_i8 = 1, INTEGER_f32 = 0, INTEGER_f16 = 0, INTEGER_bf16 = 0, INTEGER_fp8 = 0, INTEGER_bf8 = 0 };

static void dense(Wave *w, const Instruction *in, WidenFn *widen_a, WidenFn *widen_b, int size, int k_each, int integer) {
    Elements a, b;
    Saved saved;
    if (results_clash(w, in)) return;
    KEEPING_DENORMALS({
        widen_a(w, &in->src[0], a);
        widen_b(w, &in->src[1], b);
        multiply(w, &in->dst[0], accumulator_of(w, &in->src[2], saved), a, b, size, k_each, integer);
    })
}

/* ---- several matrices at once, whose operands may be taken from other lanes (CDNA4 manual 7.1.6) ---- */

static u32 lane_of_a(const Instruction *in, u32 lane) {
    u32 block = LANES >> cbsz(in);
    return lane % block + block * abid(in) * (cbsz(in) > 0);
}

static u32 lane_of_b(const Instruction *in, u32 lane) {
    switch (blgp(in)) {
    case 0: return lane;
    case 1: return lane % 32;
    case 2: return lane % 32 + 32;
    case 3: return (lane + 16) % LANES;
    }
    return lane % 16 + 16 * (blgp(in) - 4);
}

static void take_lanes(const Instruction *in, u32 (*lane_of)(const Instruction *, u32), Elements of, int k_each) {
    for (int e = 0; e < k_each; e++) {
        double old[LANES];
        memcpy(old, of[e], sizeof old);
        for (u32 i = 0; i < LANES; i++) of[e][i] = old[lane_of(in, i)];
    }
}

static void several(Wave *w, const Instruction *in, WidenFn *widen, int size, int blocks, int k_each, int integer) {
    Elements a, b;
    Saved saved;
    if (results_clash(w, in)) return;
    KEEPING_DENORMALS({
        widen(w, &in->src[0], a);
        widen(w, &in->src[1], b);
        take_lanes(in, lane_of_a, a, k_each);
        take_lanes(in, lane_of_b, b, k_each);
        multiply_blocks(w, &in->dst[0], accumulator_of(w, &in->src[2], saved), a, b, size, blocks, k_each, integer);
    })
}

/* ---- fp64: four values of k in as many lane groups; rows of D lie side by side. blgp negates A, B and C ---- */

static double double_at(const Wave *w, const Operand *o, int pair, int lane) {
    if (o->kind != OPERAND_VGPR) return as_f64(scalar64(w, o));
    return as_f64(join(w->v[o->index + 2 * pair][lane], w->v[o->index + 2 * pair + 1][lane]));
}

static void multiply_doubles(Wave *w, const Instruction *in, int size, int blocks) {
    double a[LANES], b[LANES], sign[3];
    for (u32 k = 0; k < 3; k++) sign[k] = blgp(in) >> k & 1 ? -1.0 : 1.0;
    for (int i = 0; i < LANES; i++) {
        a[i] = sign[0] * double_at(w, &in->src[0], 0, i);
        b[i] = sign[1] * double_at(w, &in->src[1], 0, i);
    }
    for (int block = 0; block < blocks; block++)
        for (int row = 0; row < size; row++)
            for (int column = 0; column < size; column++) {
                int pair = row / 4, lane = column + size * (row % 4 + 4 * block);
                double sum = sign[2] * double_at(w, &in->src[2], pair, lane);
                for (int k = 0; k < 4; k++)
                    sum = fma(a[row + size * (block + blocks * k)], b[column + size * (block + blocks * k)], sum);
                u64 bits = bits_f64(sum);
                w->v[in->dst[0].index + 2 * pair][lane] = (u32)bits;
                w->v[in->dst[0].index + 2 * pair + 1][lane] = (u32)(bits >> 32);
            }
}

static void doubles(Wave *w, const Instruction *in, int size, int blocks) {
    if (results_clash(w, in)) return;
    KEEPING_DENORMALS(multiply_doubles(w, in, size, blocks))
}

/* ---- fp8, fp6 and fp4 by modifier, with a scale for each 32 values of k or without (CDNA4 manual 7.1.5, 7.2) ---- */

/* Scales are exponents: a byte of a register, by op_sel, or the exponent of a constant. 255 is NaN. */
static void scale_elements(const Wave *w, const Operand *o, Elements of) {
    u32 byte = (o->mods & MOD_SEL ? 1 : 0) + (o->mods & MOD_SEL_HI ? 2 : 0);
    for (int i = 0; i < LANES; i++) {
        u32 exponent = o->kind == OPERAND_VGPR ? w->v[o->index][i] >> 8 * byte & 255 : (u32)o->value >> 23 & 255;
        double scale = exponent == 255 ? NAN : ldexp(1.0, (int)exponent - 127);
        for (int e = 0; e < MOST_ELEMENTS; e++) of[e][i] *= scale;
    }
}

static void small(Wave *w, const Instruction *in, int size, int scaled) {
    Elements a, b;
    Saved saved;
    if (results_clash(w, in)) return;
    KEEPING_DENORMALS({
        widen_small(w, &in->src[0], cbsz(in), size, a);
        widen_small(w, &in->src[1], blgp(in), size, b);
        if (scaled) {
            scale_elements(w, &in->src[3], a);
            scale_elements(w, &in->src[4], b);
        }
        multiply(w, &in->dst[0], accumulator_of(w, &in->src[2], saved), a, b, size, MOST_ELEMENTS, 0);
    })
}

/* ---- sparse A: of each four values of k two are stored, and two bits say of each which (CDNA4 manual 7.5). A lane's
   values of A are successive. Those of B are, too, in four registers; in eight they are two runs, half of k apart, so
   that most of them lie in another lane than A's. (The manual has the runs of B only. That A has none is how aiter's
   fp8 attention takes the sum of each row of P.) ---- */

static void expand(const Elements packed, const u32 *indices, u32 shift, int size, int stored, int runs, Elements a) {
    int groups = LANES / size, run = 2 * stored / runs;
    memset(a, 0, sizeof(Elements));
    for (int e = 0; e < stored; e++)
        for (int i = 0; i < LANES; i++) {
            int k = 2 * stored * (i / size) + e / 2 * 4 + (int)(indices[i] >> shift >> 2 * e & 3);
            int turn = k / run / groups, group = k / run % groups;
            a[turn * run + k % run][group * size + i % size] += packed[e][i];
        }
}

static void sparse(Wave *w, const Instruction *in, WidenFn *widen_a, WidenFn *widen_b, int size, int stored, int integer) {
    Elements packed, a, b;
    Saved saved;
    u32 sets = 16u / (u32)stored, shift = cbsz(in) & 3 ? 0 : abid(in) % sets * 2 * (u32)stored;
    int runs = in->src[1].width > 4 ? 2 : 1;
    KEEPING_DENORMALS({
        widen_a(w, &in->src[0], packed);
        widen_b(w, &in->src[1], b);
        expand(packed, w->v[in->src[2].index], shift, size, stored, runs, a);
        multiply(w, &in->dst[0], accumulator_of(w, &in->dst[0], saved), a, b, size, 2 * stored, integer);
    })
}

#define DENSE(name, size, k_each, A, B, sources)                                                                      \
    static void name(Wave *w, const Instruction *in) {                                                                \
        dense(w, in, widen_##A, widen_##B, size, k_each, INTEGER_##A);                                                \
    }
#define BLOCKS(name, size, blocks, k_each, A, results, sources)                                                       \
    static void name(Wave *w, const Instruction *in) {                                                                \
        several(w, in, widen_##A, size, blocks, k_each, INTEGER_##A);                                                 \
    }
#define DOUBLE(name, size, blocks, results)                                                                           \
    static void name(Wave *w, const Instruction *in) { doubles(w, in, size, blocks); }
#define SMALL(name, with_scale, size)                                                                                 \
    static void name(Wave *w, const Instruction *in) { small(w, in, size, 0); }                                       \
    static void with_scale(Wave *w, const Instruction *in) { small(w, in, size, 1); }
#define SPARSE(name, size, stored, A, B, sources, dense_sources)                                                      \
    static void name(Wave *w, const Instruction *in) {                                                                \
        sparse(w, in, widen_##A, widen_##B, size, stored, INTEGER_##A);                                               \
    }
#include "mfma.inc"
#undef DENSE
#undef BLOCKS
#undef DOUBLE
#undef SMALL
#undef SPARSE

#define RESULT_16 "b128"
#define RESULT_32 "b512"
#define MATRIX_ROW(name, form) {#name, form, FORMAT_PLAIN, UNIT_MFMA, name, NULL},
#define DENSE(name, size, k_each, A, B, sources)                                                                      \
    MATRIX_ROW(name, RESULT_##size ":" #sources "," #sources "," RESULT_##size)
#define BLOCKS(name, size, blocks, k_each, A, results, sources)                                                       \
    MATRIX_ROW(name, #results ":" #sources "," #sources "," #results)
#define DOUBLE(name, size, blocks, results) MATRIX_ROW(name, #results ":f64,f64," #results)
#define SMALL(name, with_scale, size)                                                                                 \
    MATRIX_ROW(name, RESULT_##size ":cbsz,blgp," RESULT_##size)                                                       \
    MATRIX_ROW(with_scale, RESULT_##size ":cbsz,blgp," RESULT_##size ",u32,u32")
#define SPARSE(name, size, stored, A, B, sources, dense_sources)                                                      \
    MATRIX_ROW(name, RESULT_##size ":" #sources "," #dense_sources ",u32")
const Op mfma_ops[] = {
#include "mfma.inc"
    {0}};

#include "../arithmetic.h"
#include "../machine_tables.h"

static inline u64 whole_quads(u64 x) {
    u64 any = (x | x >> 1 | x >> 2 | x >> 3) & 0x1111111111111111ull;
    return any * 15;
}
static inline u64 quad_mask(u64 x) {
    u64 result = 0;
    for (int k = 0; k < 16; k++) result |= (u64)((x >> 4 * k & 15) != 0) << k;
    return result;
}
static inline u32 leading_sign64(u64 a) {
    u64 x = (i64)a < 0 ? ~a : a;
    return x ? (u32)__builtin_clzll(x) : 0xffffffffu;
}
static inline u64 replicate_bits(u32 a) {
    u64 result = 0;
    for (int k = 0; k < 32; k++) result |= (u64)(a >> k & 1) * 3 << 2 * k;
    return result;
}
static inline u32 scalar_field(u32 a, u32 b) {
    u32 width = b >> 16 & 127;
    return field_unsigned(a, b & 31, width > 32 ? 32 : width);
}
static inline u64 scalar_field64(u64 a, u32 b) {
    u32 width = b >> 16 & 127;
    return width ? a >> (b & 63) & (width >= 64 ? ~0ull : (1ull << width) - 1) : 0;
}
static inline u64 scalar_field_signed64(u64 a, u32 b) {
    u32 width = b >> 16 & 127, offset = b & 63;
    if (!width) return 0;
    u32 top = offset + width > 64 ? 64 : offset + width;
    return (u64)((i64)(a << (64 - top)) >> (64 - top) >> offset);
}

#define GET_u32(k) scalar32(w, &in->src[k])
#define GET_u64(k) scalar64(w, &in->src[k])
#define OLD_u32 w->s[in->dst[0].index]
#define OLD_u64 pair(w->s, in->dst[0].index)
#define PUT_u32(value) w->s[in->dst[0].index] = (value)
#define PUT_u64(value) set_pair(w->s, in->dst[0].index, (value))

#define SCALAR_BODY(D, sources, expression, condition)                                                                \
    sources;                                                                                                          \
    D old = OLD_##D;                                                                                                  \
    u32 scc = w->scc, carry = 0;                                                                                      \
    D out = (D)(expression);                                                                                          \
    (void)old, (void)carry;                                                                                           \
    PUT_##D(out);                                                                                                     \
    w->scc = condition;

#define S1(name, D, A, expression)                                                                                    \
    static void do_##name(Wave *w, const Instruction *in) { SCALAR_BODY(D, A a = GET_##A(0), expression, scc) }
#define SZ1(name, D, A, expression)                                                                                   \
    static void do_##name(Wave *w, const Instruction *in) {                                                           \
        SCALAR_BODY(D, A a = GET_##A(0), expression, ((void)scc, out != 0))                                           \
    }
#define S2(name, D, A, B, expression)                                                                                 \
    static void do_##name(Wave *w, const Instruction *in) {                                                           \
        SCALAR_BODY(D, A a = GET_##A(0); B b = GET_##B(1), expression, scc)                                           \
    }
#define SZ2(name, D, A, B, expression)                                                                                \
    static void do_##name(Wave *w, const Instruction *in) {                                                           \
        SCALAR_BODY(D, A a = GET_##A(0); B b = GET_##B(1), expression, ((void)scc, out != 0))                         \
    }
#define SC(name, A, B, expression)                                                                                    \
    static void do_##name(Wave *w, const Instruction *in) {                                                           \
        A a = GET_##A(0);                                                                                             \
        B b = GET_##B(1);                                                                                             \
        w->scc = (u32)(expression);                                                                                   \
    }
#define EXEC1(name, expression)                                                                                       \
    static void do_##name(Wave *w, const Instruction *in) {                                                           \
        u64 a = GET_u64(0), exec = exec_of(w), out = (expression);                                                    \
        PUT_u64(exec);                                                                                                \
        set_pair(w->s, EXEC, out);                                                                                    \
        w->scc = out != 0;                                                                                            \
    }
#define WREXEC1(name, expression)                                                                                     \
    static void do_##name(Wave *w, const Instruction *in) {                                                           \
        u64 a = GET_u64(0), exec = exec_of(w), out = (expression);                                                    \
        PUT_u64(out);                                                                                                 \
        set_pair(w->s, EXEC, out);                                                                                    \
        w->scc = out != 0;                                                                                            \
    }
#define SK(name, condition, expression)                                                                               \
    static void do_##name(Wave *w, const Instruction *in) {                                                           \
        u32 old = OLD_u32, k = in->imm, scc = w->scc;                                                                 \
        condition;                                                                                                    \
        u32 out = (expression);                                                                                       \
        PUT_u32(out);                                                                                                 \
        w->scc = scc;                                                                                                 \
    }
#define SKC(name, expression)                                                                                         \
    static void do_##name(Wave *w, const Instruction *in) {                                                           \
        u32 a = OLD_u32, k = in->imm;                                                                                 \
        w->scc = (expression);                                                                                        \
    }
#include "scalar.inc"

#undef S1
#undef SZ1
#undef S2
#undef SZ2
#undef SC
#undef EXEC1
#undef WREXEC1
#undef SK
#undef SKC
#define SCALAR_ROW(name, form, format) {#name, form, format, UNIT_SALU, do_##name, NULL},
#define S1(name, D, A, expression) SCALAR_ROW(name, #D ":" #A, FORMAT_PLAIN)
#define SZ1 S1
#define S2(name, D, A, B, expression) SCALAR_ROW(name, #D ":" #A "," #B, FORMAT_PLAIN)
#define SZ2 S2
#define SC(name, A, B, expression) SCALAR_ROW(name, ":" #A "," #B, FORMAT_PLAIN)
#define EXEC1(name, expression) SCALAR_ROW(name, "u64:u64", FORMAT_PLAIN)
#define WREXEC1 EXEC1
#define SK(name, condition, expression) SCALAR_ROW(name, "u32:", FORMAT_SOPK)
#define SKC(name, expression) SCALAR_ROW(name, "u32:", FORMAT_SOPK)
const Op scalar_ops[] = {
#include "scalar.inc"
    {0}};

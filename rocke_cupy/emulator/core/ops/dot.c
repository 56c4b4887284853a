#include "../arithmetic.h"
#include "../lanes.h"
#include "../machine_tables.h"

static inline i64 dot_signed(u32 a, u32 b, int bits) {
    i64 sum = 0;
    for (int at = 0; at < 32; at += bits)
        sum += (i64)((i32)(a << (32 - bits - at)) >> (32 - bits)) * ((i32)(b << (32 - bits - at)) >> (32 - bits));
    return sum;
}

static inline u64 dot_unsigned(u32 a, u32 b, int bits) {
    u64 sum = 0;
    u32 mask = (1u << bits) - 1;
    for (int at = 0; at < 32; at += bits) sum += (u64)(a >> at & mask) * (b >> at & mask);
    return sum;
}

static inline u32 clip_u32(u64 x) { return x > 0xffffffffu ? 0xffffffffu : (u32)x; }

static inline u32 difference(u32 a, u32 b) { return a > b ? a - b : b - a; }

static inline u32 differences(u32 a, u32 b, int bits) {
    u32 sum = 0, mask = (1u << bits) - 1;
    for (int at = 0; at < 32; at += bits) sum += difference(a >> at & mask, b >> at & mask);
    return sum;
}

/* Bytes of b that are 0 do not count. */
static inline u32 masked_differences(u32 a, u32 b) {
    u32 sum = 0;
    for (int at = 0; at < 32; at += 8) sum += b >> at & 255 ? difference(a >> at & 255, b >> at & 255) : 0;
    return sum;
}

/* Of four bytes from byte 0, 1, 2 and 3 of a on, each added to its 16 bits of c. */
static inline u64 four_sums(u64 a, u32 b, u64 c, int masked) {
    u64 result = 0;
    for (int k = 0; k < 4; k++) {
        u32 bytes = (u32)(a >> 8 * k), sum = masked ? masked_differences(bytes, b) : differences(bytes, b, 8);
        result |= ((sum + (c >> 16 * k)) & 0xffff) << 16 * k;
    }
    return result;
}

#include "../define_lanes.h"
#include "dot.inc"

/* The same with sums of 32 bits, in four registers. */
static void v_mqsad_u32_u8(Wave *w, const Instruction *in) {
    u32 temp[2][2][LANES], sums[4][LANES];
    const u32 *a[2], *b[2];
    fetch_rows(w, in, 0, temp[0], a);
    fetch_rows(w, in, 1, temp[1], b);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < LANES; i++) {
            u32 c = in->src[2].kind == OPERAND_VGPR ? w->v[in->src[2].index + k][i] : scalar32(w, &in->src[2]);
            sums[k][i] = masked_differences((u32)(join(a[0][i], a[1][i]) >> 8 * k), b[0][i]) + c;
        }
    for (int k = 0; k < 4; k++) blend(w->v[in->dst[0].index + k], sums[k], exec_of(w));
}

#include "../list_lanes.h"
const Op dot_ops[] = {
#include "dot.inc"
    {"v_mqsad_u32_u8", "b128:u64,u32,b128", FORMAT_PLAIN, UNIT_VALU, v_mqsad_u32_u8, NULL},
    {0}};

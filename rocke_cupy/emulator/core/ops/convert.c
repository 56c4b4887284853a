#include "../lanes.h"
#include "../arithmetic.h"
#include "../machine_tables.h"

static inline u32 clip_i16(i32 x) { return (u32)(x < -32768 ? -32768 : x > 32767 ? 32767 : x) & 0xffff; }

/* Clips, rounds to nearest and puts a byte in its place (that it rounds: shadPS4 PR 5194, from tests on GCN). */
static inline u32 f32_to_u8(float x) { return (u32)(i32)rintf(x > 0.0f ? x < 255.0f ? x : 255.0f : 0.0f); }
static inline u32 with_byte(u32 old, u32 place, u32 byte) {
    u32 shift = 8 * (place & 3);
    return (old & ~(255u << shift)) | byte << shift;
}

/* Fractions of the largest 16-bit integer, to nearest. */
static inline u32 signed_norm(float x) {
    float clipped = x > -1.0f ? x < 1.0f ? x : 1.0f : -1.0f;
    return x == x ? (u32)(i32)rintf(clipped * 32767.0f) & 0xffff : 0;
}
static inline u32 unsigned_norm(float x) {
    float clipped = x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f;
    return (u32)(i32)rintf(clipped * 65535.0f);
}

#include "../define_lanes.h"
#include "convert.inc"

#include "../list_lanes.h"
const Op convert_ops[] = {
#include "convert.inc"
    {0}};

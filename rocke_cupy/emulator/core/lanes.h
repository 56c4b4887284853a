/* Vector instructions as loops over 64 lanes. A lane function sees rows of registers and nothing else;
   lanes.c brings operands into rows and results back under EXEC. */
#ifndef ROCKE_LANES_H
#define ROCKE_LANES_H

#include "machine.h"
#include "numeric.h"

struct Rows {
    const u32 *s[5][2]; /* low and high registers of each source; a lane mask is a row of 0 and ~0 */
    u32 *d[2];
    u32 *mask; /* lane mask result, 0 or ~0 */
    u32 imm, mode;
};

#if defined(__clang__)
#define FOR_LANES _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < LANES; i++)
#else
#define FOR_LANES _Pragma("GCC ivdep") for (int i = 0; i < LANES; i++)
#endif

/* A type of the tables: how a lane is read, computed in, and written. */
#define CALC_u32 u32
#define CALC_i32 i32
#define CALC_f32 float
#define CALC_u64 u64
#define CALC_i64 i64
#define CALC_f64 double
#define CALC_f16 float
#define CALC_h16 float
#define CALC_e16 double
#define CALC_he16 double
#define CALC_hu16 u32
#define CALC_n32 u32
#define CALC_u16 u32
#define CALC_i16 i32
#define CALC_u8 u32
#define CALC_hu8 u32
#define CALC_m64 u32
#define READ_u32(x) (x##_low[i])
#define READ_i32(x) ((i32)x##_low[i])
#define READ_f32(x) (as_f32(x##_low[i]))
#define READ_u64(x) (join(x##_low[i], x##_high[i]))
#define READ_i64(x) ((i64)join(x##_low[i], x##_high[i]))
#define READ_f64(x) (as_f64(join(x##_low[i], x##_high[i])))
#define READ_f16(x) (f16_to_f32(x##_low[i]))
#define READ_h16(x) (f16_to_f32(x##_low[i]))
#define READ_e16(x) ((double)f16_to_f32(x##_low[i]))
#define READ_n32(x) (x##_low[i])
#define READ_u16(x) (x##_low[i] & 0xffff)
#define READ_i16(x) ((i32)(i16)x##_low[i])
#define READ_u8(x) (x##_low[i] & 0xff)
#define READ_m64(x) (x##_low[i])
#define WRITE_u32(value) d_low[i] = (value)
#define WRITE_i32(value) d_low[i] = (u32)(value)
#define WRITE_f32(value) d_low[i] = bits_f32(value)
#define WRITE_u64(value) do { u64 wide = (u64)(value); d_low[i] = (u32)wide; d_high[i] = (u32)(wide >> 32); } while (0)
#define WRITE_i64(value) WRITE_u64(value)
#define WRITE_f64(value) WRITE_u64(bits_f64(value))
#define WRITE_f16(value) d_low[i] = f32_to_f16(value)
#define WRITE_u16(value) d_low[i] = (u32)(value) & 0xffff
#define WRITE_i16(value) d_low[i] = (u32)(value) & 0xffff
/* n32: bits of an fp32 number, to be moved and not computed with. e16: fp16 computed in double and rounded once. */
#define WRITE_e16(value) d_low[i] = f64_to_f16(value)
/* h.., the newer 16-bit instructions: the other half of the destination stays. */
#define WRITE_he16(value) d_low[i] = (d_low[i] & 0xffff0000u) | f64_to_f16(value)
#define WRITE_hu16(value) d_low[i] = (d_low[i] & 0xffff0000u) | ((value) & 0xffff)
#define WRITE_hu8(value) d_low[i] = (d_low[i] & 0xffffff00u) | ((value) & 0xff)
#define WRITE_h16(value) d_low[i] = (d_low[i] & 0xffff0000u) | f32_to_f16(value)

#define ROW(x, k) const u32 *x##_low = r->s[k][0], *x##_high = r->s[k][1]; (void)x##_low; (void)x##_high
#define DESTINATION u32 *d_low = r->d[0], *d_high = r->d[1]; (void)d_low; (void)d_high

ExecuteFn execute_lanes, execute_compare, execute_compare_exec, execute_lanes_wide, execute_packed32, execute_packed16;

/* Bring source k into rows; `temp` is used when the register rows themselves do not do. */
void fetch_rows(Wave *w, const Instruction *in, int k, u32 temp[2][LANES], const u32 *rows[2]);
u64 mask_of_row(const u32 *row);
void row_of_mask(u64 mask, u32 *row);
void blend(u32 *into, const u32 *from, u64 mask);

#endif

/* Products of matrices whose elements lie in the lanes of vector registers. */
#ifndef ROCKE_MATRIX_H
#define ROCKE_MATRIX_H

#include "machine.h"

enum { MOST_ELEMENTS = 32 };
typedef double Elements[MOST_ELEMENTS][LANES]; /* [element of a lane][lane] */

/* Read the elements of A or B, in the order in which a lane holds them. The name is their format. */
typedef void WidenFn(const Wave *w, const Operand *o, Elements out);
WidenFn widen_f32, widen_f16, widen_bf16, widen_i8, widen_fp8, widen_bf8;
/* The same of the instructions whose format is a modifier: of each lane 32 successive values of k. */
void widen_small(const Wave *w, const Operand *o, u32 format, int size, Elements out);

/* C: the rows of its registers, `step` words apart; a constant has one row for all. */
typedef struct Accumulator {
    const u32 *rows;
    u32 step;
} Accumulator;

/* D = C + A B for one matrix of `size` rows and columns, `k_each` elements of A and of B in a lane. Elements
   of C and D are fp32 or, if `integer`, of 32 bits with wrap-around. */
void multiply(Wave *w, const Operand *d, Accumulator c, Elements a, Elements b, int size, int k_each, int integer);
/* The same for `blocks` matrices, which fill all lanes. */
void multiply_blocks(Wave *w, const Operand *d, Accumulator c, Elements a, Elements b, int size, int blocks,
                     int k_each, int integer);

#endif

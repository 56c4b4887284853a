/* What a memory operation does once it has host addresses: the effects that pending.c applies. */
#ifndef ROCKE_ACCESS_H
#define ROCKE_ACCESS_H

#include "numeric.h"

EffectFn load_dwords, load_ubyte, load_sbyte, load_ushort, load_sshort;
EffectFn load_ubyte_d16, load_ubyte_d16_hi, load_sbyte_d16, load_sbyte_d16_hi, load_short_d16, load_short_d16_hi;
EffectFn store_dwords, store_low, store_high, copy_to_lds;
EffectFn atomic_swap, atomic_add, atomic_sub, atomic_smin, atomic_smax, atomic_umin, atomic_umax, atomic_and, atomic_or,
    atomic_xor, atomic_inc, atomic_dec, atomic_add_f32, atomic_pk_add_f16, atomic_pk_add_bf16, atomic_swap_x2,
    atomic_add_x2, atomic_sub_x2, atomic_smin_x2, atomic_smax_x2, atomic_umin_x2, atomic_umax_x2, atomic_and_x2,
    atomic_or_x2, atomic_xor_x2, atomic_add_f64, atomic_min_f64, atomic_max_f64, atomic_cmpswap, atomic_cmpswap_x2;

/* The data registers of a store, read at issue. */
void capture(Wave *w, Pending *p, const Operand *o);
/* Address registers as 32-bit rows; zero when the operand is off. */
void address_row(Wave *w, const Operand *o, u32 *row);

#endif

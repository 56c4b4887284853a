/* What a memory operation does once it has host addresses: the effects that pending.c applies. */
#ifndef ROCKE_ACCESS_H
#define ROCKE_ACCESS_H

#include "numeric.h"

EffectFn load_dwords, load_ubyte, load_sbyte, load_ushort, load_sshort;
EffectFn load_ubyte_d16, load_ubyte_d16_hi, load_sbyte_d16, load_sbyte_d16_hi, load_short_d16, load_short_d16_hi;
EffectFn store_dwords, store_low, store_high;
EffectFn copy_dwords, copy_ubyte, copy_sbyte, copy_ushort, copy_sshort; /* to LDS */
#define ATOMIC(name, ...) EffectFn atomic_##name;
#define MEMORY ATOMIC
#define LDS ATOMIC
#include "ops/atomic.inc"

enum { LOADS, STORES, CHANGES /* atomically */ };

/* The data registers of a store, read at issue. */
void capture(Wave *w, Pending *p, const Operand *o);
/* Address registers as 32-bit rows; zero when the operand is off. */
void address_row(Wave *w, const Operand *o, u32 *row);

#endif

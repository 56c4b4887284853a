/* Global, scratch and flat memory: bounds and address spaces. */
#ifndef ROCKE_GLOBAL_H
#define ROCKE_GLOBAL_H

#include "machine.h"

/* High halves of the flat apertures of LDS and scratch (src_shared_base, src_private_base). */
enum { APERTURE_LDS = 0x10000, APERTURE_SCRATCH = 0x20000 };

/* Check `size` bytes at each active lane's address against the buffers of the launch. */
int global_in_bounds(Wave *w, const Instruction *in, u64 exec, const u64 *address, u32 size, int write);
/* Turn flat addresses (global, LDS or scratch) into host addresses, checking each space's bounds. */
int flat_to_host(Wave *w, const Instruction *in, u64 exec, u64 *address, u32 size, int write);
int scratch_to_host(Wave *w, const Instruction *in, u64 exec, u64 *address, u32 size);

#endif

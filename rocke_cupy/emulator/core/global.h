/* Global, scratch and flat memory: bounds and address spaces. */
#ifndef ROCKE_GLOBAL_H
#define ROCKE_GLOBAL_H

#include "machine.h"

/* High halves of the flat apertures of LDS and scratch (src_shared_base, src_private_base). */
enum { APERTURE_LDS = 0x10000, APERTURE_SCRATCH = 0x20000 };

/* Atomics must lie at multiples of their size: "or they trigger a MEMVIOL" (AMD's shader programming guide, quoted in
   LLVM PR 198145; clang refuses others, PR 80322). Asked of the device's addresses, before they become the host's. */
int atomics_aligned(Wave *w, const Pending *p, u64 lanes, u32 size);
/* Check `size` bytes at the addresses of the given lanes against the buffers of the launch, and turn them into addresses
   of the host. */
int global_to_host(Wave *w, Pending *p, u64 lanes, u32 size, int write);
/* The same for flat addresses (global, LDS or scratch), and for offsets in scratch, with the bounds of each space; `in_lds`
   receives the lanes in LDS. */
int flat_to_host(Wave *w, Pending *p, u32 size, int write, u64 *in_lds);
int scratch_to_host(Wave *w, Pending *p, u64 lanes, u32 size);

#endif

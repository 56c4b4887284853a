/* LDS accesses: bounds, race checks by barrier epoch, and bank conflicts. */
#ifndef ROCKE_LDS_H
#define ROCKE_LDS_H

#include "machine.h"

enum { LDS_READ = 1, LDS_WRITE = 2, LDS_DMA = 4, LDS_ATOMIC = 8 /* beside read and write */ };

/* What is known of one dword of LDS: its last write and the reads of the latest epoch. An epoch is the number of
   barriers that the workgroup has passed. Two words, so that the common case is a comparison and a store:
     write: pc (27:0), bytes (31:28; none: nothing was ever written), epoch when complete (47:32), wave (55:48),
            all by atomics (56), bytes that were ever written (60:57), split (61): records of bytes take its place,
            which have the same form
     read:  pc (27:0), bytes (31:28), epoch (47:32), waves (63:48) */
struct Shadow {
    u64 write, read;
};
/* The latest LDS write to touch a dword, to see whether lanes of one instruction meet there: its number in its wave
   (63:32), wave (31:4) and the bytes that it has written so far (3:0). */
struct Stamp {
    u64 word;
};
#define IN_FLIGHT 0xffffu /* the epoch of LDS DMA that has not been waited for */
enum { EPOCH_LIMIT = 60000 };

int lds_in_bounds(Wave *w, const Instruction *in, u64 exec, const u32 *address, u32 size);
/* Whether the addresses of an operation are multiples of `size`, as those of atomics and transposed reads must be. */
int lds_aligned(Wave *w, const Pending *p, u32 size, const char *what);
/* Where LDS DMA of `size` bytes a lane goes: p->lds, p->lds_size and p->lds_parts. */
void lds_dma_addresses(Wave *w, const Instruction *in, Pending *p, u32 size);
void lds_issued(Wave *w, Pending *p);
void lds_completed(Wave *w, Pending *p);
void lds_count_banks(Wave *w, const Instruction *in, u64 exec, const u32 *address, u32 size);
void lds_forget_epochs(Group *g);

#endif

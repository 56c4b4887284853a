/* LDS accesses: bounds, race checks by barrier epoch, and bank conflicts. */
#ifndef ROCKE_LDS_H
#define ROCKE_LDS_H

#include "machine.h"

enum { LDS_READ = 1, LDS_WRITE = 2, LDS_DMA = 4 };

/* What is known of one dword of LDS. An epoch is the number of barriers that the workgroup has passed. */
struct Shadow {
    u32 write_pc;
    u16 write_epoch; /* when the last write was complete; IN_FLIGHT for LDS DMA that has not been waited for */
    u8 write_wave;
    u8 write_bytes : 4, read_bytes : 4; /* of the dword; no write_bytes: nothing was ever written */
    u32 read_pc;
    u16 read_epoch, read_waves; /* the waves that read it in read_epoch */
};
#define IN_FLIGHT 0xffff
enum { EPOCH_LIMIT = 60000 };

int lds_in_bounds(Wave *w, const Instruction *in, u64 exec, const u32 *address, u32 size);
/* Where LDS DMA of `size` bytes a lane goes: p->lds, p->lds_size and p->lds_parts. */
void lds_dma_addresses(Wave *w, const Instruction *in, Pending *p, u32 size);
void lds_issued(Wave *w, Pending *p);
void lds_completed(Wave *w, Pending *p);
void lds_count_banks(Wave *w, const Instruction *in, u64 exec, const u32 *address, u32 size);
void lds_forget_epochs(Group *g);

#endif

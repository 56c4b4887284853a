/* Wait states between dependent instructions, along the path that a wave takes. The rules are those of ../hazards, which
   come here as flat arrays (../hazards/tables.py). */
#ifndef ROCKE_HAZARDS_H
#define ROCKE_HAZARDS_H

#include "machine.h"

enum { HAZARD_REGISTERS = 768, MAX_WAYS = 64, FOREVER_STATES = 255 };
enum { MARK_MATRIX = 1, MARK_ALL_LANES = 2, MARK_MAY_TAKE_ZERO = 4 };

/* Registers that an instruction locks against a way of using them, or uses in that way; slots are
   way * HAZARD_REGISTERS + register. */
typedef struct HazardSpan {
    u16 slot;
    u8 way, count;
    u16 chain; /* 0: none. A use of the lock's chain needs only `chained` states */
    u8 states, chained;
} HazardSpan;

/* What an instruction means to the rules: its uses are the spans from `first` on, its locks follow them. */
typedef struct HazardMarks {
    u32 first;
    u16 n_uses, n_locks;
    u8 states, flags;
    u16 unused;
} HazardMarks;

/* Check an instruction against the locks of those before it, and put its own. Returns 0 if it comes too soon. */
int hazards_pass(Wave *w, const Instruction *in);
/* Memory for a wave, and its state at the start of a workgroup. */
Hazards *hazards_create(const Launch *l);
void hazards_start(Hazards *h);
/* In the errata mode: the instruction in place of one that R27 forbids. */
ExecuteFn hazards_take_zero;

#endif

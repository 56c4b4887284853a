/* Which accesses to memory come before which, whatever the order in which this run executed them. */
#ifndef ROCKE_ORDER_H
#define ROCKE_ORDER_H

#include "machine.h"

/* How an access takes part in synchronisation, by its cache bits (LLVM's memory model for gfx942): sc0 reaches the
   workgroup, sc1 the device and beyond; an atomic is executed in the L2. */
enum { PLAIN, IN_WORKGROUP, ON_DEVICE, ATOMIC_CHANGE };

/* A stretch of a wave in which others cannot tell its accesses apart. Numbers grow along a wave; 0 is none. */
typedef struct Segment {
    u32 workgroup, barriers, wave;
} Segment;

/* What a wave had made visible when it wrote an atomic variable: of its workgroup all before a number of barriers, and of
   each wave all up to a segment. `through` is for stores that went past the caches by themselves. */
typedef struct Release {
    u32 workgroup, wave, barriers, through_barriers, through;
    u32 segments[MAX_WAVES];
    const struct Known *known; /* what the wave knew itself, such as the release that it found there */
} Release;

typedef struct Known {
    const Release *release;
    const struct Known *next;
} Known;

/* All releases that a list leads to, for looking up. */
typedef struct Facts {
    const Release **table;
    u32 size, count;
    const Known *learnt;
} Facts;

struct Order {
    u32 segment, last;                       /* of the next access (0: a new one), and of the last one */
    u32 known_waves[MAX_WAVES];              /* segments of other waves of the workgroup that come before, by atomics */
    u32 writes_back;                         /* whether there was a buffer_wbl2, and what came before the last one: */
    u32 written_back, written_back_barriers; /* segments of the wave, and of others as of barriers */
    u64 written_back_order;                  /* vector memory operations of the workgroup */
    u32 done, done_barriers;                 /* of the one before, if its stores had been waited for */
    const Known *seen, *acquired;            /* by atomics; and with buffer_inv behind them */
    Facts seen_facts, acquired_facts;
};

Segments *order_create_segments(void);
void order_free_segments(Segments *s);
Order *order_create(void);
void order_destroy(Order *o);
void order_free_group(Group *g);
void order_start(Order *o);
void order_barrier(Group *g);

/* A watched operation is issued: it gets its segment. */
void order_issued(Wave *w, Pending *p);
const Segment *segment_at(const Machine *m, u32 number);
/* Whether accesses of a segment come before an operation. `through`: they went past the caches; `cached`: the operation
   reads what caches hold, so it takes more than to have seen an atomic. */
int comes_before(Wave *w, const Pending *p, u32 segment, int through, int cached);
/* An operation finds a release in an atomic variable, and leaves one there: NULL if the wave has made nothing visible. */
void order_see(Wave *w, const Release *release);
const Release *order_release(Wave *w, const Pending *p);
/* buffer_wbl2 and buffer_inv. */
void order_write_back(Wave *w);
void order_invalidate(Wave *w);

#endif

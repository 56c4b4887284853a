/* Races in global memory: what is known of the bytes that a launch has touched, in pages made when they are. */
#ifndef ROCKE_SHADOW_H
#define ROCKE_SHADOW_H

#include "machine.h"

typedef struct Page Page;

/* The pages of one operation, locked while it takes effect. */
enum { MAX_TOUCHED = 2 * LANES };
typedef struct Touched {
    u32 count, conflicts;
    Page *pages[MAX_TOUCHED];
} Touched;

ShadowMemory *shadow_create(void);
void shadow_destroy(ShadowMemory *m);
/* Lanes of an operation access the memory of the launch; `in` says how. */
void shadow_watch(Pending *p, u64 lanes, u32 size, int write);
/* Before and after an operation takes effect. */
void shadow_begin(Wave *w, Pending *p, Touched *t);
void shadow_end(Wave *w, Pending *p, Touched *t);

#endif

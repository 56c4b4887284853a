/* A lock is kept for each register and way of using it: the wait state until which it lasts, and the instruction that put
   it. A later lock takes the place of an earlier one. */
#include <stdlib.h>
#include "hazards.h"
#include "lanes.h"

enum { PC_BITS = 26 }; /* as many instructions take 256 MiB at least */
#define FOREVER (~0ull >> PC_BITS)
enum { LONGEST = 20 }; /* wait states of any other lock, and of a matrix instruction under way */

struct Hazards {
    u64 now; /* wait states executed; a workgroup goes on where the last one ended */
    u64 matrix_until; /* a matrix instruction is under way */
    u64 latest[MAX_WAYS]; /* no lock against this way lasts longer */
    u64 held[];           /* by slot: until (63:26), instruction (25:0) */
};

static inline u64 until_of(u64 held) { return held >> PC_BITS; }
static inline u32 pc_of(u64 held) { return (u32)held & ((1u << PC_BITS) - 1); }

Hazards *hazards_create(const Launch *l) {
    return calloc(1, sizeof(Hazards) + (size_t)l->hazard_ways * HAZARD_REGISTERS * sizeof(u64));
}

void hazards_start(Hazards *h) {
    h->now += LONGEST + 1;
    h->matrix_until = 0;
    memset(h->latest, 0, sizeof h->latest);
}

static u32 longest(const HazardSpan *lock) { return lock->states > lock->chained ? lock->states : lock->chained; }

static const HazardSpan *lock_of(const Launch *l, u32 pc, u32 slot) {
    const HazardMarks *marks = &l->hazard_marks[pc];
    const HazardSpan *lock = &l->hazard_spans[marks->first + marks->n_uses];
    while (slot < lock->slot || slot >= (u32)lock->slot + lock->count) lock++;
    return lock;
}

/* A lock still lasts: whether it asks this use for more states than there are. */
static int too_soon(Wave *w, const Instruction *in, const HazardSpan *use, u32 slot) {
    const Launch *l = &w->group->machine->launch;
    const Hazards *h = w->hazards;
    u64 held = h->held[slot];
    const HazardSpan *lock = lock_of(l, pc_of(held), slot);
    u32 needed = use->chain && use->chain == lock->chain ? lock->chained : lock->states;
    u64 since = h->now + longest(lock) - until_of(held);
    if (until_of(held) == FOREVER) fail(w, in, FAULT_HAZARD, -1, "is as it was before");
    else if (since < needed) fail(w, in, FAULT_HAZARD, -1, "%u of %u wait states", (u32)since, needed);
    else return 0;
    fail_other(w, w->group->machine->code + pc_of(held), (int)w->index, slot);
    return 1;
}

int hazards_pass(Wave *w, const Instruction *in) {
    const Launch *l = &w->group->machine->launch;
    Hazards *h = w->hazards;
    u32 pc = (u32)position(w, in);
    const HazardMarks *marks = &l->hazard_marks[pc];
    const HazardSpan *span = &l->hazard_spans[marks->first], *locks = span + marks->n_uses, *end = locks + marks->n_locks;
    for (; span < locks; span++) {
        if (h->latest[span->way] <= h->now) continue;
        for (u32 slot = span->slot; slot < (u32)span->slot + span->count; slot++)
            if (until_of(h->held[slot]) > h->now && too_soon(w, in, span, slot)) return 0;
    }
    if (marks->flags & MARK_ALL_LANES && l->hazards && exec_of(w) != ~0ull) {
        fail(w, in, FAULT_HAZARD, -1, "EXEC is %016llx", (unsigned long long)exec_of(w));
        w->group->machine->fault.address = (u64)l->hazard_ways * HAZARD_REGISTERS;
        return 0;
    }
    h->now += marks->states;
    for (; span < end; span++) {
        u64 until = span->states == FOREVER_STATES ? FOREVER : h->now + longest(span), held = until << PC_BITS | pc;
        if (until > h->latest[span->way]) h->latest[span->way] = until;
        for (u32 k = 0; k < span->count; k++) h->held[span->slot + k] = held;
    }
    if (marks->flags & MARK_MATRIX) h->matrix_until = h->now + LONGEST;
    return 1;
}

/* ---- the errata mode ---- */

/* Whether a wave of the workgroup has a matrix instruction under way. The instruction that asks has been counted. */
static int multiplies(const Group *g) {
    for (u32 k = 0; k < g->n_waves; k++) {
        const Wave *w = &g->waves[k];
        if (w->state != WAVE_ENDED && w->hazards->matrix_until >= w->hazards->now) return 1;
    }
    return 0;
}

/* The low half is computed with 0 in place of its second source, the high half as ever. */
void hazards_take_zero(Wave *w, const Instruction *in) {
    u32 before[2][LANES], low[LANES], (*result)[LANES] = w->v + in->dst[0].index;
    if (multiplies(w->group)) {
        Instruction wrong = *in;
        wrong.src[1].kind = OPERAND_CONST;
        wrong.src[1].value = 0;
        memcpy(before, result, sizeof before);
        execute_packed32(w, &wrong);
        memcpy(low, result[0], sizeof low);
        memcpy(result, before, sizeof before);
    }
    execute_packed32(w, in);
    if (multiplies(w->group)) memcpy(result[0], low, sizeof low);
}

/* What the waves of a workgroup execute, recorded for the replay of timing.c. */
#include <stdlib.h>
#include "timing.h"

Timing *timing_create(const Launch *launch) {
    Timing *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->table = launch->timed_instructions;
    t->model = launch->timing_model;
    t->lds_cycles = calloc(launch->n_code, sizeof *t->lds_cycles);
    t->stalls = calloc(launch->n_code, sizeof *t->stalls);
    if (t->lds_cycles && t->stalls) return t;
    timing_destroy(t);
    return NULL;
}

void timing_destroy(Timing *t) {
    if (!t) return;
    for (int k = 0; k < MAX_WAVES; k++) free(t->waves[k].entries);
    free(t->lds_cycles);
    free(t->stalls);
    free(t->done);
    free(t);
}

void timing_start(Timing *t) {
    for (int k = 0; k < MAX_WAVES; k++) t->waves[k].count = 0;
}

/* Distinct 128-byte lines that the newest vector memory operation of a wave touches. Neighbouring lanes mostly share one. */
static u32 lines_of(const Wave *w, const Instruction *in) {
    const Queue *q = &w->queue[QUEUE_VM];
    const Pending *p = &w->slots[QUEUE_VM][(q->first + q->count - 1) % VM_SLOTS];
    u64 lines[2 * LANES];
    u32 found = 0;
    if (!q->count || p->in != in) return 0;
    u32 size = in->unit == UNIT_LDS_DMA ? p->lds_size : p->lds_step;
    for (int i = 0; i < LANES; i++) {
        if (!(p->exec >> i & 1) || !p->valid[i] || !size) continue;
        for (u64 line = p->address[i] >> 7; line <= (p->address[i] + size - 1) >> 7; line++) {
            u32 k = found;
            while (k > 0 && lines[k - 1] != line) k--;
            if (k == 0 && found < 2 * LANES) lines[found++] = line;
        }
    }
    return found;
}

void timing_trace(Group *g, Wave *w, const Instruction *in) {
    Timing *t = g->timing;
    WaveTrace *trace = &t->waves[w->index];
    u32 pc = (u32)position(w, in), work = 0;
    if (trace->count == trace->room) {
        u64 room = trace->room ? 2 * trace->room : 4096;
        TraceEntry *entries = realloc(trace->entries, room * sizeof *entries);
        if (!entries) {
            fail(w, in, FAULT_OTHER, -1, "no memory for a trace of %llu instructions", (unsigned long long)room);
            return;
        }
        trace->entries = entries;
        trace->room = room;
    }
    if (in->unit == UNIT_LDS) {
        u64 seen = g->bank_ideal[pc] + g->bank_extra[pc];
        work = (u32)(seen - t->lds_cycles[pc]);
        t->lds_cycles[pc] = seen;
    } else if (in->unit == UNIT_VMEM || in->unit == UNIT_LDS_DMA) {
        work = lines_of(w, in);
    }
    trace->entries[trace->count++] = (TraceEntry){pc, work, 0};
}

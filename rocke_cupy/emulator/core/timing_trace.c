/* What the waves of a workgroup execute, recorded for the replay of timing.c. */
#include <stdlib.h>
#include "global.h"
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

typedef struct Lines {
    u64 line[4 * LANES];
    u32 count;
} Lines;

/* Neighbouring lanes mostly share a line. */
static void add_line(Lines *found, u64 line) {
    u32 k = found->count;
    while (k > 0 && found->line[k - 1] != line) k--;
    if (k == 0) found->line[found->count++] = line;
}

/* Scratch is interleaved: a dword of all lanes, then the next one (LLVM's AMDGPU usage page, memory space private). */
static void add_scratch_lines(Lines *found, u32 offset, u32 lane, u32 size) {
    for (u32 dword = offset / 4; dword < (offset + size + 3) / 4; dword++)
        if (found->count < 4 * LANES) add_line(found, (u64)APERTURE_SCRATCH << 32 | (dword * LANES + lane) * 4 >> 7);
}

/* Distinct 128-byte lines that the newest vector memory operation of a wave touches. */
static u32 lines_of(const Wave *w, const Instruction *in) {
    const Queue *q = &w->queue[QUEUE_VM];
    const Pending *p = &w->slots[QUEUE_VM][(q->first + q->count - 1) % VM_SLOTS];
    Lines found = {.count = 0};
    if (!q->count || p->in != in) return 0;
    u32 size = in->unit == UNIT_LDS_DMA ? p->lds_size : p->lds_step;
    for (u32 i = 0; i < LANES; i++) {
        u64 first = p->device[i], space = first >> 32;
        if (!(p->exec >> i & 1) || !p->valid[i] || !size || space == APERTURE_LDS) continue;
        if (space == APERTURE_SCRATCH) add_scratch_lines(&found, (u32)first, i, size);
        else
            for (u64 line = first >> 7; line <= (first + size - 1) >> 7; line++) add_line(&found, line);
    }
    return found.count;
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

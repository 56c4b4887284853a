/* Replays the traces of a workgroup on the units of one compute unit, instruction by instruction in the order of time.

   Each SIMD has a vector port (VALU, transcendental and matrix instructions issue through it), a matrix pipe, a scalar
   port and a memory port; LDS and the path to memory are one for all SIMDs. A wave issues in order, one instruction at
   a turn of its SIMD. Among waves that could issue at the same time the one with the higher priority goes first, then
   the one that has waited longest. */
#include <stdlib.h>
#include "timing.h"

enum { VM_LIMIT = 63, LGKM_LIMIT = 15, MAX_COPIES = 8, MAX_TIMED = MAX_WAVES * MAX_COPIES, MAX_SIMDS = 4, QUEUE_ROOM = 64 };

typedef struct Completions { /* when the outstanding operations of a counter are done, oldest first */
    u64 time[QUEUE_ROOM];
    u32 first, count;
} Completions;

typedef struct TimedWave {
    TraceEntry *at, *end;
    u32 simd, copy, priority, active, at_barrier;
    u64 next; /* the first cycle in which it may issue */
    u64 scalar_done;
    Completions vm, lgkm;
    u64 ready_v[VGPR_ROWS], accumulated_v[VGPR_ROWS], ready_s[SGPR_ROWS];
} TimedWave;

typedef struct Simd {
    u64 vector, matrix, scalar, memory; /* when each is free */
} Simd;

typedef struct Replay {
    const Instruction *code;
    const TimedInstruction *table;
    const TimingModel *model;
    TimedWave *waves;
    u32 n_waves, waves_of_copy;
    Simd simds[MAX_SIMDS];
    u64 lds, memory;
    u64 queue[QUEUE_ROOM]; /* when the newest requests to memory left its queue */
    u32 queued;
    struct { u64 time; u32 cycles; } dma[QUEUE_ROOM * MAX_WAVES]; /* writes to LDS that are on their way */
    u32 dma_first, dma_count;
    TimedWorkgroup *result;
    u64 *stalls;
} Replay;

static u64 later(u64 a, u64 b) { return a > b ? a : b; }

static void push(Completions *c, u64 time) {
    if (c->count == QUEUE_ROOM) c->first++, c->count--;
    if (c->count) time = later(time, c->time[(c->first + c->count - 1) % QUEUE_ROOM]); /* in order */
    c->time[(c->first + c->count++) % QUEUE_ROOM] = time;
}

/* When at most `left` operations are outstanding. */
static u64 when_left(const Completions *c, u32 left) {
    return c->count <= left ? 0 : c->time[(c->first + c->count - left - 1) % QUEUE_ROOM];
}
static void pop_to(Completions *c, u32 left) {
    while (c->count > left) c->first++, c->count--;
}

/* ---- the earliest cycle in which a wave can issue its next instruction, and what it waits for ---- */

static void wait_for(u64 *time, u32 *reason, u64 until, u32 why) {
    if (until > *time) *time = until, *reason = why;
}

static void wait_for_operand(const TimedWave *w, const Operand *o, int accumulator, u64 *time, u32 *reason) {
    const u64 *ready = o->kind == OPERAND_VGPR ? (accumulator ? w->accumulated_v : w->ready_v) : w->ready_s;
    if (o->kind != OPERAND_VGPR && o->kind != OPERAND_SGPR) return;
    for (u32 k = o->index; k < (u32)o->index + o->width; k++) wait_for(time, reason, ready[k], STALL_OPERAND);
}

static void wait_for_unit(const Replay *r, const TimedWave *w, const Instruction *in, u32 kind, u64 *time, u32 *reason) {
    const Simd *s = &r->simds[w->simd];
    const TimingModel *m = r->model;
    switch (kind) {
    case TIMED_VALU:
        wait_for(time, reason, s->vector, STALL_VECTOR);
        break;
    case TIMED_PACKED: /* never runs beside a matrix instruction */
    case TIMED_MFMA:
        wait_for(time, reason, s->vector, STALL_VECTOR);
        wait_for(time, reason, s->matrix, STALL_MFMA);
        break;
    case TIMED_LDS:
        wait_for(time, reason, s->memory, STALL_LDS);
        wait_for(time, reason, when_left(&w->lgkm, LGKM_LIMIT - 1), STALL_LDS);
        break;
    case TIMED_VMEM:
    case TIMED_DMA:
        wait_for(time, reason, s->memory, STALL_MEMORY);
        wait_for(time, reason, when_left(&w->vm, VM_LIMIT - 1), STALL_MEMORY);
        if (r->queued >= m->memory_queue)
            wait_for(time, reason, r->queue[(r->queued - m->memory_queue) % QUEUE_ROOM], STALL_MEMORY);
        break;
    case TIMED_WAIT: {
        u32 lgkm = in->imm >> 8 & 15;
        wait_for(time, reason, when_left(&w->vm, (in->imm & 15) | (in->imm >> 14 & 3) << 4), STALL_WAIT_VM);
        if (lgkm < 15) wait_for(time, reason, when_left(&w->lgkm, lgkm), STALL_WAIT_LGKM);
        if (lgkm == 0) wait_for(time, reason, w->scalar_done, STALL_WAIT_LGKM);
        break;
    }
    default:
        wait_for(time, reason, s->scalar, STALL_NONE);
    }
}

static u64 earliest(const Replay *r, const TimedWave *w, u32 *reason) {
    const Instruction *in = &r->code[w->at->pc];
    u32 kind = r->table[w->at->pc].kind, turn = r->model->issue_turn;
    u64 time = w->next;
    *reason = STALL_NONE;
    for (int k = 0; k < in->n_src; k++) wait_for_operand(w, &in->src[k], kind == TIMED_MFMA && k == 2, &time, reason);
    if (kind == TIMED_VALU || kind == TIMED_PACKED)
        for (int k = 0; k < in->n_dst; k++) wait_for_operand(w, &in->dst[k], 0, &time, reason);
    wait_for_unit(r, w, in, kind, &time, reason);
    return (time + turn - 1) / turn * turn;
}

/* ---- what an issued instruction does to the units ---- */

static void set_ready(TimedWave *w, const Instruction *in, u64 vector, u64 accumulator, u64 scalar) {
    for (int d = 0; d < in->n_dst; d++) {
        const Operand *o = &in->dst[d];
        for (u32 k = o->index; k < (u32)o->index + o->width; k++) {
            if (o->kind == OPERAND_VGPR) w->ready_v[k] = vector, w->accumulated_v[k] = accumulator;
            if (o->kind == OPERAND_SGPR) w->ready_s[k] = scalar;
        }
    }
}

/* LDS serves one request at a time, and what arrives from memory in between. */
static u64 serve_lds(Replay *r, u64 time, u32 cycles) {
    u64 start = later(time, r->lds);
    while (r->dma_count && r->dma[r->dma_first].time <= start) {
        u32 write = r->dma[r->dma_first].cycles;
        start = later(start, later(r->lds, r->dma[r->dma_first].time) + write);
        r->result->busy[BUSY_LDS] += write;
        r->dma_first = (r->dma_first + 1) % (QUEUE_ROOM * MAX_WAVES);
        r->dma_count--;
        r->lds = start;
    }
    r->lds = start + cycles;
    r->result->busy[BUSY_LDS] += cycles;
    return start;
}

static void issue_lds(Replay *r, TimedWave *w, u64 time) {
    u32 cycles = w->at->work * r->model->lds_phase;
    push(&w->lgkm, serve_lds(r, time, cycles) + cycles + r->model->lds_latency);
}

static void issue_memory(Replay *r, TimedWave *w, const TimedInstruction *t, u64 time) {
    const TimingModel *m = r->model;
    u64 start = later(time, r->memory), cycles = later(m->memory_least, w->at->work * m->memory_line);
    r->memory = start + cycles;
    r->queue[r->queued++ % QUEUE_ROOM] = start;
    r->result->busy[BUSY_MEMORY] += cycles;
    u64 arrival = start + cycles + m->memory_latency;
    if (t->kind == TIMED_DMA && r->dma_count < QUEUE_ROOM * MAX_WAVES) {
        u32 last = (r->dma_first + r->dma_count++) % (QUEUE_ROOM * MAX_WAVES);
        r->dma[last].time = arrival;
        r->dma[last].cycles = t->pipe;
        arrival += t->pipe;
    }
    push(&w->vm, arrival);
}

static int taken(const TimedWave *w) { return w->at + 1 < w->end && w->at[1].pc != w->at->pc + 1; }

static void issue_timed(Replay *r, TimedWave *w, u64 time) {
    const Instruction *in = &r->code[w->at->pc];
    const TimedInstruction *t = &r->table[w->at->pc];
    const TimingModel *m = r->model;
    Simd *s = &r->simds[w->simd];
    u64 *busy = r->result->busy;
    w->next = time + m->issue_turn;
    switch (t->kind) {
    case TIMED_MFMA:
        s->matrix = time + t->pipe;
        busy[BUSY_MFMA] += t->pipe;
        s->vector = time + t->issue;
        busy[BUSY_VECTOR] += t->issue;
        set_ready(w, in, s->matrix + m->matrix_result, s->matrix, 0);
        break;
    case TIMED_PACKED:
    case TIMED_VALU:
        s->vector = time + t->issue;
        busy[BUSY_VECTOR] += t->issue;
        set_ready(w, in, time + t->latency, time + t->latency, time + t->latency + m->scalar_result);
        break;
    case TIMED_LDS:
        s->memory = time + m->issue_turn;
        issue_lds(r, w, time);
        break;
    case TIMED_VMEM:
    case TIMED_DMA:
        s->memory = time + m->issue_turn;
        issue_memory(r, w, t, time);
        break;
    case TIMED_SMEM:
        w->scalar_done = later(w->scalar_done, time + m->scalar_latency);
        break;
    case TIMED_BRANCH:
        w->next = time + (taken(w) ? m->branch_taken : m->branch_not_taken);
        break;
    case TIMED_WAIT: {
        u32 lgkm = in->imm >> 8 & 15;
        pop_to(&w->vm, (in->imm & 15) | (in->imm >> 14 & 3) << 4);
        if (lgkm < 15) pop_to(&w->lgkm, lgkm);
        break;
    }
    case TIMED_NOP:
        w->next = time + t->issue;
        break;
    case TIMED_PRIORITY:
        w->priority = in->imm & 3;
        break;
    default:
        break;
    }
    if (t->kind == TIMED_SALU || t->kind == TIMED_SMEM || t->kind == TIMED_BRANCH) {
        s->scalar = time + m->issue_turn;
        busy[BUSY_SCALAR] += m->issue_turn;
    }
}

/* ---- barriers and the loop ---- */

static void release(Replay *r, u32 copy) {
    u64 last = 0;
    TimedWave *first = r->waves + copy * r->waves_of_copy;
    for (TimedWave *w = first; w < first + r->waves_of_copy; w++) {
        if (w->active && !w->at_barrier) return;
        if (w->active) last = later(last, w->next);
    }
    for (TimedWave *w = first; w < first + r->waves_of_copy; w++) {
        if (!w->active) continue;
        r->result->stalls[STALL_BARRIER] += last - w->next;
        r->stalls[w->at[-1].pc] += last - w->next;
        w->at_barrier = 0;
        w->next = last + r->model->barrier;
    }
}

static void step(Replay *r, TimedWave *w, u64 time, u32 reason) {
    r->result->stalls[reason] += time - w->next;
    r->stalls[w->at->pc] += time - w->next;
    u32 kind = r->table[w->at->pc].kind;
    w->at->time = time;
    issue_timed(r, w, time);
    r->result->cycles = later(r->result->cycles, w->next);
    w->at++;
    w->at_barrier = kind == TIMED_BARRIER;
    w->active = w->at < w->end;
    if (kind == TIMED_BARRIER || !w->active) release(r, w->copy);
}

static void replay(Replay *r, const volatile u32 *stop) {
    for (u64 n = 0; n % 65536 || !*stop; n++) {
        TimedWave *best = NULL;
        u64 best_time = ~0ull;
        u32 best_reason = 0;
        for (TimedWave *w = r->waves; w < r->waves + r->n_waves; w++) {
            u32 reason;
            if (!w->active || w->at_barrier) continue;
            u64 time = earliest(r, w, &reason);
            int better = time < best_time ||
                         (time == best_time && (w->priority > best->priority ||
                                                (w->priority == best->priority && w->next < best->next)));
            if (better) best = w, best_time = time, best_reason = reason;
        }
        if (!best) return;
        step(r, best, best_time, best_reason);
    }
}

static TimedWorkgroup *new_result(Timing *t) {
    if (t->n_done == t->room) {
        u64 room = t->room ? 2 * t->room : 16;
        TimedWorkgroup *done = realloc(t->done, room * sizeof *done);
        if (!done) return NULL;
        t->done = done;
        t->room = room;
    }
    TimedWorkgroup *result = &t->done[t->n_done++];
    memset(result, 0, sizeof *result);
    return result;
}

int timing_finish(Group *g) {
    Timing *t = g->timing;
    u32 copies = t->model->copies < MAX_COPIES ? t->model->copies : MAX_COPIES;
    Replay *r = calloc(1, sizeof *r);
    TimedWave *waves = calloc((size_t)copies * g->n_waves, sizeof *waves);
    TimedWorkgroup *result = new_result(t);
    if (r && waves && result) {
        *r = (Replay){.code = g->machine->code, .table = t->table, .model = t->model, .waves = waves,
                      .n_waves = copies * g->n_waves, .waves_of_copy = g->n_waves, .result = result, .stalls = t->stalls};
        for (u32 k = 0; k < r->n_waves; k++) {
            WaveTrace *trace = &t->waves[k % g->n_waves];
            waves[k].at = trace->entries;
            waves[k].end = trace->entries + trace->count;
            waves[k].active = trace->count > 0;
            waves[k].simd = k % t->model->simds;
            waves[k].copy = k / g->n_waves;
        }
        result->workgroup = g->linear;
        replay(r, &g->machine->stop);
    }
    int fine = r && waves && result;
    free(r);
    free(waves);
    return fine;
}

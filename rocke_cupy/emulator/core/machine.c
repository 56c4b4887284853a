/* Running workgroups: waves in turn by a schedule, barriers, limits, faults, and the interface for Python. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "hazards.h"
#include "lanes.h"
#include "lds.h"
#include "machine_tables.h"
#include "order.h"
#include "shadow.h"
#include "timing.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

float one_f32 = 1.0f, denormal_f32 = 0x1p-140f;

/* ---- floating-point mode: rounding in bits 1:0, fp32 denormals in 5:4 (0 flushes both ways) ---- */

void set_float_mode(u32 mode) {
#if defined(__x86_64__)
    static const u32 rounding[4] = {0x0000, 0x4000, 0x2000, 0x6000}; /* nearest, up, down, toward zero */
    u32 denormals = mode >> 4 & 3;
    u32 flush_sources = denormals & 1 ? 0 : 0x0040, flush_results = denormals & 2 ? 0 : 0x8000;
    _mm_setcsr(0x1f80 | rounding[mode & 3] | flush_sources | flush_results);
#else
    (void)mode;
#endif
}

/* ---- faults ---- */

void fail(Wave *w, const Instruction *in, int kind, int lane, const char *format, ...) {
    Machine *m = w->group->machine;
    w->event = EVENT_ERROR;
    if (__atomic_exchange_n(&m->failed, 1, __ATOMIC_SEQ_CST)) return; /* the first fault is the one to tell */
    Fault *f = &m->fault;
    f->kind = kind;
    f->pc = position(w, in);
    f->other_pc = f->other_wave = -1;
    f->wave = (i32)w->index;
    f->lane = lane;
    f->workgroup = w->group->linear;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->text, sizeof f->text, format, arguments);
    va_end(arguments);
    m->stop = 1;
}

void fail_misaligned(Wave *w, const Instruction *in, int lane, const char *what, u64 address, u32 size) {
    fail(w, in, FAULT_ALIGNMENT, lane, "misaligned %s: its address is %u bytes past a multiple of %u", what,
         (u32)(address % size), size);
}

void fail_other(Wave *w, const Instruction *other, int other_wave, u64 address) {
    Fault *f = &w->group->machine->fault;
    if (f->wave != (i32)w->index || f->other_pc >= 0) return;
    f->other_pc = position(w, other);
    f->other_wave = other_wave;
    f->address = address;
}

static void execute_unknown(Wave *w, const Instruction *in) { fail(w, in, FAULT_UNKNOWN, -1, "not modelled"); }

/* ---- instruction tables ---- */

static const Op *const TABLES[] = {scalar_ops, vector_ops, double_ops, convert_ops, packed_ops, compare_ops,
                                   mfma_ops, lane_ops, ds_ops, buffer_ops, flat_ops, control_ops, small_float_ops, dot_ops};

/* The instruction with a number, counted through all tables; NULL past the last one. */
const Op *rocke_op(u32 number) {
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++)
        for (const Op *op = TABLES[t]; op->name; op++)
            if (number-- == 0) return op;
    return NULL;
}

u32 rocke_sizes(u32 which) {
    static const u32 sizes[] = {sizeof(Instruction), sizeof(Operand), sizeof(Launch), sizeof(Fault), sizeof(RaceRecord),
                                sizeof(TimedInstruction), sizeof(TimingModel), sizeof(TimedWorkgroup), sizeof(TraceEntry),
                                sizeof(HazardMarks), sizeof(HazardSpan)};
    return which < sizeof sizes / sizeof *sizes ? sizes[which] : 0;
}

static int is_plain(const Instruction *in) {
    int special = FLAG_CLAMP | FLAG_MUL2 | FLAG_MUL4 | FLAG_DIV2 | FLAG_DPP;
    return !(in->flags & (u32)special) && in->dst[0].sel == SEL_DWORD;
}

static u32 queue_of(u32 unit) {
    return unit == UNIT_LDS ? QUEUE_LDS : unit == UNIT_VMEM ? QUEUE_VM : unit == UNIT_SMEM ? QUEUE_SCALAR : QUEUES;
}

/* Find the operands in the register file of the kernel. Returns 0 if one lies past what the kernel has. */
static int place(const Launch *l, Operand *operands, u32 count) {
    int inside = 1;
    for (u32 k = 0; k < count; k++) {
        Operand *o = &operands[k];
        u32 end = o->kind == OPERAND_AGPR || l->accum_offset > l->n_vgprs ? l->n_vgprs : l->accum_offset;
        if (o->kind == OPERAND_AGPR) {
            o->index = (u16)(o->index + l->accum_offset);
            o->kind = OPERAND_VGPR;
        }
        inside &= o->kind != OPERAND_VGPR || (u32)o->index + o->width <= end;
    }
    return inside;
}

/* Copy the records of a program and bind each to its op; one without op, or with registers that the kernel does not
   have, stops when it is reached. */
static Instruction *bind(const Launch *l) {
    Instruction *code = malloc(l->n_code * sizeof *code);
    const Op **ops = calloc(0x10000, sizeof *ops);
    if (!code || !ops) {
        free(code);
        free(ops);
        return NULL;
    }
    u32 number = 0;
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++)
        for (const Op *op = TABLES[t]; op->name; op++) ops[number++] = op;
    memcpy(code, l->code, l->n_code * sizeof *code);
    for (u64 k = 0; k < l->n_code; k++) {
        Instruction *in = &code[k];
        const Op *op = ops[in->op];
        int inside = place(l, in->dst, in->n_dst) & place(l, in->src, in->n_src);
        in->execute = op && inside ? op->execute : execute_unknown;
        if (!op || !inside) continue;
        in->lanes = op->lanes;
        in->unit = in->flags & FLAG_LDS ? UNIT_LDS_DMA : op->unit;
        in->queue = queue_of(op->unit);
        if (is_plain(in)) in->flags |= FLAG_PLAIN;
        if (strstr(op->name, "_atomic_")) in->flags |= FLAG_ATOMIC;
        if (l->errata && l->hazard_marks[k].flags & MARK_MAY_TAKE_ZERO) in->execute = hazards_take_zero;
    }
    free(ops);
    return code;
}

/* ---- workgroups ---- */

static void start_wave(Group *g, Wave *w, u32 index) {
    const Launch *l = &g->machine->launch;
    memcpy(w->s, l->initial_s, sizeof w->s);
    for (int axis = 0; axis < 3; axis++)
        if (l->id_sgpr[axis] >= 0) w->s[l->id_sgpr[axis]] = g->id[axis];
    for (u32 r = 0; r < l->n_vgprs; r++)
        for (int i = 0; i < LANES; i++) w->v[r][i] = POISON;
    u32 threads = l->block[0] * l->block[1] * l->block[2], live = 0;
    u64 exec = 0;
    for (u32 i = 0; i < LANES; i++) {
        u32 t = index * LANES + i;
        u32 x = t % l->block[0], y = t / l->block[0] % l->block[1], z = t / (l->block[0] * l->block[1]);
        /* packed work-item ids, as many dimensions as the kernel asks for */
        w->v[0][i] = x | (l->work_item_dims > 0 ? y << 10 : 0) | (l->work_item_dims > 1 ? z << 20 : 0);
        if (t < threads) exec |= 1ull << i, live++;
    }
    set_pair(w->s, EXEC, exec);
    w->group = g;
    w->index = index;
    w->pc = l->entry;
    w->mode = l->mode;
    w->scc = w->event = w->barriers = w->busy_v = w->busy_s = 0;
    w->executed = 0;
    w->state = WAVE_READY;
    w->loop_branch = w->loop_target = -1;
    if (w->hazards) hazards_start(w->hazards);
    if (w->order) order_start(w->order);
    memset(w->queue, 0, sizeof w->queue);
    memset(w->tag_v, 0, sizeof w->tag_v);
    memset(w->tag_s, 0, sizeof w->tag_s);
    if (l->scratch_size)
        for (u64 k = 0; k < (u64)l->scratch_size * LANES / 4; k++) ((u32 *)(void *)w->scratch)[k] = POISON;
}

static int start_group(Group *g) {
    Machine *m = g->machine;
    const Launch *l = &m->launch;
    u64 next = __atomic_fetch_add(&m->next, 1, __ATOMIC_RELAXED);
    if (next >= l->n_workgroups) return 0;
    u32 id = l->workgroups[next];
    g->linear = id;
    g->id[0] = id % l->grid[0];
    g->id[1] = id / l->grid[0] % l->grid[1];
    g->id[2] = id / l->grid[0] / l->grid[1];
    g->epoch = 1;
    g->current = 0;
    g->left = 0;
    g->parts = 0;
    g->barriers = g->stores_through = g->writes_back = 0;
    memset(g->written_back, 0, sizeof g->written_back);
    g->seen = g->acquired = NULL;
    g->vector_issued = 0;
    g->stores_waiting = 0;
    g->random = l->seed * 0x9e3779b97f4a7c15ull ^ (id + 1) * 0xbf58476d1ce4e5b9ull;
    for (u32 k = 0; k < (l->lds_size + 3) / 4; k++) ((u32 *)(void *)g->lds)[k] = POISON;
    if (l->races) memset(g->shadow, 0, (l->lds_size + 3) / 4 * sizeof *g->shadow);
    for (u32 k = 0; k < g->n_waves; k++) start_wave(g, &g->waves[k], k);
    if (g->timing) timing_start(g->timing);
    g->active = 1;
    return 1;
}

/* ---- turns ---- */

static void run_wave(Group *g, Wave *w, u64 quantum) {
    Machine *m = g->machine;
    const Instruction *code = m->code;
    u64 *counts = g->counts + (u64)w->index * m->launch.n_code, start = quantum;
    w->event = EVENT_NONE;
    set_float_mode(w->mode);
    while (quantum > 0) {
        const Instruction *in = code + w->pc;
        if ((w->busy_v | w->busy_s) && !registers_ready(w, in)) break;
        if (w->hazards && !hazards_pass(w, in)) break;
        counts[w->pc]++;
        quantum--;
        w->pc++;
        in->execute(w, in);
        if (m->observe) m->observe(g, w, in);
        if (w->event) break;
    }
    w->executed += start - quantum;
}

static void check_limit(Group *g, Wave *w) {
    if (w->executed < g->machine->launch.max_instructions || w->event == EVENT_ERROR || w->event == EVENT_END) return;
    const Instruction *in = g->machine->code + (w->loop_branch >= 0 ? w->loop_branch : w->pc);
    const Wave *waiting = NULL;
    for (u32 k = 0; k < g->n_waves && !waiting; k++)
        if (g->waves[k].state == WAVE_AT_BARRIER) waiting = &g->waves[k];
    if (waiting)
        fail(w, in, FAULT_HANG, -1, "no end after %llu instructions of one wave, and wave %u waits for it at an s_barrier",
             (unsigned long long)w->executed, waiting->index);
    else fail(w, in, FAULT_HANG, -1, "no end after %llu instructions of one wave", (unsigned long long)w->executed);
    if (w->loop_target >= 0) fail_other(w, g->machine->code + w->loop_target, (int)w->index, 0);
}

/* A kernel whose waves all take part in every barrier may ask for this: a wave that misses one then shows. */
static void check_ends(Group *g, Wave *w) {
    for (u32 k = 0; k < g->n_waves; k++) {
        const Wave *other = &g->waves[k];
        if (other->state != WAVE_ENDED || other == w || other->barriers == w->barriers) continue;
        fail(w, g->machine->code + w->pc - 1, FAULT_BARRIER, -1,
             "s_barrier mismatch: wave %u passed %u barriers until its end, wave %u passed %u", w->index, w->barriers,
             other->index, other->barriers);
        return;
    }
}

/* A barrier waits only for waves that have not ended (CDNA4 manual, S_BARRIER). Returns 0 when none is left. */
static int release_barrier(Group *g) {
    u32 waiting = 0;
    for (u32 k = 0; k < g->n_waves; k++) {
        if (g->waves[k].state == WAVE_READY) return 1;
        waiting += g->waves[k].state == WAVE_AT_BARRIER;
    }
    if (!waiting) return 0;
    for (u32 k = 0; k < g->n_waves; k++)
        if (g->waves[k].state == WAVE_AT_BARRIER) g->waves[k].state = WAVE_READY;
    if (g->machine->shadow) order_barrier(g);
    if (++g->epoch >= EPOCH_LIMIT) lds_forget_epochs(g);
    return 1;
}

static u64 next_random(Group *g) {
    g->random += 0x9e3779b97f4a7c15ull;
    u64 x = g->random;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* The wave whose turn it is and the length of the turn. */
static Wave *choose(Group *g, u64 *quantum) {
    const Launch *l = &g->machine->launch;
    if (l->schedule == SCHEDULE_RANDOM) {
        u64 r = next_random(g);
        g->current = (u32)(r % g->n_waves);
        *quantum = 1 + (r >> 32) % 64;
    } else {
        *quantum = l->schedule == SCHEDULE_LOCKSTEP ? l->quantum : 8192;
    }
    while (g->waves[g->current].state != WAVE_READY) g->current = (g->current + 1) % g->n_waves;
    return &g->waves[g->current];
}

/* One turn of one wave. Returns 0 when the workgroup is done. */
static int take_turn(Group *g) {
    if (!release_barrier(g)) return 0;
    u64 quantum;
    Wave *w = choose(g, &quantum);
    run_wave(g, w, quantum);
    if (w->event == EVENT_BARRIER) w->state = WAVE_AT_BARRIER;
    if (w->event == EVENT_END) {
        w->state = WAVE_ENDED;
        if (g->machine->launch.equal_barriers) check_ends(g, w);
    }
    check_limit(g, w);
    if (g->machine->launch.schedule == SCHEDULE_LOCKSTEP) g->current = (g->current + 1) % g->n_waves;
    return 1;
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Run workgroups on one thread for about `seconds`. Returns 1 when there is more to do. */
int rocke_work(Machine *m, u32 thread, double seconds) {
    Group *g = &m->groups[thread];
    double end = seconds_now() + seconds;
#if defined(__x86_64__)
    u32 saved = _mm_getcsr();
#endif
    int more = 1;
    for (u32 turn = 1; !m->stop; turn++) {
        if (!g->active && !start_group(g)) {
            more = 0;
            break;
        }
        if (!take_turn(g)) {
            g->active = 0;
            g->done++;
            if (g->timing && !m->failed) timing_finish(g);
            __atomic_fetch_add(&m->finished, 1, __ATOMIC_RELAXED);
        }
        if (turn % 4 == 0 && seconds_now() > end) break;
    }
#if defined(__x86_64__)
    _mm_setcsr(saved);
#endif
    return more && !m->stop;
}

/* ---- life of a machine ---- */

/* Registers and queues of waves outlive a launch: fresh pages cost more than a small kernel. */
typedef struct WaveMemory {
    u32 v[VGPR_ROWS][LANES];
    Pending slots[SLOTS];
} WaveMemory;

enum { KEPT_WAVES = 64 };
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static WaveMemory *pool[KEPT_WAVES];
static u32 pooled;

static WaveMemory *take_memory(void) {
    pthread_mutex_lock(&pool_lock);
    WaveMemory *memory = pooled ? pool[--pooled] : NULL;
    pthread_mutex_unlock(&pool_lock);
    return memory ? memory : aligned_alloc(64, (sizeof(WaveMemory) + 63) / 64 * 64);
}

static void give_memory(WaveMemory *memory) {
    pthread_mutex_lock(&pool_lock);
    if (memory && pooled < KEPT_WAVES) {
        pool[pooled++] = memory;
        memory = NULL;
    }
    pthread_mutex_unlock(&pool_lock);
    free(memory);
}

static void free_group(Group *g) {
    for (u32 k = 0; g->waves && k < g->n_waves; k++) {
        give_memory(g->waves[k].memory);
        free(g->waves[k].scratch);
        free(g->waves[k].hazards);
        order_destroy(g->waves[k].order);
    }
    free(g->waves);
    free(g->lds);
    free(g->shadow);
    free(g->shadow_bytes);
    free(g->stamps);
    free(g->counts);
    free(g->bank_extra);
    free(g->bank_ideal);
    free(g->uninitialised);
    free(g->banks);
    order_free_group(g);
    timing_destroy(g->timing);
}

static int make_wave(Wave *w, const Launch *l) {
    w->memory = take_memory();
    w->scratch = malloc((size_t)l->scratch_size * LANES + 64);
    if (l->hazard_marks) w->hazards = hazards_create(l);
    if (l->races) w->order = order_create();
    if (!w->memory || !w->scratch || (l->hazard_marks && !w->hazards) || (l->races && !w->order)) return 0;
    w->v = w->memory->v;
    w->slots[QUEUE_VM] = w->memory->slots;
    w->slots[QUEUE_LDS] = w->memory->slots + VM_SLOTS;
    w->slots[QUEUE_SCALAR] = w->memory->slots + VM_SLOTS + LDS_SLOTS;
    return 1;
}

static int make_group(Machine *m, Group *g) {
    const Launch *l = &m->launch;
    g->machine = m;
    g->n_waves = (l->block[0] * l->block[1] * l->block[2] + LANES - 1) / LANES;
    g->lds_size = l->lds_size;
    g->waves = aligned_alloc(64, (g->n_waves * sizeof *g->waves + 63) / 64 * 64);
    if (!g->waves) return 0;
    memset(g->waves, 0, g->n_waves * sizeof *g->waves);
    g->lds = malloc(l->lds_size + 64);
    g->shadow = calloc(l->lds_size / 4 + 1, sizeof *g->shadow);
    g->shadow_bytes = calloc(l->lds_size + 4, sizeof *g->shadow_bytes);
    g->stamps = calloc(l->lds_size / 4 + 1, sizeof *g->stamps);
    g->counts = calloc(g->n_waves * l->n_code, sizeof *g->counts);
    g->bank_extra = calloc(l->n_code, sizeof *g->bank_extra);
    g->bank_ideal = calloc(l->n_code, sizeof *g->bank_ideal);
    g->uninitialised = calloc(l->n_code, sizeof *g->uninitialised);
    g->banks = calloc(l->n_code, sizeof *g->banks);
    int fine = g->lds && g->shadow && g->shadow_bytes && g->stamps && g->counts && g->bank_extra && g->bank_ideal && g->uninitialised && g->banks;
    if (l->timing_model) {
        g->timing = timing_create(l);
        fine = fine && g->timing;
    }
    for (u32 k = 0; k < g->n_waves; k++) fine = make_wave(&g->waves[k], l) && fine;
    return fine;
}

void rocke_destroy(Machine *m) {
    for (u32 k = 0; m->groups && k < m->launch.threads; k++) free_group(&m->groups[k]);
    free(m->groups);
    free(m->records);
    shadow_destroy(m->shadow);
    order_free_segments(m->segments);
    free(m);
}

Machine *rocke_create(const Launch *launch) {
    Machine *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->launch = *launch;
    m->records = bind(launch);
    m->code = m->records;
    m->observe = launch->timing_model ? timing_trace : NULL;
    m->groups = calloc(launch->threads, sizeof *m->groups);
    if (launch->races) {
        m->shadow = shadow_create();
        m->segments = order_create_segments();
    }
    int fine = m->records && m->groups && (!launch->races || (m->shadow && m->segments));
    for (u32 k = 0; fine && k < launch->threads; k++) fine = make_group(m, &m->groups[k]);
    if (fine) return m;
    rocke_destroy(m);
    return NULL;
}

void rocke_stop(Machine *m) { m->stop = 1; }
u64 rocke_finished(const Machine *m) { return __atomic_load_n(&m->finished, __ATOMIC_RELAXED); }
const Fault *rocke_fault(const Machine *m) { return m->failed ? &m->fault : NULL; }

/* ---- results of one thread ---- */

const u64 *rocke_counts(const Machine *m, u32 thread) { return m->groups[thread].counts; }
const u64 *rocke_bank_extra(const Machine *m, u32 thread) { return m->groups[thread].bank_extra; }
const u64 *rocke_bank_ideal(const Machine *m, u32 thread) { return m->groups[thread].bank_ideal; }
const u64 *rocke_uninitialised(const Machine *m, u32 thread) { return m->groups[thread].uninitialised; }
const RaceRecord *rocke_races(const Machine *m, u32 thread, u32 *count) {
    *count = m->groups[thread].n_races;
    return m->groups[thread].races;
}
void rocke_bytes(const Machine *m, u32 thread, u64 out[4]) {
    const Group *g = &m->groups[thread];
    out[0] = g->lds_read, out[1] = g->lds_written, out[2] = g->global_read, out[3] = g->global_written;
}
const TimedWorkgroup *rocke_timed(const Machine *m, u32 thread, u64 *count) {
    const Timing *t = m->groups[thread].timing;
    *count = t->n_done;
    return t->done;
}
/* The trace of a wave of the workgroup that the thread ran last. */
const TraceEntry *rocke_trace(const Machine *m, u32 thread, u32 wave, u64 *count) {
    const WaveTrace *trace = &m->groups[thread].timing->waves[wave];
    *count = trace->count;
    return trace->entries;
}
const u64 *rocke_stalls(const Machine *m, u32 thread) { return m->groups[thread].timing->stalls; }

/* ---- one instruction on a given register state, for tests of single instructions ---- */

/* s: SGPR_ROWS scalars and SCC; v: VGPR_ROWS rows. Returns the record that would be executed next, or -1. */
i32 rocke_step(Machine *m, u32 *s, u32 (*v)[LANES], u8 *lds) {
    Group *g = &m->groups[0];
    Wave *w = &g->waves[0];
    g->linear = 0;
    g->epoch = 1;
    start_wave(g, w, 0);
    memcpy(w->s, s, sizeof w->s);
    w->scc = s[SGPR_ROWS];
    memcpy(w->v, v, VGPR_ROWS * sizeof *w->v);
    if (g->lds_size) memcpy(g->lds, lds, g->lds_size);
#if defined(__x86_64__)
    u32 saved = _mm_getcsr();
#endif
    run_wave(g, w, 1);
    if (w->event != EVENT_ERROR) wait_counters(w, 0, 0);
#if defined(__x86_64__)
    _mm_setcsr(saved);
#endif
    memcpy(s, w->s, sizeof w->s);
    s[SGPR_ROWS] = w->scc;
    memcpy(v, w->v, VGPR_ROWS * sizeof *w->v);
    if (g->lds_size) memcpy(lds, g->lds, g->lds_size);
    return w->event == EVENT_ERROR ? -1 : w->pc;
}

/* Memory operations between their issue and the wait that covers them.

   vmcnt retires in order and counts loads, stores and LDS DMA alike. lgkmcnt counts LDS operations, which are in
   order, and scalar loads, which are not: only lgkmcnt(0) covers a scalar load. A FLAT operation holds both.

   The waves of a workgroup share one L1 cache, which takes their vector memory operations in the order of issue, so
   that a barrier without a wait orders a store and another wave's load (LLVM's memory model for gfx942, which both
   compilers rely on). However late an operation takes effect here, none that was issued earlier sees it, and none that
   was issued later misses it. */
#include <stdio.h>
#include "lds.h"
#include "order.h"
#include "shadow.h"

static const u32 SLOTS_OF[QUEUES] = {VM_SLOTS, LDS_SLOTS, SCALAR_SLOTS};
/* The counters saturate; an operation that would pass the limit waits for the oldest one. */
static const u32 LIMIT_OF[QUEUES] = {63, 15, 31};

static Pending *oldest(Wave *w, int queue) {
    return &w->slots[queue][w->queue[queue].first % SLOTS_OF[queue]];
}

static int loads_registers(const Pending *p) {
    return p->in->n_dst > 0 && p->in->dst[0].kind != OPERAND_NONE;
}

static void tag_registers(Wave *w, const Pending *p) {
    const Operand *o = &p->in->dst[0];
    u32 *tags = o->kind == OPERAND_VGPR ? w->tag_v : w->tag_s;
    u32 *busy = o->kind == OPERAND_VGPR ? &w->busy_v : &w->busy_s;
    for (u32 k = o->index; k < (u32)o->index + o->width; k++) {
        *busy += tags[k] == 0;
        tags[k] = p->sequence;
    }
}

static void release_registers(Wave *w, const Pending *p) {
    const Operand *o = &p->in->dst[0];
    u32 *tags = o->kind == OPERAND_VGPR ? w->tag_v : w->tag_s;
    u32 *busy = o->kind == OPERAND_VGPR ? &w->busy_v : &w->busy_s;
    for (u32 k = o->index; k < (u32)o->index + o->width; k++) {
        if (tags[k] != p->sequence) continue; /* a later load took it over */
        tags[k] = 0;
        *busy -= 1;
    }
}

/* ---- effects ---- */

/* Read the memory of LDS DMA now; it still lands in LDS at its wait. */
static void keep_data(Wave *w, Pending *p) {
    Touched touched;
    if (p->watched) shadow_begin(w, p, &touched);
    for (int i = 0; i < LANES; i++) {
        u8 *kept = (u8 *)p->data + sizeof p->data / LANES * (u32)i;
        u32 valid = 4u * p->valid[i];
        if (!(p->exec >> i & 1)) continue;
        memcpy(kept, (const void *)(uintptr_t)p->address[i], valid < p->lds_step ? valid : p->lds_step);
        p->address[i] = (u64)(uintptr_t)kept;
    }
    p->kept = 1;
    if (p->watched) shadow_end(w, p, &touched);
}

static void take_effect(Wave *w, Pending *p) {
    Touched touched;
    int watched = p->watched && !p->kept && p->effect;
    if (watched) shadow_begin(w, p, &touched);
    if (p->effect) p->effect(w, p);
    if (watched) shadow_end(w, p, &touched);
    p->applied = 1;
    w->group->stores_waiting -= p->stores;
}

/* The first vector memory operation of a wave that has not met memory. */
static Pending *first_waiting(Wave *w) {
    const Queue *q = &w->queue[QUEUE_VM];
    for (u32 k = 0; k < q->count; k++) {
        Pending *p = &w->slots[QUEUE_VM][(q->first + k) % VM_SLOTS];
        if (!p->applied && !p->kept) return p;
    }
    return NULL;
}

/* All vector memory operations of the workgroup that were issued before this one meet memory, in their order. */
static void settle_earlier(Group *g, u64 order) {
    for (;;) {
        Wave *wave = NULL;
        Pending *first = NULL;
        for (u32 k = 0; k < g->n_waves; k++) {
            Pending *p = first_waiting(&g->waves[k]);
            if (!p || p->order >= (first ? first->order : order)) continue;
            first = p;
            wave = &g->waves[k];
        }
        if (!first) return;
        if (first->lds_kind == LDS_DMA) keep_data(wave, first);
        else take_effect(wave, first);
    }
}

static void apply(Wave *w, Pending *p) {
    if (p->applied) return;
    if (p->order && !p->kept && w->group->stores_waiting) settle_earlier(w->group, p->order);
    take_effect(w, p);
}

/* Lanes of a FLAT operation in LDS take effect at once, behind the LDS operations issued before; their counter is
   lgkmcnt, that of the lanes in memory vmcnt, and a record has one effect for all its lanes. */
static void apply_in_lds(Wave *w, Pending *flat) {
    const Queue *q = &w->queue[QUEUE_LDS];
    u64 memory = flat->exec & ~flat->lds_lanes;
    for (u32 k = 0; k < q->count; k++) apply(w, &w->slots[QUEUE_LDS][(q->first + k) % LDS_SLOTS]);
    flat->exec = flat->lds_lanes;
    flat->effect(w, flat);
    flat->exec = memory;
}

static void complete(Wave *w, Pending *p) {
    apply(w, p);
    if (loads_registers(p)) release_registers(w, p);
    if (p->lds_kind) lds_completed(w, p);
}

static void pop(Wave *w, int queue) {
    Pending *p = oldest(w, queue);
    w->queue[queue].first++;
    w->queue[queue].count--;
    if (queue == QUEUE_VM && p->waits & 2) {
        /* past vmcnt, still held by lgkmcnt, which takes it only at zero like a scalar load */
        apply(w, p);
        Pending *copy = issue(w, p->in, QUEUE_SCALAR, 2, p->effect);
        u32 sequence = p->sequence;
        memcpy(copy, p, sizeof *copy);
        copy->waits = 2;
        copy->sequence = sequence;
        return;
    }
    complete(w, p);
}

Pending *issue(Wave *w, const Instruction *in, int queue, int waits, EffectFn *effect) {
    Queue *q = &w->queue[queue];
    while (q->count >= LIMIT_OF[queue]) pop(w, queue);
    Pending *p = &w->slots[queue][(q->first + q->count) % SLOTS_OF[queue]];
    q->count++;
    p->in = in;
    p->effect = effect;
    p->waits = (u8)waits;
    p->applied = p->stores = p->kept = 0;
    p->lds_kind = 0;
    p->watched = 0;
    p->watched_size = 0;
    p->order = queue == QUEUE_VM ? ++w->group->vector_issued : 0;
    p->epoch = (u16)w->group->epoch;
    p->exec = p->lds_lanes = exec_of(w);
    w->sequence += 4;
    if (w->sequence == 0) w->sequence = 4;
    p->sequence = w->sequence | (u32)queue;
    return p;
}

/* The caller has filled in addresses and data: from here on the operation is in flight. */
void issued(Wave *w, Pending *p) {
    if (w->event == EVENT_ERROR) {
        p->effect = NULL;
        return;
    }
    if (loads_registers(p)) tag_registers(w, p);
    if (p->lds_kind) lds_issued(w, p);
    if (p->lds_kind && p->lds_kind != LDS_DMA && p->order) apply_in_lds(w, p);
    if (p->watched) order_issued(w, p);
    w->group->stores_waiting += p->stores;
    if (!w->group->machine->launch.lazy) take_effect(w, p);
}

void wait_counters(Wave *w, u32 vmcnt, u32 lgkmcnt) {
    if (lgkmcnt == 0) {
        Queue *q = &w->queue[QUEUE_VM];
        for (u32 k = 0; k < q->count; k++) {
            Pending *p = &w->slots[QUEUE_VM][(q->first + k) % VM_SLOTS];
            if (p->waits & 2 && p->lds_kind) { /* the lanes of a FLAT operation in LDS are done */
                lds_completed(w, p);
                p->lds_kind = 0;
            }
            p->waits &= (u8)~2;
        }
    }
    while (w->queue[QUEUE_VM].count > vmcnt) pop(w, QUEUE_VM);
    while (w->queue[QUEUE_LDS].count > lgkmcnt) pop(w, QUEUE_LDS);
    while (lgkmcnt == 0 && w->queue[QUEUE_SCALAR].count > 0) pop(w, QUEUE_SCALAR);
}

static const Pending *find_pending(Wave *w, u32 sequence) {
    for (int queue = 0; queue < QUEUES; queue++)
        for (u32 k = 0; k < w->queue[queue].count; k++) {
            const Pending *p = &w->slots[queue][(w->queue[queue].first + k) % SLOTS_OF[queue]];
            if (p->sequence == sequence) return p;
        }
    return NULL;
}

static const char *register_name(const Wave *w, int vector, u32 index, char name[16]) {
    static const char *const special[SGPR_ROWS] = {
        [102] = "flat_scratch_lo", "flat_scratch_hi", "xnack_mask_lo", "xnack_mask_hi",
        [VCC] = "vcc_lo", "vcc_hi"};
    u32 first = w->group->machine->launch.accum_offset;
    if (!vector && special[index]) return special[index];
    snprintf(name, 16, "%c%u", !vector ? 's' : index < first ? 'v' : 'a', vector && index >= first ? index - first : index);
    return name;
}

static int range_ready(Wave *w, const Instruction *in, const Operand *o, int is_destination) {
    int vector = o->kind == OPERAND_VGPR;
    if (!vector && o->kind != OPERAND_SGPR) return 1;
    const u32 *tags = vector ? w->tag_v : w->tag_s;
    for (u32 k = o->index; k < (u32)o->index + o->width; k++) {
        if (tags[k] == 0) continue;
        /* loads of one queue return in order, so a later one may name the same destination */
        if (is_destination && (in->queue == QUEUE_VM || in->queue == QUEUE_LDS) && (tags[k] & 3) == in->queue) continue;
        const Pending *p = find_pending(w, tags[k]);
        char name[16];
        fail(w, in, FAULT_EARLY, -1, "early %s of %s: its load has not been waited for",
             is_destination ? "overwriting" : "read", register_name(w, vector, k, name));
        if (p) fail_other(w, p->in, (int)w->index, 0);
        return 0;
    }
    return 1;
}

int registers_ready(Wave *w, const Instruction *in) {
    for (int k = 0; k < in->n_src; k++)
        if (!range_ready(w, in, &in->src[k], 0)) return 0;
    for (int k = 0; k < in->n_dst; k++)
        if (!range_ready(w, in, &in->dst[k], 1)) return 0;
    return 1;
}

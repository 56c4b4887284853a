/* Memory operations between their issue and the wait that covers them.

   vmcnt retires in order and counts loads, stores and LDS DMA alike. lgkmcnt counts LDS operations, which are in
   order, and scalar loads, which are not: only lgkmcnt(0) covers a scalar load. A FLAT operation holds both. */
#include "lds.h"

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

static void complete(Wave *w, Pending *p) {
    if (!p->applied && p->effect) p->effect(w, p);
    p->applied = 1;
    if (loads_registers(p)) release_registers(w, p);
    if (p->lds_kind) lds_completed(w, p);
}

static void pop(Wave *w, int queue) {
    Pending *p = oldest(w, queue);
    w->queue[queue].first++;
    w->queue[queue].count--;
    if (queue == QUEUE_VM && p->waits & 2) {
        /* past vmcnt, still held by lgkmcnt, which takes it only at zero like a scalar load */
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
    p->applied = 0;
    p->lds_kind = 0;
    p->epoch = (u16)w->group->epoch;
    p->exec = exec_of(w);
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
    if (w->group->machine->launch.lazy) return;
    if (p->effect) p->effect(w, p);
    p->applied = 1;
}

void wait_counters(Wave *w, u32 vmcnt, u32 lgkmcnt) {
    if (lgkmcnt == 0) {
        Queue *q = &w->queue[QUEUE_VM];
        for (u32 k = 0; k < q->count; k++) w->slots[QUEUE_VM][(q->first + k) % VM_SLOTS].waits &= (u8)~2;
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

static int range_ready(Wave *w, const Instruction *in, const Operand *o, int is_destination) {
    int vector = o->kind == OPERAND_VGPR;
    if (!vector && o->kind != OPERAND_SGPR) return 1;
    const u32 *tags = vector ? w->tag_v : w->tag_s;
    for (u32 k = o->index; k < (u32)o->index + o->width; k++) {
        if (tags[k] == 0) continue;
        /* loads of one queue return in order, so a later one may name the same destination */
        if (is_destination && (in->queue == QUEUE_VM || in->queue == QUEUE_LDS) && (tags[k] & 3) == in->queue) continue;
        const Pending *p = find_pending(w, tags[k]);
        fail(w, in, FAULT_EARLY, -1, "early %s of %c%u: its load has not been waited for",
             is_destination ? "overwriting" : "read", vector ? 'v' : 's', k);
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

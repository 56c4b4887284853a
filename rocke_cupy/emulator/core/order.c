/* Within a workgroup barriers order accesses, since its waves have one L1 cache that takes them as they are issued (see
   pending.c), and so do atomics. Between workgroups atomics do, with what LLVM's memory model for gfx942 asks for: the
   writer waits for its stores and writes the L2 back (buffer_wbl2 sc1) before it changes the atomic; the reader, which
   finds that or a later change, then invalidates its caches (buffer_inv sc1). Each die has an L2 of its own, and no code
   can rely on where workgroups run, so any two count as on different dies. */
#include <pthread.h>
#include <stdlib.h>
#include "order.h"

/* ---- memory that lives as long as the machine ---- */

typedef struct Block {
    struct Block *next;
    u32 used;
    u8 bytes[65536 - 16];
} Block;

static void *allocate(Group *g, u32 size) {
    Block *b = g->blocks;
    if (!b || b->used + size > sizeof b->bytes) {
        b = malloc(sizeof *b);
        if (!b) abort();
        b->next = g->blocks;
        b->used = 0;
        g->blocks = b;
    }
    b->used += size;
    return b->bytes + b->used - size;
}

void order_free_group(Group *g) {
    for (Block *b = g->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
}

/* ---- segments ---- */

enum { CHUNK_BITS = 16, CHUNKS = 1 << 16 };
struct Segments {
    u32 count; /* given away so far; number 0 is none */
    pthread_mutex_t lock;
    Segment *chunks[CHUNKS];
};

static Segment *place_of(Segments *s, u32 number) {
    Segment **chunk = &s->chunks[number >> CHUNK_BITS];
    Segment *there = __atomic_load_n(chunk, __ATOMIC_ACQUIRE);
    if (!there) {
        pthread_mutex_lock(&s->lock);
        if (!*chunk) {
            there = malloc(sizeof *there << CHUNK_BITS);
            if (!there) abort();
            __atomic_store_n(chunk, there, __ATOMIC_RELEASE);
        }
        there = *chunk;
        pthread_mutex_unlock(&s->lock);
    }
    return &there[number & ((1u << CHUNK_BITS) - 1)];
}

Segments *order_create_segments(void) {
    Segments *s = calloc(1, sizeof *s);
    if (s) pthread_mutex_init(&s->lock, NULL);
    return s;
}

void order_free_segments(Segments *s) {
    for (u32 k = 0; s && k < CHUNKS; k++) {
        if (!s->chunks[k]) break;
        free(s->chunks[k]);
    }
    free(s);
}

static u32 segment_of_wave(Wave *w) {
    Order *o = w->order;
    if (!o->segment) {
        Segments *s = w->group->machine->segments;
        o->segment = o->last = __atomic_add_fetch(&s->count, 1, __ATOMIC_RELAXED);
        *place_of(s, o->segment) = (Segment){w->group->linear, w->group->barriers, w->index};
    }
    return o->segment;
}

const Segment *segment_at(const Machine *m, u32 number) { return place_of(m->segments, number); }

/* ---- what a wave knows of other workgroups ---- */

/* The place of a release in the table, or of the free entry where it belongs. Those of one workgroup stand together. */
static u32 find(const Facts *f, const Release *release) {
    u32 k = release->workgroup * 0x9e3779b1u & (f->size - 1);
    while (f->table[k] && f->table[k] != release) k = (k + 1) & (f->size - 1);
    return k;
}

static void grow(Facts *f) {
    Facts larger = {calloc(f->size ? 2 * (size_t)f->size : 64, sizeof *f->table), f->size ? 2 * f->size : 64, f->count, f->learnt};
    if (!larger.table) abort();
    for (u32 k = 0; k < f->size; k++)
        if (f->table[k]) larger.table[find(&larger, f->table[k])] = f->table[k];
    free((void *)f->table);
    *f = larger;
}

/* Returns 0 if it was known. */
static int learn(Facts *f, const Release *release) {
    if (2 * f->count >= f->size) grow(f);
    u32 k = find(f, release);
    if (f->table[k]) return 0;
    f->table[k] = release;
    f->count++;
    return 1;
}

/* Learn all that a list leads to, through what the waves of its releases knew. */
static void learn_all(Facts *f, const Known *list) {
    u32 count = 0, room = 0;
    const Known **left = NULL;
    for (const Known *known = list; known || count; known = known ? known->next : left[--count]) {
        if (!known || !learn(f, known->release) || !known->release->known) continue;
        if (count == room) {
            room = room ? 2 * room : 16;
            left = realloc((void *)left, room * sizeof *left);
            if (!left) abort();
        }
        left[count++] = known->release->known;
    }
    free((void *)left);
    f->learnt = list;
}

static int is_known(Facts *f, const Known *list, const Segment *s, u32 number, int through) {
    if (f->learnt != list) learn_all(f, list);
    if (!f->size) return 0;
    for (u32 k = s->workgroup * 0x9e3779b1u & (f->size - 1); f->table[k]; k = (k + 1) & (f->size - 1)) {
        const Release *r = f->table[k];
        if (r->workgroup != s->workgroup) continue;
        if (s->barriers < r->barriers || number <= r->segments[s->wave]) return 1;
        if (through && (s->barriers < r->through_barriers || (s->wave == r->wave && number <= r->through))) return 1;
    }
    return 0;
}

int comes_before(Wave *w, const Pending *p, u32 segment, int through, int cached) {
    const Machine *m = w->group->machine;
    const Segment *s = segment_at(m, segment), *mine = segment_at(m, p->segment);
    Order *o = w->order;
    if (s->workgroup == mine->workgroup)
        return s->wave == mine->wave || s->barriers != mine->barriers || segment <= o->known_waves[s->wave];
    return cached ? is_known(&o->acquired_facts, o->acquired, s, segment, through)
                  : is_known(&o->seen_facts, o->seen, s, segment, through);
}

/* ---- atomic variables ---- */

static const Known *with(Group *g, const Known *list, const Release *release) {
    if (list && list->release == release) return list;
    Known *known = allocate(g, sizeof *known);
    *known = (Known){release, list};
    return known;
}

void order_see(Wave *w, const Release *release) {
    if (release) w->order->seen = with(w->group, w->order->seen, release);
}

/* The first vector memory operation of a wave that its waits have not covered. */
static u64 first_outstanding(const Wave *w) {
    const Queue *q = &w->queue[QUEUE_VM];
    return q->count ? w->slots[QUEUE_VM][q->first % VM_SLOTS].order : ~0ull;
}

/* The wait may stand before or behind the write back: compilers leave it out where nothing is outstanding. */
static int has_written_back(const Order *o, u64 outstanding) { return o->writes_back && outstanding > o->written_back_order; }

const Release *order_release(Wave *w, const Pending *p) {
    Group *g = w->group;
    Order *o = w->order;
    int back = has_written_back(o, p->first_outstanding), through = g->stores_through && p->first_outstanding == p->order;
    if (!back && !through && !o->done && !g->writes_back) return NULL;
    Release *r = allocate(g, sizeof *r);
    *r = (Release){.workgroup = g->linear, .wave = w->index, .known = o->seen};
    memcpy(r->segments, g->written_back, sizeof r->segments);
    if (o->done) r->segments[w->index] = o->done, r->barriers = o->done_barriers;
    if (back) r->segments[w->index] = o->written_back, r->barriers = o->written_back_barriers;
    if (through) r->through = p->segment, r->through_barriers = segment_at(g->machine, p->segment)->barriers;
    return r;
}

void order_issued(Wave *w, Pending *p) {
    Group *g = w->group;
    Order *o = w->order;
    p->segment = segment_of_wave(w);
    p->first_outstanding = first_outstanding(w); /* this one, if no other is */
    if (p->reach < ON_DEVICE || !p->changes) return;
    g->stores_through |= p->reach == ON_DEVICE;
    if (o->writes_back || g->writes_back || g->stores_through) o->segment = 0; /* what follows is not part of a release */
}

void order_write_back(Wave *w) {
    Order *o = w->order;
    if (has_written_back(o, first_outstanding(w))) o->done = o->written_back, o->done_barriers = o->written_back_barriers;
    o->writes_back = 1;
    o->written_back = o->last;
    o->written_back_barriers = w->group->barriers;
    o->written_back_order = w->group->vector_issued;
    o->segment = 0;
}

void order_invalidate(Wave *w) { w->order->acquired = w->order->seen; }

/* ---- waves and barriers ---- */

Order *order_create(void) { return calloc(1, sizeof(Order)); }

void order_destroy(Order *o) {
    if (!o) return;
    free((void *)o->seen_facts.table);
    free((void *)o->acquired_facts.table);
    free(o);
}

static void forget(Facts *f) {
    if (f->count) memset((void *)f->table, 0, f->size * sizeof *f->table);
    f->count = 0;
    f->learnt = NULL;
}

void order_start(Order *o) {
    forget(&o->seen_facts);
    forget(&o->acquired_facts);
    *o = (Order){.seen_facts = o->seen_facts, .acquired_facts = o->acquired_facts};
}

static const Known *joined(Group *g, const Known *list, const Known *more, const Known *common) {
    for (; more && more != common; more = more->next) list = with(g, list, more->release);
    return list;
}

/* What waves know and have made visible comes together at a barrier. */
void order_barrier(Group *g) {
    const Known *seen = g->seen, *acquired = g->acquired;
    g->barriers++;
    for (u32 k = 0; k < g->n_waves; k++) {
        const Order *o = g->waves[k].order;
        if (has_written_back(o, first_outstanding(&g->waves[k]))) {
            g->written_back[k] = o->written_back;
            g->writes_back = 1;
        }
        seen = joined(g, seen, o->seen, g->seen);
        acquired = joined(g, acquired, o->acquired, g->acquired);
    }
    g->seen = seen;
    g->acquired = acquired;
    for (u32 k = 0; k < g->n_waves; k++) {
        Order *o = g->waves[k].order;
        o->segment = 0;
        o->seen = seen;
        o->acquired = acquired;
    }
}

/* Each byte has a record of its last write and its last read: by which instruction, in which segment of a wave (order.h).
   An access races with one of them that does not come before it, whatever the order in which this run executed them.

   The records are kept for dwords, until parts of one are told apart: then its page gets records for bytes. The pages of an
   operation are locked while it takes effect, since other host threads run other workgroups. */
#include <pthread.h>
#include <stdlib.h>
#include "order.h"
#include "shadow.h"

enum { PAGE_BITS = 12, PAGE_DWORDS = 1 << (PAGE_BITS - 2), BUCKETS = 1 << 12 };
enum { MOST_PAGES = 1 << 16 }; /* 256 MiB of the launch's memory, 1 GiB here; what goes beyond is not watched */

/* segment (31:0), instruction (57:32), bytes (61:58), and (63:62) of a write its reach, of a read who else read */
typedef struct Cell {
    u64 write, read;
} Cell;
enum { READ_BY_ONE, READ_BY_WAVES, READ_BY_WORKGROUPS };

struct Page {
    Page *next;
    u64 number;
    u32 lock;
    Cell *bytes;              /* instead of the cells */
    const Release **released; /* what each dword as an atomic variable was last written with */
    Cell cells[PAGE_DWORDS];
};

struct ShadowMemory {
    pthread_mutex_t lock;
    u32 count;
    Page *buckets[BUCKETS];
};

static inline u32 segment_of(u64 record) { return (u32)record; }
static inline u32 pc_of(u64 record) { return (u32)(record >> 32) & 0x3ffffff; }
static inline u32 bytes_of(u64 record) { return (u32)(record >> 58) & 15; }
static inline u32 extra_of(u64 record) { return (u32)(record >> 62); }
static inline u64 record_of(u32 segment, u32 pc, u32 bytes, u32 extra) {
    return segment | (u64)pc << 32 | (u64)bytes << 58 | (u64)extra << 62;
}

/* ---- pages ---- */

ShadowMemory *shadow_create(void) {
    ShadowMemory *m = calloc(1, sizeof *m);
    if (m) pthread_mutex_init(&m->lock, NULL);
    return m;
}

void shadow_destroy(ShadowMemory *m) {
    for (u32 k = 0; m && k < BUCKETS; k++)
        for (Page *page = m->buckets[k], *next; page; page = next) {
            next = page->next;
            free(page->bytes);
            free((void *)page->released);
            free(page);
        }
    free(m);
}

static Page *look_up(Page *page, u64 number) {
    while (page && page->number != number) page = page->next;
    return page;
}

/* NULL if there are too many. */
static Page *page_of(ShadowMemory *m, u64 number) {
    Page **bucket = &m->buckets[(number ^ number >> 12) & (BUCKETS - 1)];
    Page *page = look_up(__atomic_load_n(bucket, __ATOMIC_ACQUIRE), number);
    if (page) return page;
    pthread_mutex_lock(&m->lock);
    page = look_up(*bucket, number);
    if (!page && m->count < MOST_PAGES && (page = calloc(1, sizeof *page))) {
        m->count++;
        page->number = number;
        page->next = *bucket;
        __atomic_store_n(bucket, page, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&m->lock);
    return page;
}

static void lock_page(Page *page) {
    while (__atomic_exchange_n(&page->lock, 1, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(&page->lock, __ATOMIC_RELAXED)) sched_yield();
}
static void unlock_page(Page *page) { __atomic_store_n(&page->lock, 0, __ATOMIC_RELEASE); }

static void touch(ShadowMemory *m, Touched *t, u64 number) {
    for (u32 k = t->count; k-- > 0;)
        if (t->pages[k]->number == number) return;
    Page *page = page_of(m, number);
    if (page) t->pages[t->count++] = page;
}

/* In one order for all threads, so that none waits for another that waits for it. */
static void lock_all(Touched *t) {
    for (u32 k = 1; k < t->count; k++)
        for (u32 n = k; n > 0 && t->pages[n - 1] > t->pages[n]; n--) {
            Page *page = t->pages[n];
            t->pages[n] = t->pages[n - 1];
            t->pages[n - 1] = page;
        }
    for (u32 k = 0; k < t->count; k++) lock_page(t->pages[k]);
}

static u64 parts_of(u64 record, u32 byte) {
    return bytes_of(record) >> byte & 1 ? (record & ~(15ull << 58)) | 1ull << 58 : 0;
}

static void split(Page *page) {
    page->bytes = calloc(4 * PAGE_DWORDS, sizeof *page->bytes);
    if (!page->bytes) abort();
    for (u32 k = 0; k < 4 * PAGE_DWORDS; k++) {
        const Cell *whole = &page->cells[k / 4];
        page->bytes[k] = (Cell){parts_of(whole->write, k % 4), parts_of(whole->read, k % 4)};
    }
}

/* ---- reports ---- */

typedef struct Access {
    Wave *w;
    Pending *p;
    Touched *t;
    u32 pc, segment;
    int lane, byte_cells;
    u64 passed;          /* the last write that it may read */
    u64 read, read_next; /* the last record of reads, and what `read_bytes` made of it */
    u32 read_bytes;
} Access;

static void collect(const Access *a, u64 record, int wave, u64 address) {
    Group *g = a->w->group;
    for (u32 k = 0; k < g->n_races; k++)
        if (g->races[k].pc == (i32)a->pc && g->races[k].other_pc == (i32)pc_of(record)) {
            g->races[k].count++;
            return;
        }
    if (g->n_races < MAX_RACES)
        g->races[g->n_races++] =
            (RaceRecord){(i32)a->pc, (i32)pc_of(record), (i32)a->w->index, wave, g->linear, 1, address, 1};
}

static void report(const Access *a, u64 record, u64 address, const char *what, const char *how) {
    Machine *m = a->w->group->machine;
    const Segment *s = segment_at(m, segment_of(record));
    if (m->launch.races != 1) {
        collect(a, record, (int)s->wave, address);
        return;
    }
    if (a->w->event == EVENT_ERROR) return;
    if (!how) how = s->workgroup == a->w->group->linear ? "no barrier in between" : "no release and acquire by atomics in between";
    fail(a->w, a->p->in, FAULT_GLOBAL_RACE, a->lane, "global race: %s wave %u of workgroup %u, %s", what, s->wave, s->workgroup,
         how);
    fail_other(a->w, m->code + pc_of(record), (int)s->wave, address);
}

/* ---- checks ---- */

static int same_workgroup(const Access *a, const Segment *s) { return s->workgroup == a->w->group->linear; }

/* Another wave of the workgroup wrote an atomic variable that this one reads: what it did before comes before. */
static void follow(const Access *a, u64 write, const Segment *s) {
    u32 *known = &a->w->order->known_waves[s->wave];
    if (same_workgroup(a, s) && segment_of(write) > *known) *known = segment_of(write);
}

static void check_read(const Access *a, u64 write, u64 address) {
    const Segment *s = segment_at(a->w->group->machine, segment_of(write));
    u32 reach = a->p->reach, other = extra_of(write);
    if (reach && other && (same_workgroup(a, s) || (reach >= ON_DEVICE && other >= ON_DEVICE))) {
        follow(a, write, s);
        return;
    }
    /* Loops around a compare-and-swap begin with a plain read, which may be old. */
    if (other == ATOMIC_CHANGE) return;
    if (comes_before(a->w, a->p, segment_of(write), other >= ON_DEVICE, reach < ON_DEVICE)) return;
    const char *stale = comes_before(a->w, a->p, segment_of(write), other >= ON_DEVICE, 0)
                            ? "an atomic tells that it is there, but no buffer_inv sc1 since" : NULL;
    report(a, write, address, "read of what was written by", stale);
}

/* Readers that are not known by name come before if they are of this workgroup, and it has passed a barrier since. */
static int readers_come_before(const Access *a, u64 read) {
    const Segment *s = segment_at(a->w->group->machine, segment_of(read));
    const Segment *mine = segment_at(a->w->group->machine, a->segment);
    int last = comes_before(a->w, a->p, segment_of(read), 0, 0);
    if (extra_of(read) == READ_BY_ONE) return last;
    if (extra_of(read) == READ_BY_WAVES && same_workgroup(a, s)) return s->barriers != mine->barriers;
    return same_workgroup(a, s) ? a->w->order->seen != NULL : last;
}

/* Whether it writes what is there is seen once it has. */
static void keep_conflict(const Access *a, u64 write, u32 bytes, u64 address) {
    u32 spread = (bytes & 1) * 0xff | (bytes >> 1 & 1) * 0xff00 | (bytes >> 2 & 1) * 0xff0000 | (bytes >> 3 & 1) * 0xff000000u;
    if (a->t->conflicts >= MAX_CONFLICTS) return;
    Conflict *c = &a->w->group->conflicts[a->t->conflicts++];
    *c = (Conflict){write, address, 0, a->byte_cells ? 0xffu << 8 * (address & 3) : spread, a->lane};
    memcpy(&c->old, (const void *)(uintptr_t)(address & ~3ull), 4);
}

static void check_write(const Access *a, const Cell *c, u32 bytes, u64 address) {
    u32 reach = a->p->reach, other = extra_of(c->write);
    if (bytes_of(c->write) & bytes && segment_of(c->write) != a->segment) {
        const Segment *s = segment_at(a->w->group->machine, segment_of(c->write));
        if (reach && other && (same_workgroup(a, s) || (reach >= ON_DEVICE && other >= ON_DEVICE))) follow(a, c->write, s);
        else if (!comes_before(a->w, a->p, segment_of(c->write), other >= ON_DEVICE, 0))
            keep_conflict(a, c->write, bytes & bytes_of(c->write), address);
    }
    if (reach != ATOMIC_CHANGE && bytes_of(c->read) & bytes && (segment_of(c->read) != a->segment || extra_of(c->read)) &&
        !readers_come_before(a, c->read))
        report(a, c->read, address, "write over what is read by",
               extra_of(c->read) == READ_BY_WORKGROUPS ? "and in other workgroups, no release and acquire by atomics in between" : NULL);
}

/* ---- records ---- */

/* Readers that come before this one need not be kept: who comes behind it comes behind them. */
static u64 read_also(Access *a, u64 read, u32 bytes) {
    u32 segment = segment_of(read), extra = READ_BY_ONE;
    if (segment == a->segment) return read | (u64)bytes << 58;
    if (segment && extra_of(read) == READ_BY_WORKGROUPS && !a->w->order->seen) return read;
    if (segment && !readers_come_before(a, read)) {
        const Segment *s = segment_at(a->w->group->machine, segment);
        extra = same_workgroup(a, s) && extra_of(read) != READ_BY_WORKGROUPS ? READ_BY_WAVES : READ_BY_WORKGROUPS;
    }
    return record_of(a->segment, a->pc, bytes, extra);
}

static u64 write_also(const Access *a, u64 write, u32 bytes) {
    if (segment_of(write) != a->segment) return record_of(a->segment, a->pc, bytes, a->p->reach);
    u32 reach = extra_of(write) < a->p->reach ? extra_of(write) : a->p->reach;
    return record_of(a->segment, a->pc, bytes | bytes_of(write), reach);
}

/* The records of a dword are one each: whether they cannot say what this access adds. */
static inline int tells_apart(const Access *a, const Cell *c, u32 bytes) {
    u64 record = a->p->changes ? c->write : c->read;
    u32 lost = a->p->changes ? bytes_of(record) & ~bytes : bytes_of(record) ^ bytes;
    return lost && segment_of(record) && segment_of(record) != a->segment;
}

static inline void visit_cell(Access *a, Cell *c, u32 bytes, u64 address) {
    if (a->p->changes) {
        if (c->write | c->read) check_write(a, c, bytes, address);
        c->write = write_also(a, c->write, bytes);
        return;
    }
    if (bytes_of(c->write) & bytes && segment_of(c->write) != a->segment && c->write != a->passed) {
        check_read(a, c->write, address);
        a->passed = c->write;
    }
    if (a->p->reach) return; /* it reads an atomic variable, which others may change */
    if (c->read != a->read || bytes != a->read_bytes) {
        a->read_next = read_also(a, c->read, bytes);
        a->read = c->read;
        a->read_bytes = bytes;
    }
    c->read = a->read_next;
}

static void visit_dword(Access *a, Page *page, u64 address, u32 bytes) {
    u32 index = (u32)(address >> 2) & (PAGE_DWORDS - 1);
    Cell *c = &page->cells[index];
    if (!page->bytes && tells_apart(a, c, bytes)) split(page);
    a->byte_cells = page->bytes != NULL;
    if (!page->bytes) {
        visit_cell(a, c, bytes, address);
        return;
    }
    for (u32 k = 0; k < 4; k++)
        if (bytes >> k & 1) visit_cell(a, &page->bytes[4 * index + k], 1, (address & ~3ull) + k);
}

/* ---- operations ---- */

/* Registers past the end of a buffer resource are not there. */
static u32 bytes_of_lane(const Pending *p, int lane) {
    u32 valid = 4u * p->valid[lane];
    return p->in->unit == UNIT_SMEM || valid > p->watched_size ? p->watched_size : valid;
}

static Page *page_at(const Touched *t, Page *last, u64 address) {
    u64 number = address >> PAGE_BITS;
    if (last && last->number == number) return last;
    for (u32 k = 0; k < t->count; k++)
        if (t->pages[k]->number == number) return t->pages[k];
    return NULL;
}

static void visit_lane(Access *a, Page **page, u64 start, u64 end) {
    for (u64 at = start; at < end; at = (at & ~3ull) + 4) {
        u64 stop = (at & ~3ull) + 4 < end ? (at & ~3ull) + 4 : end;
        *page = page_at(a->t, *page, at);
        if (*page) visit_dword(a, *page, at, ((1u << (stop - at)) - 1) << (at & 3));
    }
}

/* What an operation on the device's atomic variables finds there and leaves behind. A change without a release leaves what
   there was, a store does not. */
static void synchronise(const Access *a) {
    const Pending *p = a->p;
    Page *page = NULL;
    for (u64 lanes = p->watched; lanes; lanes &= lanes - 1) {
        u64 address = p->address[__builtin_ctzll(lanes)];
        page = page_at(a->t, page, address);
        if (page && page->released && (p->reach == ATOMIC_CHANGE || !p->changes))
            order_see(a->w, page->released[address >> 2 & (PAGE_DWORDS - 1)]);
    }
    const Release *left = p->changes ? order_release(a->w, p) : NULL;
    for (u64 lanes = left || (p->changes && p->reach != ATOMIC_CHANGE) ? p->watched : 0; lanes; lanes &= lanes - 1) {
        u64 address = p->address[__builtin_ctzll(lanes)];
        page = page_at(a->t, page, address);
        if (page && left && !page->released) page->released = calloc(PAGE_DWORDS, sizeof *page->released);
        if (page && page->released) page->released[address >> 2 & (PAGE_DWORDS - 1)] = left;
    }
}

void shadow_watch(Pending *p, u64 lanes, u32 size, int write) {
    u32 flags = p->in->flags;
    p->watched |= lanes;
    if (size > p->watched_size) p->watched_size = (u8)size;
    p->changes = (u8)write;
    p->reach = flags & FLAG_ATOMIC ? ATOMIC_CHANGE : flags & FLAG_SC1 ? ON_DEVICE : flags & FLAG_SC0 ? IN_WORKGROUP : PLAIN;
}

void shadow_begin(Wave *w, Pending *p, Touched *t) {
    ShadowMemory *m = w->group->machine->shadow;
    Access a = {.w = w, .p = p, .t = t, .pc = (u32)position(w, p->in), .segment = p->segment, .read = ~0ull};
    Page *page = NULL;
    t->count = t->conflicts = 0;
    for (u64 lanes = p->watched; lanes; lanes &= lanes - 1) {
        int lane = __builtin_ctzll(lanes);
        u64 first = p->address[lane] >> PAGE_BITS, last = (p->address[lane] + bytes_of_lane(p, lane) - 1) >> PAGE_BITS;
        touch(m, t, first);
        if (last != first) touch(m, t, last);
    }
    lock_all(t);
    for (u64 lanes = p->watched; lanes; lanes &= lanes - 1) {
        a.lane = __builtin_ctzll(lanes);
        visit_lane(&a, &page, p->address[a.lane], p->address[a.lane] + bytes_of_lane(p, a.lane));
    }
    if (p->reach >= ON_DEVICE) synchronise(&a);
}

/* Two writes of the same value do not race: what the second one leaves as it was, it may write. */
void shadow_end(Wave *w, Pending *p, Touched *t) {
    Access a = {.w = w, .p = p, .t = t, .pc = (u32)position(w, p->in)};
    for (u32 k = 0; k < t->conflicts && k < MAX_CONFLICTS; k++) {
        const Conflict *c = &w->group->conflicts[k];
        u32 now;
        memcpy(&now, (const void *)(uintptr_t)(c->address & ~3ull), 4);
        if (!((now ^ c->old) & c->mask)) continue;
        a.lane = c->lane;
        report(&a, c->write, c->address, "write over what was written by", NULL);
    }
    for (u32 k = 0; k < t->count; k++) unlock_page(t->pages[k]);
}

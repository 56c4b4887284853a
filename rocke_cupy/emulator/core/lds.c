/* Race checks. An access spans the barrier epochs from its issue to the wait that covers it; two accesses of
   different waves that overlap, one of them a write, race. All waves of a workgroup are in the same epoch, so it
   is enough to compare each new access with the last write and the last reads of its dwords, and to look once
   more when an access completes in a later epoch than it was issued in. */
#include "lds.h"
#include "order.h"

int lds_in_bounds(Wave *w, const Instruction *in, u64 exec, const u32 *address, u32 size) {
    u32 limit = w->group->lds_size, outside = limit < size;
    for (int i = 0; i < LANES; i++) outside |= address[i] > limit - size;
    if (!outside) return 1; /* off lanes included: the common case, without a branch for each */
    for (int i = 0; i < LANES; i++) {
        if (!(exec >> i & 1) || (address[i] <= limit && limit - address[i] >= size)) continue;
        fail(w, in, FAULT_LDS_BOUNDS, i, "LDS access of %u bytes at address %u is outside the %u bytes of the workgroup",
             size, address[i], limit);
        return 0;
    }
    return 1;
}

int lds_aligned(Wave *w, const Pending *p, u32 size, const char *what) {
    u32 low = 0;
    for (int i = 0; i < LANES; i++) low |= p->lds[i];
    for (int i = 0; low & (size - 1) && i < LANES; i++) { /* off lanes do not count */
        if (!(p->exec >> i & 1) || p->lds[i] % size == 0) continue;
        fail_misaligned(w, p->in, i, what, p->lds[i], size);
        return 0;
    }
    return 1;
}

/* LDS_ADDR = base + M0[17:0] + offset + lane * 4, or lane * 16 for three and four dwords, of which x3 skips the
   fourth (CDNA4 instruction set manual, 9.1.9). */
void lds_dma_addresses(Wave *w, const Instruction *in, Pending *p, u32 size) {
    u32 first = (w->s[M0] & 0x3ffff) + (u32)in->offset, stride = size > 4 ? 16 : 4;
    if (first % 4) fail_misaligned(w, in, -1, "place of LDS DMA", first, 4);
    for (u32 i = 0; i < LANES; i++) p->lds[i] = first + i * stride;
    p->lds_size = (u8)size;
    p->lds_parts = 1;
    p->lds_step = 0;
}

/* For the report of the launch, where races are collected. */
static void collect_race(Wave *w, const Instruction *in, u32 other_pc, int other_wave, u32 address) {
    Group *g = w->group;
    i32 pc = position(w, in);
    for (u32 k = 0; k < g->n_races; k++)
        if (g->races[k].pc == pc && g->races[k].other_pc == (i32)other_pc) {
            g->races[k].count++;
            return;
        }
    if (g->n_races < MAX_RACES)
        g->races[g->n_races++] =
            (RaceRecord){pc, (i32)other_pc, (i32)w->index, other_wave, g->linear, 0, address, 1};
}

static void report_race(Wave *w, const Instruction *in, u32 other_pc, int other_wave, u32 address, const char *what) {
    if (w->group->machine->launch.races != 1) {
        collect_race(w, in, other_pc, other_wave, address);
        return;
    }
    if (w->event == EVENT_ERROR) return;
    fail(w, in, FAULT_RACE, -1, "LDS race: %s at LDS address %u, no barrier or wait in between", what, address);
    fail_other(w, w->group->machine->code + other_pc, other_wave, address);
}

/* The first of the waves in a mask. */
static int first_wave(u32 waves) { return __builtin_ctz(waves); }

static inline u32 pc_of(u64 word) { return (u32)word & 0xfffffff; }
static inline u32 bytes_of(u64 word) { return (u32)word >> 28; }
static inline u32 epoch_of(u64 word) { return (u32)(word >> 32) & 0xffff; }
static inline u32 wave_of(u64 write) { return (u32)(write >> 48) & 0xff; }
static inline u32 waves_of(u64 read) { return (u32)(read >> 48); }
static inline int by_atomics(u64 write) { return write >> 56 & 1; }
static inline u32 ever_written(u64 write) { return (u32)(write >> 57) & 15; }
static inline u64 shadow_word(u32 pc, u32 bytes, u32 epoch, u32 wave) {
    return pc | bytes << 28 | (u64)epoch << 32 | (u64)wave << 48;
}

/* What a visit needs of its operation, kept in registers over the loop. */
typedef struct Visit {
    Wave *w;
    const Pending *p;
    u32 pc, wave, epoch, kind;
    u64 stamp;
} Visit;

static void check_read(const Visit *v, u64 write, u32 bytes, u32 address, u32 since) {
    if (!(bytes_of(write) & bytes) || epoch_of(write) < since) return;
    int other = (int)wave_of(write);
    if (other != (int)v->wave)
        report_race(v->w, v->p->in, pc_of(write), other, address, "read of what another wave writes");
    else if (epoch_of(write) == IN_FLIGHT)
        report_race(v->w, v->p->in, pc_of(write), other, address, "read of LDS DMA that has not been waited for");
}

/* The byte that one part of a lane's LDS write puts at an address, if it does. */
static int byte_of_lane(const Pending *p, u32 part, int lane, u32 address, u8 *value) {
    u32 registers = (p->lds_size + 3u) / 4u, offset = address - (p->lds[lane] + part * p->lds_step);
    if (offset >= p->lds_size) return 0;
    *value = (u8)(p->data[part * registers + offset / 4][lane] >> p->shift >> 8 * (offset % 4));
    return 1;
}

/* The byte that an LDS write puts at an address; of several lanes the last one counts. */
static int byte_of_write(const Pending *p, u32 address, u8 *value) {
    int found = 0;
    for (u32 part = 0; part < p->lds_parts; part++)
        for (u64 left = p->lds_lanes; left; left &= left - 1)
            found |= byte_of_lane(p, part, __builtin_ctzll(left), address, value);
    return found;
}

/* Lanes of one write meet at an address: which of them comes last is not defined, so they have to agree. */
static void check_lanes(const Visit *v, u32 address) {
    const Pending *p = v->p;
    int first = -1;
    u8 value = 0, other;
    for (u32 part = 0; part < p->lds_parts; part++)
        for (u64 left = p->lds_lanes; left; left &= left - 1) {
            int lane = __builtin_ctzll(left);
            if (!byte_of_lane(p, part, lane, address, first < 0 ? &value : &other)) continue;
            if (first < 0) first = lane;
            else if (other != value) {
                if (v->w->group->machine->launch.races != 1) collect_race(v->w, p->in, v->pc, (int)v->wave, address);
                else if (v->w->event != EVENT_ERROR)
                    fail(v->w, p->in, FAULT_RACE, lane, "LDS race: lanes %d and %d write different values at LDS address %u",
                         first, lane, address);
                return;
            }
        }
}

/* Not in line, like check_written: in the loop over dwords it would cost the other accesses 4 % of the speed. */
static __attribute__((noinline)) void stamp_write(const Visit *v, Stamp *s, u32 bytes, u32 address) {
    u32 mine = s->word >> 4 == v->stamp >> 4 ? s->word & 15 : 0;
    for (u32 k = 0; mine & bytes && k < 4; k++)
        if (mine & bytes & 1u << k) check_lanes(v, (address & ~3u) + k);
    s->word = v->stamp | mine | bytes;
}

/* What a wave has written at an address: its newest write that has not taken effect, else what LDS holds. */
static u8 byte_of_wave(const Wave *w, u32 address) {
    const Queue *q = &w->queue[QUEUE_LDS];
    u8 value;
    for (u32 k = q->count; k-- > 0;) {
        const Pending *p = &w->slots[QUEUE_LDS][(q->first + k) % LDS_SLOTS];
        if (!p->applied && p->lds_kind == LDS_WRITE && byte_of_write(p, address, &value)) return value;
    }
    return w->group->lds[address];
}

/* Compilers that hold a value in several waves let each of them write it: the order of such writes is no matter. */
static int same_value(const Visit *v, const Shadow *s, u32 bytes, u32 address) {
    int other = (int)wave_of(s->write);
    if (v->kind != LDS_WRITE || epoch_of(s->write) == IN_FLIGHT) return 0;
    for (u32 k = 0; k < 4; k++) {
        u32 at = (address & ~3u) + k;
        u8 value = 0;
        if (!(bytes >> k & 1)) continue;
        byte_of_write(v->p, at, &value);
        if (byte_of_wave(&v->w->group->waves[other], at) != value) return 0;
    }
    return 1;
}

/* `issued`: the write is being issued; when it completes in a later epoch, LDS no longer tells what was there. */
static void check_write(const Visit *v, const Shadow *s, u32 bytes, u32 address, u32 since, int issued) {
    u32 others = waves_of(s->read) & ~(1u << v->wave);
    u32 shared = bytes_of(s->write) & bytes;
    int other = (int)wave_of(s->write);
    int both_atomic = v->kind & LDS_ATOMIC && by_atomics(s->write); /* LDS itself puts them in some order */
    if (shared && !both_atomic && epoch_of(s->write) >= since) {
        if (other != (int)v->wave && !(issued && same_value(v, s, shared, address)))
            report_race(v->w, v->p->in, pc_of(s->write), other, address, "write over a write of another wave");
        if (other == (int)v->wave && epoch_of(s->write) == IN_FLIGHT && !(v->kind & LDS_DMA))
            report_race(v->w, v->p->in, pc_of(s->write), other, address,
                        "write over LDS DMA that has not been waited for");
    }
    if (others && bytes_of(s->read) & bytes && epoch_of(s->read) >= since)
        report_race(v->w, v->p->in, pc_of(s->read), first_wave(others), address, "write over what another wave reads");
}

static inline void mark_read(const Visit *v, Shadow *s, u32 bytes, u32 epoch) {
    u32 wave = 1u << v->wave;
    int same = epoch_of(s->read) == epoch;
    s->read = shadow_word(v->pc, same ? bytes | bytes_of(s->read) : bytes, epoch, same ? wave | waves_of(s->read) : wave);
}

static inline void mark_write(const Visit *v, Shadow *s, u32 bytes, u32 epoch) {
    int same = wave_of(s->write) == v->wave && epoch_of(s->write) == epoch;
    u64 atomic = v->kind & LDS_ATOMIC && (!same || by_atomics(s->write));
    u64 ever = ever_written(s->write) | bytes;
    s->write = shadow_word(v->pc, same ? bytes | bytes_of(s->write) : bytes, epoch, v->wave) | atomic << 56 | ever << 57;
}

static __attribute__((noinline)) void check_written(const Visit *v, u32 address) {
    v->w->group->uninitialised[v->pc]++;
    if (v->w->group->machine->launch.written_lds)
        fail(v->w, v->p->in, FAULT_UNWRITTEN, -1, "read of LDS that nothing has written, at LDS address %u", address);
}

/* An atomic after another wave's: in global memory, too, what that one did comes before (order.h). */
static void follow(const Visit *v, const Shadow *s) {
    const Wave *other = &v->w->group->waves[wave_of(s->write)];
    if (by_atomics(s->write) && other->order) v->w->order->known_waves[other->index] = other->order->last;
}

static inline void visit_issued(const Visit *v, Shadow *s, u32 bytes, u32 address) {
    if (v->kind & LDS_ATOMIC) follow(v, s);
    if (v->kind & LDS_READ && bytes & ~ever_written(s->write)) check_written(v, address);
    if (v->kind & LDS_READ && !(v->kind & LDS_ATOMIC)) { /* an atomic's read cannot be told from its write */
        if (epoch_of(s->write) >= v->epoch) check_read(v, s->write, bytes, address, v->epoch);
        mark_read(v, s, bytes, v->epoch);
    }
    if (v->kind & (LDS_WRITE | LDS_DMA)) {
        if (epoch_of(s->write) >= v->epoch || epoch_of(s->read) >= v->epoch)
            check_write(v, s, bytes, address, v->epoch, 1);
        mark_write(v, s, bytes, v->kind & LDS_DMA ? IN_FLIGHT : v->epoch);
    }
}

static inline void visit_completed(const Visit *v, Shadow *s, u32 bytes, u32 address) {
    u32 epoch = v->w->group->epoch, mine = wave_of(s->write) == v->wave;
    if (v->kind & LDS_DMA) {
        if (mine && epoch_of(s->write) == IN_FLIGHT && pc_of(s->write) == v->pc)
            s->write = shadow_word(v->pc, bytes_of(s->write), epoch, v->wave) | (u64)ever_written(s->write) << 57;
        return;
    }
    if (v->kind & LDS_READ && !(v->kind & LDS_ATOMIC)) {
        if (!mine) check_read(v, s->write, bytes, address, v->epoch);
        mark_read(v, s, bytes, epoch);
    }
    if (v->kind & LDS_WRITE) {
        check_write(v, s, bytes, address, v->epoch, 0);
        if (mine) s->write = (s->write & ~(0xffffull << 32)) | (u64)epoch << 32;
    }
}

/* ---- parts of a dword ---- */

static inline int is_split(const Shadow *s) { return s->write >> 61 & 1; }

/* Whether the record of a dword cannot say what this access adds to it. */
static int tells_apart(const Visit *v, const Shadow *s, u32 bytes) {
    int writes = v->kind & (LDS_WRITE | LDS_DMA), merges = wave_of(s->write) == v->wave && epoch_of(s->write) == v->epoch;
    if (writes && !merges && epoch_of(s->write) >= v->epoch && bytes_of(s->write) & ~bytes) return 1;
    return v->kind & LDS_READ && epoch_of(s->read) >= v->epoch && waves_of(s->read) != 1u << v->wave &&
           bytes_of(s->read) != bytes;
}

static u64 of_byte(u64 record, u32 byte) {
    return bytes_of(record) >> byte & 1 ? (record & ~(15ull << 28)) | 1ull << (28 + byte) : 0;
}

static void split(Shadow *s, Shadow bytes[4]) {
    u64 ever = (u64)ever_written(s->write) << 57;
    for (u32 k = 0; k < 4; k++) bytes[k] = (Shadow){of_byte(s->write, k) | ever, of_byte(s->read, k)};
    s->write |= 1ull << 61;
}

/* Not in line: most kernels access whole dwords only. */
static __attribute__((noinline)) void visit_parts(const Visit *v, u32 bytes, u32 address, int completed) {
    Group *g = v->w->group;
    Shadow *s = &g->shadow[address >> 2], *each = &g->shadow_bytes[address & ~3u];
    if (!is_split(s) && !completed && tells_apart(v, s, bytes)) split(s, each);
    for (u32 k = 0; k < 4; k++) {
        u32 part = is_split(s) ? bytes & 1u << k : bytes, at = is_split(s) ? (address & ~3u) + k : address;
        if (part && completed) visit_completed(v, is_split(s) ? &each[k] : s, part, at);
        if (part && !completed) visit_issued(v, is_split(s) ? &each[k] : s, part, at);
        if (!is_split(s)) return;
    }
}

/* Visit every dword of an operation; `completed` is a constant at each call. */
static inline __attribute__((always_inline)) void visit_words(Wave *w, Pending *p, int completed) {
    Shadow *shadow = w->group->shadow;
    Stamp *stamps = w->group->stamps;
    const Visit v = {w, p, (u32)position(w, p->in), w->index, p->epoch, p->lds_kind, (u64)p->sequence << 32 | w->index << 4};
    for (u32 part = 0; part < p->lds_parts; part++)
        for (u64 left = p->lds_lanes; left; left &= left - 1) {
            u32 start = p->lds[__builtin_ctzll(left)] + part * p->lds_step, end = start + p->lds_size;
            int whole = !((start | end) & 3);
            for (u32 a = start; a < end; a = (a & ~3u) + 4) {
                u32 stop = (a & ~3u) + 4 < end ? (a & ~3u) + 4 : end;
                u32 bytes = whole ? 15 : ((1u << (stop - a)) - 1) << (a & 3);
                if (bytes != 15) w->group->parts = 1;
                if (w->group->parts) visit_parts(&v, bytes, a, completed);
                else if (completed) visit_completed(&v, &shadow[a >> 2], bytes, a);
                else visit_issued(&v, &shadow[a >> 2], bytes, a);
                if (!completed && v.kind == LDS_WRITE) stamp_write(&v, &stamps[a >> 2], bytes, a);
            }
        }
}

/* Whether two operations touch a common byte. */
static int overlap(const Pending *a, const Pending *b) {
    for (u32 part = 0; part < b->lds_parts; part++)
        for (u64 left = b->lds_lanes; left; left &= left - 1) {
            u32 start = b->lds[__builtin_ctzll(left)] + part * b->lds_step;
            for (u64 others = a->lds_lanes; others; others &= others - 1) {
                u32 other = a->lds[__builtin_ctzll(others)];
                if (start < other + a->lds_size && other < start + b->lds_size) return 1;
            }
        }
    return 0;
}

/* LDS operations of one wave are in order, and so is its LDS DMA; nothing orders one with the other but a wait. */
static void check_own_lds(Wave *w, const Pending *dma) {
    const Queue *q = &w->queue[QUEUE_LDS];
    for (u32 k = 0; k < q->count; k++) {
        const Pending *p = &w->slots[QUEUE_LDS][(q->first + k) % LDS_SLOTS];
        if (p->lds_kind && overlap(dma, p))
            report_race(w, dma->in, (u32)position(w, p->in), (int)w->index, dma->lds[0],
                        "LDS DMA over an LDS access of this wave that has not been waited for");
    }
}

/* A later request by the same instruction for the same place: what is there is in flight until that one has landed. */
static int requested_again(const Wave *w, const Pending *dma) {
    const Queue *q = &w->queue[QUEUE_VM];
    for (u32 k = 0; k < q->count; k++) {
        const Pending *p = &w->slots[QUEUE_VM][(q->first + k) % VM_SLOTS];
        if (p != dma && p->in == dma->in && p->lds_kind == LDS_DMA && p->lds[0] == dma->lds[0] && p->lds_lanes == dma->lds_lanes) return 1;
    }
    return 0;
}

void lds_issued(Wave *w, Pending *p) {
    u64 bytes = (u64)__builtin_popcountll(p->lds_lanes) * p->lds_size * p->lds_parts;
    if (p->lds_kind & LDS_READ) w->group->lds_read += bytes;
    if (p->lds_kind & (LDS_WRITE | LDS_DMA)) w->group->lds_written += bytes;
    if (!w->group->machine->launch.races) return;
    if (p->lds_kind == LDS_DMA) check_own_lds(w, p);
    visit_words(w, p, 0);
}

void lds_completed(Wave *w, Pending *p) {
    if (!w->group->machine->launch.races || (p->lds_kind == LDS_DMA && requested_again(w, p))) return;
    if (p->lds_kind & LDS_DMA || p->epoch != w->group->epoch) visit_words(w, p, 1);
}

/* Epochs are 16 bits wide: before they run out, all but the accesses in flight become epoch 0. */
void lds_forget_epochs(Group *g) {
    u64 epoch = 0xffffull << 32;
    for (u32 k = 0; k < (g->lds_size + 3) / 4; k++) {
        Shadow *s = &g->shadow[k];
        if (epoch_of(s->write) != IN_FLIGHT) s->write &= ~epoch;
        s->read &= ~epoch;
    }
    for (u32 k = 0; k < g->lds_size; k++) {
        Shadow *s = &g->shadow_bytes[k];
        if (epoch_of(s->write) != IN_FLIGHT) s->write &= ~epoch;
        s->read &= ~epoch;
    }
    for (u32 k = 0; k < g->n_waves; k++)
        for (int queue = 0; queue < QUEUES; queue++)
            for (u32 n = 0; n < (queue == QUEUE_VM ? VM_SLOTS : queue == QUEUE_LDS ? LDS_SLOTS : SCALAR_SLOTS); n++)
                g->waves[k].slots[queue][n].epoch = 0;
    g->epoch = 1;
}

/* ---- bank conflicts: 64 banks of 4 bytes; lanes are served in phases (measured on gfx950, HipKittens) ---- */

static u64 phase_lanes(u32 size, u32 phase) {
    static const u32 quarter[2] = {0x0ff0f00f, 0xf00f0ff0}; /* lanes 0-3, 12-15, 20-27 and the others */
    if (size <= 4) return ~0ull;
    if (size <= 8) return 0xffffffffull << 32 * phase;
    return (u64)quarter[phase & 1] << 32 * (phase >> 1);
}

static u32 phase_cycles(u64 lanes, const u32 *address, u32 size) {
    u32 seen[64][LANES], used[64] = {0}, worst = 1; /* a lane has at most one word in each bank */
    for (int i = 0; i < LANES; i++) {
        if (!(lanes >> i & 1)) continue;
        for (u32 word = address[i] >> 2; word <= (address[i] + size - 1) >> 2; word++) {
            u32 bank = word & 63, k = 0;
            while (k < used[bank] && seen[bank][k] != word) k++;
            if (k < used[bank]) continue;
            seen[bank][used[bank]++] = word;
            if (used[bank] > worst) worst = used[bank];
        }
    }
    return worst;
}

void lds_count_banks(Wave *w, const Instruction *in, u64 exec, const u32 *address, u32 size) {
    Group *g = w->group;
    i32 pc = position(w, in);
    BankCache *cache = &g->banks[pc];
    u32 relative[LANES], origin = address[0] & ~3u;
    for (int i = 0; i < LANES; i++) relative[i] = address[i] - origin;
    if (!cache->valid || cache->exec != exec || memcmp(cache->relative, relative, sizeof relative)) {
        u32 phases = size <= 4 ? 1 : size <= 8 ? 2 : 4;
        cache->cycles = cache->ideal = 0;
        for (u32 phase = 0; phase < phases; phase++) {
            u64 lanes = exec & phase_lanes(size, phase);
            if (!lanes) continue;
            cache->cycles += phase_cycles(lanes, address, size);
            cache->ideal++;
        }
        memcpy(cache->relative, relative, sizeof relative);
        cache->exec = exec;
        cache->valid = 1;
    }
    g->bank_extra[pc] += cache->cycles - cache->ideal;
    g->bank_ideal[pc] += cache->ideal;
}

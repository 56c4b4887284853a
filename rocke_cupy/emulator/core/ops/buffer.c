/* Buffer instructions. A resource is base, stride, record count and flags in four scalar registers.
   Without an index (idxen) the stride (word 1, bits 29:16) moves nothing and the range check counts bytes; nor does
   swizzle enable (bit 31): gfx950 swizzles only what adds the thread's number. Cache swizzle (bit 30) chooses places in
   the cache. So compilers may set them in any resource, and do (MLIR's AMDGPUToROCDL, HipKittens' make_srsrc). The range
   check counts the scalar offset, and each dword by itself must end within num_records - soffset; only lane and constant
   offset wrap at 32 bits (ROCm/rocm-systems PR 10928, checked against gfx950). Addresses of loads and stores need no
   alignment, and the simulator of that repository rounds nothing either.
   An index counts records of `stride` bytes, and the range check counts records too. A resource that adds the thread's
   number (ADD_TID_ENABLE, word 3, bit 23) adds it to the index, has a longer stride and no range check (CDNA4 manual
   9.1.5 and PR 10928).
   Sources in the record: 0 data, 1 index, offset or both, 2 resource, 3 scalar offset. */
#include "../access.h"
#include "../global.h"
#include "../lds.h"
#include "../machine_tables.h"

typedef struct Resource {
    u64 base;
    i64 records;
    u32 stride, swizzled; /* swizzled: how many records lie together, or none */
    int by_record, adds_thread;
} Resource;

static int read_resource(Wave *w, const Instruction *in, Resource *r) {
    const u32 *s = &w->s[in->src[2].index];
    int indexed = in->flags & FLAG_IDXEN, swizzles = s[1] >> 31 & 1;
    r->base = ((u64)(s[1] & 0xffff) << 32 | s[0]);
    r->records = s[2];
    r->adds_thread = s[3] >> 23 & 1;
    r->stride = s[1] >> 16 & 0x3fff;
    if (r->adds_thread) r->stride |= (s[3] >> 15 & 15) << 14; /* in the place of the data format */
    r->by_record = r->adds_thread || (indexed && r->stride);
    r->swizzled = r->adds_thread && swizzles ? 8u << (s[3] >> 21 & 3) : 0;
    if (indexed && r->stride && swizzles && !r->adds_thread) {
        fail(w, in, FAULT_UNKNOWN, -1, "buffer resource %08x %08x %08x %08x: swizzling by an index is not modelled", s[0],
             s[1], s[2], s[3]);
        return 0;
    }
    return 1;
}

static void offset_row(Wave *w, const Instruction *in, u32 *row) {
    Operand offset = in->src[1];
    if (!(in->flags & FLAG_OFFEN)) offset.kind = OPERAND_NONE;
    else if (in->flags & FLAG_IDXEN) offset.index++;
    address_row(w, &offset, row);
}

/* Dwords of as many records as lie together alternate (CDNA4 manual 9.1.5.2; elements of gfx9 have 4 bytes). */
static u64 swizzled_place(const Resource *r, u64 record, u32 offset) {
    u64 group = record / r->swizzled, within = record % r->swizzled;
    return (group * r->stride + offset / 4 * 4) * r->swizzled + within * 4 + offset % 4;
}

/* Addresses by record, and the lanes that are inside. */
static u64 record_addresses(Wave *w, const Instruction *in, Pending *p, const Resource *r, u32 size, u32 soffset) {
    u32 index[LANES], offset[LANES];
    u64 inside = 0;
    offset_row(w, in, offset);
    if (in->flags & FLAG_IDXEN) address_row(w, &in->src[1], index);
    else memset(index, 0, sizeof index);
    for (u32 i = 0; i < LANES; i++) {
        u64 record = (u64)index[i] + (r->adds_thread ? i : 0);
        u32 at = offset[i] + (u32)in->offset;
        int valid = r->adds_thread || index[i] < r->records;
        if (r->swizzled && p->exec >> i & 1 && at % 4 + size > 4)
            fail(w, in, FAULT_UNKNOWN, (int)i, "%u bytes at byte %u of swizzled records are not modelled", size, at);
        p->valid[i] = valid ? 0xff : 0;
        p->address[i] = r->base + soffset + (r->swizzled ? swizzled_place(r, record, at) : record * r->stride + at);
        inside |= (u64)valid << i;
    }
    return inside & p->exec;
}

/* Addresses by byte, the lanes of which a register is inside, and those that are inside as a whole. */
static u64 byte_addresses(Wave *w, const Instruction *in, Pending *p, const Resource *r, u32 size, u32 soffset, u64 *whole) {
    u32 row[LANES];
    u64 inside = 0;
    i64 limit = r->records - (i64)soffset;
    offset_row(w, in, row);
    *whole = 0;
    for (int i = 0; i < LANES; i++) {
        u32 offset = row[i] + (u32)in->offset, part = size < 4 ? size : 4, valid = 0;
        for (u32 end = part; end <= size; end += part) valid += (i64)offset + end <= limit;
        p->valid[i] = (u8)valid;
        p->address[i] = r->base + soffset + offset;
        inside |= (u64)(valid > 0) << i;
        *whole |= (u64)(4 * valid >= size) << i;
    }
    return inside & p->exec;
}

/* Host addresses and the number of registers inside the resource for each lane. */
static int buffer_addresses(Wave *w, const Instruction *in, Pending *p, u32 size, int kind) {
    Resource r;
    int write = kind != LOADS;
    if (!read_resource(w, in, &r)) return 0;
    u32 soffset = scalar32(w, &in->src[3]);
    u64 inside, whole;
    if (r.by_record) inside = whole = record_addresses(w, in, p, &r, size, soffset);
    else inside = byte_addresses(w, in, p, &r, size, soffset, &whole);
    if (w->event == EVENT_ERROR || (kind == CHANGES && !atomics_aligned(w, p, inside, size))) return 0;
    if (!global_to_host(w, p, inside & whole, size, write)) return 0;
    for (int i = 0; inside & ~whole && i < LANES; i++)
        if ((inside & ~whole) >> i & 1 && !global_to_host(w, p, 1ull << i, 4u * p->valid[i], write)) return 0;
    u64 bytes = (u64)__builtin_popcountll(inside) * size;
    if (write) w->group->global_written += bytes;
    else w->group->global_read += bytes;
    return 1;
}

static void access_buffer(Wave *w, const Instruction *in, u32 size, int kind, EffectFn *effect) {
    Pending *p = issue(w, in, QUEUE_VM, 1, effect);
    if (buffer_addresses(w, in, p, size, kind)) {
        if (in->src[0].kind == OPERAND_VGPR) capture(w, p, &in->src[0]);
        p->lds_step = size;
        p->stores = kind != LOADS;
    }
    issued(w, p);
}

/* With the lds modifier the data goes to LDS; the constant offset moves both addresses. */
static void buffer_to_lds(Wave *w, const Instruction *in, u32 size, EffectFn *copy) {
    if (!copy) {
        fail(w, in, FAULT_UNKNOWN, -1, "LDS DMA by this load is not modelled");
        return;
    }
    u32 place = size < 4 ? 4 : size;
    Pending *p = issue(w, in, QUEUE_VM, 1, copy);
    lds_dma_addresses(w, in, p, place);
    p->lds_step = size;
    if (buffer_addresses(w, in, p, size, LOADS) && lds_in_bounds(w, in, p->exec, p->lds, place)) p->lds_kind = LDS_DMA;
    issued(w, p);
}

#define LOAD(name, registers, bytes, effect, copy)                                                                    \
    static void buffer_##name(Wave *w, const Instruction *in) {                                                       \
        if (in->flags & FLAG_LDS) buffer_to_lds(w, in, bytes, copy);                                                  \
        else access_buffer(w, in, bytes, LOADS, load_##effect);                                                       \
    }
#define STORE(name, registers, bytes, effect)                                                                         \
    static void buffer_##name(Wave *w, const Instruction *in) { access_buffer(w, in, bytes, STORES, store_##effect); }
#include "access.inc"
#undef LOAD
#undef STORE

#define MEMORY(name, type, registers, operand, expression)                                                            \
    static void buffer_atomic_##name(Wave *w, const Instruction *in) {                                                \
        access_buffer(w, in, sizeof(type), CHANGES, atomic_##name);                                                         \
    }
#include "atomic.inc"

#define BUFFER_ROW(name, form) {#name, form, FORMAT_BUFFER, UNIT_VMEM, name, NULL},
#define LOAD(name, registers, ...) BUFFER_ROW(buffer_##name, #registers ":")
#define STORE(name, registers, bytes, effect) BUFFER_ROW(buffer_##name, ":" #registers)
#define MEMORY(name, type, registers, operand, expression) BUFFER_ROW(buffer_atomic_##name, #registers ":" #operand)
const Op buffer_ops[] = {
#include "access.inc"
#include "atomic.inc"
    {0}};

/* Buffer instructions. A resource is base, stride, record count and flags in four scalar registers. Instructions with
   an index (idxen) and resources that add the thread's number to it are not modelled. Without an index the stride
   (word 1, bits 29:16) moves nothing and the range check counts bytes; nor does swizzle enable (bit 31), which takes an
   index: gfx950 swizzles only what adds the thread's number. Cache swizzle (bit 30) chooses places in the cache. So
   compilers may set them in any resource, and do (MLIR's AMDGPUToROCDL, HipKittens' make_srsrc). The range check counts the scalar offset, and each dword by itself must
   end within num_records - soffset; only lane and constant offset wrap at 32 bits (ROCm/rocm-systems PR 10928,
   checked against gfx950). Addresses of loads and stores need no alignment, and the simulator of that repository
   rounds nothing either.
   Sources in the record: 0 data, 1 address, 2 resource, 3 scalar offset. */
#include "../access.h"
#include "../global.h"
#include "../lds.h"
#include "../machine_tables.h"

typedef struct Resource {
    u64 base;
    i64 records;
} Resource;

static int read_resource(Wave *w, const Instruction *in, Resource *r) {
    const u32 *s = &w->s[in->src[2].index];
    int indexed = in->flags & FLAG_IDXEN, adds_thread = s[3] >> 23 & 1;
    if (indexed || adds_thread) {
        fail(w, in, FAULT_UNKNOWN, -1, "buffer resource %08x %08x %08x %08x: %s not modelled", s[0], s[1], s[2], s[3],
             indexed ? "an index (idxen) is" : "adding thread ids (ADD_TID_ENABLE) is");
        return 0;
    }
    r->base = ((u64)(s[1] & 0xffff) << 32 | s[0]);
    r->records = s[2];
    return 1;
}

/* Host addresses and the number of registers inside the resource for each lane. */
static int buffer_addresses(Wave *w, const Instruction *in, Pending *p, u32 size, int kind) {
    Resource r;
    int write = kind != LOADS;
    u32 row[LANES];
    u64 inside = 0, whole = 0;
    if (!read_resource(w, in, &r)) return 0;
    u32 soffset = scalar32(w, &in->src[3]);
    i64 limit = r.records - (i64)soffset;
    address_row(w, &in->src[1], row);
    for (int i = 0; i < LANES; i++) {
        u32 offset = row[i] + (u32)in->offset, part = size < 4 ? size : 4, valid = 0;
        for (u32 end = part; end <= size; end += part) valid += (i64)offset + end <= limit;
        p->valid[i] = (u8)valid;
        p->address[i] = r.base + soffset + offset;
        inside |= (u64)(valid > 0) << i;
        whole |= (u64)(4 * valid >= size) << i;
    }
    inside &= p->exec;
    if (kind == CHANGES && !atomics_aligned(w, p, inside, size)) return 0;
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
static void buffer_to_lds(Wave *w, const Instruction *in, u32 size) {
    Pending *p = issue(w, in, QUEUE_VM, 1, copy_to_lds);
    lds_dma_addresses(w, in, p, size);
    if (buffer_addresses(w, in, p, size, LOADS) && lds_in_bounds(w, in, p->exec, p->lds, size)) p->lds_kind = LDS_DMA;
    issued(w, p);
}

#define LOAD(name, registers, bytes, effect)                                                                          \
    static void buffer_##name(Wave *w, const Instruction *in) {                                                       \
        if (!(in->flags & FLAG_LDS)) access_buffer(w, in, bytes, LOADS, load_##effect);                                   \
        else if (bytes >= 4 && bytes != 8) buffer_to_lds(w, in, bytes);                                               \
        else fail(w, in, FAULT_UNKNOWN, -1, "LDS DMA of %d bytes a lane is not modelled", bytes);                     \
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
#define LOAD(name, registers, bytes, effect) BUFFER_ROW(buffer_##name, #registers ":")
#define STORE(name, registers, bytes, effect) BUFFER_ROW(buffer_##name, ":" #registers)
#define MEMORY(name, type, registers, operand, expression) BUFFER_ROW(buffer_atomic_##name, #registers ":" #operand)
const Op buffer_ops[] = {
#include "access.inc"
#include "atomic.inc"
    {0}};

/* Every global access lies inside one buffer of the launch, or the launch ends with a sentence about it. */
#include "global.h"
#include "shadow.h"

static int find_buffer(const Launch *l, u64 address, u64 *found) {
    u64 low = 0, high = l->n_buffers;
    while (low < high) { /* the last buffer that starts at or before the address */
        u64 middle = (low + high) / 2;
        if (l->buffer_start[middle] <= address) low = middle + 1;
        else high = middle;
    }
    if (low == 0) return 0;
    *found = low - 1;
    return 1;
}

static int inside(const Launch *l, u64 buffer, u64 address, u32 size, int write) {
    return address >= l->buffer_start[buffer] && address <= l->buffer_end[buffer] &&
           l->buffer_end[buffer] - address >= size && (!write || l->buffer_writable[buffer]);
}

/* To the host; a timed launch keeps the address of the device beside it. */
static void translate(const Group *g, Pending *p, int first, int end, u64 buffer, u32 size, int write) {
    u64 host = g->machine->launch.buffer_host[buffer], device = g->machine->launch.buffer_device[buffer];
    for (int i = first; g->timing && i < end; i++) p->device[i] = p->address[i] + device;
    for (int i = first; i < end; i++) p->address[i] += host;
    if (g->machine->shadow && g->machine->launch.buffer_watched[buffer])
        shadow_watch(p, (end - first == LANES ? ~0ull : 1ull << first), size, write);
}

int global_to_host(Wave *w, Pending *p, u64 lanes, u32 size, int write) {
    Group *g = w->group;
    const Launch *l = &g->machine->launch;
    u64 hint = g->last_buffer;
    if (lanes == ~0ull && hint < l->n_buffers && l->buffer_end[hint] - l->buffer_start[hint] >= size &&
        (!write || l->buffer_writable[hint])) {
        u64 start = l->buffer_start[hint], room = l->buffer_end[hint] - start - size, outside = 0;
        for (int i = 0; i < LANES; i++) outside |= p->address[i] - start > room;
        if (!outside) { /* the common case, without a branch for each lane */
            translate(g, p, 0, LANES, hint, size, write);
            return 1;
        }
    }
    for (int i = 0; i < LANES; i++) {
        u64 address = p->address[i];
        if (!(lanes >> i & 1)) continue;
        if (!(hint < l->n_buffers && inside(l, hint, address, size, write)) &&
            !(find_buffer(l, address, &hint) && inside(l, hint, address, size, write))) {
            fail(w, p->in, FAULT_BOUNDS, i, "%s of %u bytes", write ? "global write" : "global read", size);
            g->machine->fault.address = address;
            return 0;
        }
        translate(g, p, i, i + 1, hint, size, write);
    }
    g->last_buffer = (u32)hint;
    return 1;
}

int atomics_aligned(Wave *w, const Pending *p, u64 lanes, u32 size) {
    for (int i = 0; i < LANES; i++) {
        if (!(lanes >> i & 1) || p->address[i] % size == 0) continue;
        fail_misaligned(w, p->in, i, "atomic", p->address[i], size);
        return 0;
    }
    return 1;
}

int scratch_to_host(Wave *w, Pending *p, u64 lanes, u32 size) {
    u64 limit = w->group->machine->launch.scratch_size;
    for (int i = 0; i < LANES; i++) {
        if (!(lanes >> i & 1)) continue;
        u64 offset = p->address[i];
        if (offset > limit || limit - offset < size) {
            fail(w, p->in, FAULT_SCRATCH_BOUNDS, i,
                 "scratch access of %u bytes at offset %lld is outside the %llu bytes of a lane", size, (long long)offset,
                 (unsigned long long)limit);
            return 0;
        }
        if (w->group->timing) p->device[i] = (u64)APERTURE_SCRATCH << 32 | offset;
        p->address[i] += (u64)(uintptr_t)w->scratch + (u64)i * limit;
    }
    return 1;
}

static int lds_to_host(Wave *w, Pending *p, u64 lanes, u32 size) {
    u32 limit = w->group->lds_size;
    for (int i = 0; i < LANES; i++) {
        if (!(lanes >> i & 1)) continue;
        u32 offset = (u32)p->address[i];
        if (offset > limit || limit - offset < size) {
            fail(w, p->in, FAULT_LDS_BOUNDS, i,
                 "flat LDS access of %u bytes at address %u is outside the %u bytes of the workgroup", size, offset, limit);
            return 0;
        }
        p->lds[i] = offset;
        if (w->group->timing) p->device[i] = p->address[i];
        p->address[i] = offset + (u64)(uintptr_t)w->group->lds;
    }
    return 1;
}

int flat_to_host(Wave *w, Pending *p, u32 size, int write, u64 *in_lds) {
    u64 lds = 0, scratch = 0;
    for (int i = 0; i < LANES; i++) {
        u64 high = p->address[i] >> 32;
        if (high == APERTURE_LDS) lds |= p->exec & 1ull << i;
        if (high == APERTURE_SCRATCH) scratch |= p->exec & 1ull << i;
        if (scratch >> i & 1) p->address[i] &= 0xffffffff;
    }
    *in_lds = lds;
    return global_to_host(w, p, p->exec & ~lds & ~scratch, size, write) && lds_to_host(w, p, lds, size) &&
           scratch_to_host(w, p, scratch, size);
}

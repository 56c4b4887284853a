/* Every global access lies inside one buffer of the launch, or the launch ends with a sentence about it. */
#include "global.h"

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

int global_in_bounds(Wave *w, const Instruction *in, u64 exec, const u64 *address, u32 size, int write) {
    Group *g = w->group;
    const Launch *l = &g->machine->launch;
    u64 hint = g->last_buffer;
    if (exec == ~0ull && hint < l->n_buffers && l->buffer_end[hint] - l->buffer_start[hint] >= size &&
        (!write || l->buffer_writable[hint])) {
        u64 start = l->buffer_start[hint], room = l->buffer_end[hint] - start - size, outside = 0;
        for (int i = 0; i < LANES; i++) outside |= address[i] - start > room;
        if (!outside) return 1; /* the common case, without a branch for each lane */
    }
    for (int i = 0; i < LANES; i++) {
        if (!(exec >> i & 1)) continue;
        if (hint < l->n_buffers && inside(l, hint, address[i], size, write)) continue;
        if (find_buffer(l, address[i], &hint) && inside(l, hint, address[i], size, write)) continue;
        fail(w, in, FAULT_BOUNDS, i, "%s of %u bytes", write ? "global write" : "global read", size);
        g->machine->fault.address = address[i];
        return 0;
    }
    g->last_buffer = (u32)hint;
    return 1;
}

int scratch_to_host(Wave *w, const Instruction *in, u64 exec, u64 *address, u32 size) {
    u64 limit = w->group->machine->launch.scratch_size;
    for (int i = 0; i < LANES; i++) {
        if (!(exec >> i & 1)) continue;
        if (address[i] > limit || limit - address[i] < size) {
            fail(w, in, FAULT_OTHER, i, "scratch access of %u bytes at offset %lld is outside the %llu bytes of a lane", size,
                 (long long)address[i], (unsigned long long)limit);
            return 0;
        }
        address[i] += (u64)(uintptr_t)w->scratch + (u64)i * limit;
    }
    return 1;
}

int flat_to_host(Wave *w, const Instruction *in, u64 exec, u64 *address, u32 size, int write) {
    u64 lds = 0, scratch = 0;
    for (int i = 0; i < LANES; i++) {
        u64 high = address[i] >> 32;
        if (high == APERTURE_LDS) lds |= exec & 1ull << i;
        if (high == APERTURE_SCRATCH) scratch |= exec & 1ull << i;
    }
    if (!global_in_bounds(w, in, exec & ~lds & ~scratch, address, size, write)) return 0;
    u32 limit = w->group->lds_size;
    for (int i = 0; i < LANES; i++) {
        if (!((lds | scratch) >> i & 1)) continue;
        address[i] &= 0xffffffff;
        if (scratch >> i & 1) continue;
        if (address[i] > limit || limit - address[i] < size) {
            fail(w, in, FAULT_LDS_BOUNDS, i, "flat LDS access of %u bytes at address %u is outside the %u bytes of the workgroup",
                 size, (u32)address[i], limit);
            return 0;
        }
        address[i] += (u64)(uintptr_t)w->group->lds;
    }
    return scratch_to_host(w, in, scratch, address, size);
}

/* global_, flat_ and scratch_ instructions: addresses, then the effects of access.c.
   Sources in the record: 0 data, 1 address, 2 scalar address. */
#include "../access.h"
#include "../global.h"
#include "../lds.h"
#include "../machine_tables.h"

static void global_addresses(Wave *w, const Instruction *in, Pending *p) {
    const Operand *v = &in->src[1], *s = &in->src[2];
    u64 base = (u64)(i64)in->offset + (s->kind == OPERAND_NONE ? 0 : scalar64(w, s));
    for (int i = 0; i < LANES; i++) {
        u64 address = v->kind != OPERAND_VGPR ? 0 : v->width > 1 ? (u64)w->v[v->index + 1][i] << 32 | w->v[v->index][i]
                                                                 : w->v[v->index][i];
        p->address[i] = base + address;
    }
}

/* Scratch offsets are 32-bit numbers within the memory of one lane. */
static void scratch_addresses(Wave *w, const Instruction *in, Pending *p) {
    const Operand *s = &in->src[2];
    u32 row[LANES], base = (u32)in->offset + (s->kind == OPERAND_NONE ? 0 : scalar32(w, s));
    address_row(w, &in->src[1], row);
    for (int i = 0; i < LANES; i++) p->address[i] = (u32)(base + row[i]);
}

enum { SPACE_GLOBAL, SPACE_FLAT, SPACE_SCRATCH };

static void access_memory(Wave *w, const Instruction *in, int space, u32 size, int kind, EffectFn *effect) {
    Pending *p = issue(w, in, QUEUE_VM, space == SPACE_FLAT ? 3 : 1, effect);
    int write = kind != LOADS;
    if (space == SPACE_SCRATCH) scratch_addresses(w, in, p);
    else global_addresses(w, in, p);
    u64 in_lds = 0;
    int aligned = kind != CHANGES || atomics_aligned(w, p, p->exec, size);
    int fine = space == SPACE_GLOBAL ? global_to_host(w, p, p->exec, size, write)
               : space == SPACE_FLAT ? flat_to_host(w, p, size, write, &in_lds)
                                     : scratch_to_host(w, p, p->exec, size);
    if (aligned && fine) {
        u64 bytes = (u64)__builtin_popcountll(p->exec & ~in_lds) * size;
        if (write) w->group->global_written += bytes;
        else w->group->global_read += bytes;
        memset(p->valid, 0xff, sizeof p->valid);
        if (in->src[0].kind == OPERAND_VGPR) capture(w, p, &in->src[0]);
        p->lds_step = size;
        p->stores = write && space != SPACE_SCRATCH;
        if (in_lds) {
            p->lds_lanes = in_lds;
            p->lds_kind = kind == LOADS ? LDS_READ : kind == STORES ? LDS_WRITE : LDS_READ | LDS_WRITE | LDS_ATOMIC;
            p->lds_size = (u8)size;
            p->lds_parts = 1;
            p->shift = effect == store_high ? 16 : 0;
        }
    }
    issued(w, p);
}

#define LOAD(name, registers, bytes, effect, copy)                                                                    \
    static void global_##name(Wave *w, const Instruction *in) { access_memory(w, in, SPACE_GLOBAL, bytes, LOADS, load_##effect); } \
    static void flat_##name(Wave *w, const Instruction *in) { access_memory(w, in, SPACE_FLAT, bytes, LOADS, load_##effect); }     \
    static void scratch_##name(Wave *w, const Instruction *in) { access_memory(w, in, SPACE_SCRATCH, bytes, LOADS, load_##effect); }
#define STORE(name, registers, bytes, effect)                                                                         \
    static void global_##name(Wave *w, const Instruction *in) { access_memory(w, in, SPACE_GLOBAL, bytes, STORES, store_##effect); } \
    static void flat_##name(Wave *w, const Instruction *in) { access_memory(w, in, SPACE_FLAT, bytes, STORES, store_##effect); }     \
    static void scratch_##name(Wave *w, const Instruction *in) { access_memory(w, in, SPACE_SCRATCH, bytes, STORES, store_##effect); }
#include "access.inc"
#undef LOAD
#undef STORE

#define MEMORY(name, type, registers, operand, expression)                                                            \
    static void global_atomic_##name(Wave *w, const Instruction *in) {                                                \
        access_memory(w, in, SPACE_GLOBAL, sizeof(type), CHANGES, atomic_##name);                                           \
    }                                                                                                                 \
    static void flat_atomic_##name(Wave *w, const Instruction *in) {                                                  \
        access_memory(w, in, SPACE_FLAT, sizeof(type), CHANGES, atomic_##name);                                             \
    }
#include "atomic.inc"

/* global_load_lds: as a global load, but the data goes to LDS. */
static void global_to_lds(Wave *w, const Instruction *in, u32 size, EffectFn *copy) {
    u32 place = size < 4 ? 4 : size;
    Pending *p = issue(w, in, QUEUE_VM, 1, copy);
    global_addresses(w, in, p);
    lds_dma_addresses(w, in, p, place);
    if (global_to_host(w, p, p->exec, size, 0) && lds_in_bounds(w, in, p->exec, p->lds, place)) {
        w->group->global_read += (u64)__builtin_popcountll(p->exec) * size;
        memset(p->valid, 0xff, sizeof p->valid);
        p->lds_step = size;
        p->lds_kind = LDS_DMA;
    }
    issued(w, p);
}
static void global_load_lds_dword(Wave *w, const Instruction *in) { global_to_lds(w, in, 4, copy_dwords); }
static void global_load_lds_dwordx3(Wave *w, const Instruction *in) { global_to_lds(w, in, 12, copy_dwords); }
static void global_load_lds_dwordx4(Wave *w, const Instruction *in) { global_to_lds(w, in, 16, copy_dwords); }
static void global_load_lds_ubyte(Wave *w, const Instruction *in) { global_to_lds(w, in, 1, copy_ubyte); }
static void global_load_lds_sbyte(Wave *w, const Instruction *in) { global_to_lds(w, in, 1, copy_sbyte); }
static void global_load_lds_ushort(Wave *w, const Instruction *in) { global_to_lds(w, in, 2, copy_ushort); }
static void global_load_lds_sshort(Wave *w, const Instruction *in) { global_to_lds(w, in, 2, copy_sshort); }

#define MEMORY_ROW(name, form, format, unit) {#name, form, format, unit, name, NULL},
#define LOAD(name, registers, ...)                                                                                    \
    MEMORY_ROW(global_##name, #registers ":", FORMAT_GLOBAL, UNIT_VMEM)                                               \
    MEMORY_ROW(flat_##name, #registers ":", FORMAT_FLAT, UNIT_VMEM)                                                   \
    MEMORY_ROW(scratch_##name, #registers ":", FORMAT_SCRATCH, UNIT_VMEM)
#define STORE(name, registers, bytes, effect)                                                                         \
    MEMORY_ROW(global_##name, ":" #registers, FORMAT_GLOBAL, UNIT_VMEM)                                               \
    MEMORY_ROW(flat_##name, ":" #registers, FORMAT_FLAT, UNIT_VMEM)                                                   \
    MEMORY_ROW(scratch_##name, ":" #registers, FORMAT_SCRATCH, UNIT_VMEM)
#define MEMORY(name, type, registers, operand, expression)                                                            \
    MEMORY_ROW(global_atomic_##name, #registers ":" #operand, FORMAT_GLOBAL, UNIT_VMEM)                               \
    MEMORY_ROW(flat_atomic_##name, #registers ":" #operand, FORMAT_FLAT, UNIT_VMEM)
const Op flat_ops[] = {
#include "access.inc"
#include "atomic.inc"
    MEMORY_ROW(global_load_lds_dword, ":", FORMAT_GLOBAL, UNIT_LDS_DMA)
    MEMORY_ROW(global_load_lds_dwordx3, ":", FORMAT_GLOBAL, UNIT_LDS_DMA)
    MEMORY_ROW(global_load_lds_dwordx4, ":", FORMAT_GLOBAL, UNIT_LDS_DMA)
    MEMORY_ROW(global_load_lds_ubyte, ":", FORMAT_GLOBAL, UNIT_LDS_DMA)
    MEMORY_ROW(global_load_lds_sbyte, ":", FORMAT_GLOBAL, UNIT_LDS_DMA)
    MEMORY_ROW(global_load_lds_ushort, ":", FORMAT_GLOBAL, UNIT_LDS_DMA)
    MEMORY_ROW(global_load_lds_sshort, ":", FORMAT_GLOBAL, UNIT_LDS_DMA)
    {0}};

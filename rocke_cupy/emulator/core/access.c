#include "access.h"

static u32 width_of(const Pending *p) { return p->in->dst[0].width; }
static u32 (*destination(Wave *w, const Pending *p))[LANES] { return w->v + p->in->dst[0].index; }
static const void *host(const Pending *p, int lane) { return (const void *)(uintptr_t)p->address[lane]; }

void capture(Wave *w, Pending *p, const Operand *o) {
    for (int k = 0; k < o->width; k++) memcpy(p->data[k], w->v[o->index + k], sizeof p->data[k]);
}

void address_row(Wave *w, const Operand *o, u32 *row) {
    if (o->kind == OPERAND_VGPR) memcpy(row, w->v[o->index], LANES * sizeof *row);
    else memset(row, 0, LANES * sizeof *row);
}

/* A register past the end of a buffer resource loads zero; everywhere else all registers are valid. */
void load_dwords(Wave *w, Pending *p) {
    u32(*v)[LANES] = destination(w, p), width = width_of(p);
    for (int i = 0; i < LANES; i++) {
        if (!(p->exec >> i & 1)) continue;
        u32 part[4] = {0, 0, 0, 0};
        memcpy(part, host(p, i), 4 * (size_t)(p->valid[i] < width ? p->valid[i] : width));
        for (u32 k = 0; k < width; k++) v[k][i] = part[k];
    }
}

#define PARTIAL_LOAD(name, type, value)                                                                               \
    void name(Wave *w, Pending *p) {                                                                                  \
        u32 *v = destination(w, p)[0];                                                                                \
        for (int i = 0; i < LANES; i++) {                                                                             \
            if (!(p->exec >> i & 1)) continue;                                                                        \
            type x = 0;                                                                                               \
            u32 old = v[i];                                                                                           \
            (void)old;                                                                                                \
            if (p->valid[i]) memcpy(&x, host(p, i), sizeof x);                                                        \
            v[i] = (value);                                                                                           \
        }                                                                                                             \
    }
PARTIAL_LOAD(load_ubyte, u8, x)
PARTIAL_LOAD(load_sbyte, i8, (u32)(i32)x)
PARTIAL_LOAD(load_ushort, u16, x)
PARTIAL_LOAD(load_sshort, i16, (u32)(i32)x)
PARTIAL_LOAD(load_ubyte_d16, u8, (old & 0xffff0000u) | x)
PARTIAL_LOAD(load_ubyte_d16_hi, u8, (old & 0xffffu) | (u32)x << 16)
PARTIAL_LOAD(load_sbyte_d16, i8, (old & 0xffff0000u) | ((u32)(i32)x & 0xffff))
PARTIAL_LOAD(load_sbyte_d16_hi, i8, (old & 0xffffu) | (u32)(i32)x << 16)
PARTIAL_LOAD(load_short_d16, u16, (old & 0xffff0000u) | x)
PARTIAL_LOAD(load_short_d16_hi, u16, (old & 0xffffu) | (u32)x << 16)

void store_dwords(Wave *w, Pending *p) {
    (void)w;
    u32 width = p->in->src[0].width;
    for (int i = 0; i < LANES; i++) {
        if (!(p->exec >> i & 1)) continue;
        u32 part[4], valid = p->valid[i] < width ? p->valid[i] : width;
        for (u32 k = 0; k < width; k++) part[k] = p->data[k][i];
        memcpy((void *)(uintptr_t)p->address[i], part, 4 * (size_t)valid);
    }
}

static void store_part(Pending *p, int shift) {
    u32 bytes = p->lds_step; /* of one lane: 1 or 2 */
    for (int i = 0; i < LANES; i++) {
        if (!(p->exec >> i & 1) || !p->valid[i]) continue;
        u32 value = p->data[0][i] >> shift;
        memcpy((void *)(uintptr_t)p->address[i], &value, bytes);
    }
}
void store_low(Wave *w, Pending *p) { (void)w, store_part(p, 0); }
void store_high(Wave *w, Pending *p) { (void)w, store_part(p, 16); }

/* LDS DMA: lanes past the end of the buffer resource write zero. */
void copy_dwords(Wave *w, Pending *p) {
    u32 size = p->lds_size;
    for (int i = 0; i < LANES; i++) {
        if (!(p->exec >> i & 1)) continue;
        u32 part[4] = {0, 0, 0, 0}, valid = 4u * p->valid[i];
        memcpy(part, host(p, i), valid < size ? valid : size);
        memcpy(w->group->lds + p->lds[i], part, size);
    }
}

/* A part of a dword becomes one. */
#define PARTIAL_COPY(name, type)                                                                                      \
    void name(Wave *w, Pending *p) {                                                                                  \
        for (int i = 0; i < LANES; i++) {                                                                             \
            if (!(p->exec >> i & 1)) continue;                                                                        \
            type x = 0;                                                                                               \
            if (p->valid[i]) memcpy(&x, host(p, i), sizeof x);                                                        \
            u32 dword = (u32)(i32)x;                                                                                  \
            memcpy(w->group->lds + p->lds[i], &dword, sizeof dword);                                                  \
        }                                                                                                             \
    }
PARTIAL_COPY(copy_ubyte, u8)
PARTIAL_COPY(copy_sbyte, i8)
PARTIAL_COPY(copy_ushort, u16)
PARTIAL_COPY(copy_sshort, i16)

static inline u32 add_pair_f16(u32 a, u32 b) {
    return f32_to_f16(f16_to_f32(a & 0xffff) + f16_to_f32(b & 0xffff)) | f32_to_f16(f16_to_f32(a >> 16) + f16_to_f32(b >> 16)) << 16;
}
static inline u32 add_pair_bf16(u32 a, u32 b) {
    return f32_to_bf16(bf16_to_f32(a & 0xffff) + bf16_to_f32(b & 0xffff)) |
           f32_to_bf16(bf16_to_f32(a >> 16) + bf16_to_f32(b >> 16)) << 16;
}

/* An operand of 32 or 64 bits, whose registers start at row `first`. */
static u64 data_of(const Pending *p, u64 first, int lane, u64 type_size) {
    return type_size == 8 ? join(p->data[first][lane], p->data[first + 1][lane]) : p->data[first][lane];
}

static void give_back(Wave *w, Pending *p, int lane, u64 old) {
    if (!p->in->n_dst) return;
    u32(*v)[LANES] = destination(w, p);
    v[0][lane] = (u32)old;
    if (width_of(p) > 1) v[1][lane] = (u32)(old >> 32);
}

/* One lane after the other, in LDS as in memory; past the end of a buffer resource all or nothing. */
#define EFFECT(name, type, expression)                                                                                \
    void atomic_##name(Wave *w, Pending *p) {                                                                         \
        for (int i = 0; i < LANES; i++) {                                                                             \
            if (!(p->exec >> i & 1) || 4 * p->valid[i] < (int)sizeof(type)) continue;                                 \
            type *at = (type *)(uintptr_t)p->address[i], next;                                                        \
            type data = (type)data_of(p, 0, i, sizeof(type)), second = (type)data_of(p, sizeof(type) / 4, i, sizeof(type)); \
            type old = __atomic_load_n(at, __ATOMIC_RELAXED);                                                         \
            (void)data, (void)second;                                                                                 \
            do next = (expression);                                                                                   \
            while (!__atomic_compare_exchange_n(at, &old, next, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));              \
            give_back(w, p, i, old);                                                                                  \
        }                                                                                                             \
    }
#define ATOMIC(name, lds, suffix, type, registers, expression) EFFECT(name, type, expression)
#define MEMORY(name, type, registers, operand, expression) EFFECT(name, type, expression)
#define LDS ATOMIC
#include "ops/atomic.inc"

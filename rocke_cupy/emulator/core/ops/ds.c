/* LDS instructions. Sources in the record: 0 address, 1 and 2 data. */
#include "../access.h"
#include "../lds.h"
#include "../machine_tables.h"

static u32 (*destination(Wave *w, const Pending *p))[LANES] { return w->v + p->in->dst[0].index; }

/* Issue an LDS operation on the addresses of source 0, or of M0 where there is none, `parts` times `size` bytes
   `unit` apart. */
static Pending *issue_lds(Wave *w, const Instruction *in, int kind, u32 size, u32 parts, u32 unit, EffectFn *effect) {
    Pending *p = issue(w, in, QUEUE_LDS, 2, effect);
    u32 first = (parts > 1 ? (u32)in->offset * unit : (u32)in->offset) + (in->n_src ? 0 : w->s[M0]);
    address_row(w, &in->src[0], p->lds);
    for (int i = 0; i < LANES; i++) p->lds[i] += first;
    p->lds_step = parts > 1 ? (u32)(in->offset1 - in->offset) * unit : 0;
    for (u32 part = 0; part < parts; part++) {
        u32 address[LANES];
        for (int i = 0; i < LANES; i++) address[i] = p->lds[i] + part * p->lds_step;
        if (!lds_in_bounds(w, in, p->exec, address, size)) return p;
        lds_count_banks(w, in, p->exec, address, size);
    }
    p->lds_kind = (u8)kind;
    p->lds_size = (u8)size;
    p->lds_parts = (u8)parts;
    return p;
}

/* The second address may lie below the first: the sum wraps at 32 bits. */
static u32 place(const Pending *p, int lane, u32 part) { return p->lds[lane] + part * p->lds_step; }

static void effect_read(Wave *w, Pending *p) {
    u32(*v)[LANES] = destination(w, p), registers = p->lds_size / 4u;
    const u8 *lds = w->group->lds;
    for (u32 part = 0; part < p->lds_parts; part++)
        for (int i = 0; i < LANES; i++) {
            if (!(p->exec >> i & 1)) continue;
            u32 x[4];
            memcpy(x, lds + place(p, i, part), p->lds_size);
            for (u32 k = 0; k < registers; k++) v[part * registers + k][i] = x[k];
        }
}

/* The common case, all lanes and four registers, with constant sizes. */
static void effect_read_four(Wave *w, Pending *p) {
    u32(*v)[LANES] = destination(w, p);
    const u8 *lds = w->group->lds;
    for (int i = 0; i < LANES; i++) {
        u32 x[4];
        memcpy(x, lds + p->lds[i], 16);
        for (int k = 0; k < 4; k++) v[k][i] = x[k];
    }
}

static void read_dwords(Wave *w, Pending *p) {
    if (p->lds_size == 16 && p->exec == ~0ull) effect_read_four(w, p);
    else effect_read(w, p);
}

#define PARTIAL_READ(name, type, value)                                                                               \
    static void name(Wave *w, Pending *p) {                                                                           \
        u32 *v = destination(w, p)[0];                                                                                \
        for (int i = 0; i < LANES; i++) {                                                                             \
            if (!(p->exec >> i & 1)) continue;                                                                        \
            type x;                                                                                                   \
            u32 old = v[i];                                                                                           \
            (void)old;                                                                                                \
            memcpy(&x, w->group->lds + p->lds[i], sizeof x);                                                          \
            v[i] = (value);                                                                                           \
        }                                                                                                             \
    }
PARTIAL_READ(read_u8, u8, x)
PARTIAL_READ(read_i8, i8, (u32)(i32)x)
PARTIAL_READ(read_u16, u16, x)
PARTIAL_READ(read_i16, i16, (u32)(i32)x)
PARTIAL_READ(read_u8_d16, u8, (old & 0xffff0000u) | x)
PARTIAL_READ(read_u8_d16_hi, u8, (old & 0xffffu) | (u32)x << 16)
PARTIAL_READ(read_i8_d16, i8, (old & 0xffff0000u) | ((u32)(i32)x & 0xffff))
PARTIAL_READ(read_i8_d16_hi, i8, (old & 0xffffu) | (u32)(i32)x << 16)
PARTIAL_READ(read_u16_d16, u16, (old & 0xffff0000u) | x)
PARTIAL_READ(read_u16_d16_hi, u16, (old & 0xffffu) | (u32)x << 16)

static void effect_write(Wave *w, Pending *p) {
    u32 registers = (p->lds_size + 3u) / 4u, shift = p->shift;
    for (u32 part = 0; part < p->lds_parts; part++)
        for (int i = 0; i < LANES; i++) {
            if (!(p->exec >> i & 1)) continue;
            u32 x[4];
            for (u32 k = 0; k < registers; k++) x[k] = p->data[part * registers + k][i] >> shift;
            memcpy(w->group->lds + place(p, i, part), x, p->lds_size);
        }
}

/* One operand of data or two, one after the other. */
static void capture_data(Wave *w, Pending *p, const Instruction *in) {
    for (int part = 0; part < in->n_src - 1; part++) {
        const Operand *o = &in->src[1 + part];
        for (int k = 0; k < o->width; k++) memcpy(p->data[part * o->width + k], w->v[o->index + k], sizeof p->data[0]);
    }
}

static void write_lds(Wave *w, const Instruction *in, u32 size, int parts, u32 unit, int shift) {
    Pending *p = issue_lds(w, in, LDS_WRITE, size, (u32)parts, unit, effect_write);
    capture_data(w, p, in);
    p->shift = (u8)shift;
    issued(w, p);
}

/* The effects are those of atomics in memory, at the host's addresses. */
static void access_atomically(Wave *w, const Instruction *in, u32 size, EffectFn *effect) {
    Pending *p = issue_lds(w, in, LDS_READ | LDS_WRITE | LDS_ATOMIC, size, 1, 1, effect);
    capture_data(w, p, in);
    for (int i = 0; i < LANES; i++) p->address[i] = (u64)(uintptr_t)(w->group->lds + p->lds[i]);
    memset(p->valid, 0xff, sizeof p->valid);
    lds_aligned(w, p, size, "LDS atomic");
    issued(w, p);
}

#define READ(name, registers, size, effect)                                                                           \
    static void name(Wave *w, const Instruction *in) { issued(w, issue_lds(w, in, LDS_READ, size, 1, 1, effect)); }
#define READ2(name, registers, size, unit)                                                                            \
    static void name(Wave *w, const Instruction *in) { issued(w, issue_lds(w, in, LDS_READ, size, 2, unit, effect_read)); }
#define WRITE(name, registers, size, shift)                                                                           \
    static void name(Wave *w, const Instruction *in) { write_lds(w, in, size, 1, 1, shift); }
#define WRITE2(name, registers, size, unit)                                                                           \
    static void name(Wave *w, const Instruction *in) { write_lds(w, in, size, 2, unit, 0); }
#include "ds.inc"
#undef READ
#undef READ2
#undef WRITE
#undef WRITE2
#define LDS(name, lds, suffix, type, registers, expression)                                                           \
    static void ds_##lds##_##suffix(Wave *w, const Instruction *in) {                                                 \
        access_atomically(w, in, sizeof(type), atomic_##name);                                                        \
    }
#include "atomic.inc"

/* ---- counting: M0 points to a dword, to which the number of lanes that are on is added, or from which it is taken;
   they all get what was there. LLVM puts the pointer into M0 as it is; what M0 means beyond 16 bits is not known. */

static void effect_count(Wave *w, Pending *p, u32 change) {
    u32 old;
    if (!p->exec) return;
    memcpy(&old, w->group->lds + p->lds[0], sizeof old);
    u32 next = old + change;
    memcpy(w->group->lds + p->lds[0], &next, sizeof next);
    for (int i = 0; i < LANES; i++)
        if (p->exec >> i & 1) destination(w, p)[0][i] = old;
}
static void effect_append(Wave *w, Pending *p) { effect_count(w, p, (u32)__builtin_popcountll(p->exec)); }
static void effect_consume(Wave *w, Pending *p) { effect_count(w, p, 0u - (u32)__builtin_popcountll(p->exec)); }

static void count_lanes(Wave *w, const Instruction *in, EffectFn *effect) {
    if (w->s[M0] >> 16) fail(w, in, FAULT_UNKNOWN, -1, "%#x in M0 as an LDS address is not modelled", w->s[M0]);
    else {
        Pending *p = issue_lds(w, in, LDS_READ | LDS_WRITE | LDS_ATOMIC, 4, 1, 1, effect);
        lds_aligned(w, p, 4, "LDS atomic");
        issued(w, p);
    }
}
static void ds_append(Wave *w, const Instruction *in) { count_lanes(w, in, effect_append); }
static void ds_consume(Wave *w, const Instruction *in) { count_lanes(w, in, effect_consume); }

/* ---- transposed reads: in each group of 16 lanes the elements that they supply, one lane after the other, are rows of
   16, and lane j gets column j (FlyDSL's copy atoms, which have all four; ROCm/rocm-systems PR 10175) ---- */

/* Of 16 bits: halfword n of the 16 lanes is what lanes 4n .. 4n+3 supply. */
static void effect_read_transposed(Wave *w, Pending *p) {
    u32(*v)[LANES] = destination(w, p);
    const u8 *lds = w->group->lds;
    for (int row = 0; row < LANES; row += 16) {
        u16 halfword[4][16];
        for (int lane = 0; lane < 16; lane++) memcpy(&halfword[lane / 4][lane % 4 * 4], lds + p->lds[row + lane], 8);
        for (int j = 0; j < 16; j++) {
            v[0][row + j] = halfword[0][j] | (u32)halfword[1][j] << 16;
            v[1][row + j] = halfword[2][j] | (u32)halfword[3][j] << 16;
        }
    }
}

static inline void transpose_bits(Wave *w, Pending *p, u32 bits, u32 bytes) {
    u32(*v)[LANES] = destination(w, p);
    for (int row = 0; row < LANES; row += 16) {
        u8 block[16 * 12 + 1];
        for (u32 lane = 0; lane < 16; lane++) memcpy(block + bytes * lane, w->group->lds + p->lds[(u32)row + lane], bytes);
        for (u32 j = 0; j < 16; j++) {
            u64 column[2] = {0, 0};
            for (u32 n = 0; n < 8 * bytes / bits; n++) {
                u32 from = bits * (16 * n + j), to = bits * n;
                u64 element = (u64)((block[from / 8] | block[from / 8 + 1] << 8) >> from % 8 & ((1 << bits) - 1));
                column[to / 64] |= element << to % 64;
                if (to % 64 + bits > 64) column[1] |= element >> (64 - to % 64);
            }
            for (u32 k = 0; k < bytes / 4; k++) v[k][(u32)row + j] = (u32)(column[k / 2] >> 32 * (k % 2));
        }
    }
}
static void effect_transpose_8(Wave *w, Pending *p) { transpose_bits(w, p, 8, 8); }
static void effect_transpose_6(Wave *w, Pending *p) { transpose_bits(w, p, 6, 12); }
static void effect_transpose_4(Wave *w, Pending *p) { transpose_bits(w, p, 4, 8); }

static void read_transposed(Wave *w, const Instruction *in, u32 size, u32 alignment, EffectFn *effect) {
    if (exec_of(w) != ~0ull) {
        fail(w, in, FAULT_UNKNOWN, -1, "a transposed read with lanes off (EXEC %016llx) is not defined",
             (unsigned long long)exec_of(w));
        return;
    }
    Pending *p = issue_lds(w, in, LDS_READ, size, 1, 1, effect);
    lds_aligned(w, p, alignment, "transposed read");
    issued(w, p);
}
static void ds_read_b64_tr_b16(Wave *w, const Instruction *in) { read_transposed(w, in, 8, 8, effect_read_transposed); }
static void ds_read_b64_tr_b8(Wave *w, const Instruction *in) { read_transposed(w, in, 8, 8, effect_transpose_8); }
static void ds_read_b64_tr_b4(Wave *w, const Instruction *in) { read_transposed(w, in, 8, 8, effect_transpose_4); }
/* AMD's HIP reference asks for 12 bytes, rocRoller for 16. */
static void ds_read_b96_tr_b6(Wave *w, const Instruction *in) { read_transposed(w, in, 12, 4, effect_transpose_6); }

/* ---- exchanges at two addresses, and of what is marked ---- */

static void effect_exchange(Wave *w, Pending *p) {
    u32(*v)[LANES] = destination(w, p), each = p->lds_size / 4u;
    for (int i = 0; i < LANES; i++) {
        if (!(p->exec >> i & 1)) continue;
        u32 old[4], next[4];
        for (u32 part = 0; part < 2; part++) memcpy(old + part * each, w->group->lds + place(p, i, part), p->lds_size);
        for (u32 k = 0; k < 2 * each; k++) next[k] = p->data[k][i];
        for (u32 part = 0; part < 2; part++) memcpy(w->group->lds + place(p, i, part), next + part * each, p->lds_size);
        for (u32 k = 0; k < 2 * each; k++) v[k][i] = old[k];
    }
}

static void exchange_two(Wave *w, const Instruction *in, u32 size, u32 unit) {
    Pending *p = issue_lds(w, in, LDS_READ | LDS_WRITE | LDS_ATOMIC, size, 2, unit, effect_exchange);
    capture_data(w, p, in);
    lds_aligned(w, p, size, "LDS atomic");
    issued(w, p);
}
static void ds_wrxchg2_rtn_b32(Wave *w, const Instruction *in) { exchange_two(w, in, 4, 4); }
static void ds_wrxchg2_rtn_b64(Wave *w, const Instruction *in) { exchange_two(w, in, 8, 8); }
static void ds_wrxchg2st64_rtn_b32(Wave *w, const Instruction *in) { exchange_two(w, in, 4, 256); }
static void ds_wrxchg2st64_rtn_b64(Wave *w, const Instruction *in) { exchange_two(w, in, 8, 512); }

/* A dword is written if its highest bit is set, without that bit. */
static void effect_exchange_marked(Wave *w, Pending *p) {
    u32(*v)[LANES] = destination(w, p);
    for (int i = 0; i < LANES; i++) {
        u32 old[2], next[2];
        if (!(p->exec >> i & 1)) continue;
        memcpy(old, w->group->lds + p->lds[i], sizeof old);
        for (int k = 0; k < 2; k++) next[k] = p->data[k][i] >> 31 ? p->data[k][i] & 0x7fffffff : old[k];
        memcpy(w->group->lds + p->lds[i], next, sizeof next);
        for (int k = 0; k < 2; k++) v[k][i] = old[k];
    }
}
static void ds_condxchg32_rtn_b64(Wave *w, const Instruction *in) { access_atomically(w, in, 8, effect_exchange_marked); }

/* ---- lane exchanges that use the LDS crossbar but no memory ---- */

static void effect_give(Wave *w, Pending *p) {
    u32 *v = destination(w, p)[0];
    for (int i = 0; i < LANES; i++)
        if (p->exec >> i & 1) v[i] = p->data[0][i];
}

static void ds_bpermute_b32(Wave *w, const Instruction *in) {
    Pending *p = issue(w, in, QUEUE_LDS, 2, effect_give);
    const u32 *address = w->v[in->src[0].index], *data = w->v[in->src[1].index];
    for (int i = 0; i < LANES; i++) {
        u32 from = (address[i] + (u32)in->offset) / 4 % LANES;
        p->data[0][i] = p->exec >> from & 1 ? data[from] : 0;
    }
    issued(w, p);
}

static void ds_permute_b32(Wave *w, const Instruction *in) {
    Pending *p = issue(w, in, QUEUE_LDS, 2, effect_give);
    const u32 *address = w->v[in->src[0].index], *data = w->v[in->src[1].index];
    memset(p->data[0], 0, sizeof p->data[0]);
    for (int i = 0; i < LANES; i++)
        if (p->exec >> i & 1) p->data[0][(address[i] + (u32)in->offset) / 4 % LANES] = data[i];
    issued(w, p);
}

/* Bit 15 set: any permutation within four lanes; else and, or, xor masks within 32. */
static void ds_swizzle_b32(Wave *w, const Instruction *in) {
    Pending *p = issue(w, in, QUEUE_LDS, 2, effect_give);
    const u32 *data = w->v[in->src[0].index];
    u32 pattern = (u32)in->offset & 0xffff;
    for (u32 i = 0; i < LANES; i++) {
        u32 group = i & ~31u, lane = i & 31;
        u32 from = pattern & 0x8000 ? (i & ~3u) + (pattern >> 2 * (i & 3) & 3)
                                    : group + (((lane & pattern) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
        p->data[0][i] = p->exec >> from & 1 ? data[from] : 0;
    }
    issued(w, p);
}

#define DS_ROW(name, form) {#name, form, FORMAT_DS, UNIT_LDS, name, NULL},
#define READ(name, registers, size, effect) DS_ROW(name, #registers ":u32")
#define READ2(name, registers, size, unit) DS_ROW(name, #registers ":u32")
#define WRITE(name, registers, size, shift) DS_ROW(name, ":u32," #registers)
#define WRITE2(name, registers, size, unit) DS_ROW(name, ":u32," #registers "," #registers)
#define RTN_ROW(lds, suffix, form) {"ds_" #lds "_rtn_" #suffix, form, FORMAT_DS, UNIT_LDS, ds_##lds##_##suffix, NULL},
#define RTN(name, lds, suffix, type, registers, expression) RTN_ROW(lds, suffix, #registers ":u32," #registers)
#define RTN2(name, lds, suffix, type, registers, expression)                                                          \
    RTN_ROW(lds, suffix, #registers ":u32," #registers "," #registers)
#define LDS(name, lds, suffix, type, registers, expression)                                                           \
    DS_ROW(ds_##lds##_##suffix, ":u32," #registers)                                                                   \
    RTN_ROW(lds, suffix, #registers ":u32," #registers)
#define LDS2(name, lds, suffix, type, registers, expression)                                                          \
    DS_ROW(ds_##lds##_##suffix, ":u32," #registers "," #registers)                                                    \
    RTN_ROW(lds, suffix, #registers ":u32," #registers "," #registers)
const Op ds_ops[] = {
#include "ds.inc"
#include "atomic.inc"
    DS_ROW(ds_append, "u32:")
    DS_ROW(ds_consume, "u32:")
    DS_ROW(ds_read_b64_tr_b16, "b64:u32")
    DS_ROW(ds_read_b64_tr_b8, "b64:u32")
    DS_ROW(ds_read_b64_tr_b4, "b64:u32")
    DS_ROW(ds_read_b96_tr_b6, "b96:u32")
    DS_ROW(ds_wrxchg2_rtn_b32, "b64:u32,b32,b32")
    DS_ROW(ds_wrxchg2_rtn_b64, "b128:u32,b64,b64")
    DS_ROW(ds_wrxchg2st64_rtn_b32, "b64:u32,b32,b32")
    DS_ROW(ds_wrxchg2st64_rtn_b64, "b128:u32,b64,b64")
    DS_ROW(ds_condxchg32_rtn_b64, "b64:u32,b64")
    DS_ROW(ds_bpermute_b32, "u32:u32,u32")
    DS_ROW(ds_permute_b32, "u32:u32,u32")
    DS_ROW(ds_swizzle_b32, "u32:u32")
    {0}};

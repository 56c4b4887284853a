/* Program flow, waits, hardware registers and scalar loads. */
#include "../arithmetic.h"
#include "../global.h"
#include "../hostcall.h"
#include "../machine_tables.h"
#include "../order.h"

void execute_nothing(Wave *w, const Instruction *in) { (void)w, (void)in; }

static void s_endpgm(Wave *w, const Instruction *in) {
    (void)in;
    wait_counters(w, 0, 0);
    w->event = w->event == EVENT_ERROR ? EVENT_ERROR : EVENT_END;
}

static void s_barrier(Wave *w, const Instruction *in) {
    (void)in;
    w->barriers++;
    w->event = EVENT_BARRIER;
}

/* vmcnt is bits 3:0 and 15:14, expcnt 6:4 (nothing here uses it), lgkmcnt 11:8. */
static void s_waitcnt(Wave *w, const Instruction *in) {
    u32 lgkm = in->imm >> 8 & 15;
    wait_counters(w, (in->imm & 15) | (in->imm >> 14 & 3) << 4, lgkm == 15 ? ~0u : lgkm);
}

static void take(Wave *w, const Instruction *in, i32 target) {
    if (target < 0) {
        fail(w, in, FAULT_UNKNOWN, -1, "branch to an address that is not the start of an instruction");
        return;
    }
    if (target <= position(w, in)) {
        w->loop_target = target;
        w->loop_branch = position(w, in);
    }
    w->pc = target;
}

#define BRANCH(name, condition)                                                                                       \
    static void name(Wave *w, const Instruction *in) {                                                                \
        if (condition) take(w, in, in->target);                                                                       \
    }
BRANCH(s_branch, 1)
BRANCH(s_cbranch_scc0, !w->scc)
BRANCH(s_cbranch_scc1, w->scc)
BRANCH(s_cbranch_vccz, pair(w->s, VCC) == 0)
BRANCH(s_cbranch_vccnz, pair(w->s, VCC) != 0)
BRANCH(s_cbranch_execz, exec_of(w) == 0)
BRANCH(s_cbranch_execnz, exec_of(w) != 0)

/* Code addresses are host addresses of the loaded image, so that s_getpc reaches its constants. */
static u64 address_after(const Wave *w, const Instruction *in) {
    return w->group->machine->launch.text_address + 4ull * (u32)in->offset;
}
static i32 record_at(const Wave *w, u64 address) {
    const Launch *l = &w->group->machine->launch;
    u64 word = (address - l->text_address) / 4;
    return address < l->text_address || word >= l->text_words ? -1 : l->index_of_word[word];
}
static void s_getpc_b64(Wave *w, const Instruction *in) { set_pair(w->s, in->dst[0].index, address_after(w, in)); }
static void s_setpc_b64(Wave *w, const Instruction *in) { take(w, in, record_at(w, scalar64(w, &in->src[0]))); }
static void s_swappc_b64(Wave *w, const Instruction *in) {
    u64 target = scalar64(w, &in->src[0]);
    set_pair(w->s, in->dst[0].index, address_after(w, in));
    take(w, in, record_at(w, target));
}
static void s_call_b64(Wave *w, const Instruction *in) {
    set_pair(w->s, in->dst[0].index, address_after(w, in));
    take(w, in, in->target);
}

static void s_trap(Wave *w, const Instruction *in) {
    fail(w, in, FAULT_TRAP, -1, "the kernel trapped (abort, __builtin_trap or an unreachable place)");
}

/* The caches are not modelled, but whether code has seen to them: of the low bits of the encoding sc1, which means more
   than the workgroup's. */
enum { CACHE_SC1 = 1 << 15 };
static void buffer_wbl2(Wave *w, const Instruction *in) {
    if (w->order && in->imm & CACHE_SC1) order_write_back(w);
}
static void buffer_inv(Wave *w, const Instruction *in) {
    if (w->order && in->imm & CACHE_SC1) order_invalidate(w);
}

enum { MSG_INTERRUPT = 1 };
static void s_sendmsg(Wave *w, const Instruction *in) {
    if ((in->imm & 15) == MSG_INTERRUPT) serve_hostcalls(w, in);
    else fail(w, in, FAULT_UNKNOWN, -1, "message %u is not modelled", in->imm & 15);
}

/* ---- hardware registers: simm16 is id (5:0), first bit (10:6), width - 1 (15:11) ---- */

enum { HWREG_MODE = 1, HWREG_TRAPSTS = 3, HWREG_HW_ID = 4, HWREG_SH_MEM_BASES = 15, HWREG_XCC_ID = 20 };
enum { XCCS = 8, SHADER_ENGINES = 4, UNITS_OF_ENGINE = 8, SIMDS = 4 };

/* Workgroups go round the dies, then round their shader engines, then round the compute units of those. Fields are those
   of LLVM's SIDefines.h and HIP's __smid(): wave (3:0), SIMD (5:4), compute unit (11:8), shader engine (15:13),
   workgroup of the unit (19:16). */
static u32 place_of(const Wave *w) {
    u32 in_die = w->group->linear / XCCS, in_engine = in_die / SHADER_ENGINES;
    return w->index / SIMDS | (w->index % SIMDS) << 4 | (in_engine % UNITS_OF_ENGINE) << 8 |
           (in_die % SHADER_ENGINES) << 13 | (in_engine / UNITS_OF_ENGINE % 16) << 16;
}

static u32 field_mask(const Instruction *in) { return 0xffffffffu >> (31 - (in->imm >> 11 & 31)); }

static void s_getreg_b32(Wave *w, const Instruction *in) {
    u32 value = 0;
    switch (in->imm & 63) {
    case HWREG_MODE: value = w->mode; break;
    case HWREG_TRAPSTS: break; /* no exception has occurred */
    case HWREG_HW_ID: value = place_of(w); break;
    case HWREG_SH_MEM_BASES: value = APERTURE_SCRATCH >> 16 | (APERTURE_LDS >> 16) << 16; break;
    case HWREG_XCC_ID: value = w->group->linear % XCCS; break;
    default:
        fail(w, in, FAULT_UNKNOWN, -1, "hardware register %u is not modelled", in->imm & 63);
        return;
    }
    w->s[in->dst[0].index] = value >> (in->imm >> 6 & 31) & field_mask(in);
}

static void set_mode(Wave *w, const Instruction *in, u32 value) {
    if ((in->imm & 63) != HWREG_MODE) {
        fail(w, in, FAULT_UNKNOWN, -1, "hardware register %u is not modelled", in->imm & 63);
        return;
    }
    u32 shift = in->imm >> 6 & 31, mask = field_mask(in) << shift;
    w->mode = (w->mode & ~mask) | (value << shift & mask);
    if ((w->mode & 0xcc) != 0xc0) { /* bits 7:6 and 3:2 */
        fail(w, in, FAULT_UNKNOWN, -1, "rounding of fp16 and fp64 other than to nearest, and flushing them, is not modelled");
        return;
    }
    set_float_mode(w->mode);
}
static void s_setreg_b32(Wave *w, const Instruction *in) { set_mode(w, in, scalar32(w, &in->src[0])); }

/* ---- scalar loads. Sources in the record: 0 base or resource, 1 scalar offset; the constant offset is `offset` ---- */

static void effect_scalar_load(Wave *w, Pending *p) {
    memcpy(&w->s[p->in->dst[0].index], (const void *)(uintptr_t)p->address[0], 4u * p->in->dst[0].width);
}

static void load_scalar_at(Wave *w, const Instruction *in, u64 address) {
    Pending *p = issue(w, in, QUEUE_SCALAR, 2, effect_scalar_load);
    u32 size = 4u * in->dst[0].width;
    p->address[0] = address;
    if (address % 4) fail_misaligned(w, in, -1, "scalar load, whose low two address bits hardware drops", address, 4);
    if (global_to_host(w, p, 1, size, 0)) w->group->global_read += size;
    issued(w, p);
}

static u64 scalar_offset(const Wave *w, const Instruction *in) {
    const Operand *s = &in->src[1];
    return (s->kind == OPERAND_NONE ? 0 : scalar32(w, s)) + (u64)(i64)in->offset;
}

static void load_scalar(Wave *w, const Instruction *in) {
    load_scalar_at(w, in, scalar64(w, &in->src[0]) + scalar_offset(w, in));
}

/* Of the resource base, stride and number of records count, and the stride in the range check alone (CDNA4 manual 8.2).
   What is loaded past the records has no answer there that one could rely on. */
static void load_scalar_buffer(Wave *w, const Instruction *in) {
    const u32 *s = &w->s[in->src[0].index];
    u64 offset = scalar_offset(w, in), stride = s[1] >> 16 & 0x3fff, bytes = s[2] * (stride ? stride : 1);
    if (offset + 4u * in->dst[0].width > bytes)
        fail(w, in, FAULT_UNKNOWN, -1, "scalar load of %u bytes at byte %llu of a buffer of %llu bytes is not modelled",
             4u * in->dst[0].width, (unsigned long long)offset, (unsigned long long)bytes);
    else load_scalar_at(w, in, ((u64)(s[1] & 0xffff) << 32 | s[0]) + offset);
}

/* ---- clocks: they advance with what the wave executes and with each question, so that who waits for a time gets there.
   The real-time counter has 100 MHz to the engine's 2.4 GHz. ---- */

enum { CYCLES_OF_INSTRUCTION = 4, CYCLES_OF_QUESTION = 64, CYCLES_OF_TICK = 24 };

static void effect_clock(Wave *w, Pending *p) {
    w->s[p->in->dst[0].index] = p->data[0][0];
    w->s[p->in->dst[0].index + 1] = p->data[1][0];
}

static void read_clock(Wave *w, const Instruction *in, u32 cycles) {
    Pending *p = issue(w, in, QUEUE_SCALAR, 2, effect_clock);
    u64 executed = CYCLES_OF_INSTRUCTION * w->executed;
    w->clock = (w->clock > executed ? w->clock : executed) + CYCLES_OF_QUESTION;
    p->data[0][0] = (u32)(w->clock / cycles);
    p->data[1][0] = (u32)(w->clock / cycles >> 32);
    issued(w, p);
}
static void s_memtime(Wave *w, const Instruction *in) { read_clock(w, in, 1); }
static void s_memrealtime(Wave *w, const Instruction *in) { read_clock(w, in, CYCLES_OF_TICK); }

#define FLOW(name, form, format, unit) {#name, form, format, unit, name, NULL}
#define NOTHING(name) {#name, ":", FORMAT_SOPP, UNIT_SALU, execute_nothing, NULL}
#define SCALAR_LOAD(name, registers) {#name, #registers ":", FORMAT_SMEM, UNIT_SMEM, load_scalar, NULL}
#define SCALAR_BUFFER_LOAD(name, registers) {#name, #registers ":", FORMAT_SMEM, UNIT_SMEM, load_scalar_buffer, NULL}
const Op control_ops[] = {
    FLOW(s_endpgm, ":", FORMAT_SOPP, UNIT_BRANCH),
    FLOW(s_barrier, ":", FORMAT_SOPP, UNIT_BARRIER),
    FLOW(s_waitcnt, ":", FORMAT_SOPP, UNIT_WAIT),
    FLOW(s_branch, ":", FORMAT_SOPP, UNIT_BRANCH),
    FLOW(s_cbranch_scc0, ":", FORMAT_SOPP, UNIT_BRANCH),
    FLOW(s_cbranch_scc1, ":", FORMAT_SOPP, UNIT_BRANCH),
    FLOW(s_cbranch_vccz, ":", FORMAT_SOPP, UNIT_BRANCH),
    FLOW(s_cbranch_vccnz, ":", FORMAT_SOPP, UNIT_BRANCH),
    FLOW(s_cbranch_execz, ":", FORMAT_SOPP, UNIT_BRANCH),
    FLOW(s_cbranch_execnz, ":", FORMAT_SOPP, UNIT_BRANCH),
    FLOW(s_trap, ":", FORMAT_SOPP, UNIT_BRANCH),
    FLOW(s_sendmsg, ":", FORMAT_SOPP, UNIT_SALU),
    FLOW(s_getpc_b64, "u64:", FORMAT_PLAIN, UNIT_BRANCH),
    FLOW(s_setpc_b64, ":u64", FORMAT_PLAIN, UNIT_BRANCH),
    FLOW(s_swappc_b64, "u64:u64", FORMAT_PLAIN, UNIT_BRANCH),
    FLOW(s_call_b64, "u64:", FORMAT_SOPK, UNIT_BRANCH),
    FLOW(s_getreg_b32, "u32:", FORMAT_SOPK, UNIT_SALU),
    FLOW(s_setreg_b32, ":u32", FORMAT_SOPK, UNIT_SALU),
    {"s_setreg_imm32_b32", ":u32", FORMAT_SOPK, UNIT_SALU, s_setreg_b32, NULL},
    FLOW(s_memtime, "u64:", FORMAT_SMEM, UNIT_SMEM),
    FLOW(s_memrealtime, "u64:", FORMAT_SMEM, UNIT_SMEM),
    NOTHING(s_nop), NOTHING(s_sleep), NOTHING(s_setprio), NOTHING(s_icache_inv), NOTHING(s_incperflevel),
    NOTHING(s_decperflevel), NOTHING(s_ttracedata), NOTHING(s_sethalt), NOTHING(s_dcache_inv), NOTHING(s_dcache_wb),
    FLOW(buffer_wbl2, ":", FORMAT_SOPP, UNIT_SALU),
    FLOW(buffer_inv, ":", FORMAT_SOPP, UNIT_SALU),
    NOTHING(s_dcache_inv_vol), NOTHING(s_dcache_wb_vol), NOTHING(s_wakeup), NOTHING(ds_nop),
    SCALAR_LOAD(s_load_dword, b32), SCALAR_LOAD(s_load_dwordx2, b64), SCALAR_LOAD(s_load_dwordx4, b128),
    SCALAR_LOAD(s_load_dwordx8, b256), SCALAR_LOAD(s_load_dwordx16, b512),
    SCALAR_BUFFER_LOAD(s_buffer_load_dword, b32), SCALAR_BUFFER_LOAD(s_buffer_load_dwordx2, b64),
    SCALAR_BUFFER_LOAD(s_buffer_load_dwordx4, b128), SCALAR_BUFFER_LOAD(s_buffer_load_dwordx8, b256),
    SCALAR_BUFFER_LOAD(s_buffer_load_dwordx16, b512),
    {0}};

/* The virtual compute unit: instruction records, waves, workgroups and the machine that runs them. */
#ifndef ROCKE_MACHINE_H
#define ROCKE_MACHINE_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

enum { LANES = 64, MAX_WAVES = 16, VGPR_ROWS = 512, SGPR_ROWS = 128 };
enum { VCC = 106, M0 = 124, EXEC = 126 };

/* A NaN in every format that an attention kernel reads: fp32, fp64 and both 16-bit halves. */
#define POISON 0x7ff97ff9u

/* ---- instruction records; ../program/program.py writes the same layout ---- */

enum { OPERAND_NONE, OPERAND_VGPR, OPERAND_SGPR, OPERAND_CONST, OPERAND_AGPR };
enum { TYPE_INT, TYPE_F32, TYPE_F64, TYPE_F16, TYPE_MASK, TYPE_PAIR_F32, TYPE_PAIR_16 };
enum { MOD_NEG = 1, MOD_ABS = 2, MOD_SEXT = 4, MOD_NEG_HI = 8, MOD_SEL = 16, MOD_SEL_HI = 32 };
enum { SEL_DWORD, SEL_BYTE0, SEL_BYTE1, SEL_BYTE2, SEL_BYTE3, SEL_WORD0, SEL_WORD1 };
enum { UNUSED_PAD, UNUSED_SEXT, UNUSED_PRESERVE };

typedef struct Operand {
    u8 kind, mods, sel, width; /* width in registers */
    u16 index;
    u8 type, unused;
    u64 value; /* of a constant */
} Operand;

enum {
    FLAG_CLAMP = 1,
    FLAG_MUL2 = 2,
    FLAG_MUL4 = 4,
    FLAG_DIV2 = 8,
    FLAG_DPP = 16,
    FLAG_BOUND_CTRL = 32,
    FLAG_OFFEN = 64,
    FLAG_IDXEN = 128,
    FLAG_LDS = 256,
    FLAG_RETURN = 512,
    FLAG_SC0 = 1024,
    FLAG_SC1 = 2048,
    FLAG_ATOMIC = 1 << 15, /* set by the core, like the next */
    FLAG_PLAIN = 1 << 16 /* set by the core: no operand or result needs rework */
};

typedef struct Wave Wave;
typedef struct Group Group;
typedef struct Machine Machine;
typedef struct Instruction Instruction;
typedef struct Rows Rows;
typedef struct Hazards Hazards;
typedef struct Order Order;
typedef struct Segments Segments;
typedef struct ShadowMemory ShadowMemory;
typedef void ExecuteFn(Wave *, const Instruction *);
typedef void LaneFn(const Rows *);

struct Instruction {
    ExecuteFn *execute; /* execute and lanes are filled in by the core */
    LaneFn *lanes;
    u16 op;
    u8 n_dst, n_src;
    u32 flags;
    i32 target; /* record index of a branch target, else -1 */
    i32 offset, offset1;
    u32 imm;  /* simm16 of SOPP and SOPK, bitop3 table, hardware register */
    u16 dpp_ctrl;
    u8 dpp_rows, dpp_banks;
    u32 unit; /* execution unit, for observers of the issue stream */
    u32 queue; /* the queue whose earlier loads may share its destination */
    Operand dst[2];
    Operand src[5];
};

enum {
    UNIT_NONE, UNIT_SALU, UNIT_VALU, UNIT_TRANS, UNIT_MFMA, UNIT_LDS, UNIT_VMEM, UNIT_LDS_DMA,
    UNIT_SMEM, UNIT_BRANCH, UNIT_WAIT, UNIT_BARRIER
};

/* How the decoder reads the operands of an instruction. */
enum {
    FORMAT_PLAIN = 1, /* destinations, then sources, as the form says */
    FORMAT_SOPP, FORMAT_SOPK, FORMAT_SMEM, FORMAT_DS, FORMAT_BUFFER, FORMAT_GLOBAL, FORMAT_FLAT, FORMAT_SCRATCH
};

/* One line of a semantics table. `form` is "destinations:sources" in the type names of program/operands.py. */
typedef struct Op {
    const char *name, *form;
    u8 format, unit;
    ExecuteFn *execute;
    LaneFn *lanes;
} Op;

/* ---- memory operations that have been issued and not yet waited for ---- */

enum { VM_SLOTS = 64, LDS_SLOTS = 16, SCALAR_SLOTS = 32, SLOTS = VM_SLOTS + LDS_SLOTS + SCALAR_SLOTS };
enum { QUEUE_VM, QUEUE_LDS, QUEUE_SCALAR, QUEUES };

typedef struct Pending Pending;
typedef void EffectFn(Wave *, Pending *);
struct Pending {
    const Instruction *in;
    EffectFn *effect;
    u32 sequence;   /* the bookkeeping tag of its registers */
    u16 epoch;      /* barrier epoch at issue */
    u8 lds_kind;    /* 0, or how it touches LDS: see lds.h */
    u8 lds_size, lds_parts;
    u8 shift;       /* of stored data: 16 for the high half of a register */
    u8 waits;       /* counters that still hold it: bit 0 vmcnt, bit 1 lgkmcnt */
    u8 applied;
    u8 stores;      /* whether it changes memory */
    u8 kept;        /* LDS DMA whose data is already in `data`, where its addresses point now */
    u8 watched_size, changes, reach; /* how it accesses the launch's memory: see shadow.h and order.h */
    u8 valid[LANES]; /* registers of each lane that lie inside the buffer resource */
    u32 lds_step;   /* bytes between the parts of a two-address LDS operation; of one lane in memory */
    u64 exec, lds_lanes; /* of FLAT operations without, and only, the lanes in LDS */
    u64 order;      /* of vector memory operations of the workgroup; 0 for others */
    u64 watched, first_outstanding; /* lanes whose accesses are checked; the wave's first operation without a wait then */
    u32 segment;
    u32 lds[LANES];
    u64 address[LANES]; /* of the host, once checked */
    u64 device[LANES];  /* of the device, if the launch is timed */
    u32 data[8][LANES];
};

typedef struct Queue {
    u32 first, count;
} Queue;

enum { EVENT_NONE, EVENT_ERROR, EVENT_BARRIER, EVENT_END, EVENT_YIELD };
enum { WAVE_READY, WAVE_AT_BARRIER, WAVE_ENDED };

struct Wave {
    u32 s[SGPR_ROWS] __attribute__((aligned(64)));
    u32 (*v)[LANES];
    Group *group;
    u32 scc, mode, event, state, index;
    i32 pc;
    i32 loop_target, loop_branch; /* the last backward branch taken */
    u32 barriers, sequence;
    u32 busy_v, busy_s; /* registers with an outstanding load */
    u64 executed, clock; /* instructions so far; the last time that it asked for */
    Queue queue[QUEUES];
    u32 limbo;             /* FLAT operations past vmcnt, still held by lgkmcnt */
    u32 tag_v[VGPR_ROWS], tag_s[SGPR_ROWS];
    Pending *slots[QUEUES];
    struct WaveMemory *memory; /* where v and slots lie */
    u8 *scratch;
    Hazards *hazards; /* NULL: not looked at */
    Order *order;     /* NULL: races are not looked at */
};

typedef struct Fault {
    i32 kind, pc, other_pc, wave, other_wave, lane;
    u32 workgroup;
    u64 address;
    char text[480];
} Fault;

typedef struct Shadow Shadow;
typedef struct Stamp Stamp;
typedef struct RaceRecord {
    i32 pc, other_pc, wave, other_wave;
    u32 workgroup, is_global;
    u64 address; /* in LDS, or of the host */
    u64 count;
} RaceRecord;
/* A write over another one, until it is seen whether it changes anything. */
typedef struct Conflict {
    u64 write, address;
    u32 old, mask;
    int lane;
} Conflict;
enum { MAX_RACES = 256, MAX_CONFLICTS = 256 };

typedef struct BankCache {
    u32 relative[LANES];
    u64 exec;
    u32 cycles, ideal, valid;
} BankCache;

struct Group {
    Machine *machine;
    Wave *waves;
    u32 n_waves, active;
    u32 id[3], linear;
    u32 epoch;
    u32 barriers;
    u32 stores_through;                         /* whether a store went past the caches, by sc1 */
    u32 writes_back, written_back[MAX_WAVES];   /* segments of each wave that were written back before the last barrier */
    const struct Known *seen, *acquired;
    struct Block *blocks;
    Conflict conflicts[MAX_CONFLICTS];
    u64 vector_issued;  /* vector memory operations so far */
    u32 stores_waiting; /* of those, stores and atomics without effect so far */
    u8 *lds;
    u32 lds_size;
    Shadow *shadow, *shadow_bytes; /* of dwords, and of the bytes of those that are split */
    u32 parts;                     /* whether parts of dwords were accessed */
    Stamp *stamps;
    u32 current, left; /* the schedule: wave at turn, instructions left of its turn */
    u64 random;
    u64 *counts; /* [wave][instruction] */
    u64 *bank_extra, *bank_ideal, *uninitialised; /* [instruction] */
    BankCache *banks;
    u64 lds_read, lds_written, global_read, global_written;
    RaceRecord races[MAX_RACES];
    u32 n_races, last_buffer;
    u64 done;
    struct Timing *timing; /* NULL: no timing */
};

enum { SCHEDULE_LOCKSTEP, SCHEDULE_TO_BARRIER, SCHEDULE_RANDOM };

/* Filled in by ../execution/launch.py. */
typedef struct Launch {
    const Instruction *code;
    const i32 *index_of_word; /* text offset / 4 to record, -1 inside an instruction */
    u64 text_address;
    u64 text_words;
    u64 n_code;
    const u64 *buffer_start, *buffer_end;
    const u64 *buffer_host, *buffer_device; /* added to an address, modulo 2**64: see execution/memory.py */
    const u8 *buffer_writable, *buffer_watched; /* whether races are looked for */
    u64 n_buffers;
    const u32 *workgroups; /* linear ids to run */
    u64 n_workgroups;
    const u32 *initial_s; /* SGPR_ROWS values; workgroup ids are written at id_sgpr[] */
    i32 id_sgpr[3];
    u32 grid[3], block[3];
    i32 entry;
    u32 n_vgprs, accum_offset, lds_size, scratch_size, mode; /* AGPRs are the VGPRs from accum_offset on */
    u32 lazy, races, equal_barriers, written_lds, schedule, quantum, threads, work_item_dims;
    u64 seed, max_instructions;
    const struct TimedInstruction *timed_instructions; /* [n_code]; NULL: no timing */
    const struct TimingModel *timing_model;
    const struct HazardMarks *hazard_marks; /* [n_code]; NULL: neither hazards nor errata */
    const struct HazardSpan *hazard_spans;
    u32 hazard_ways, hazards, errata;
    struct HostcallBuffer *hostcall; /* NULL: the kernel calls nothing on the host */
    int (*serve)(u32 service, u64 lanes, u64 (*payload)[8]); /* not 0: refused */
} Launch;

struct Machine {
    Launch launch;
    const Instruction *code;
    Instruction *records;
    Group *groups;
    ShadowMemory *shadow; /* NULL: races are not looked at */
    Segments *segments;
    u64 next;           /* next entry of launch.workgroups */
    u64 finished;
    volatile u32 stop;
    u32 failed;
    Fault fault;
    void (*observe)(Group *, Wave *, const Instruction *); /* sees every executed instruction */
};

/* ---- shared helpers ---- */

enum { FAULT_OTHER, FAULT_BOUNDS, FAULT_RACE, FAULT_EARLY, FAULT_BARRIER, FAULT_HANG, FAULT_UNKNOWN, FAULT_LDS_BOUNDS,
       FAULT_SCRATCH_BOUNDS, FAULT_TRAP, FAULT_ALIGNMENT, FAULT_UNWRITTEN, FAULT_HAZARD,
       FAULT_GLOBAL_RACE };

void fail(Wave *w, const Instruction *in, int kind, int lane, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* HSA runs in the unaligned access mode (the kernel driver's SH_MEM_CONFIG), where loads and stores go to any byte
   (LLVM's unaligned-access-mode). What that mode does not cover: `address` is not a multiple of `size`. */
void fail_misaligned(Wave *w, const Instruction *in, int lane, const char *what, u64 address, u32 size);
void fail_other(Wave *w, const Instruction *other, int other_wave, u64 address);
void set_float_mode(u32 mode);

static inline u64 pair(const u32 *s, u32 index) {
    u64 value;
    memcpy(&value, &s[index], 8);
    return value;
}
static inline void set_pair(u32 *s, u32 index, u64 value) { memcpy(&s[index], &value, 8); }
static inline u64 exec_of(const Wave *w) { return pair(w->s, EXEC); }
static inline u64 scalar64(const Wave *w, const Operand *o) {
    return o->kind == OPERAND_SGPR ? (o->width > 1 ? pair(w->s, o->index) : w->s[o->index]) : o->value;
}
static inline u32 scalar32(const Wave *w, const Operand *o) {
    return o->kind == OPERAND_SGPR ? w->s[o->index] : (u32)o->value;
}
static inline i32 position(const Wave *w, const Instruction *in) { return (i32)(in - w->group->machine->code); }

/* pending.c */
Pending *issue(Wave *w, const Instruction *in, int queue, int waits, EffectFn *effect);
void issued(Wave *w, Pending *p);
void wait_counters(Wave *w, u32 vmcnt, u32 lgkmcnt);
int registers_ready(Wave *w, const Instruction *in);

#endif

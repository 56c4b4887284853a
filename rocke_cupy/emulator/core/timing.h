/* The timing model: what each wave executed is traced, then replayed against the units of one compute unit.
   docs/timing_model.md says what the numbers mean; ../timing/replay.py fills in the tables. */
#ifndef ROCKE_TIMING_H
#define ROCKE_TIMING_H

#include "machine.h"

enum {
    TIMED_SALU, TIMED_VALU, TIMED_PACKED, TIMED_MFMA, TIMED_LDS, TIMED_VMEM, TIMED_DMA, TIMED_SMEM, TIMED_BRANCH,
    TIMED_WAIT, TIMED_BARRIER, TIMED_NOP, TIMED_PRIORITY, TIMED_END
};

/* What one instruction of the program costs. */
typedef struct TimedInstruction {
    u16 kind;
    u16 issue;   /* cycles of its SIMD's vector port, or of the wave itself (s_nop) */
    u16 pipe;    /* cycles of the matrix pipe; for LDS DMA, of LDS when it is written */
    u16 latency; /* from issue to a result that others can read */
} TimedInstruction;

/* The constants of gfx950_timing.json, in cycles unless said otherwise. */
typedef struct TimingModel {
    u32 simds, issue_turn;
    u32 matrix_result;     /* from the end of the matrix pipe's cycles to a result for others than an accumulator */
    u32 scalar_result;     /* from a vector instruction to a scalar result of it */
    u32 branch_taken, branch_not_taken, barrier;
    u32 lds_latency, lds_phase;
    u32 memory_latency, memory_line, memory_least, memory_queue; /* memory_line: of 128 bytes; memory_queue: requests */
    u32 scalar_latency;
    u32 copies;            /* workgroups that share the compute unit */
} TimingModel;

enum { BUSY_MFMA, BUSY_VECTOR, BUSY_SCALAR, BUSY_LDS, BUSY_MEMORY, BUSY_UNITS };
enum { STALL_NONE, STALL_OPERAND, STALL_VECTOR, STALL_MFMA, STALL_LDS, STALL_MEMORY, STALL_WAIT_VM, STALL_WAIT_LGKM,
       STALL_BARRIER, STALL_REASONS };

typedef struct TimedWorkgroup {
    u64 workgroup, cycles;
    u64 busy[BUSY_UNITS];       /* summed over the SIMDs */
    u64 stalls[STALL_REASONS];  /* summed over the waves */
} TimedWorkgroup;

typedef struct TraceEntry {
    u32 pc;
    u32 work; /* LDS cycles, or 128-byte lines of memory */
    u64 time; /* of issue, once replayed */
} TraceEntry;

typedef struct WaveTrace {
    TraceEntry *entries;
    u64 count, room;
} WaveTrace;

/* One a group: the traces of the workgroup at work, and the results of those that are done. */
typedef struct Timing {
    const TimedInstruction *table;
    const TimingModel *model;
    WaveTrace waves[MAX_WAVES];
    u64 *lds_cycles; /* [instruction]: seen so far, as lds.c counts them */
    u64 *stalls;     /* [instruction] */
    TimedWorkgroup *done;
    u64 n_done, room;
} Timing;

Timing *timing_create(const Launch *launch);
void timing_destroy(Timing *t);
void timing_start(Timing *t);
void timing_trace(Group *g, Wave *w, const Instruction *in);
/* Replay the traces of a finished workgroup. Returns 0 when there is no memory for it. */
int timing_finish(Group *g);

#endif

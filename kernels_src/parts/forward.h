// The frame of a forward kernel: which rows and keys a workgroup takes, and what becomes of the result. A kernel brings the
// Block, which has the rows' state and the loop over the keys:
//   Block<V>{KvPipeline<V>, Block<V>::Softmax, Mask<V>, KeyRange}; its q and o; and run(wave, query), which requests, reads and
//   finishes a Query of parts/query_rows.h.
#pragma once
#include "common/arguments.h"
#include "common/static_for.h"
#include "isa/lane.h"
#include "parts/epilogue.h"
#include "parts/key_range.h"
#include "parts/kv_pipeline.h"
#include "parts/mask.h"
#include "parts/online_softmax.h"
#include "parts/query_rows.h"
#include "parts/score.h"
#include "parts/sequence.h"
#include "parts/work_order.h"

namespace rocke {

// What a block needs at its start, all loaded at this point: one wait. The compiler would load each of them where it is used,
// and wait each time.
template <class V>
__device__ __forceinline__ void load_together(const Arguments& a) {
  const Shape& s = a.shape;
  need_now(a.q, a.k, a.v, a.softmax_scale, s.seqlen_q, s.seqlen_kv, s.query_exponent, s.top_left, gridDim.x, gridDim.y);
  need_now(s.q.batch, s.q.token, s.q.head, s.k.batch, s.k.token, s.k.head, s.v.batch, s.v.token, s.v.head);
  need_now(s.kv_heads.value, s.kv_heads.multiplier, s.kv_heads.shift, s.group.value, s.group.multiplier, s.group.shift);
  need_now(s.query_blocks.value, s.query_blocks.multiplier, s.query_blocks.shift);
  if constexpr (V::right_bound) need_now(s.window_right);
  if constexpr (V::left_bound) need_now(s.window_left);
  if constexpr (V::varlen)
    need_now(a.cu_seqlens_q, a.cu_seqlens_kv, s.batch.value);
  else
    need_now(a.kv_lens);
}

template <class V, template <class> class Block>
__device__ __forceinline__ void attend(const Arguments& a, const WorkItem& item, int wave) {
  using Softmax = typename Block<V>::Softmax;
  const int lane = lane_id();
  const Sequence sequence = find_sequence<V>(a, item.batch);
  const QueryRows<V> rows(a.shape, sequence, item);
  const int block_row = item.query_block * Tiling<V>::rows, wave_row = block_row + wave * rows_per_wave;
  if (block_row >= rows.count()) return;

  const KeyRange keys = find_keys<V>(a.shape, sequence, rows, item, wave);
  if (keys.first >= keys.end) {
    // Rows that belong to no sequence may be more than those of the blocks that there are.
    const bool spare = V::varlen && item.batch == a.shape.batch.value - 1;
    const int step = spare ? a.shape.query_blocks.value * Tiling<V>::rows : rows.count();
    // The lane is counted anew: the compilers put this behind the loop, and would keep it till then.
    clear_rows<V, Softmax>(a, sequence, item, rows, wave_row, step, wave, lane_id());
    return;
  }
  const int kv_head = V::pack_gqa ? item.head : item.head / a.shape.group;
  Block<V> block{KvPipeline<V>(a, sequence, kv_head, keys.first, wave, lane), Softmax(a.softmax_scale),
                 Mask<V>(a.shape, sequence, rows.token(wave_row + lane % 32), lane / 32), keys};
  if constexpr (rows_fit_lds<V>)
    block.run(wave, QueryThroughLds<V>{{a, sequence, rows, wave, wave_row, lane}});
  else
    block.run(wave, QueryOfLanes<V>{{a, sequence, rows, wave, wave_row, lane}});
  // Read anew: kept over the loop, the arguments of the result would fill the scalar registers.
  const Arguments again = kernel_arguments<Arguments>();
  store_rows<V, true>(again, sequence, item, rows, wave_row, wave, lane_id(), block.o, block.softmax);
}

template <class V, template <class> class Block>
__device__ __forceinline__ void attention_forward(const Arguments& a) {
  const int wave = uniform(work_item_id() / wave_lanes);
  if constexpr (V::persistent) {
    int items = count_work<V>(a.shape).total(), stride = 0;
    for (int id = workgroup_id(); id < items; id += stride) {
      // Read anew for each item: kept over the loop, the arguments and what follows from them spill scalar registers. So do
      // the conditions on the wave.
      const Arguments again = kernel_arguments<Arguments>();
      const WorkCount work = count_work<V>(again.shape);
      attend<V, Block>(again, decode_work<V>(id, work), opaque_scalar(wave));
      const Shape shape = kernel_arguments<Arguments>().shape;
      items = count_work<V>(shape).total(), stride = shape.num_workgroups;
    }
  } else {
    load_together<V>(a);
    attend<V, Block>(a, decode_work<V>(workgroup_id(), count_work<V>(a.shape)), wave);
  }
}

// Four waves alone on a compute unit are kept to the registers of two a SIMD as well: beyond 256, values move to and fro.
template <class V>
constexpr int waves_of_simd = V::block_m == 256 ? V::waves_per_eu : max(V::waves_per_eu, 2);

}  // namespace rocke

// The parameters lie in memory as the fields of rocke::Arguments: first those of the seed's signature, then what is ours.
#define ROCKE_FORWARD_KERNEL(entry, Block)                                                                \
  extern "C" __global__ __launch_bounds__(rocke::Tiling<Variant>::waves * 64)                               \
      __attribute__((amdgpu_waves_per_eu(rocke::waves_of_simd<Variant>, rocke::waves_of_simd<Variant>)))  \
      void                                                                                                \
      entry(const void* q_ptr, const void* k_ptr, const void* v_ptr, void* o_ptr, float scale,            \
            const int* cu_seqlens_q, const int* cu_seqlens_kv, const int* kv_lens, float* lse_ptr,        \
            rocke::Shape shape) {                                                                         \
    rocke::attention_forward<Variant, Block>(                                                             \
        {q_ptr, k_ptr, v_ptr, o_ptr, scale, (rocke::Lengths)cu_seqlens_q, (rocke::Lengths)cu_seqlens_kv,  \
         (rocke::Lengths)kv_lens, lse_ptr, shape});                                                       \
  }

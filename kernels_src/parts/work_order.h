// Which part of the problem a workgroup computes: a bijection from 0 .. work_items - 1. rocke_cupy/select.py chooses the order;
// tests/kernels/test_work_order.py visits every item once.
#pragma once
#include "common/arguments.h"
#include "common/math.h"
#include "tile/kv_layout.h"

namespace rocke {

enum WorkOrder { order_xcd = 0, order_query_major = 1, order_kv_head_major = 2, order_interleave = 3, order_grid = 4 };

struct WorkItem {
  int query_block, head, batch, split;  // head: a query head, or a kv head when the heads of a group share the rows
};

constexpr Divisor one{1, 1u << 31, 0};

struct WorkCount {
  Divisor query_blocks, kv_heads, group, batch, splits;  // group: consecutive heads that read the same keys
  __device__ int total() const {
    return query_blocks.value * kv_heads.value * group.value * batch.value * splits.value;
  }
};

template <class V>
__device__ __forceinline__ WorkCount count_work(const Shape& s) {
  return {s.query_blocks, s.kv_heads, V::pack_gqa ? one : s.group, s.batch, V::split_kv ? s.num_splits : one};
}

// Takes the fastest of the axes that `id` counts over off it.
__device__ __forceinline__ int take(int& id, const Divisor& count) {
  const int rest = id / count, taken = id - rest * count.value;
  id = rest;
  return taken;
}

// Workgroup ids go round robin over 8 XCDs, each with its own L2. Give each XCD a contiguous run of the items.
__device__ __forceinline__ int xcd_contiguous(int id, int items) {
  constexpr int xcds = 8;
  const int xcd = id % xcds, even_share = items / xcds, remainder = items % xcds;
  return xcd * even_share + min(xcd, remainder) + id / xcds;
}

// Low and high blocks of the causal triangle by turns, so that a workgroup that strides over both halves has even work.
__device__ __forceinline__ int fold_low_high(int block, int blocks) {
  const int half = blocks / 2;
  return block < half ? block : blocks - 1 + half - block;
}

template <class V>
__device__ __forceinline__ WorkItem decode_work(int id, const WorkCount& n) {
  WorkItem item{0, 0, 0, 0};
  if constexpr (V::work_order == order_xcd) {
    // Splits and query blocks of one kv head side by side, the longest block of a causal head first.
    id = xcd_contiguous(id, n.total());
    if constexpr (V::split_kv) item.split = take(id, n.splits);
    const int in_group = take(id, n.group), block = take(id, n.query_blocks);
    item.query_block = V::right_bound ? n.query_blocks.value - 1 - block : block;
    item.head = take(id, n.kv_heads) * n.group.value + in_group, item.batch = id;
  } else if constexpr (V::work_order == order_kv_head_major) {
    item.batch = take(id, n.batch);
    const int in_group = take(id, n.group);
    item.query_block = fold_low_high(take(id, n.query_blocks), n.query_blocks.value);
    item.head = take(id, n.kv_heads) * n.group.value + in_group, item.split = id;
  } else if constexpr (V::work_order == order_grid) {
    item.query_block = take(id, n.query_blocks);
    const int in_group = take(id, n.group);
    item.head = take(id, n.kv_heads) * n.group.value + in_group;
    item.batch = id;
    if constexpr (V::split_kv) item.batch = take(id, n.batch), item.split = id;
  } else {
    item.batch = take(id, n.batch);
    const int in_group = take(id, n.group);
    item.head = take(id, n.kv_heads) * n.group.value + in_group;
    item.query_block = id;
    if constexpr (V::split_kv) item.query_block = take(id, n.query_blocks), item.split = id;
    // By the head alone: by the count of (block, head) as well, items would be visited twice when the heads are odd.
    if (V::work_order == order_interleave && V::right_bound && item.head % 2 == 1)
      item.query_block = n.query_blocks.value - 1 - item.query_block;
  }
  return item;
}

}  // namespace rocke

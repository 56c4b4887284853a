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

struct WorkCount {
  int query_blocks, heads, group, batch, splits;  // group: consecutive heads that read the same keys
  __device__ int total() const { return query_blocks * heads * batch * splits; }
};

template <class V>
__device__ __forceinline__ WorkCount count_work(const Shape& s) {
  const int group = s.query_heads / s.kv_heads;
  const int rows = s.seqlen_q * (V::pack_gqa ? group : 1);
  return {ceil_div(rows, rows_per_block), V::pack_gqa ? s.kv_heads : s.query_heads, V::pack_gqa ? 1 : group, s.batch,
          V::split_kv ? s.num_splits : 1};
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
  WorkItem item;
  if constexpr (V::work_order == order_xcd) {
    // Splits and query blocks of one kv head side by side, the longest block of a causal head first.
    int rest = xcd_contiguous(id, n.total());
    item.split = rest % n.splits, rest /= n.splits;
    const int in_group = rest % n.group;
    rest /= n.group;
    const int block = rest % n.query_blocks;
    rest /= n.query_blocks;
    item.query_block = V::right_bound ? n.query_blocks - 1 - block : block;
    const int groups = n.heads / n.group;
    item.head = rest % groups * n.group + in_group, item.batch = rest / groups;
  } else if constexpr (V::work_order == order_kv_head_major) {
    item.batch = id % n.batch, id /= n.batch;
    const int in_group = id % n.group;
    id /= n.group;
    item.query_block = fold_low_high(id % n.query_blocks, n.query_blocks), id /= n.query_blocks;
    item.head = id % (n.heads / n.group) * n.group + in_group, item.split = id / (n.heads / n.group);
  } else if constexpr (V::work_order == order_grid) {
    item.query_block = id % n.query_blocks, id /= n.query_blocks;
    item.head = id % n.heads, id /= n.heads;
    item.batch = id % n.batch, item.split = id / n.batch;
  } else {
    item.batch = id % n.batch, id /= n.batch;
    item.head = id % n.heads, id /= n.heads;
    item.query_block = id % n.query_blocks, item.split = id / n.query_blocks;
    // By the head alone: by the count of (block, head) as well, items would be visited twice when the heads are odd.
    if (V::work_order == order_interleave && V::right_bound && item.head % 2 == 1)
      item.query_block = n.query_blocks - 1 - item.query_block;
  }
  return item;
}

}  // namespace rocke

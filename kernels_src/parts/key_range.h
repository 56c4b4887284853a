// Which keys a block of rows visits, and which of its tiles a wave must mask. Lengths, windows, the causal diagonal, packed
// sequences and splits all come down to this.
#pragma once
#include "common/arguments.h"
#include "parts/query_rows.h"
#include "parts/sequence.h"

namespace rocke {

struct KeyBounds {
  int first, last;  // inclusive; empty when last < first
};

// The keys that a token sees.
template <class V>
__device__ __forceinline__ KeyBounds visible_keys(const Shape& shape, const Sequence& s, int token) {
  KeyBounds keys{0, s.seqlen_kv - 1};
  if constexpr (V::right_bound) keys.last = min(keys.last, token + s.diagonal + shape.window_right);
  if constexpr (V::left_bound) keys.first = max(keys.first, token + s.diagonal - shape.window_left);
  return keys;
}

struct KeyRange {
  int first, end;  // to visit, in whole tiles; end <= first: the block sees no key
  int unmasked_from, masked_from;  // this wave needs no mask in the tiles that start in this range
};

template <class V>
__device__ __forceinline__ KeyRange find_keys(const Shape& shape, const Sequence& s, const QueryRows<V>& rows,
                                              const WorkItem& item, int wave) {
  const int block_row = item.query_block * Tiling<V>::rows;
  const int last_row = min(block_row + Tiling<V>::rows, rows.count()) - 1;
  const KeyBounds first_token = visible_keys<V>(shape, s, rows.token(block_row));
  const KeyBounds last_token = visible_keys<V>(shape, s, rows.token(last_row));
  constexpr int tile = keys_per_tile;
  int first = first_token.first / tile * tile;
  int end = last_token.last < first_token.first ? first : last_token.last / tile * tile + tile;
  if constexpr (V::split_kv) {
    // Whole turns of the ring: the last turn would go on into the next part's keys, which no mask hides.
    constexpr int turn = Tiling<V>::ring * tile;
    const int share = (ceil_div(end - first, turn) + shape.num_splits.value - 1) / shape.num_splits * turn;
    first += item.split * share;
    end = min(end, first + share);
  }
  const int wave_row = block_row + wave * rows_per_wave;
  const int first_hidden_key = visible_keys<V>(shape, s, rows.token(wave_row)).last + 1;
  KeyRange range{first, end, 0, max(first_hidden_key, 0) / tile * tile};
  if constexpr (V::left_bound) {
    const int first_seen_key = visible_keys<V>(shape, s, rows.token(wave_row + rows_per_wave - 1)).first;
    range.unmasked_from = ceil_div(first_seen_key, tile) * tile;
  }
  return range;
}

}  // namespace rocke

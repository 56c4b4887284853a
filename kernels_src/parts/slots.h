// The order of the softmax beside matrix instructions, written as text and checked when a kernel is compiled.
//
// A cluster of MFMAs is one string. `|` is an MFMA, a letter one vector instruction of the softmax of 32 keys, 16 of which a lane
// has. Each letter takes its next elements:
//
//   m  weight = score * c                        M  two, packed
//   e  weight = exp2(weight)
//   c  two weights become probabilities of 16 bits
//   a  a weight joins one of four partial sums   A  two, packed
//   t  two of the partial sums are added         T  twice two, packed
//   s  the last two are added
//
// So "mm|emec" is two products, an MFMA, and beside it an exp, a third product, an exp and a conversion.
#pragma once
#include "parts/slot_tables.h"

namespace rocke {

struct VectorStep {
  char kind;
  int element;
};

struct Slots {
  VectorStep steps[80] = {};
  int begin[18] = {};  // slot i is begin[i] .. begin[i + 1] - 1: what stands before MFMA i, or after the last one
  int mfmas = 0;
  bool products_first = true, exponentials_first = true, sums_complete = true;  // before what reads them
  bool fragments_read = true;  // P V has read a fragment before the next tile's probabilities take its place
  bool pairs_aligned = true, complete = false;
};

// second: the last 32 keys of a tile, which Q K has beside it. They end the sum that the first four weights of a tile start.
// scaled: the scores have the factor already, and no product is made.
constexpr Slots read_slots(const char* text, int mfmas, bool second, bool scaled) {
  Slots s;
  int m = scaled ? 16 : 0, e = 0, c = 0, a = second ? 0 : 4, t = 0, whole = 0, size = 0;
  for (; *text; text++) {
    const char kind = *text;
    int element = 0;
    if (kind == '|') {
      s.begin[++s.mfmas] = size;
      continue;
    }
    if (kind == 'm' || kind == 'M') {
      if (scaled) continue;
      element = m, m += kind == 'M' ? 2 : 1;
      s.pairs_aligned &= kind == 'm' || element % 2 == 0;
    }
    if (kind == 'e') s.products_first &= e < m, element = e++;
    if (kind == 'c') {
      element = c, c += 2;
      s.exponentials_first &= c <= e;
      s.fragments_read &= second || s.mfmas >= (element / 8 + 1) * mfmas / 4;
    }
    if (kind == 'a' || kind == 'A') {
      element = a, a += kind == 'A' ? 2 : 1;
      s.exponentials_first &= a <= e;
      s.pairs_aligned &= kind == 'a' || element % 2 == 0;
    }
    if (kind == 't' || kind == 'T') element = t, t += kind == 'T' ? 2 : 1, s.sums_complete &= a == 16;
    if (kind == 's') whole++, s.sums_complete &= t == 2;
    s.steps[size++] = {kind, element};
  }
  s.begin[s.mfmas + 1] = size;
  s.complete = s.mfmas == mfmas && m == 16 && e == 16 && c == 16 && a == 16 && t == 2 * second && whole == second;
  return s;
}

// The same with all products and additions in pairs, which run beside no MFMA: right before the MFMA of their slot or, what reads
// weights of the slot, at its end.
constexpr Slots in_pairs(const Slots& s) {
  Slots p = s;
  int size = 0;
  const auto take = [&](int slot, char single, char packed) {
    for (int i = s.begin[slot]; i < s.begin[slot + 1]; i++) {
      const VectorStep step = s.steps[i];
      const bool sums = packed == 'A' || packed == 'T';
      if (step.kind == packed || (step.kind == single && packed == single)) p.steps[size++] = step;
      // A product can come early, with its pair's first, an addition late, with the second.
      else if (step.kind == single && step.element % 2 == sums) p.steps[size++] = {packed, step.element - sums};
    }
  };
  take(0, 'm', 'M');
  for (int slot = 0; slot <= s.mfmas; slot++) {
    if (slot > 0) p.begin[slot] = size;
    for (int i = s.begin[slot]; i < s.begin[slot + 1]; i++)
      if (s.steps[i].kind == 'e' || s.steps[i].kind == 'c') p.steps[size++] = s.steps[i];
    take(slot, 'a', 'A');
    take(slot, 't', 'T');
    take(slot, 's', 's');
    if (slot < s.mfmas) take(slot + 1, 'm', 'M');
  }
  p.begin[s.mfmas + 1] = size;
  return p;
}

// The order of the softmax of block n of 32 keys beside so many MFMAs.
template <class V, int n, int mfmas>
struct Order {
  static constexpr Slots written =
      read_slots(mfmas == 0 ? beside_nothing[n] : n == 0 ? beside_pv<mfmas, V::scaled_query> : beside_qk<mfmas, V::scaled_query>,
                 mfmas, n == 1, V::scaled_query);
  static_assert(written.products_first, "an exp stands before its product");
  static_assert(written.exponentials_first, "a conversion or an addition stands before its exp");
  static_assert(written.fragments_read, "a conversion overwrites what P V has yet to read");
  static_assert(written.sums_complete, "partial sums are added before they are complete");
  static_assert(written.pairs_aligned, "a pair starts at an odd element");
  static_assert(written.complete, "an MFMA or an element is missing, or there is one too many");
  static constexpr Slots slots = V::packed_softmax ? in_pairs(written) : written;
};

}  // namespace rocke

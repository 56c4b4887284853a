// The order of a tile's softmax beside clusters of n MFMAs, in the letters of parts/slots.h.
#pragma once
#include "common/types.h"

namespace rocke {

// Its first 32 keys stand beside P V of the tile before, the others beside Q K of the tile after.
template <int n, bool scaled>
constexpr const char* beside_pv = scaled ? beside_pv<n, false> : "";
template <int n, bool scaled>
constexpr const char* beside_qk = scaled ? beside_qk<n, false> : "";

template <>
constexpr const char* beside_pv<4, false> = "MMM|eeceeM|eeecMeAMe|ececeMAA|ceceAMceAecA";
template <>
constexpr const char* beside_pv<8, false> = "MMM|eeeMMM|eeeA|emmeA|ccee|ecccm|ecemAA|eeeAA|cc";
template <>
constexpr const char* beside_pv<12, false> = "mmm|emme|meme|eemm|mmee|mceam|eaamc|aemaa|meea|eccaa|eaea|ccacc|";
template <>
constexpr const char* beside_pv<16, false> = "|m|m|mmme|eme|meme|aeamm|emem|mmee|mcem|eaaaa|eaca|ceac|ae|eac|ccca|";
template <>
constexpr const char* beside_qk<2, false> = "MMeeMeeeMeMMe|ece|ecceAAcAAMMeeeeecAAcAAcTcs";
template <>
constexpr const char* beside_qk<4, false> = "MMM|eeeeAcMe|ceeecMAMAeA|eeceMMAeA|ceeceAAcTcs";
template <>
constexpr const char* beside_qk<6, false> = "M|eemmAecMeMMA|eee|ececAMA|eeeMA|cceeAMceeAAcT|cs";
template <>
constexpr const char* beside_qk<8, false> = "MMMM|eeeAM|eee|eccMMAM|eeeA|ceceAA|ceea|aeecAAcT|cs";
template <>
constexpr const char* beside_qk<10, false> = "mmeM|emea|meecm|meaM|ecceAA|aeacaM|eeac|mmeeAM|ceeeA|acattcs|";
template <>
constexpr const char* beside_qk<12, false> = "mmm|meme|eaaca|mee|aemmM|eaeaA|ecme|ecmmA|aeacmM|cceeA|ece|aattcs|";
template <>
constexpr const char* beside_qk<14, false> = "mm|mmemm|meea|aace|ce|meme|mema|camaam|eae|macae|maeca|eeac|emaac|eattc|s";
template <>
constexpr const char* beside_qk<16, false> = "|mmemm|meem|aeca|mee|eaaam|ecama|mmac|cee|eamma|mcea|a|ema|eeac|cmae|actts|";
template <>
constexpr const char* beside_pv<8, true> = "e|eee|eee|eecc|ececAA|ceaac|aeae|ceecAA|";
template <>
constexpr const char* beside_qk<8, true> = "e|eaae|eee|eccc|eec|eeeA|ceecAAAAA|eecAcT|s";

// Both halves, beside no MFMA.
constexpr const char* beside_nothing[2] = {"MMMMMMMMeeeeeeeeeeeeeeeeAAAAAAcccccccc",
                                           "MMMMMMMMeeeeeeeeeeeeeeeeAAAAAAAATscccccccc"};

}  // namespace rocke

/* __hip_bfloat16 and what CuPy's bfloat16 needs of it. hipRTC of ROCm 7.14 has the type built in (it
 * defines the first macro), that of 7.0 has not. */
#pragma once

#ifndef _HIP_INCLUDE_HIP_AMD_DETAIL_HIP_BF16_H_

struct __hip_bfloat16 {
    unsigned short bits;

    __device__ __hip_bfloat16() : bits(0) {}
    __device__ __hip_bfloat16(float value)
        : bits(__builtin_bit_cast(unsigned short, static_cast<__bf16>(value))) {}
    __device__ operator float() const { return static_cast<float>(__builtin_bit_cast(__bf16, bits)); }
};

__device__ inline bool operator==(__hip_bfloat16 a, __hip_bfloat16 b) {
    return static_cast<float>(a) == static_cast<float>(b);
}

__device__ inline unsigned short __bfloat16_as_ushort(__hip_bfloat16 value) { return value.bits; }

__device__ inline __hip_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    __hip_bfloat16 value;
    value.bits = bits;
    return value;
}

__device__ inline bool __hisnan(__hip_bfloat16 value) { return (value.bits & 0x7fff) > 0x7f80; }
__device__ inline int __hisinf(__hip_bfloat16 value) {
    return (value.bits & 0x7fff) == 0x7f80 ? (value.bits >> 15 ? -1 : 1) : 0;
}

#endif

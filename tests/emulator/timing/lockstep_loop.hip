// The loop of the kernel that this project follows, for head dim 128: eight waves in step, tiles of 64 keys, K and V one row a
// dword DMA request, the LDS reads of V right before the MFMAs that need them. KPAD and VPAD are the elements by which its rows
// are padded in LDS. For timing alone: it starts at the second tile and leaves out the last P V.
typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));
typedef __bf16 bf16x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef unsigned u32x2 __attribute__((ext_vector_type(2)));
#define LDS __attribute__((address_space(3)))
constexpr int D = 128, N = 64, KPITCH = D + KPAD, VPITCH = D + VPAD;  // columns, keys of a tile, elements from row to row
static __shared__ __attribute__((aligned(16))) __bf16 k_lds[2 * N * KPITCH];
static __shared__ __attribute__((aligned(16))) __bf16 v_lds[2 * N * VPITCH];

__device__ __forceinline__ void load_rows(__amdgpu_buffer_rsrc_t rows, LDS char* to, int pitch, int tile, int wave, int lane) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int row = i * 8 + wave;
    __builtin_amdgcn_raw_ptr_buffer_load_lds(rows, (LDS void*)(to + row * pitch * 2), 4, lane * 4, (tile * N + row) * D * 2, 0, 0);
  }
}
extern "C" __global__ __launch_bounds__(512) __attribute__((amdgpu_waves_per_eu(2, 2))) void lockstep(
    const __bf16* q, const __bf16* k, const __bf16* v, float* out, int tiles) {
  const int wave = __builtin_amdgcn_readfirstlane(threadIdx.x / 64), lane = threadIdx.x % 64, half = lane / 32;
  auto k_rows = __builtin_amdgcn_make_buffer_rsrc((void*)k, 0, tiles * N * D * 2, 0x27000);
  auto v_rows = __builtin_amdgcn_make_buffer_rsrc((void*)v, 0, tiles * N * D * 2, 0x27000);
  bf16x8 qf[8];
#pragma unroll
  for (int s = 0; s < 8; s++) qf[s] = *(const bf16x8*)(q + (wave * 32 + lane % 32) * D + s * 16 + half * 8);
  f32x16 o[4];
  bf16x8 p[4];
#pragma unroll
  for (int d = 0; d < 4; d++) o[d] = 0.f;
#pragma unroll
  for (int s = 0; s < 4; s++) p[s] = (__bf16)0.f;
  float m = -1e30f, l = 0.f;
  const LDS __bf16* kb = (const LDS __bf16*)k_lds + (lane % 32) * KPITCH + half * 8;
  const LDS __bf16* vb = (const LDS __bf16*)v_lds + (4 * half + lane % 16 / 4) * VPITCH + 16 * (lane / 16 % 2) + 4 * (lane % 4);
  load_rows(k_rows, (LDS char*)k_lds, KPITCH, 0, wave, lane);
  load_rows(v_rows, (LDS char*)v_lds, VPITCH, 0, wave, lane);
  load_rows(k_rows, (LDS char*)k_lds + N * KPITCH * 2, KPITCH, 1, wave, lane);
  load_rows(v_rows, (LDS char*)v_lds + N * VPITCH * 2, VPITCH, 1, wave, lane);
  __builtin_amdgcn_s_waitcnt(0x0f70);
  __builtin_amdgcn_s_barrier();
  for (int j = 1; j < tiles; j++) {
    const int now = j % 2, before = 1 - now;
    __builtin_amdgcn_s_waitcnt(0x0f72);
    asm volatile("" ::: "memory");
    __builtin_amdgcn_s_barrier();
    asm volatile("" ::: "memory");
    f32x16 s[2];
#pragma unroll
    for (int n = 0; n < 2; n++) {
      f32x16 acc = 0.f;
#pragma unroll
      for (int e = 0; e < 8; e++)
        acc = __builtin_amdgcn_mfma_f32_32x32x16_bf16(*(const LDS bf16x8*)(kb + (now * N + n * 32) * KPITCH + e * 16), qf[e], acc, 0, 0, 0);
      s[n] = acc;
    }
    float top = s[0][0];
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int r = 0; r < 16; r++) top = __builtin_fmaxf(top, s[n][r]);
    top = __builtin_fmaxf(top, __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((lane ^ 32) * 4, __builtin_bit_cast(int, top))));
    const bool skip = __builtin_amdgcn_ballot_w64(!(top - m <= 8.f)) == 0;
    const float m_new = skip ? m : __builtin_fmaxf(m, top), alpha = __builtin_amdgcn_exp2f(m - m_new);
    __builtin_amdgcn_sched_barrier(0);
    __builtin_amdgcn_s_setprio(1);
    int slot = 0;
#pragma unroll
    for (int d = 0; d < 4; d++)
#pragma unroll
      for (int kk = 0; kk < 4; kk++) {
        const LDS __bf16* at = vb + (before * N + 16 * kk) * VPITCH + 32 * d;
        const bf16x4 low = __builtin_amdgcn_ds_read_tr16_b64_v4bf16((LDS bf16x4*)at);
        const bf16x4 high = __builtin_amdgcn_ds_read_tr16_b64_v4bf16((LDS bf16x4*)(at + 8 * VPITCH));
        o[d] = __builtin_amdgcn_mfma_f32_32x32x16_bf16(__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7), p[kk], o[d], 0, 0, 0);
#pragma unroll
        for (int e = 0; e < 2; e++, slot++) s[slot / 16][slot % 16] = __builtin_amdgcn_exp2f(s[slot / 16][slot % 16] - m_new);
        __builtin_amdgcn_sched_group_barrier(0x100, 2, 0);
        __builtin_amdgcn_sched_group_barrier(0x008, 1, 0);
        __builtin_amdgcn_sched_group_barrier(0x002, 2, 0);
        __builtin_amdgcn_sched_group_barrier(0x400, 2, 0);
      }
    float sum = 0.f;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int r = 0; r < 16; r++) sum += s[n][r];
    sum += __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((lane ^ 32) * 4, __builtin_bit_cast(int, sum)));
    __builtin_amdgcn_s_setprio(0);
    if (!skip) {
#pragma unroll
      for (int d = 0; d < 4; d++) o[d] *= alpha;
      l *= alpha;
    }
    l += sum;
    m = m_new;
#pragma unroll
    for (int kk = 0; kk < 4; kk++)
#pragma unroll
      for (int e = 0; e < 8; e++) p[kk][e] = (__bf16)s[kk / 2][(2 * (kk % 2) + e / 4) * 4 + e % 4];
    asm volatile("" ::: "memory");
    __builtin_amdgcn_s_barrier();
    asm volatile("" ::: "memory");
    load_rows(k_rows, (LDS char*)k_lds + before * N * KPITCH * 2, KPITCH, j + 1, wave, lane);
    load_rows(v_rows, (LDS char*)v_lds + before * N * VPITCH * 2, VPITCH, j + 1, wave, lane);
  }
#pragma unroll
  for (int d = 0; d < 4; d++)
#pragma unroll
    for (int r = 0; r < 16; r++) out[((wave * 4 + d) * 16 + r) * 64 + lane] = o[d][r] / l;
}

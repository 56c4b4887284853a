// The words of HIP that the package's kernels use, for a clang without ROCm's headers.
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))

namespace hip {
struct BlockIndex {
  __device__ unsigned get_x() const { return __builtin_amdgcn_workgroup_id_x(); }
  __device__ unsigned get_y() const { return __builtin_amdgcn_workgroup_id_y(); }
  __device__ unsigned get_z() const { return __builtin_amdgcn_workgroup_id_z(); }
  __declspec(property(get = get_x)) unsigned x;
  __declspec(property(get = get_y)) unsigned y;
  __declspec(property(get = get_z)) unsigned z;
};
// The first three of the hidden arguments, from code object version 5 on.
struct GridSize {
  __device__ static unsigned blocks(int axis) {
    return ((const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr())[axis];
  }
  __device__ unsigned get_x() const { return blocks(0); }
  __device__ unsigned get_y() const { return blocks(1); }
  __device__ unsigned get_z() const { return blocks(2); }
  __declspec(property(get = get_x)) unsigned x;
  __declspec(property(get = get_y)) unsigned y;
  __declspec(property(get = get_z)) unsigned z;
};
}  // namespace hip

static constexpr hip::BlockIndex blockIdx;
static constexpr hip::GridSize gridDim;

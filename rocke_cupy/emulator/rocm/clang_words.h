// The words of HIP that the package's kernels use, for a clang without ROCm's headers.
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))

namespace hip {
template <int axis>
struct BlockIndex {
  __device__ operator unsigned() const {
    return axis == 0 ? __builtin_amdgcn_workgroup_id_x() : axis == 1 ? __builtin_amdgcn_workgroup_id_y() : __builtin_amdgcn_workgroup_id_z();
  }
};
// The first three of the hidden arguments, from code object version 5 on.
template <int axis>
struct BlockCount {
  __device__ operator unsigned() const {
    return ((const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr())[axis];
  }
};
template <template <int> class Value>
struct Axes {
  Value<0> x;
  Value<1> y;
  Value<2> z;
};
}  // namespace hip

static constexpr hip::Axes<hip::BlockIndex> blockIdx;
static constexpr hip::Axes<hip::BlockCount> gridDim;

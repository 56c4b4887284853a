// EXPRESSION of a and b, which are ELEMENTs.
extern "C" __global__ void elementwise(const ELEMENT* x, const ELEMENT* z, ELEMENT* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const ELEMENT a = x[i], b = z[i];
    y[i] = EXPRESSION;
  }
}

// Products by one matrix instruction. PRODUCT(a, b, c) is its builtin; IN and IN_COUNT, OUT and OUT_COUNT are the elements of A, B
// and of C in a lane.
#define KERNEL(name) extern "C" __global__ __launch_bounds__(256) void name

template <class T, int n>
struct Vector {
  typedef T type __attribute__((ext_vector_type(n)));
};
template <class T>
struct Vector<T, 1> {
  typedef T type;
};
using Inputs = Vector<IN, IN_COUNT>::type;
using Outputs = Vector<OUT, OUT_COUNT>::type;

KERNEL(loop)(const Inputs* a, const Inputs* b, Outputs* out, int n) {
  const int i = threadIdx.x + 64 * blockIdx.x;
  Outputs c = {};
  for (int k = 0; k < n; ++k) c = PRODUCT(a[i + 64 * k], b[i + 64 * k], c);
  out[i] = c;
}

// The result is changed by vector instructions, and is an input of the next product.
KERNEL(chained)(const Inputs* a, const Inputs* b, Outputs* out, int n) {
  const int i = threadIdx.x + 64 * blockIdx.x;
  Outputs sum = {};
  for (int k = 0; k < n; ++k) {
    Outputs c = {};
    c = PRODUCT(a[i + 64 * k], b[i], c);
    c = c * c + OUT(1);
    Inputs next = a[i];
    const OUT* from = reinterpret_cast<const OUT*>(&c);
    IN* to = reinterpret_cast<IN*>(&next);
    for (int e = 0; e < IN_COUNT; ++e) to[e] = IN(from[e % OUT_COUNT]);
    if (k & 1)
      sum = PRODUCT(next, b[i + k], sum);
    else
      sum = PRODUCT(b[i], next, c);
  }
  out[i] = sum;
}

// A result goes into the next product as it is.
KERNEL(straight)(const Inputs* a, const Inputs* b, Outputs* out, int n) {
  const int i = threadIdx.x + 64 * blockIdx.x;
  Outputs c = {};
  union {
    Outputs outputs;
    Inputs inputs;
  } bits;
  for (int k = 0; k < n; ++k) {
    bits.outputs = PRODUCT(a[i + k], b[i], c);
    c = PRODUCT(bits.inputs, b[i + k], c);
  }
  out[i] = c;
}

KERNEL(several)(const Inputs* a, const Inputs* b, Outputs* out, int n) {
  const int i = threadIdx.x + 64 * blockIdx.x;
  Outputs c[3] = {};
  const Inputs x = a[i], y = b[i];
  for (int k = 0; k < n; ++k) {
    const Inputs z = a[i + 64 * k];
    c[0] = PRODUCT(z, x, c[0]);
    c[1] = PRODUCT(z, y, c[1]);
    c[2] = PRODUCT(x, z, c[2]);
  }
  for (int j = 0; j < 3; ++j) out[3 * i + j] = c[j] + c[j];
}

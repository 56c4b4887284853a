// What array libraries do with blocks of elements. ELEMENT is their type.
using Element = ELEMENT;
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define KERNEL(name) extern "C" __global__ __launch_bounds__(256) void name

struct Sum {
  __device__ static Element of(Element a, Element b) { return Element(a + b); }
};
struct Product {
  __device__ static Element of(Element a, Element b) { return Element(a * b); }
};
struct Largest {
  __device__ static Element of(Element a, Element b) { return a > b ? a : b; }
};

template <class Combine>
__device__ void reduce(const Element* x, Element* y, int n) {
  __shared__ Element part[256];
  Element a = x[threadIdx.x];
  for (int i = 256 + threadIdx.x; i < n; i += 256) a = Combine::of(a, x[i]);
  part[threadIdx.x] = a;
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] = Combine::of(part[threadIdx.x], part[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}

template <class Combine>
__device__ void scan(Element* x, int n) {
  __shared__ Element part[2][256];
  Element carry = x[0];
  for (int start = 0; start < n; start += 256) {
    part[0][threadIdx.x] = start + threadIdx.x < n ? x[start + threadIdx.x] : x[0];
    int from = 0;
    for (int step = 1; step < 256; step *= 2, from ^= 1) {
      __syncthreads();
      Element a = part[from][threadIdx.x];
      if (threadIdx.x >= step) a = Combine::of(a, part[from][threadIdx.x - step]);
      part[from ^ 1][threadIdx.x] = a;
    }
    __syncthreads();
    if (start + threadIdx.x < n) x[start + threadIdx.x] = Combine::of(part[from][threadIdx.x], carry);
    carry = part[from][255];
    __syncthreads();
  }
}

// Through the lanes of a wave, without LDS.
template <class Combine>
__device__ void shuffle(const Element* x, Element* y) {
  union Words {
    Element value;
    int word[(sizeof(Element) + 3) / 4];
  };
  Element a = x[blockIdx.x * 64 + threadIdx.x];
  for (int step = 1; step < 64; step *= 2) {
    Words mine = {a}, theirs = {a};
    for (int k = 0; k < sizeof(theirs.word) / 4; ++k) {
      const int word = mine.word[k];
      theirs.word[k] = step == 1   ? __builtin_amdgcn_update_dpp(word, word, 0xb1, 15, 15, false)
                       : step == 2 ? __builtin_amdgcn_mov_dpp(word, 0x4e, 15, 15, true)
                       : step == 4 ? __builtin_amdgcn_ds_swizzle(word, 0x101f)
                                   : __builtin_amdgcn_ds_bpermute(4 * (threadIdx.x ^ step), word);
    }
    a = Combine::of(a, theirs.value);
  }
  const unsigned chosen = __builtin_amdgcn_readfirstlane(int(a));
  if (threadIdx.x == chosen % 64) y[blockIdx.x] = a;
}

#define FOR_EACH(Combine)                                                                             \
  KERNEL(JOIN(reduce, Combine))(const Element* x, Element* y, int n) { reduce<Combine>(x, y, n); } \
  KERNEL(JOIN(scan, Combine))(Element * x, int n) { scan<Combine>(x, n); }                         \
  KERNEL(JOIN(shuffle, Combine))(const Element* x, Element* y) { shuffle<Combine>(x, y); }
FOR_EACH(Sum)
FOR_EACH(Product)
FOR_EACH(Largest)

KERNEL(transpose)(const Element* x, Element* y, int rows, int columns) {
  __shared__ Element tile[16][17];
  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  if (i < rows && j < columns) tile[threadIdx.y][threadIdx.x] = x[i * columns + j];
  __syncthreads();
  i = blockIdx.x * 16 + threadIdx.y, j = blockIdx.y * 16 + threadIdx.x;
  if (i < columns && j < rows) y[i * rows + j] = tile[threadIdx.x][threadIdx.y];
}

KERNEL(histogram)(const Element* x, int* counts, int n) {
  __shared__ int bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 256) atomicAdd(&bins[(unsigned char)(int)x[i]], 1);
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}

KERNEL(sort)(Element* x) {
  __shared__ Element part[256];
  part[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  for (int size = 2; size <= 256; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      __syncthreads();
      const int other = threadIdx.x ^ step;
      const Element a = part[threadIdx.x], b = part[other];
      const bool low = threadIdx.x < other, up = !(threadIdx.x & size);
      const Element kept = (low == up) == (a < b) ? a : b;
      __syncthreads();
      part[threadIdx.x] = kept;
    }
  __syncthreads();
  x[blockIdx.x * 256 + threadIdx.x] = part[threadIdx.x];
}

// Nested branches, loops of the lanes' own lengths, and wide stores behind them.
KERNEL(divergent)(const Element* x, Element* y, const int* steps, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  Element a[4] = {x[i], x[i + 1], x[i + 2], x[i + 3]};
  for (int k = 0; k < steps[i]; ++k) {
    if (a[k & 1] < a[2]) {
      a[0] = Element(a[0] * a[3] + a[1]);
      if (k % 3 == 1) continue;
      if (a[1] > a[3]) break;
    } else {
      a[2] = Element(a[2] / (a[1] + Element(1)));
    }
    a[3] = Element(a[3] - a[0]);
  }
  if (i < n)
    for (int k = 0; k < 4; ++k) y[4 * i + k] = a[k];
}

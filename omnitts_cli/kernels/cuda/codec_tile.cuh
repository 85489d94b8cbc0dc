// What the codec's kernels for Hopper share: PTX instructions, and what follows a product.
//
// Rows of x lie in shared memory as [inputs / 8][rows][8], so that a tap of a convolution is the same matrix `dilation` rows
// further on. Weights lie as [inputs / 8][outputs][8], prepared by the host. Outputs are in such an order that a thread holds
// two groups of four neighbouring channels (`order` in codec_tiles.py).
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
#include "codec_multiply.cuh"
#define ROWS 64                             // of a group of warps
#ifndef SPINS
#define SPINS 40000000u
#endif
extern __shared__ __align__(1024) char shared[];
struct Arguments {
  const char *x;                            // [streams, pitch, INPUTS] float16
  const char *weights;
  const float *factors;                     // [OUTPUTS / N][3 or 6][N]: bias, scale, inverse of each product
  const u16 *residual;                      // float16
  u16 *wide;                                // results before the last snake
  char *out;                                // results after it; may be null in codec_resident.cu
  s64 residual_stride, wide_stride, out_stride; // elements per stream
  int pitch, columns, blocks, dilation, keep; // blocks: of 64 columns, in all streams together
};
__device__ __forceinline__ u32 address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void begin(u32 barrier, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(barrier), "r"(count) : "memory"); }
__device__ __forceinline__ void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(barrier) : "memory"); }
__device__ __forceinline__ void expect(u32 barrier, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(barrier), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wait_for(u32 barrier, u32 phase) {
  for (u32 ok = 0, spins = 0; !ok;) {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p,[%1],%2; selp.u32 %0,1,0,p;}" : "=r"(ok) : "r"(barrier), "r"(phase) : "memory");
    if (++spins > SPINS) asm volatile("st.volatile.global.u32 [%0],%1;" ::"l"(0ull), "r"(spins) : "memory");
  }
}
__device__ __forceinline__ void fetch(u32 to, const void *from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
// The same, into the shared memory of both programs of a cluster; each has such a barrier.
__device__ __forceinline__ void fetch_for_both(u32 to, const void *from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0],[%1],%2,[%3],%4;" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "h"((unsigned short)3) : "memory");
}
// Arrive at the barrier of both programs of a cluster.
__device__ __forceinline__ void release(u32 barrier, u32 rank) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(there) : "r"(barrier), "r"(rank ^ 1));
  arrive(barrier);
  asm volatile("mbarrier.arrive.shared::cluster.b64 _,[%0];" ::"r"(there) : "memory");
}
__device__ __forceinline__ void meet_pair() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ void fetch16(u32 to, const void *from) { asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(to), "l"(from) : "memory"); }
__device__ __forceinline__ void to_l2(const void *from, u32 bytes) { asm volatile("cp.async.bulk.prefetch.L2.global [%0],%1;" ::"l"(from), "r"(bytes) : "memory"); }
__device__ __forceinline__ void visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// The barriers that this thread has initialised may be used by the other program of the cluster, too.
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// What this thread fetched with fetch16 has arrived, and wgmma may read it: arrive at the barrier.
__device__ __forceinline__ void fetched(u32 barrier) {
  asm volatile("cp.async.wait_all;" ::: "memory");
  visible();
  arrive(barrier);
}
// The next stage of a ring; the phase of its barriers changes after the last one.
__device__ __forceinline__ void next_stage(u32 &stage, u32 &phase, u32 stages) {
  if (++stage == stages) stage = 0, phase ^= 1;
}
__device__ __forceinline__ void multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int COUNT> __device__ __forceinline__ void multiply_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT) : "memory"); }
template <int COUNT> __device__ __forceinline__ void settled(float (&a)[COUNT]) { // keeps the compiler from moving reads of a before this
#pragma unroll
  for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(a[i])::"memory");
}
// A matrix of 8 x 8 blocks (128 bytes): vertical neighbours are contiguous, horizontal ones are `across` bytes apart. In a
// cluster, address bits above the 18 of a descriptor hold the rank of the program.
__device__ __forceinline__ u64 place(u32 at) { return (at & 0x3ffff) >> 4; }
__device__ __forceinline__ u64 matrix(u32 at, u32 across) { return place(at) | (u64)(across >> 4) << 16 | (u64)(128 >> 4) << 32; }
__device__ __forceinline__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ float sine(float a) { float s; asm("sin.approx.ftz.f32 %0,%1;" : "=f"(s) : "f"(a)); return s; }
__device__ __forceinline__ float snake(float y, float scale, float inverse) { const float s = sine(y * scale); return fmaf(s * s, inverse, y); }
__device__ __forceinline__ u32 halves(float a, float b) { // saturates
  u32 r;
  asm("cvt.rn.satfinite.f16x2.f32 %0,%1,%2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
}
__device__ __forceinline__ float single(u16 h) {
  float f;
  asm("{.reg .b16 t; mov.b16 t,%1; cvt.f32.f16 %0,t;}" : "=f"(f) : "h"(h));
  return f;
}
__device__ __forceinline__ float4 singles(uint2 h) { return make_float4(single((u16)h.x), single((u16)(h.x >> 16)), single((u16)h.y), single((u16)(h.y >> 16))); }
__device__ __forceinline__ float4 shared4(u32 a) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(a) : "memory");
  return v;
}
// Start each sum with the bias.
template <int COUNT> __device__ __forceinline__ void begin_sums(float (&a)[COUNT], u32 at) {
#pragma unroll
  for (int i = 0; i < COUNT; i += 8) {
    const float4 b = shared4(at + i * 2);
    a[i] = a[i + 2] = b.x, a[i + 1] = a[i + 3] = b.y, a[i + 4] = a[i + 6] = b.z, a[i + 5] = a[i + 7] = b.w;
  }
}
// Snake of the sums, as operands of the second product.
template <int COUNT> __device__ __forceinline__ void activate(u32 *x, const float (&a)[COUNT], u32 scale, u32 inverse) {
#pragma unroll
  for (int i = 0; i < COUNT; i += 8) {
    const float4 s = shared4(scale + i * 2), v = shared4(inverse + i * 2);
    x[i / 2] = halves(snake(a[i], s.x, v.x), snake(a[i + 1], s.y, v.y));
    x[i / 2 + 1] = halves(snake(a[i + 2], s.x, v.x), snake(a[i + 3], s.y, v.y));
    x[i / 2 + 2] = halves(snake(a[i + 4], s.z, v.z), snake(a[i + 5], s.w, v.w));
    x[i / 2 + 3] = halves(snake(a[i + 6], s.z, v.z), snake(a[i + 7], s.w, v.w));
  }
}
// Snake of eight sums, which are 16 channels of two rows: operands of a product.
__device__ __forceinline__ void activate8(u32 *x, const float *a, u32 scale, u32 inverse) {
  const float4 s = shared4(scale), v = shared4(inverse);
  x[0] = halves(snake(a[0], s.x, v.x), snake(a[1], s.y, v.y));
  x[1] = halves(snake(a[2], s.x, v.x), snake(a[3], s.y, v.y));
  x[2] = halves(snake(a[4], s.z, v.z), snake(a[5], s.w, v.w));
  x[3] = halves(snake(a[6], s.z, v.z), snake(a[7], s.w, v.w));
}
__device__ __forceinline__ void add8(float *a, u32 bias) {
  const float4 b = shared4(bias);
  a[0] += b.x, a[2] += b.x, a[1] += b.y, a[3] += b.y, a[4] += b.z, a[6] += b.z, a[5] += b.w, a[7] += b.w;
}
// Set four of eight sums, those of one of two rows, to its residual.
__device__ __forceinline__ void spread8(float *a, uint2 residual, int below) {
  const float4 v = singles(residual);
  a[below * 2] = v.x, a[below * 2 + 1] = v.y, a[below * 2 + 4] = v.z, a[below * 2 + 5] = v.w;
}
// Set eight sums to the residual of two rows. The loads are volatile: the compiler would move plain ones to where registers are scarce.
__device__ __forceinline__ void begin8(float *a, const u16 *residual) {
#pragma unroll
  for (int below = 0; below < 2; below++) {
    uint2 v;
    asm volatile("ld.global.v2.u32 {%0,%1},[%2];" : "=r"(v.x), "=r"(v.y) : "l"(residual + below * 8 * OUTPUTS));
    spread8(a, v, below);
  }
}
// Store eight sums that include the residual.
__device__ __forceinline__ void finish8(const float *a, u16 *wide, char *out, u32 scale, u32 inverse, bool keep) {
  u32 x[4];
  if (keep)
#pragma unroll
    for (int below = 0; below < 2; below++) *(uint2 *)(wide + below * 8 * OUTPUTS) = make_uint2(halves(a[below * 2], a[below * 2 + 1]), halves(a[below * 2 + 4], a[below * 2 + 5]));
  activate8(x, a, scale, inverse);
#pragma unroll
  for (int below = 0; below < 2; below++) *(uint2 *)(out + below * 16 * OUTPUTS) = make_uint2(x[below], x[below + 2]);
}
// 32 channels of two rows: residual, snake and the stores. `a`: 16 sums; `r`: the residual.
template <bool ADDED> __device__ __forceinline__ void finish(const float *a, const uint2 (&r)[4], u16 *wide, char *out, u32 scale, u32 inverse, bool keep, bool gives = true) {
  float y[2][8];
#pragma unroll
  for (int row = 0; row < 2; row++)
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const float *sums = a + i * 2 + row * 2;
      float4 v = make_float4(0, 0, 0, 0);
      if (ADDED) v = singles(r[row * 2 + i / 4]);
      y[row][i] = sums[0] + v.x, y[row][i + 1] = sums[1] + v.y, y[row][i + 2] = sums[4] + v.z, y[row][i + 3] = sums[5] + v.w;
    }
  if (keep)
#pragma unroll
    for (int row = 0; row < 2; row++)
#pragma unroll
      for (int i = 0; i < 8; i += 4) *(uint2 *)(wide + row * 8 * OUTPUTS + i * 4) = make_uint2(halves(y[row][i], y[row][i + 1]), halves(y[row][i + 2], y[row][i + 3]));
  if (!gives) return;
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const float4 s = shared4(scale + i * 4), v = shared4(inverse + i * 4);
#pragma unroll
    for (int row = 0; row < 2; row++)
      y[row][i] = snake(y[row][i], s.x, v.x), y[row][i + 1] = snake(y[row][i + 1], s.y, v.y), y[row][i + 2] = snake(y[row][i + 2], s.z, v.z), y[row][i + 3] = snake(y[row][i + 3], s.w, v.w);
  }
#pragma unroll
  for (int row = 0; row < 2; row++)
#pragma unroll
    for (int i = 0; i < 8; i += 4) *(uint2 *)(out + row * 16 * OUTPUTS + i * 8) = make_uint2(halves(y[row][i], y[row][i + 1]), halves(y[row][i + 2], y[row][i + 3]));
}
__device__ __forceinline__ void load_residual(uint2 (&r)[4], const u16 *residual) {
#pragma unroll
  for (int i = 0; i < 4; i++) r[i] = *(const uint2 *)(residual + i / 2 * 8 * OUTPUTS + i % 2 * 16);
}
// Rows of x from `from` on into [CHUNKS][apart][8], by `count` threads.
template <int CHUNKS> __device__ __forceinline__ void fetch_rows(u32 to, const char *from, u32 rows, u32 apart, u32 thread, u32 count) {
  u32 row = thread / CHUNKS, chunk = thread % CHUNKS;
  const u32 rows_on = count / CHUNKS, chunks_on = count % CHUNKS;
  for (u32 i = thread; i < rows * CHUNKS; i += count) {
    fetch16(to + (chunk * apart + row) * 16, from + (u64)i * 16);
    row += rows_on, chunk += chunks_on;
    if (chunk >= CHUNKS) chunk -= CHUNKS, row++;
  }
}

// Shared by all kernels here, whatever the number of rows: PTX instructions, sums over a warp, rotation.
//
// A row must have the same bits in every kernel that may compute it. So a sum of products is written with `fmaf`, in one
// order, and the compiler may not fuse others (`--fmad=false`).
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef long long s64;

#define FRACTION 14                            // fractional bits of fixed-point sums, whose range is +-8,192
#ifndef FINE
#define FINE 0                                 // 1: `down` of several rows is rounded in the same parts as one row (--exact)
#endif
#ifndef SPINS
#define SPINS 4000000u                         // polls before a wait gives up; far more than a frame takes
#endif

extern __shared__ __align__(128) char shared[];

__device__ __forceinline__ u32 address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
// A wait that does not end becomes an illegal access. With `trap`, ptxas limits the whole kernel to 168 registers.
__device__ __forceinline__ void spun(u32 &spins) {
  if (++spins > SPINS) asm volatile("st.volatile.global.u32 [%0],%1;" ::"l"(0ull), "r"(spins) : "memory");
}
__device__ __forceinline__ void wait_for(u32 barrier, u32 phase) {
  for (u32 ok = 0, spins = 0; !ok; spun(spins))
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p,[%1],%2; selp.u32 %0,1,0,p;}"
                 : "=r"(ok) : "r"(barrier), "r"(phase) : "memory");
}
__device__ __forceinline__ void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(barrier) : "memory"); }
__device__ __forceinline__ void meet_warps() { asm volatile("bar.sync 1,256;" ::: "memory"); }
__device__ __forceinline__ float low(u32 v) { return __uint_as_float(v << 16); }
__device__ __forceinline__ float high(u32 v) { return __uint_as_float(v & 0xffff0000u); }
__device__ __forceinline__ u32 pack(float a, float b) { u32 r; asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(r) : "f"(b), "f"(a)); return r; }
__device__ __forceinline__ float rounded(float a) { return low(pack(a, 0.f)); }
__device__ __forceinline__ uint4 shared4(u32 a) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(a) : "memory");
  return v;
}
// Loads and stores that other programs see: through L2, two words at a time.
__device__ __forceinline__ uint4 load4(const void *p) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ uint2 load2(const void *p) {
  uint2 v;
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0,%1},[%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ u32 load1(const void *p) {
  u32 v;
  asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store2(void *p, u32 a, u32 b) { asm volatile("st.relaxed.gpu.global.v2.u32 [%0],{%1,%2};" ::"l"(p), "r"(a), "r"(b) : "memory"); }
__device__ __forceinline__ void store4(void *p, u32 a, u32 b, u32 c, u32 d) { asm volatile("st.relaxed.gpu.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
__device__ __forceinline__ bool both_from(const uint4 &v, u32 sequence) { return (int)(v.y - sequence) >= 0 && (int)(v.w - sequence) >= 0; }
__device__ __forceinline__ void product16(float *c, const uint4 &a, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void product8(float *c, u32 a0, u32 a1, u32 b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b));
}
__device__ __forceinline__ int fixed(float a) { return __float2int_rn(a * (1 << FRACTION)); }
__device__ __forceinline__ void check(float largest, int *overflow) {
  if (largest >= 2048.f) *(volatile int *)overflow = 1;
}
// FINE: tile `tile` of a warp's `down`, for 16 outputs and eight rows. With one row, every program rounds the product of
// its own units to fixed point: 24 units (a tile and a half) or, with BLOCKS 2, 48 (three tiles). With several rows a warp
// has eight such parts. With BLOCKS 1 the order of its tiles is: the first 16 units of two parts, then the last 8 of both.
__device__ __forceinline__ void add_tile(float (*a)[4], int *sums, const uint4 &w, u32 x, u32 y, int tile, float &largest) {
  if (BLOCKS == 2) product16(a[0], w, x, y);
  else if (tile % 3 < 2) product16(a[tile % 3], w, x, y);
  else product8(a[0], w.x, w.y, x), product8(a[1], w.z, w.w, y);
  if (tile % 3 < 2) return;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    largest = fmaxf(largest, fabsf(a[0][i])), sums[i] += fixed(a[0][i]), a[0][i] = 0.f;
    if (BLOCKS == 1) largest = fmaxf(largest, fabsf(a[1][i])), sums[i] += fixed(a[1][i]), a[1][i] = 0.f;
  }
}
// Sum over the lanes, in the order of `fold<4>` and two more steps.
__device__ __forceinline__ float warp_sum(float v) {
  for (int o = 4; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  v += __shfl_xor_sync(~0u, v, 8);
  return v + __shfl_xor_sync(~0u, v, 16);
}
template <int O> __device__ __forceinline__ void fold(float *s, u32 lane) { // sums of 2 O values over the lanes; each lane gets one
  bool upper = lane & O;
#pragma unroll
  for (int i = 0; i < O; i++) {
    float give = upper ? s[i] : s[i + O], keep = upper ? s[i + O] : s[i];
    s[i] = keep + __shfl_xor_sync(~0u, give, O);
  }
  if constexpr (O > 1) fold<O / 2>(s, lane);
}
__device__ __forceinline__ float square_sum(float p, float q, float r, float s) { return fmaf(s, s, fmaf(r, r, fmaf(q, q, p * p))); }
// Norm, rotate and scale a head; a lane holds columns 2 lane, 2 lane + 1, 64 + 2 lane and 65 + 2 lane.
__device__ __forceinline__ void norm_and_rotate(const uint4 &in, const u16 *weight, float2 cosine, float2 sine, float scale, u32 lane, float *o) {
  float p = low(in.x), q = high(in.x), r = low(in.z), s = high(in.z);
  const u32 w0 = *(const u32 *)(weight + 2 * lane), w1 = *(const u32 *)(weight + 64 + 2 * lane);
  const float n = rsqrtf(fmaf(warp_sum(square_sum(p, q, r, s)), 1.f / 128, 1e-6f)) * scale;
  p *= n * low(w0), q *= n * high(w0), r *= n * low(w1), s *= n * high(w1);
  o[0] = fmaf(p, cosine.x, -(r * sine.x)), o[1] = fmaf(q, cosine.y, -(s * sine.y));
  o[2] = fmaf(r, cosine.x, p * sine.x), o[3] = fmaf(s, cosine.y, q * sine.y);
}
// Dot product of four columns of a query and a key; a weighted value added to four sums.
__device__ __forceinline__ float dot4(const float *q, u32 a, u32 b) { return fmaf(q[3], high(b), fmaf(q[2], low(b), fmaf(q[1], high(a), q[0] * low(a)))); }
__device__ __forceinline__ void add_value(float *o, float p, u32 a, u32 b) {
  o[0] = fmaf(p, low(a), o[0]), o[1] = fmaf(p, high(a), o[1]), o[2] = fmaf(p, low(b), o[2]), o[3] = fmaf(p, high(b), o[3]);
}

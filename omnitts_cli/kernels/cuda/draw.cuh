// Sampling of one code by 256 threads: what kernels/triton/draw.py computes. Uses 64 bytes of shared memory at AT_DRAW.
#define CODES 2048
struct Draws { // by row
  const s64 *seeds, *frames;
  const float *temperature;
  const s64 *top_k;
  const float *top_p;
};
struct Reduce { // over the 8 warps; double-buffered, so that one barrier is enough
  u32 warp, lane, bank;
  __device__ __forceinline__ u32 *exchange(u32 v) {
    u32 *at = (u32 *)(shared + AT_DRAW) + 8 * (bank ^= 1);
    if (lane == 0) at[warp] = v;
    meet_warps();
    return at;
  }
  __device__ __forceinline__ u32 most(u32 v) {
    u32 *at = exchange(__reduce_max_sync(~0u, v)), best = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) best = max(best, at[i]);
    return best;
  }
  __device__ __forceinline__ u32 count(u32 v) {
    u32 *at = exchange(__reduce_add_sync(~0u, v)), all = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) all += at[i];
    return all;
  }
  __device__ __forceinline__ float sum(float v) {
    float *at = (float *)exchange(__float_as_uint(warp_sum(v))), all = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) all += at[i];
    return all;
  }
};
__device__ __forceinline__ u32 mix(u32 x) {
  x = (x ^ (x >> 16)) * 0x21F0AAADu;
  x = (x ^ (x >> 15)) * 0x735A2D97u;
  return x ^ (x >> 15);
}
__device__ __forceinline__ float uniform(s64 seed, s64 frame, u32 group) {
  return (float)(mix(mix(mix((u32)frame * 64u + group) ^ (u32)seed) ^ (u32)((u64)seed >> 32)) >> 8) * (1.f / 16777216.f);
}
// The thread's eight logits are those of codes 8 thread ... + 7.
__device__ __forceinline__ u32 draw(const u32 *pairs, u32 row, u32 group, const Draws &f, u32 thread) {
  Reduce over{thread >> 5, thread & 31, 0};
  u32 order[8]; // 16 bits that sort like the logits
  float value[8];
#pragma unroll
  for (int i = 0; i < 8; i++) {
    u32 bits = (pairs[i >> 1] >> (16 * (i & 1))) & 0xffffu;
    value[i] = __uint_as_float(bits << 16);
    order[i] = bits & 0x8000u ? 0xffffu ^ bits : bits | 0x8000u;
  }
  u32 best = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) best = max(best, order[i] << 16 | (CODES - 1 - (8 * thread + i)));
  best = over.most(best);
  const float heat = f.temperature[row];
  if (heat == 0.f) return CODES - 1 - (best & 0xffffu);
  const u32 top = best >> 16;
  const float largest = __uint_as_float((top & 0x8000u ? top ^ 0x8000u : 0xffffu ^ top) << 16);
  u32 least = 0; // the smallest that is kept
  const s64 wanted = f.top_k[row];
  if (wanted > 0 && wanted < CODES) { // the k-th largest, two bits at a time
    u32 left = (u32)wanted;
#pragma unroll 1
    for (int shift = 14; shift >= 0; shift -= 2) {
      u32 counts = 0; // counts of the digits 3, 2 and 1, ten bits each
#pragma unroll
      for (int i = 0; i < 8; i++) {
        u32 digit = (order[i] >> shift) & 3u;
        if ((order[i] >> shift >> 2) == least && digit) counts += 1u << (10 * (3 - digit));
      }
      u32 *at = over.exchange(__reduce_add_sync(~0u, counts)), three = 0, two = 0, one = 0;
#pragma unroll
      for (int i = 0; i < 8; i++) three += at[i] & 1023u, two += (at[i] >> 10) & 1023u, one += at[i] >> 20;
      two += three, one += two;
      u32 digit = left <= three ? 3 : left <= two ? 2 : left <= one ? 1 : 0;
      left -= digit == 3 ? 0 : digit == 2 ? three : digit == 1 ? two : one;
      least = least * 4 + digit;
    }
  }
  float chance[8], all = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) chance[i] = order[i] >= least ? __expf((value[i] - largest) / heat) : 0.f, all += chance[i];
  const float mass = f.top_p[row];
  if (mass < 1.f) { // a code is kept if the strictly likelier ones do not reach the mass on their own
    const float goal = mass * over.sum(all);
    u32 below = 0, above = top;
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
      u32 middle = (below + above) >> 1;
      float larger = 0;
#pragma unroll
      for (int j = 0; j < 8; j++) larger += order[j] > middle ? chance[j] : 0.f;
      if (over.sum(larger) >= goal) below = min(middle + 1, top); else above = middle;
    }
    all = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) chance[i] = order[i] >= above ? chance[i] : 0.f, all += chance[i];
  }
  float walked = all; // inclusive sum over the lanes
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) { float v = __shfl_up_sync(~0u, walked, o); if (over.lane >= o) walked += v; }
  float *at = (float *)over.exchange(__float_as_uint(__shfl_sync(~0u, walked, 31))), total = 0, before = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) { if (i == over.warp) before = total; total += at[i]; }
  float so_far = before + walked - all;
  const float target = uniform(f.seeds[row], f.frames[row], group) * total;
  u32 passed = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) so_far += chance[i], passed += so_far <= target;
  return min(over.count(passed), CODES - 1u);
}

// Attention of one position of each row to the cache of its slot: norm, rotate, write the key and the value, attend.
//
// Each of the four warps of a program (thread block) computes one kv head of one row, with its two query heads. It takes 16
// positions at a time, as two groups of eight.
#define BLOCKS 1 // for basics.cuh; has no effect here
#include "basics.cuh"
#include "attend.cuh"
#include "early.cuh"

#define WARPS 4
#define GROUPS 2                      // groups of eight positions per iteration
#define TURN (8 * GROUPS)             // positions per iteration
#define NOTHING -1e30f
#define AT_QUERIES 0                  // [warps][2 heads][128] bf16
#define AT_CHANCES (AT_QUERIES + WARPS * 512) // [warps][2 heads][16 positions]

__device__ __forceinline__ float dot2(u32 a, u32 b, float sum) { return fmaf(high(a), high(b), fmaf(low(a), low(b), sum)); }

// Keys: each quad of lanes has one of the eight positions of a group, each lane 32 of its 128 columns.
__device__ __forceinline__ void load_keys(uint4 (&key)[GROUPS][4], const u16 *keys, s64 start, s64 end, u32 lane) {
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    const s64 at = start + 8 * g + (lane >> 2);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      key[g][i] = make_uint4(0, 0, 0, 0);
      if (at < end) key[g][i] = load4(keys + at * 128 + 32 * i + 8 * (lane & 3));
    }
  }
}

__device__ __forceinline__ void load_values(uint2 (&value)[8 * GROUPS], const u16 *values, s64 start, s64 end, u32 lane) {
#pragma unroll
  for (int i = 0; i < 8 * GROUPS; i++) {
    const s64 at = start + i;
    value[i] = make_uint2(0, 0);
    if (at < end) value[i] = load2(values + at * 128 + 4 * lane);
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 4) attend(const Attend f) {
  const u32 thread = threadIdx.x, warp = thread >> 5, lane = thread & 31;
  const u32 index = blockIdx.x * WARPS + warp, row = index >> 3, head = index & 7;
  uint4 key[GROUPS][4];
  uint2 value[8 * GROUPS];
  const u32 q0 = *(const u32 *)(f.query_norm + 2 * lane), q1 = *(const u32 *)(f.query_norm + 64 + 2 * lane);
  const u32 k0 = *(const u32 *)(f.key_norm + 2 * lane), k1 = *(const u32 *)(f.key_norm + 64 + 2 * lane);
  allow_next();
  wait_for_previous();
  const s64 position = load_now(f.positions + row);
  const u64 there = (load_now(f.slots + row) * 8 + head) * f.capacity * 128;
  u16 *const keys = f.keys + there, *const values = f.values + there;
  const u16 *const in = f.qkv + (u64)row * 4096;
  u32 raw[3][2]; // of two queries and the key
#pragma unroll
  for (int i = 0; i < 3; i++)
#pragma unroll
    for (int j = 0; j < 2; j++) raw[i][j] = load1(in + (i < 2 ? 2 * head + i : 16 + head) * 128 + 64 * j + 2 * lane);
  const uint2 own = load2(in + 3072 + head * 128 + 4 * lane);
  load_keys(key, keys, 0, position, lane), load_values(value, values, 0, position, lane);
  const float2 cosine = *(const float2 *)(f.cosines + position * 64 + 2 * lane), sine = *(const float2 *)(f.sines + position * 64 + 2 * lane);
  float turned[3][4];
#pragma unroll
  for (int i = 0; i < 3; i++) { // rounded where the plain version rounds
    const u32 w0 = i < 2 ? q0 : k0, w1 = i < 2 ? q1 : k1;
    float a = low(raw[i][0]), b = high(raw[i][0]), c = low(raw[i][1]), d = high(raw[i][1]);
    const float n = rsqrtf(fmaf(warp_sum(square_sum(a, b, c, d)), 1.f / 128, f.eps));
    a = rounded(rounded(a * n) * low(w0)), b = rounded(rounded(b * n) * high(w0));
    c = rounded(rounded(c * n) * low(w1)), d = rounded(rounded(d * n) * high(w1));
    turned[i][0] = rounded(fmaf(a, cosine.x, -(c * sine.x))), turned[i][1] = rounded(fmaf(b, cosine.y, -(d * sine.y)));
    turned[i][2] = rounded(fmaf(c, cosine.x, a * sine.x)), turned[i][3] = rounded(fmaf(d, cosine.y, b * sine.y));
  }
  const float root = 0.08838834764831845f;
  float most[2] = {NOTHING, NOTHING}, weight[2] = {}, o[2][4] = {};
  u32 *const query = (u32 *)(shared + AT_QUERIES) + warp * 128;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const float *q = turned[h], *k = turned[2];
    const float score = warp_sum(fmaf(q[3], k[3], fmaf(q[2], k[2], fmaf(q[1], k[1], q[0] * k[0])))) * root;
    most[h] = score, weight[h] = 1.f, o[h][0] = low(own.x), o[h][1] = high(own.x), o[h][2] = low(own.y), o[h][3] = high(own.y);
    query[64 * h + lane] = pack(q[0], q[1]), query[64 * h + 32 + lane] = pack(q[2], q[3]);
  }
  *(uint2 *)(values + position * 128 + 4 * lane) = own;
  *(u32 *)(keys + position * 128 + 2 * lane) = pack(turned[2][0], turned[2][1]);
  *(u32 *)(keys + position * 128 + 64 + 2 * lane) = pack(turned[2][2], turned[2][3]);
  __syncwarp();
  float *const chances = (float *)(shared + AT_CHANCES) + warp * 32;
#pragma unroll 1
  for (s64 start = 0; start < position; start += TURN) {
    float score[2][GROUPS];
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
      for (int g = 0; g < GROUPS; g++) score[h][g] = 0.f;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const uint4 mine = shared4(address(query) + 256 * h + 64 * i + 16 * (lane & 3));
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
          score[h][g] = dot2(mine.w, key[g][i].w, dot2(mine.z, key[g][i].z, dot2(mine.y, key[g][i].y, dot2(mine.x, key[g][i].x, score[h][g]))));
      }
    }
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        float s = score[h][g];
        s += __shfl_xor_sync(~0u, s, 1);
        s += __shfl_xor_sync(~0u, s, 2);
        score[h][g] = start + 8 * g + (lane >> 2) < position ? s * root : NOTHING;
      }
    load_keys(key, keys, start + TURN, position, lane); // for the next iteration
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float largest = most[h], sum = 0.f;
#pragma unroll
      for (int g = 0; g < GROUPS; g++) largest = fmaxf(largest, score[h][g]);
      for (int i = 4; i < 32; i *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, i));
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        const float chance = score[h][g] > NOTHING ? __expf(score[h][g] - largest) : 0.f;
        if ((lane & 3) == 0) chances[16 * h + 8 * g + (lane >> 2)] = chance;
        sum += chance;
      }
      for (int i = 4; i < 32; i *= 2) sum += __shfl_xor_sync(~0u, sum, i);
      const float keep = __expf(most[h] - largest);
      weight[h] = fmaf(weight[h], keep, sum), most[h] = largest;
#pragma unroll
      for (int i = 0; i < 4; i++) o[h][i] *= keep;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8 * GROUPS; i += 4)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const uint4 p = shared4(address(chances) + 64 * h + 4 * i);
        add_value(o[h], __uint_as_float(p.x), value[i].x, value[i].y), add_value(o[h], __uint_as_float(p.y), value[i + 1].x, value[i + 1].y);
        add_value(o[h], __uint_as_float(p.z), value[i + 2].x, value[i + 2].y), add_value(o[h], __uint_as_float(p.w), value[i + 3].x, value[i + 3].y);
      }
    __syncwarp();
    load_values(value, values, start + TURN, position, lane);
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const float sum = 1.f / weight[h];
    u16 *const out = f.out + (u64)row * 2048 + (2 * head + h) * 128 + 4 * lane;
    *(uint2 *)out = make_uint2(pack(o[h][0] * sum, o[h][1] * sum), pack(o[h][2] * sum, o[h][3] * sum));
  }
}

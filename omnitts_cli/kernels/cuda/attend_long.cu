// Attention of one position of each row to the cache of its slot: norm, rotate, write the key and the value, attend.
//
// A warp computes one kv head of one row, with its two query heads, 16 positions per iteration. Keys and values go through
// shared memory and are the A operands of `mma.m16n8k16`. Positions and columns are permuted within an operand, so that a load
// of 16 bytes fills whole registers. The columns of B are queries or probabilities of the two heads, repeated.
#define BLOCKS 1 // for basics.cuh; has no effect here
#include "basics.cuh"
#include "attend.cuh"
#include "early.cuh"

#define WARPS 4
#define TURN 16                       // positions per iteration
#define BOX 4096                      // bytes of 16 keys or values
#define BOXES 3                       // of a warp: two are being filled while one is read
#define NOTHING -1e30f

__device__ __forceinline__ u32 word(const uint4 &v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// Fetches 16 keys or values, 512 contiguous bytes per instruction. In shared memory, the 16-byte pieces of a position are
// permuted (SWAP_...), so that reads of eight lanes have no bank conflicts.
#define SWAP_KEYS(position) (((position) >> 1 & 1) << 2)
#define SWAP_VALUES(position) (((position) >> 2 & 3) << 1)
template <bool KEYS> __device__ __forceinline__ void fetch(u32 box, const u16 *rows, int start, int end, u32 lane) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const u32 at = 2 * i + lane / 16, piece = lane % 16, to = box + at * 256 + (piece ^ (KEYS ? SWAP_KEYS(at) : SWAP_VALUES(at))) * 16;
    const u16 *const from = rows + (start + at) * 128 + piece * 8;
    if (start + (int)at < end) asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(to), "l"(from) : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ __forceinline__ void fetched() { // waits for all fetches but the last two
  asm volatile("cp.async.wait_group 2;" ::: "memory");
  __syncwarp();
}

// Products of 16 rows with both queries. `upper` holds row g, `lower` row g + 8.
__device__ __forceinline__ void scores(float *c, const uint4 (&upper)[4], const uint4 (&lower)[4], const uint4 (&query)[4]) {
  float other[4] = {};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    product16(c, make_uint4(upper[i].x, lower[i].x, upper[i].y, lower[i].y), query[i].x, query[i].y);
    product16(other, make_uint4(upper[i].z, lower[i].z, upper[i].w, lower[i].w), query[i].z, query[i].w);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) c[i] += other[i];
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 4) attend(const Attend f) {
  const u32 lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, index = blockIdx.x * WARPS + (threadIdx.x >> 5), row = index >> 3, head = index & 7;
  const u32 role = g & 3; // what a lane normalizes and rotates: 0 and 1: a query; 2 and 3: the key
  const u32 mine = t >> 1; // the query head whose softmax a lane keeps; in lanes of odd t, scores are not valid
  uint4 weight[4], query[4], own[2];
  const u32 boxes = address(shared) + (threadIdx.x >> 5) * BOXES * BOX;
#pragma unroll
  for (int i = 0; i < 4; i++) weight[i] = *(const uint4 *)((role < 2 ? f.query_norm : f.key_norm) + 32 * i + 8 * t);
  allow_next();
  wait_for_previous();
  const int position = (int)load_now(f.positions + row);
  const u64 there = (load_now(f.slots + row) * 8 + head) * f.capacity * 128;
  u16 *const keys = f.keys + there, *const values = f.values + there;
  const u16 *const in = f.qkv + (u64)row * 4096;
  float4 cosines[2][2], sines[2][2];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const s64 angle = (s64)position * 64 + 32 * (i / 2) + 8 * t + 4 * (i % 2);
    cosines[i / 2][i % 2] = *(const float4 *)(f.cosines + angle), sines[i / 2][i % 2] = *(const float4 *)(f.sines + angle);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) query[i] = load4(in + (role < 2 ? 2 * head + role : 16 + head) * 128 + 32 * i + 8 * t);
#pragma unroll
  for (int s = 0; s < 2; s++) own[s] = load4(in + (24 + head) * 128 + 64 * s + 8 * g);
  fetch<true>(boxes, keys, 0, position, lane);
  fetch<false>(boxes + BOX, values, 0, position, lane);
  fetch<true>(boxes + 2 * BOX, keys, TURN, position, lane);
  float squares = 0.f;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float a = low(word(query[i], j)), b = high(word(query[i], j));
      squares = fmaf(b, b, fmaf(a, a, squares));
    }
  squares += __shfl_xor_sync(~0u, squares, 1);
  squares += __shfl_xor_sync(~0u, squares, 2);
  const float n = rsqrtf(fmaf(squares, 1.f / 128, f.eps));
#pragma unroll
  for (int i = 0; i < 2; i++) { // rounded where the plain version rounds
    u32 turned[2][4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float4 both = cosines[i][j / 2], all = sines[i][j / 2];
      const float2 cosine = j % 2 ? make_float2(both.z, both.w) : make_float2(both.x, both.y), sine = j % 2 ? make_float2(all.z, all.w) : make_float2(all.x, all.y);
      const u32 x = word(query[i], j), y = word(query[i + 2], j), w = word(weight[i], j), v = word(weight[i + 2], j);
      const float a = rounded(rounded(low(x) * n) * low(w)), b = rounded(rounded(high(x) * n) * high(w));
      const float c = rounded(rounded(low(y) * n) * low(v)), d = rounded(rounded(high(y) * n) * high(v));
      turned[0][j] = pack(fmaf(a, cosine.x, -(c * sine.x)), fmaf(b, cosine.y, -(d * sine.y)));
      turned[1][j] = pack(fmaf(c, cosine.x, a * sine.x), fmaf(d, cosine.y, b * sine.y));
    }
#pragma unroll
    for (int h = 0; h < 2; h++) query[i + 2 * h] = make_uint4(turned[h][0], turned[h][1], turned[h][2], turned[h][3]);
  }
  if (g == 2)
#pragma unroll
    for (int i = 0; i < 4; i++) *(uint4 *)(keys + position * 128 + 32 * i + 8 * t) = query[i];
  if (t < 2) *(uint4 *)(values + position * 128 + 64 * t + 8 * g) = t ? own[1] : own[0];
  const float root = 0.08838834764831845f;
  float o[2][4][4], c[4] = {}; // column 64 s + 8 g + 2 m of both heads, then the next column of both
  const uint4 nothing[4] = {};
  scores(c, query, nothing, query); // row 2 is the key
#pragma unroll
  for (int h = 0; h < 2; h++) c[h] = __shfl_sync(~0u, c[h], 8) * root;
  float most = mine ? c[1] : c[0], sum = g == 0 ? 1.f : 0.f;
#pragma unroll
  for (int s = 0; s < 2; s++)
#pragma unroll
    for (int m = 0; m < 4; m++) o[s][m][0] = o[s][m][1] = low(word(own[s], m)), o[s][m][2] = o[s][m][3] = high(word(own[s], m));
  u32 box = 0;
#pragma unroll 1
  for (int start = 0; start < position; start += TURN) {
    float score[4] = {};
    u32 here = boxes + box * BOX;
    fetched();
    uint4 key[2][4];
#pragma unroll
    for (int i = 0; i < 8; i++) { // positions 2 g and 2 g + 1, columns 8 t to 8 t + 7 of every 32
      const u32 at = 2 * g + i / 4;
      key[i / 4][i % 4] = shared4(here + at * 256 + ((4 * (i % 4) + t) ^ SWAP_KEYS(at)) * 16);
    }
    scores(score, key[0], key[1], query);
    __syncwarp();
    fetch<false>(here, values, start + TURN, position, lane); // for the next iteration
    box = box == BOXES - 1 ? 0 : box + 1;
    const int at = start + 2 * g;
    const float first = at < position ? (mine ? score[1] : score[0]) * root : NOTHING;
    const float second = at + 1 < position ? (mine ? score[3] : score[2]) * root : NOTHING;
    float largest = fmaxf(most, fmaxf(first, second));
#pragma unroll
    for (int i = 4; i < 32; i *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, i));
    const float chance = __expf(first - largest), next = __expf(second - largest), keep = __expf(most - largest);
    sum = fmaf(sum, keep, chance + next), most = largest;
    const u32 both = pack(chance, next), from = 8 * t + 2 * (g & 1);
    const u32 b0 = __shfl_sync(~0u, both, from), b1 = __shfl_sync(~0u, both, from + 4);
    const float keeps[2] = {__shfl_sync(~0u, keep, lane & ~3u), __shfl_sync(~0u, keep, (lane & ~3u) | 2)};
    here = boxes + box * BOX;
    fetched();
    uint4 value[4][2];
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int s = 0; s < 2; s++) {
        const u32 at = 4 * t + r; // columns 8 g to 8 g + 7 of every 64
        value[r][s] = shared4(here + at * 256 + ((8 * s + g) ^ SWAP_VALUES(at)) * 16);
        if (start + (int)at >= position) value[r][s] = make_uint4(0, 0, 0, 0);
      }
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
      for (int m = 0; m < 4; m++) {
        const u32 a = word(value[0][s], m), b = word(value[1][s], m), c = word(value[2][s], m), d = word(value[3][s], m);
#pragma unroll
        for (int i = 0; i < 4; i++) o[s][m][i] *= keeps[i & 1];
        product16(o[s][m], make_uint4(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632), __byte_perm(c, d, 0x5410), __byte_perm(c, d, 0x7632)), b0, b1);
      }
    __syncwarp();
    fetch<true>(here, keys, start + 2 * TURN, position, lane);
    box = box == BOXES - 1 ? 0 : box + 1;
  }
#pragma unroll
  for (int i = 4; i < 32; i *= 2) sum += __shfl_xor_sync(~0u, sum, i);
  const float share = 1.f / __shfl_sync(~0u, sum, (lane & ~3u) | 2 * mine);
  u32 result[4];
#pragma unroll
  for (int m = 0; m < 4; m++) {
    const float even = mine ? (t & 1 ? o[1][m][1] : o[0][m][1]) : (t & 1 ? o[1][m][0] : o[0][m][0]);
    const float odd = mine ? (t & 1 ? o[1][m][3] : o[0][m][3]) : (t & 1 ? o[1][m][2] : o[0][m][2]);
    result[m] = pack(even * share, odd * share);
  }
  *(uint4 *)(f.out + (u64)row * 2048 + (2 * head + mine) * 128 + 64 * (t & 1) + 8 * g) = make_uint4(result[0], result[1], result[2], result[3]);
}

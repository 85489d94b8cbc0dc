// The kernels between the products of a layer, for 9 rows and more: norms, attention, sampling, and products of other
// shapes. A program (thread block) computes one row, or one head of it, in the same order as the persistent kernels, so a row
// has the same bits there and here. 256 threads: warp w holds columns 128 w to 128 w + 127 of each block of 1,024.
#include "basics.cuh"
#include "early.cuh"

#define HIDDEN (1024 * BLOCKS)
#define AT_SOFTMAX 0
#define AT_SCALES (AT_SOFTMAX + 8192)
#define AT_CHANCES (AT_SCALES + 128)
#define AT_DRAW AT_CHANCES
#define AT_SQUARES (AT_CHANCES + 1024)
#define AT_PARTS 0                             // of rows_linear: 8 x 16 x 20 floats

#include "attention.cuh"
#include "draw.cuh"

struct Stream {        // the residual stream, and the input of the next product, row by row
  float *residual;     // [rows][HIDDEN]
  const u16 *weight;   // [HIDDEN] of the norm
  u16 *normed;         // [rows][HIDDEN] residual x weight
  float *scales;       // [rows] 1 / rms
};
typedef float Columns[BLOCKS][4]; // of a thread: 1,024 block + 128 warp + 4 lane ... + 3
typedef uint2 Weights[BLOCKS];    // of a norm, for the same columns

// 1 / rms of the row whose columns the threads hold.
__device__ __forceinline__ float inverse_rms(const Columns &x, u32 warp, u32 lane) {
  float *squares = (float *)(shared + AT_SQUARES), s = 0.f, v = 0.f;
#pragma unroll
  for (int h = 0; h < BLOCKS; h++) s += square_sum(x[h][0], x[h][1], x[h][2], x[h][3]);
  s = warp_sum(s);
  if (lane == 0) squares[warp] = s;
  meet_warps();
#pragma unroll
  for (int i = 0; i < 8; i++) v += squares[i];
  return rsqrtf(fmaf(v, 1.f / HIDDEN, 1e-6f));
}
__device__ __forceinline__ void load_weights(const u16 *from, Weights &weights, u32 warp, u32 lane) { // before the wait: they never change
#pragma unroll
  for (int h = 0; h < BLOCKS; h++) weights[h] = *(const uint2 *)(from + h * 1024 + warp * 128 + lane * 4);
}
__device__ __forceinline__ void keep_row(const Stream &f, const Columns &x, const Weights &weights, u32 row, u32 warp, u32 lane) {
  const float scale = inverse_rms(x, warp, lane);
#pragma unroll
  for (int h = 0; h < BLOCKS; h++) {
    const u32 at = h * 1024 + warp * 128 + lane * 4;
    const uint2 n = weights[h];
    *(float4 *)(f.residual + (u64)row * HIDDEN + at) = make_float4(x[h][0], x[h][1], x[h][2], x[h][3]);
    *(uint2 *)(f.normed + (u64)row * HIDDEN + at) = make_uint2(pack(x[h][0] * low(n.x), x[h][1] * high(n.x)), pack(x[h][2] * low(n.y), x[h][3] * high(n.y)));
  }
  if (warp == 0 && lane == 0) f.scales[row] = scale;
}
__device__ __forceinline__ void read_row(const u16 *from, Columns &x, u32 warp, u32 lane) {
#pragma unroll
  for (int h = 0; h < BLOCKS; h++) {
    const uint2 v = *(const uint2 *)(from + h * 1024 + warp * 128 + lane * 4);
    x[h][0] = low(v.x), x[h][1] = high(v.x), x[h][2] = low(v.y), x[h][3] = high(v.y);
  }
}

// ---- a row of the residual stream before the next product: its start, or the sum with a product
struct Norm {
  Stream stream;
  const u16 *input;    // [rows][HIDDEN] with which the stream starts, or null
  char *sums;          // [rows][HIDDEN / 2] sums of rows_product; reset to zeros
  u16 *hidden;         // [rows][HIDDEN] the final norm, after the last layer; or null
  int *overflow;
};
extern "C" __global__ void __launch_bounds__(256) rows_norm(const Norm f) {
  const u32 thread = threadIdx.x, row = blockIdx.x, warp = thread >> 5, lane = thread & 31;
  allow_next();
  Weights weights;
  load_weights(f.stream.weight, weights, warp, lane);
  wait_for_previous();
  Columns x;
  if (f.input) read_row(f.input + (u64)row * HIDDEN, x, warp, lane);
  else {
#pragma unroll
    for (int h = 0; h < BLOCKS; h++) {
      const u64 at = (u64)row * HIDDEN + h * 1024 + warp * 128 + lane * 4;
      const float4 before = *(const float4 *)(f.stream.residual + at);
      uint4 *const word = (uint4 *)(f.sums + at * 4); // (first << 32) + second, twice
      const uint4 v = *word;
      *word = make_uint4(0, 0, 0, 0);
      const int sums[4] = {(int)(v.y + (v.x >> 31)), (int)v.x, (int)(v.w + (v.z >> 31)), (int)v.z};
      x[h][0] = before.x, x[h][1] = before.y, x[h][2] = before.z, x[h][3] = before.w;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float added = (float)sums[i] * (1.f / (1 << FRACTION));
        if (fabsf(added) >= 4096.f) *(volatile int *)f.overflow = 1;
        x[h][i] += added;
      }
    }
  }
  if (!f.hidden) return keep_row(f.stream, x, weights, row, warp, lane);
  const float scale = inverse_rms(x, warp, lane);
#pragma unroll
  for (int h = 0; h < BLOCKS; h++) {
    const u32 at = h * 1024 + warp * 128 + lane * 4;
    const uint2 n = weights[h];
    *(uint2 *)(f.hidden + (u64)row * HIDDEN + at) = make_uint2(pack(rounded(x[h][0] * scale) * low(n.x), rounded(x[h][1] * scale) * high(n.x)),
                                                               pack(rounded(x[h][2] * scale) * low(n.y), rounded(x[h][3] * scale) * high(n.y)));
  }
}

// ---- the talker's attention for one position of each row: one program per row and kv head
struct Attend {
  const u16 *qkv;      // [rows][4096]
  const u16 *norms;    // of the queries, then of the keys: 2 x 128
  const float *cosines, *sines; // [capacity][64]
  const s64 *positions, *slots; // [rows]
  u16 *keys, *values;  // [slots][8][capacity][128] of this layer, written
  u16 *out;            // [rows][2048]
  s64 slot_stride, head_stride; // of keys and values, in elements
};
__device__ __forceinline__ uint4 head_of(const u16 *row, u32 head, u32 lane) { // as norm_and_rotate wants it
  const u16 *at = row + head * 128 + 2 * lane;
  return make_uint4(*(const u32 *)at, 0, *(const u32 *)(at + 64), 0);
}
extern "C" __global__ void __launch_bounds__(256) rows_attend(const Attend f) {
  const u32 thread = threadIdx.x, row = blockIdx.x >> 3, kv_head = blockIdx.x & 7, warp = thread >> 5, lane = thread & 31;
  allow_next();
  wait_for_previous();
  const int position = (int)f.positions[row];
  const u64 cache = (u64)f.slots[row] * f.slot_stride + kv_head * f.head_stride;
  u16 *const keys = f.keys + cache, *const values = f.values + cache;
  uint2 key[8], value[8];
  auto load = [&](uint2 *to, const u16 *rows, int from) { load_eight(to, rows, from, position, lane); };
  load(key, keys, warp), load(value, values, warp);
  const float2 cosine = *(const float2 *)(f.cosines + (u64)position * 64 + 2 * lane), sine = *(const float2 *)(f.sines + (u64)position * 64 + 2 * lane);
  const u16 *const in = f.qkv + (u64)row * 4096;
  float q[2][4], k[4];
#pragma unroll
  for (int h = 0; h < 2; h++) norm_and_rotate(head_of(in, 2 * kv_head + h, lane), f.norms, cosine, sine, .08838834764831845f, lane, q[h]);
  norm_and_rotate(head_of(in, 16 + kv_head, lane), f.norms + 128, cosine, sine, 1.f, lane, k);
  const uint4 v = head_of(in, 24 + kv_head, lane);
  const uint2 new_key = make_uint2(pack(k[0], k[1]), pack(k[2], k[3])), new_value = make_uint2(v.x, v.z);
  if (warp == 0) { // stores key and value for the next steps
    u16 *const to_key = keys + position * 128 + 2 * lane, *const to_value = values + position * 128 + 2 * lane;
    *(u32 *)to_key = new_key.x, *(u32 *)(to_key + 64) = new_key.y;
    *(u32 *)to_value = new_value.x, *(u32 *)(to_value + 64) = new_value.y;
  }
  Softmax seen[2];
  seen[0].clear(), seen[1].clear();
  for (int from = warp; from <= position; from += 64) { // the next keys and values are loaded meanwhile
    float scores[2][8];
#pragma unroll
    for (int r = 0; r < 8; r++) {
      if (from + 8 * r == position) key[r] = new_key, value[r] = new_value;
#pragma unroll
      for (int h = 0; h < 2; h++) scores[h][r] = dot4(q[h], key[r].x, key[r].y);
    }
    load(key, keys, from + 64);
    see_eight<2>(scores, value, from + 8 * (int)(lane & 7) <= position, seen, warp, lane);
    load(value, values, from + 64);
  }
  seen[0].leave(warp, 0, lane), seen[1].leave(warp, 1, lane);
  meet_warps();
  if (warp > 1) return;
  Softmax all;
  all.clear();
  all.gather(warp, lane);
  const float scale = all.sum > 0.f ? 1.f / all.sum : 0.f;
  u16 *const to = f.out + (u64)row * 2048 + (2 * kv_head + warp) * 128 + 2 * lane;
  *(u32 *)to = pack(all.o[0] * scale, all.o[1] * scale), *(u32 *)(to + 64) = pack(all.o[2] * scale, all.o[3] * scale);
}

// ---- the predictor's attention, over at most 16 positions: one warp per row and head, two programs per row
struct AttendFew {
  const u16 *qkv;      // [rows][4096]
  const u16 *norms;    // of the queries, then of the keys
  const float *turns;  // of this position: 64 cosines, 64 sines
  char *cache;         // [rows][8][keys 4 KB, values 4 KB] of this layer: positions 2 i and 2 i + 1 of a lane are neighbours
  u16 *out;            // [rows][2048]
  int position;
};
extern "C" __global__ void __launch_bounds__(256) rows_attend_few(const AttendFew f) {
  const u32 thread = threadIdx.x, row = blockIdx.x >> 1, lane = thread & 31, warp = thread >> 5, head = 8 * (blockIdx.x & 1) + warp, kv_head = head >> 1;
  const int position = f.position;
  allow_next();
  wait_for_previous();
  char *const keys = f.cache + ((u64)row * 8 + kv_head) * 8192 + lane * 16, *const values = keys + 4096;
  uint4 k[8], v[8];
#pragma unroll
  for (int i = 0; i < 8; i++) { // unwritten positions count as zero, as in the persistent kernel
    k[i] = v[i] = make_uint4(0, 0, 0, 0);
    if (2 * i < position) k[i] = *(const uint4 *)(keys + i * 512), v[i] = *(const uint4 *)(values + i * 512);
    if (2 * i + 1 >= position) k[i].z = k[i].w = v[i].z = v[i].w = 0;
  }
  const float2 cosine = *(const float2 *)(f.turns + 2 * lane), sine = *(const float2 *)(f.turns + 64 + 2 * lane);
  const u16 *const in = f.qkv + (u64)row * 4096;
  float q[4], n[4], s[16];
  norm_and_rotate(head_of(in, 16 + kv_head, lane), f.norms + 128, cosine, sine, 1.f, lane, n);
  norm_and_rotate(head_of(in, head, lane), f.norms, cosine, sine, .08838834764831845f, lane, q);
  const uint4 new_value = head_of(in, 24 + kv_head, lane);
  const uint2 key = make_uint2(pack(n[0], n[1]), pack(n[2], n[3])), value = make_uint2(new_value.x, new_value.z);
  const float fresh = dot4(q, key.x, key.y);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    s[2 * i] = dot4(q, k[i].x, k[i].y), s[2 * i + 1] = dot4(q, k[i].z, k[i].w);
    if (2 * i == position) s[2 * i] = fresh;
    if (2 * i + 1 == position) s[2 * i + 1] = fresh;
  }
  fold<8>(s, lane);
  s[0] += __shfl_xor_sync(~0u, s[0], 16);
  const float score = (int)(lane & 15) <= position ? s[0] : -1e30f;
  float largest = score;
  for (int o = 8; o; o >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
  float *chances = (float *)(shared + AT_CHANCES) + warp * 32;
  chances[lane] = __expf(score - largest);
  __syncwarp();
  float p[16], sum = 0;
#pragma unroll
  for (int i = 0; i < 16; i++) p[i] = chances[i];
#pragma unroll
  for (int i = 0; i < 8; i++) sum += p[i] + p[8 + i];
  const float newest = chances[position];
  float o[4] = {newest * low(value.x), newest * high(value.x), newest * low(value.y), newest * high(value.y)};
#pragma unroll
  for (int i = 0; i < 8; i++) {
    add_value(o, 2 * i == position ? 0.f : p[2 * i], v[i].x, v[i].y);
    add_value(o, 2 * i + 1 == position ? 0.f : p[2 * i + 1], v[i].z, v[i].w);
  }
  sum = 1.f / sum;
  u16 *const to = f.out + (u64)row * 2048 + head * 128 + 2 * lane;
  *(u32 *)to = pack(o[0] * sum, o[1] * sum), *(u32 *)(to + 64) = pack(o[2] * sum, o[3] * sum);
  if (!(head & 1)) { // the other head's warp does not read this position
    *(uint2 *)(keys + (position >> 1) * 512 + (position & 1) * 8) = key;
    *(uint2 *)(values + (position >> 1) * 512 + (position & 1) * 8) = value;
  }
}

// ---- the predictor's sampling of one group, and the table row of its code: one program per row
struct Drawn {
  Stream stream;
  const u16 *logits;   // [rows][CODES]
  const u16 *table;    // [CODES][HIDDEN] inputs of the next position, or null after the last
  Draws draws;
  s64 *codes;          // [rows][16]
  int group;
};
extern "C" __global__ void __launch_bounds__(256) rows_draw(const Drawn f) {
  const u32 thread = threadIdx.x, row = blockIdx.x, warp = thread >> 5, lane = thread & 31;
  allow_next();
  Weights weights;
  load_weights(f.stream.weight, weights, warp, lane);
  wait_for_previous();
  const uint4 v = *(const uint4 *)(f.logits + (u64)row * CODES + thread * 8);
  const u32 pairs[4] = {v.x, v.y, v.z, v.w};
  const u32 code = draw(pairs, row, f.group, f.draws, thread);
  if (thread == 0) f.codes[row * 16 + f.group] = code;
  if (!f.table) return;
  Columns x;
  read_row(f.table + (u64)code * HIDDEN, x, warp, lane);
  keep_row(f.stream, x, weights, row, warp, lane);
}

// ---- a product of any shape, from weights in their plain layout: 16 outputs per program, any number of rows
struct Linear {
  const u16 *input;    // [rows][HIDDEN]
  const u16 *weight;   // [outputs][HIDDEN]
  const u16 *bias;     // [outputs] or null
  u16 *out;            // [rows][outputs]
  int rows, outputs;
};
extern "C" __global__ void __launch_bounds__(256) rows_linear(const Linear f) {
  const u32 thread = threadIdx.x, lane = thread & 31, warp = thread >> 5, g = lane >> 2, t4 = lane & 3;
  const u32 column = 128 * warp + 8 * t4, output = blockIdx.x * 16 + (thread & 15);
  allow_next();
  uint4 upper[BLOCKS][4], lower[BLOCKS][4]; // weights of outputs g and g + 8
#pragma unroll
  for (int h = 0; h < BLOCKS; h++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u16 *at = f.weight + (u64)(blockIdx.x * 16 + g) * HIDDEN + 1024 * h + column + 32 * i;
      upper[h][i] = *(const uint4 *)at, lower[h][i] = *(const uint4 *)(at + 8 * HIDDEN);
    }
  const float bias = f.bias ? low(f.bias[output]) : 0.f;
  wait_for_previous();
  for (u32 row = 0; row < (u32)f.rows; row += 16) {
    float a[2][2][4] = {};
#pragma unroll
    for (int h = 0; h < BLOCKS; h++)
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const u32 here = row + 8 * e + g;
          uint4 x = make_uint4(0, 0, 0, 0);
          if (here < (u32)f.rows) x = *(const uint4 *)(f.input + (u64)here * HIDDEN + 1024 * h + column + 32 * i);
          const uint4 &u = upper[h][i], &l = lower[h][i];
          product16(a[e][0], make_uint4(u.x, l.x, u.y, l.y), x.x, x.y);
          product16(a[e][1], make_uint4(u.z, l.z, u.w, l.w), x.z, x.w);
        }
    float *parts = (float *)(shared + AT_PARTS) + warp * 320;
#pragma unroll
    for (int e = 0; e < 2; e++)
#pragma unroll
      for (int i = 0; i < 4; i++) parts[(8 * e + 2 * t4 + (i & 1)) * 20 + g + 8 * (i >> 1)] = a[e][0][i] + a[e][1][i];
    meet_warps();
    const u32 here = thread >> 4;
    float v = 0.f;
#pragma unroll
    for (int i = 0; i < 8; i++) v += ((const float *)(shared + AT_PARTS))[i * 320 + here * 20 + (thread & 15)];
    if (row + here < (u32)f.rows) f.out[(u64)(row + here) * f.outputs + output] = (u16)(pack(v + bias, 0.f) & 0xffff);
    meet_warps();
  }
}

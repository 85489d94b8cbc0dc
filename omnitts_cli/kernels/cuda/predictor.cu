// The code predictor's part of one frame in a single persistent kernel: 16 positions of 5 layers, and after every
// position but the first a head, sampling and the lookup of the next input row.
//
// 128 programs (thread blocks), one per multiprocessor, each with 8 consumer warps and one producer thread. The weights
// are reordered, so that a program's share of a layer is one contiguous line of 240 KB; the producer streams it through
// a ring of shared memory with asynchronous bulk copies and never waits for the other programs. Every program keeps the rows
// of the residual stream in registers, in float32: warp w holds columns 128 w to 128 w + 127 of every row.
//
// Programs exchange data through L2, without grid barriers. Each 8-byte word carries its own completion mark:
//   heads   16 programs make the two query heads, the key and the value of one kv head, 32 outputs each. They exchange
//           pairs of bf16, each with a sequence number.
//   out     sums in fixed point with red.add: a word holds two columns of 28 bits and an 8-bit count of its parts.
//           Integer sums do not depend on their order, so frames are reproducible to the bit.
//   down    the same. One row: 128 parts, each from the 24 units that a program computed. More: the 16 programs of
//           a kv head exchange their units first, and 8 x 2 parts are summed.
//   logits  pairs of bf16 with the position; a program that samples reads all 2,048. One row: every program samples. More:
//           one program samples for each row and publishes the code.
// The sums are double-buffered. An idle warp clears the set that every program has read, before the next exchange of
// heads.
#define BLOCKS 1
#include "common.cuh"

#define LAYERS 5
#define POSITIONS 16
#define LAYER_BYTES 245760u
#define DOWN_BYTES 49152u
#define HEAD_CHUNKS (8u / TILES)
#define LAYER_NORMS 2304                       // input norm, MLP norm, query norm, key norm

#define AT_ATTENDED AT_MORE                     // 8 EIGHTS x 576: what the heads attended to, bf16
#define AT_CHANCES (AT_ATTENDED + 8 * EIGHTS * 576) // 8 x 128
#define AT_DRAW (AT_CHANCES + 8 * 128)         // 2 x 8 words of reductions, up to 16 codes
#define AT_CACHE (AT_DRAW + 128)               // 5 layers x (keys 4 KB, values 4 KB) of the row this program attends for
#include "draw.cuh"

struct Frame {
  const char *lines;     // [LAYERS][PROGRAMS][LAYER_BYTES]
  const char *down;      // [LAYERS][PROGRAMS][DOWN_BYTES], read by one row
  const char *heads;     // [POSITIONS - 1][PROGRAMS][32 KB]
  const u16 *norms;      // [LAYERS][LAYER_NORMS], then the final norm
  const float *turns;    // [POSITIONS][64 cosines, 64 sines]
  const u16 *hidden;     // [rows][HIDDEN] input of position 0
  const u16 *first;      // [rows][HIDDEN] input of position 1
  const u16 *tables;     // [POSITIONS - 2][CODES][HIDDEN] inputs of the later positions
  const s64 *first_codes;
  Draws draws;
  s64 *codes;            // [rows][POSITIONS], the first as in `first_codes`
  u16 *logits;           // [POSITIONS - 1][rows][CODES], or null
  char *sums;            // four sets, zero at the start
  u32 *words;            // sequence numbers zero at the start
  int *overflow;         // set if a sum leaves the fixed point's range
  int rows;              // at most ROWS
};
// places in `words`, in u32
#define WORDS_HEADS 0
#define WORDS_ATTENDED (WORDS_HEADS + ROWS * 4096)
#define WORDS_UNITS (WORDS_ATTENDED + ROWS * 2048)
#define WORDS_LOGITS (WORDS_UNITS + ROWS * 3072)
#define WORDS_CODES (WORDS_LOGITS + ROWS * 2048)

// Four chains of products of one tile: their sum is in the first.
__device__ __forceinline__ void add_chains(float (*a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) a[0][i] = (a[0][i] + a[1][i]) + (a[2][i] + a[3][i]);
}
__device__ __forceinline__ void add_all(char *p, float (*a)[4][4], u32 t4, int *overflow) {
#pragma unroll
  for (int e = 0; e < EIGHTS; e++) {
    add_chains(a[e]);
    add_rows(p, a[e][0], t4, overflow, 8 * e);
  }
}

extern "C" __global__ void __launch_bounds__(384, 1) predictor_frame(const Frame f) {
  const u32 thread = threadIdx.x, program = blockIdx.x, warp = thread >> 5, lane = thread & 31;
  prepare_ring(thread);
  if (warp >= 8) { // the producer
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (thread != 256) return;
    u32 chunk = 0;
    for (u32 position = 0; position < POSITIONS; position++) {
      for (u32 layer = 0; layer < LAYERS; layer++) stream_layer(chunk, f.lines, f.down, layer, LAYER_BYTES, DOWN_BYTES);
      if (position > 0) stream(chunk, f.heads + ((u64)(position - 1) * PROGRAMS + program) * 32768, HEAD_CHUNKS);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const u32 kv_head = program >> 4, member = program & 15, g = lane >> 2, t4 = lane & 3;
  u32 chunk = 0, random = (program * 8 + warp) * 2654435761u + __shfl_sync(~0u, (u32)clock(), 0);
  auto hold = [&](int point) {
    if ((HOLD >> point) & 1) { random = random * 1664525u + 1013904223u; if ((random >> 24) < 24u) __nanosleep((random >> 10) & 4095u); }
  };
  for (u32 i = thread; i < 2560; i += 256) *(uint4 *)(shared + AT_CACHE + i * 16) = make_uint4(0, 0, 0, 0); // masked keys must be finite
  meet_warps();
  Rows x;
  char *const out_sums = f.sums, *const down_sums = f.sums + 2 * SUMS;
  // The row and head that a warp attends for. One row: two warps of each program, one per head. Eight rows: one warp, for
  // one of the two heads. Sixteen: two warps again. `warp` and `warp + 8` are the rows whose outputs a warp publishes.
  const u32 row_here = ALONE ? 0 : ROWS == 8 ? member >> 1 : member, head_here = ROWS == 8 ? member & 1 : warp & 1;
  const bool attends = ALONE ? warp < 2 : ROWS == 8 ? warp == 7 : warp >= 6, speaks = !ALONE || warp == 0;
  const u32 parts_at = ALONE ? 512 : 0, gate_parts_at = ALONE ? 1024 : 0;
  u32 code[ROWS];
  if (program == 0 && (int)thread < f.rows) f.codes[thread * POSITIONS] = f.first_codes[thread];

  for (u32 position = 0; position < POSITIONS; position++) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) { // the input row
      const u16 *row = position == 0 ? f.hidden + r * HIDDEN : position == 1 ? f.first + r * HIDDEN
                       : f.tables + ((u64)(position - 2) * CODES + code[r]) * HIDDEN;
      uint2 v = make_uint2(0, 0);
      if (r < f.rows) v = *(const uint2 *)(row + warp * 128 + lane * 4);
      x.at[r][0][0] = low(v.x), x.at[r][0][1] = high(v.x), x.at[r][0][2] = low(v.y), x.at[r][0][3] = high(v.y);
    }
    const float2 cosine = *(const float2 *)(f.turns + position * 128 + 2 * lane), sine = *(const float2 *)(f.turns + position * 128 + 64 + 2 * lane);
    for (u32 layer = 0; layer < LAYERS; layer++) {
      const u16 *norms = f.norms + layer * LAYER_NORMS;
      const u32 turn = position * LAYERS + layer, sequence = turn + 1;
      u32 b[8 * EIGHTS][2];
      hold(0);
      fragments(x, norms, warp, lane, 0, b);
      { // queries, keys, values: 32 outputs
        float a[EIGHTS][2][2][4] = {};
        each_tile<4>(chunk, warp, lane, [&](int i, const uint4 &w) {
#pragma unroll
          for (int e = 0; e < EIGHTS; e++) product16(a[e][(i >> 1) & 1][i & 1], w, b[8 * e + (i >> 1)][0], b[8 * e + (i >> 1)][1]);
        });
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
#pragma unroll
          for (int i = 0; i < 8; i++) ((float *)a[e][0])[i] += ((float *)a[e][1])[i];
          leave_parts<2>(a[e][0], warp, lane, parts_at, 8 * e);
        }
      }
      hold(1);
      meet_warps();
      if (speaks) {
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
          const u32 row = ALONE ? 0 : 8 * e + warp;
          float v = rounded(sum_parts(row, lane, parts_at) * inverse_rms(0, row)), next = __shfl_xor_sync(~0u, v, 1);
          if (!(lane & 1)) store2(f.words + WORDS_HEADS + (((kv_head * ROWS + row) * 4 + (member >> 2)) * 32 + 8 * (member & 3)) * 4 + lane, pack(v, next), sequence);
        }
      }
      hold(2);
      if (warp == 5) clear_sums(out_sums, down_sums, turn, program, lane);
      if (attends) {
        uint4 in[3]; // this head's query, the key, the value: columns 2 lane, 2 lane + 1, 64 + 2 lane, 65 + 2 lane
        const u32 *from = f.words + WORDS_HEADS + ((kv_head * ROWS + row_here) * 4 * 32 + lane) * 4;
        bool ok;
        u32 spins = 0;
        do {
          in[0] = load4(from + head_here * 128), in[1] = load4(from + 256), in[2] = load4(from + 384);
          ok = both_from(in[0], sequence) && both_from(in[1], sequence) && both_from(in[2], sequence);
          spun(spins);
        } while (!__all_sync(~0u, ok));
        hold(3);
        float q[4], k[4];
        norm_and_rotate(in[1], norms + 2176, cosine, sine, 1.f, lane, k);
        norm_and_rotate(in[0], norms + 2048, cosine, sine, .08838834764831845f, lane, q);
        const uint2 key = make_uint2(pack(k[0], k[1]), pack(k[2], k[3])), value = make_uint2(in[2].x, in[2].z);
        char *const keys = shared + AT_CACHE + layer * 8192 + lane * 16, *const values = keys + 4096;
        const float fresh = dot4(q, key.x, key.y);
        float s[16];
#pragma unroll
        for (int i = 0; i < 8; i++) { // two positions a step
          const uint4 v = *(const uint4 *)(keys + i * 512);
          s[2 * i] = dot4(q, v.x, v.y);
          s[2 * i + 1] = dot4(q, v.z, v.w);
          if (2 * i == position) s[2 * i] = fresh;
          if (2 * i + 1 == position) s[2 * i + 1] = fresh;
        }
        fold<8>(s, lane);
        s[0] += __shfl_xor_sync(~0u, s[0], 16);
        const float score = (lane & 15) <= position ? s[0] : -1e30f;
        float largest = score;
        for (int o = 8; o; o >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
        float *chances = (float *)(shared + AT_CHANCES) + warp * 32;
        __syncwarp();
        chances[lane] = __expf(score - largest);
        __syncwarp();
        float p[16], sum = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) { const float4 z = *(float4 *)(chances + 4 * i); p[4 * i] = z.x, p[4 * i + 1] = z.y, p[4 * i + 2] = z.z, p[4 * i + 3] = z.w; }
#pragma unroll
        for (int i = 0; i < 8; i++) sum += p[i] + p[8 + i];
        const float newest = chances[position];
        float o[4] = {newest * low(value.x), newest * high(value.x), newest * low(value.y), newest * high(value.y)};
#pragma unroll
        for (int i = 0; i < 8; i++) {
          const uint4 v = *(const uint4 *)(values + i * 512);
          const float even = 2 * i == position ? 0.f : p[2 * i], odd = 2 * i + 1 == position ? 0.f : p[2 * i + 1];
          add_value(o, even, v.x, v.y), add_value(o, odd, v.z, v.w);
        }
        sum = 1.f / sum;
        hold(4);
        if constexpr (ALONE) {
          char *to = shared + AT_ATTENDED + head_here * 256;
          *(u32 *)(to + 4 * lane) = pack(o[0] * sum, o[1] * sum);
          *(u32 *)(to + 128 + 4 * lane) = pack(o[2] * sum, o[3] * sum);
        } else {
          store4(f.words + WORDS_ATTENDED + (((kv_head * ROWS + row_here) * 2 + head_here) * 32 + lane) * 4, pack(o[0] * sum, o[1] * sum), sequence, pack(o[2] * sum, o[3] * sum), sequence);
        }
        if (ROWS == 8 || head_here == 0) { // the other warp may still read, but it does not read this position
          *(uint2 *)(keys + (position >> 1) * 512 + (position & 1) * 8) = key;
          *(uint2 *)(values + (position >> 1) * 512 + (position & 1) * 8) = value;
        }
      }
      hold(5);
      if (!ALONE) { // each warp fetches its rows
        uint4 z[2 * EIGHTS];
        bool ok;
        u32 spins = 0;
        const u32 *from = f.words + WORDS_ATTENDED + ((kv_head * ROWS + warp) * 64 + lane) * 4;
        do {
          ok = true;
#pragma unroll
          for (int i = 0; i < 2 * EIGHTS; i++) z[i] = load4(from + (i >> 1) * 2048 + (i & 1) * 128), ok = ok && both_from(z[i], sequence);
          spun(spins);
        } while (!__all_sync(~0u, ok));
#pragma unroll
        for (int i = 0; i < 2 * EIGHTS; i++) {
          char *to = shared + AT_ATTENDED + (warp + 8 * (i >> 1)) * 576 + (i & 1) * 256;
          *(u32 *)(to + 4 * lane) = z[i].x, *(u32 *)(to + 128 + 4 * lane) = z[i].z;
        }
      }
      meet_warps();
      hold(6);
      { // out: 16 of 64 outputs and 128 of 256 inputs a warp
        float a[EIGHTS][4][4] = {};
        const char *from = shared + AT_ATTENDED + g * 576 + (warp & 1) * 256 + t4 * 16;
#pragma unroll
        for (int i = 0; i < 4 * EIGHTS; i++) {
          uint4 v = make_uint4(0, 0, 0, 0);
          if (g < ROWS) v = *(const uint4 *)(from + (i >> 2) * 8 * 576 + (i & 3) * 64);
          b[2 * i][0] = v.x, b[2 * i][1] = v.y, b[2 * i + 1][0] = v.z, b[2 * i + 1][1] = v.w;
        }
        each_tile<2>(chunk, warp, lane, [&](int i, const uint4 &w) {
#pragma unroll
          for (int e = 0; e < EIGHTS; e++) product16(a[e][i & 3], w, b[8 * e + i][0], b[8 * e + i][1]);
        });
        hold(7);
        char *p = out_sums + (turn & 1) * SUMS + (u64)(8 * member + 2 * (warp >> 1) + (g >> 2)) * SECTOR + (g & 3) * 8;
        add_all(p, a, t4, f.overflow);
      }
      add_sums<16>(out_sums + (turn & 1) * SUMS, x, warp, lane, f.overflow);
      hold(8);
      fragments(x, norms + 1024, warp, lane, 1, b);
      { // gate and up: 24 units
        float a[EIGHTS][2][3][4] = {};
        each_tile<6>(chunk, warp, lane, [&](int i, const uint4 &w) {
#pragma unroll
          for (int e = 0; e < EIGHTS; e++) product16(a[e][(i / 3) & 1][i % 3], w, b[8 * e + i / 3][0], b[8 * e + i / 3][1]);
        });
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
#pragma unroll
          for (int i = 0; i < 12; i++) ((float *)a[e][0])[i] += ((float *)a[e][1])[i];
          leave_parts<3>(a[e][0], warp, lane, gate_parts_at, 8 * e);
        }
      }
      hold(9);
      meet_warps();
      const u32 unit = lane < 24 ? lane : 23;
      auto gated = [&](u32 row) {
        const float scale = inverse_rms(1, row);
        const float gate = rounded(sum_parts(row, unit, gate_parts_at) * scale), up = rounded(sum_parts(row, 24 + unit, gate_parts_at) * scale);
        return rounded(gate / (1.f + __expf(-gate))) * up;
      };
      if constexpr (ALONE) { // every warp computes all 24 units; down: these units, all outputs
        *(u16 *)(shared + AT_UNITS + warp * UNITS_BYTES + lane * 2) = (u16)(pack(gated(0), 0.f) & 0xffff);
        __syncwarp();
        float a[8][4] = {};
        const char *from = shared + AT_UNITS + warp * UNITS_BYTES;
        uint2 b16 = make_uint2(0, 0);
        u32 b8 = 0;
        if (g < ROWS) b16 = *(const uint2 *)(from + t4 * 8), b8 = *(const u32 *)(from + 32 + t4 * 4);
        each_tile<3>(chunk, warp, lane, [&](int i, const uint4 &w) {
          if (i < 8) product16(a[i], w, b16.x, b16.y);
          else product8(a[2 * (i - 8)], w.x, w.y, b8), product8(a[2 * (i - 8) + 1], w.z, w.w, b8);
        });
        hold(10);
        char *p = down_sums + (turn & 1) * SUMS + (u64)(8 * warp + (g >> 2)) * SECTOR + (g & 3) * 8;
#pragma unroll
        for (int m = 0; m < 8; m++)
          if (t4 == 0) add_part(p + (u64)(2 * (m & 3) + (m >> 2) * 64) * SECTOR, a[m][0], a[m][2], f.overflow);
        add_sums<128>(down_sums + (turn & 1) * SUMS, x, warp, lane, f.overflow);
      } else { // the group's units first; down: 16 of 64 outputs and 192 of 384 units a warp
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
          const u32 row = 8 * e + warp;
          const float mine = gated(row), next = __shfl_xor_sync(~0u, mine, 1);
          if (!(lane & 1) && lane < 24) store2(f.words + WORDS_UNITS + ((kv_head * ROWS + row) * 192 + 12 * member) * 2 + lane, pack(mine, next), sequence);
        }
        uint4 z[3 * EIGHTS];
        bool ok;
        u32 spins = 0;
        const u32 *from = f.words + WORDS_UNITS + (kv_head * ROWS + warp) * 384 + lane * 4;
        do {
          ok = true;
#pragma unroll
          for (int i = 0; i < 3 * EIGHTS; i++) z[i] = load4(from + i / 3 * 3072 + i % 3 * 128), ok = ok && both_from(z[i], sequence);
          spun(spins);
        } while (!__all_sync(~0u, ok));
#pragma unroll
        for (int i = 0; i < 3 * EIGHTS; i++) *(uint2 *)(shared + AT_UNITS + (warp + i / 3 * 8) * UNITS_BYTES + lane * 8 + i % 3 * 256) = make_uint2(z[i].x, z[i].z);
        meet_warps();
        hold(10);
        char *p = down_sums + (turn & 1) * SUMS + (u64)(8 * member + 2 * (warp >> 1) + (g >> 2)) * SECTOR + (g & 3) * 8;
        const char *half = shared + AT_UNITS + g * UNITS_BYTES + (warp & 1) * 384;
        u32 units[12 * EIGHTS][2];
        if constexpr (FINE) {
#pragma unroll
          for (int i = 0; i < 12 * EIGHTS; i++) {
            const uint2 v = units_of(half + i / 12 * 8 * UNITS_BYTES, i % 12, t4);
            units[i][0] = v.x, units[i][1] = v.y;
          }
          float a[EIGHTS][2][4] = {};
          int sums[EIGHTS][4] = {};
          float largest = 0.f;
          each_tile<3>(chunk, warp, lane, [&](int i, const uint4 &w) {
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) add_tile(a[e], sums[e], w, units[12 * e + i][0], units[12 * e + i][1], i, largest);
          });
          hold(11);
          check(largest, f.overflow);
#pragma unroll
          for (int e = 0; e < EIGHTS; e++) add_rows(p, sums[e], t4, 8 * e);
        } else {
#pragma unroll
          for (int i = 0; i < 6 * EIGHTS; i++) {
            const uint4 v = *(const uint4 *)(half + t4 * 16 + i / 6 * 8 * UNITS_BYTES + i % 6 * 64);
            units[2 * i][0] = v.x, units[2 * i][1] = v.y, units[2 * i + 1][0] = v.z, units[2 * i + 1][1] = v.w;
          }
          float a[EIGHTS][4][4] = {};
          each_tile<3>(chunk, warp, lane, [&](int i, const uint4 &w) {
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) product16(a[e][i & 3], w, units[12 * e + i][0], units[12 * e + i][1]);
          });
          hold(11);
          add_all(p, a, t4, f.overflow);
        }
        add_sums<16>(down_sums + (turn & 1) * SUMS, x, warp, lane, f.overflow);
      }
    }
    if (position == 0) continue; // the talker's state has no head
    const u32 group = position;
    { // head: 16 outputs
      u32 b[8 * EIGHTS][2];
      fragments(x, f.norms + LAYERS * LAYER_NORMS, warp, lane, 1, b);
      float a[EIGHTS][4][4] = {};
      each_tile<2>(chunk, warp, lane, [&](int i, const uint4 &w) {
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) product16(a[e][i & 3], w, b[8 * e + i][0], b[8 * e + i][1]);
      });
#pragma unroll
      for (int e = 0; e < EIGHTS; e++) {
        add_chains(a[e]);
        leave_parts<1>(a[e], warp, lane, parts_at, 8 * e);
      }
      hold(12);
      meet_warps();
      if (speaks) {
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
          const u32 row = ALONE ? 0 : 8 * e + warp;
          const float v = sum_parts(row, lane & 15, parts_at) * inverse_rms(1, row), next = __shfl_xor_sync(~0u, v, 1);
          if (lane < 16 && !(lane & 1)) {
            const u32 pair = pack(v, next);
            store2(f.words + WORDS_LOGITS + (row * 1024 + program * 8) * 2 + lane, pair, group);
            if (f.logits && (int)row < f.rows) *(u32 *)(f.logits + ((u64)(group - 1) * f.rows + row) * CODES + program * 16 + lane) = pair;
          }
        }
      }
      hold(13);
    }
    const u32 drawn_row = ALONE ? 0 : program * ROWS / PROGRAMS;
    if (ALONE || (program % (PROGRAMS / ROWS) == 0 && (int)drawn_row < f.rows)) {
      uint4 z[2];
      const u32 *from = f.words + WORDS_LOGITS + drawn_row * 2048 + thread * 8;
      bool ok;
      u32 spins = 0;
      const bool looks = lane == ((warp * 5 + program) & 31);
      do { ok = !looks || both_from(load4(from), group); spun(spins); } while (!__all_sync(~0u, ok));
      do { z[0] = load4(from), z[1] = load4(from + 4); ok = both_from(z[0], group) && both_from(z[1], group); spun(spins); } while (!__all_sync(~0u, ok));
      const u32 pairs[4] = {z[0].x, z[0].z, z[1].x, z[1].z};
      code[0] = draw(pairs, drawn_row, group, f.draws, thread);
      if (thread == 0 && (!ALONE || program == 0)) f.codes[drawn_row * POSITIONS + group] = code[0];
      if (!ALONE && thread == 0) store2(f.words + WORDS_CODES + drawn_row * 2, code[0], group);
    }
    if (!ALONE) {
      u32 *codes = (u32 *)(shared + AT_DRAW + 64);
      if (warp == 0 && lane < ROWS) {
        uint2 v = make_uint2(0, group);
        u32 spins = 0;
        if ((int)lane < f.rows) do { v = load2(f.words + WORDS_CODES + lane * 2); spun(spins); } while ((int)(v.y - group) < 0);
        codes[lane] = v.x;
      }
      meet_warps();
#pragma unroll
      for (int r = 0; r < ROWS; r++) code[r] = codes[r];
    }
  }
}

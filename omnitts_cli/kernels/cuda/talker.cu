// One step of the talker for one row, or for up to eight, in a single persistent kernel: all layers and the final norm.
// It works like predictor.cu, whose comments explain the exchanges, except for attention over a long cache.
//
// Positions are divided into eight shares (position % 8), each with a partial softmax that takes eight positions at a time.
// Eight rows: each of the 16 programs of a kv head attends for one row and one head; its warps have the shares. One row: 16
// programs have the shares, two for each, one per head; their warps take groups of eight positions in turn, one warp adds the
// groups in order, and every program merges the eight shares. So a row has the same bits either way.
// Keys and values of the first positions are loaded before the new query is known.
#include "common.cuh"

#define UNITS (24 * BLOCKS)                    // of the MLP, a program
#define TURN (ALONE ? 512 : 64)                // positions from one group of eight of a warp to its next
#define LAYER_NORMS (2 * HIDDEN + 256)         // input norm, MLP norm, query norm, key norm
#define LAYER_BYTES (BLOCKS == 1 ? 245760u : 786432u)
#define DOWN_BYTES (49152u * BLOCKS * BLOCKS)

struct Step {
  const char *lines;     // [layers][PROGRAMS][LAYER_BYTES]
  const char *down;      // [layers][PROGRAMS][DOWN_BYTES], read by one row
  const u16 *norms;      // [layers][LAYER_NORMS], then the final norm
  const float *cosines;  // [capacity][64]
  const float *sines;
  const u16 *input;      // [rows][HIDDEN]
  const s64 *positions;  // [rows]
  const s64 *slots;
  u16 *keys;             // [layers][slots][8][capacity][128], written at the positions
  u16 *values;
  u16 *hidden;           // [rows][HIDDEN], written
  char *sums;            // four sets, zero at the start
  u32 *words;            // sequence numbers zero at the start
  int *overflow;
  s64 layer_stride;      // of keys and values, in elements
  s64 slot_stride;
  s64 head_stride;
  int layers, rows;
};
// places in `words`, in u32
#define WORDS_HEADS 0
#define WORDS_ATTENDED (ROWS * 4096)           // [8 kv heads][8 rows][2 heads][32 lanes][4]; one row: [8][8 shares][2][2][32][4], fp32
#define WORDS_SCALES (WORDS_ATTENDED + 32768)  // one row: [8][8][2][4], largest score and sum
#define WORDS_UNITS (WORDS_SCALES + 1024)      // eight rows: [8][8][192 * BLOCKS pairs][2]

#define AT_SOFTMAX AT_MORE                     // [8 warps][2 heads][128] fp32
#define AT_SCALES (AT_SOFTMAX + 8192)          // [8 warps][2 heads] largest score, sum
#define AT_CHANCES (AT_SCALES + 128)           // 8 x 128
#define AT_ATTENDED (AT_CHANCES + 1024)        // bf16. One row: 8 warps x 256, one head each; eight: 8 rows x 576

#include "attention.cuh"

extern "C" __global__ void __launch_bounds__(384, 1) talker_step(const Step f) {
  const u32 thread = threadIdx.x, program = blockIdx.x, warp = thread >> 5, lane = thread & 31;
  prepare_ring(thread);
  if (warp >= 8) { // the producer
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (thread != 256) return;
    u32 chunk = 0;
    for (u32 layer = 0; layer < (u32)f.layers; layer++) stream_layer(chunk, f.lines, f.down, layer, LAYER_BYTES, DOWN_BYTES);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const u32 kv_head = program >> 4, member = program & 15, g = lane >> 2, t4 = lane & 3;
  u32 chunk = 0, random = (program * 8 + warp) * 2654435761u + __shfl_sync(~0u, (u32)clock(), 0);
  auto hold = [&](int point) {
    if ((HOLD >> point) & 1) { random = random * 1664525u + 1013904223u; if ((random >> 24) < 24u) __nanosleep((random >> 10) & 4095u); }
  };
  meet_warps();
  // the row and head for which this program attends; without a row there are no positions
  const u32 row_here = ALONE ? 0 : member >> 1, head_here = member & 1, share_here = ALONE ? member >> 1 : warp, row_spoken = ALONE ? 0 : warp;
  const bool used = (int)row_here < f.rows;
  const int position = used ? (int)f.positions[row_here] : -1;
  const u64 cache = (used ? (u64)f.slots[row_here] * f.slot_stride : 0) + kv_head * f.head_stride;
  const float *turns = f.cosines + max(position, 0) * 64 + 2 * lane;
  const float2 cosine = *(const float2 *)turns, sine = *(const float2 *)(f.sines + max(position, 0) * 64 + 2 * lane);
  const bool keeps = used && warp == 0 && (!ALONE || (int)share_here == (position & 7)) && head_here == 0; // writes key and value
  const u32 parts_at = ALONE ? 1024 : 0, gate_parts_at = ALONE ? 1536 : 0;
  char *const out_sums = f.sums, *const down_sums = f.sums + 2 * SUMS;
  Rows x;
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int h = 0; h < BLOCKS; h++) {
      uint2 v = make_uint2(0, 0);
      if (r < f.rows) v = *(const uint2 *)(f.input + r * HIDDEN + h * 1024 + warp * 128 + lane * 4);
      x.at[r][h][0] = low(v.x), x.at[r][h][1] = high(v.x), x.at[r][h][2] = low(v.y), x.at[r][h][3] = high(v.y);
    }
  for (u32 layer = 0; layer < (u32)f.layers; layer++) {
    const u16 *norms = f.norms + layer * LAYER_NORMS;
    u16 *const keys = f.keys + layer * f.layer_stride + cache, *const values = f.values + layer * f.layer_stride + cache;
    const u32 sequence = layer + 1;
    u32 b[8 * BLOCKS][2];
    hold(0);
    fragments(x, norms, warp, lane, 0, b);
    { // queries, keys, values: 32 outputs
      float a[2][2][4] = {};
      each_tile<4 * BLOCKS>(chunk, warp, lane, [&](int i, const uint4 &w) { product16(a[(i >> 1) & 1][i & 1], w, b[i >> 1][0], b[i >> 1][1]); });
#pragma unroll
      for (int i = 0; i < 8; i++) ((float *)a[0])[i] += ((float *)a[1])[i];
      leave_parts<2>(a[0], warp, lane, parts_at);
    }
    uint2 key[8], value[8];
    const int first = share_here + (ALONE ? 64 * warp : 0);
    auto load = [&](uint2 *to, const u16 *rows, int from) { load_eight(to, rows, from, position, lane); };
    load(key, keys, first), load(value, values, first);
    if (!ALONE) // prefetch the keys and values of later iterations
      for (int p = first + 64 + 8 * (int)(lane >> 2); p < position; p += 64)
        asm volatile("prefetch.global.L2 [%0];" ::"l"((lane & 2 ? values : keys) + p * 128 + (lane & 1) * 64));
    hold(1);
    meet_warps();
    if (!ALONE || warp == 0) {
      float v = rounded(sum_parts(row_spoken, lane, parts_at) * inverse_rms(0, row_spoken)), next = __shfl_xor_sync(~0u, v, 1);
      if (!(lane & 1)) store2(f.words + WORDS_HEADS + (((kv_head * ROWS + row_spoken) * 4 + (member >> 2)) * 32 + 8 * (member & 3)) * 4 + lane, pack(v, next), sequence);
    }
    hold(2);
    if (warp == 6) clear_sums(out_sums, down_sums, layer, program, lane);
    float q[4], k[4];
    uint2 new_key, new_value;
    {
      uint4 in[3]; // the query, the key, the value
      const u32 *from = f.words + WORDS_HEADS + ((kv_head * ROWS + row_here) * 4 * 32 + lane) * 4;
      u32 spins = 0;
      bool ok;
      do {
        ok = true;
#pragma unroll
        for (int i = 0; i < 3; i++) in[i] = load4(from + (i ? i + 1 : head_here) * 128), ok = ok && both_from(in[i], sequence);
        spun(spins);
      } while (!__all_sync(~0u, ok));
      hold(3);
      const u16 *query_norm = norms + 2 * HIDDEN, *key_norm = query_norm + 128;
      norm_and_rotate(in[0], query_norm, cosine, sine, .08838834764831845f, lane, q);
      norm_and_rotate(in[1], key_norm, cosine, sine, 1.f, lane, k);
      new_key = make_uint2(pack(k[0], k[1]), pack(k[2], k[3])), new_value = make_uint2(in[2].x, in[2].z);
    }
    if (keeps) { // stores key and value for the next steps
      u16 *const to_key = keys + position * 128 + 2 * lane, *const to_value = values + position * 128 + 2 * lane;
      *(u32 *)to_key = new_key.x, *(u32 *)(to_key + 64) = new_key.y;
      *(u32 *)to_value = new_value.x, *(u32 *)(to_value + 64) = new_value.y;
    }
    Softmax seen, share; // of this warp; of this program
    seen.clear(), share.clear();
    auto see = [&](int from) { // eight positions; the next keys and values are loaded meanwhile
      float scores[1][8];
#pragma unroll
      for (int r = 0; r < 8; r++) {
        if (from + 8 * r == position) key[r] = new_key, value[r] = new_value;
        scores[0][r] = dot4(q, key[r].x, key[r].y);
      }
      load(key, keys, from + TURN);
      see_eight<1>(scores, value, from + 8 * (int)(lane & 7) <= position, &seen, warp, lane);
      load(value, values, from + TURN);
    };
    if constexpr (ALONE) {
      u32 half = 0; // which half of AT_SOFTMAX warps write, because warp 0 may still read the other
      for (int begin = share_here; begin <= position; begin += TURN, half ^= 1) {
        const int from = begin + 64 * (int)warp;
        if (from <= position) see(from), seen.leave(warp, half, lane), seen.clear();
        hold(4);
        meet_warps();
        if (warp == 0) share.gather(half, lane, (position - begin) / 64 + 1);
      }
    } else {
      for (int from = first; from <= position; from += TURN) see(from);
      seen.leave(warp, 0, lane);
      hold(4);
      meet_warps();
      if (warp == 0) share.gather(0, lane);
    }
    if (warp == 0) { // this program's share of one head
      if constexpr (ALONE) {
        u32 *const to = f.words + WORDS_ATTENDED + (((kv_head * 8 + share_here) * 2 + head_here) * 64 + lane) * 4;
        store4(to, __float_as_uint(share.o[0]), sequence, __float_as_uint(share.o[1]), sequence);
        store4(to + 128, __float_as_uint(share.o[2]), sequence, __float_as_uint(share.o[3]), sequence);
        if (lane == 0) store4(f.words + WORDS_SCALES + ((kv_head * 8 + share_here) * 2 + head_here) * 4, __float_as_uint(share.largest), sequence, __float_as_uint(share.sum), sequence);
      } else {
        const float scale = share.sum > 0.f ? 1.f / share.sum : 0.f;
        u32 *const to = f.words + WORDS_ATTENDED + (((kv_head * 8 + row_here) * 2 + head_here) * 32 + lane) * 4;
        store4(to, pack(share.o[0] * scale, share.o[1] * scale), sequence, pack(share.o[2] * scale, share.o[3] * scale), sequence);
      }
    }
    hold(5);
    if (ALONE) { // each warp fetches one share of both heads
      uint4 z[2][2], scales[2];
      const u32 *from = f.words + WORDS_ATTENDED + ((kv_head * 8 + warp) * 128 + lane) * 4, *scales_from = f.words + WORDS_SCALES + (kv_head * 8 + warp) * 8;
      u32 spins = 0;
      bool ok;
      do {
        ok = true;
#pragma unroll
        for (int h = 0; h < 2; h++) {
          z[h][0] = load4(from + h * 256), z[h][1] = load4(from + h * 256 + 128), scales[h] = load4(scales_from + h * 4);
          ok = ok && both_from(z[h][0], sequence) && both_from(z[h][1], sequence) && both_from(scales[h], sequence);
        }
        spun(spins);
      } while (!__all_sync(~0u, ok));
      meet_warps(); // after warp 0 has read all shares
#pragma unroll
      for (int h = 0; h < 2; h++) {
        Softmax one;
        one.largest = __uint_as_float(scales[h].x), one.sum = __uint_as_float(scales[h].z);
#pragma unroll
        for (int i = 0; i < 2; i++) one.o[2 * i] = __uint_as_float(z[h][i].x), one.o[2 * i + 1] = __uint_as_float(z[h][i].z);
        one.leave(warp, h, lane);
      }
      hold(6);
      meet_warps();
      Softmax all; // of the head that this warp multiplies
      all.clear();
      all.gather(warp & 1, lane);
      const float scale = 1.f / all.sum;
      char *to = shared + AT_ATTENDED + warp * 256;
      *(u32 *)(to + 4 * lane) = pack(all.o[0] * scale, all.o[1] * scale);
      *(u32 *)(to + 128 + 4 * lane) = pack(all.o[2] * scale, all.o[3] * scale);
      __syncwarp();
    } else { // each warp fetches one row
      uint4 z[2];
      const u32 *from = f.words + WORDS_ATTENDED + ((kv_head * 8 + warp) * 64 + lane) * 4;
      u32 spins = 0;
      bool ok;
      do {
        z[0] = load4(from), z[1] = load4(from + 128);
        ok = both_from(z[0], sequence) && both_from(z[1], sequence);
        spun(spins);
      } while (!__all_sync(~0u, ok));
#pragma unroll
      for (int i = 0; i < 2; i++) {
        char *to = shared + AT_ATTENDED + warp * 576 + i * 256;
        *(u32 *)(to + 4 * lane) = z[i].x, *(u32 *)(to + 128 + 4 * lane) = z[i].z;
      }
      hold(6);
      meet_warps();
    }
    { // out: 16 of every 64 outputs and 128 of 256 inputs a warp
      float a[BLOCKS][2][4] = {};
      u32 heads[8][2];
      const char *from = shared + AT_ATTENDED + (ALONE ? warp * 256 : g * 576 + (warp & 1) * 256) + t4 * 16;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (g < ROWS) v = *(const uint4 *)(from + i * 64);
        heads[2 * i][0] = v.x, heads[2 * i][1] = v.y, heads[2 * i + 1][0] = v.z, heads[2 * i + 1][1] = v.w;
      }
      each_tile<2 * BLOCKS>(chunk, warp, lane, [&](int i, const uint4 &w) { product16(a[i % BLOCKS][(i / BLOCKS) & 1], w, heads[i / BLOCKS][0], heads[i / BLOCKS][1]); });
      hold(7);
#pragma unroll
      for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[m][0][i] += a[m][1][i];
        add_rows(out_sums + (layer & 1) * SUMS + (u64)(8 * BLOCKS * member + 2 * ((warp >> 1) + 4 * m) + (g >> 2)) * SECTOR + (g & 3) * 8, a[m][0], t4, f.overflow);
      }
    }
    add_sums<16>(out_sums + (layer & 1) * SUMS, x, warp, lane, f.overflow);
    hold(8);
    fragments(x, norms + HIDDEN, warp, lane, 1, b);
    { // gate and up
      float a[3 * BLOCKS][4] = {};
      each_tile<6 * BLOCKS * BLOCKS>(chunk, warp, lane, [&](int i, const uint4 &w) { product16(a[i % (3 * BLOCKS)], w, b[i / (3 * BLOCKS)][0], b[i / (3 * BLOCKS)][1]); });
      leave_parts<3 * BLOCKS>(a, warp, lane, gate_parts_at);
    }
    hold(9);
    meet_warps();
    char *const down = down_sums + (layer & 1) * SUMS + (g & 3) * 8 + (u64)(g >> 2) * SECTOR;
    const float scale = inverse_rms(1, row_spoken);
#pragma unroll
    for (int from = 0; from < UNITS; from += 32) { // one row: every warp computes all units; eight: each warp one row
      const u32 unit = min(from + lane, UNITS - 1u);
      const float gate = rounded(sum_parts(row_spoken, unit, gate_parts_at) * scale), up = rounded(sum_parts(row_spoken, UNITS + unit, gate_parts_at) * scale);
      const float gated = rounded(gate / (1.f + __expf(-gate))) * up;
      if (ALONE) {
        if (from + lane < UNITS) *(u16 *)(shared + AT_UNITS + warp * UNITS_BYTES + unit * 2) = (u16)(pack(gated, 0.f) & 0xffff);
      } else {
        const float next = __shfl_xor_sync(~0u, gated, 1);
        if (!(lane & 1) && from + lane < UNITS) store2(f.words + WORDS_UNITS + ((kv_head * 8 + warp) * 192 * BLOCKS + (UNITS / 2) * member) * 2 + from + lane, pack(gated, next), sequence);
      }
    }
    if constexpr (ALONE) {
      __syncwarp();
      hold(10);
      const char *units = shared + AT_UNITS + warp * UNITS_BYTES;
      if constexpr (BLOCKS == 1) { // down: these units, all outputs
        float a[8][4] = {};
        uint2 b16 = make_uint2(0, 0);
        u32 b8 = 0;
        if (g == 0) b16 = *(const uint2 *)(units + t4 * 8), b8 = *(const u32 *)(units + 32 + t4 * 4);
        each_tile<3>(chunk, warp, lane, [&](int i, const uint4 &w) {
          if (i < 8) product16(a[i & 7], w, b16.x, b16.y);
          else product8(a[2 * (i & 3)], w.x, w.y, b8), product8(a[2 * (i & 3) + 1], w.z, w.w, b8);
        });
#pragma unroll
        for (int m = 0; m < 8; m++) add_rows(down + (u64)(8 * warp + 2 * (m & 3) + (m >> 2) * 64) * SECTOR, a[m], t4, f.overflow);
      } else { // three tiles for every 16 outputs
        uint2 these[3];
#pragma unroll
        for (int i = 0; i < 3; i++) {
          these[i] = make_uint2(0, 0);
          if (g == 0) these[i] = *(const uint2 *)(units + i * 32 + t4 * 8);
        }
        float a[4] = {};
        each_tile<12>(chunk, warp, lane, [&](int i, const uint4 &w) {
          product16(a, w, these[i % 3].x, these[i % 3].y);
          if (i % 3 == 2) {
            add_rows(down + (u64)(2 * (16 * warp + i / 3)) * SECTOR, a, t4, f.overflow);
            a[0] = a[1] = a[2] = a[3] = 0.f;
          }
        });
      }
      add_sums<128>(down_sums + (layer & 1) * SUMS, x, warp, lane, f.overflow);
    } else { // the group's units first; down: 16 of every 64 outputs, and half of the units a warp
      uint4 z[3 * BLOCKS];
      const u32 *from = f.words + WORDS_UNITS + (kv_head * 8 + warp) * 384 * BLOCKS + lane * 4;
      u32 spins = 0;
      bool ok;
      do {
        ok = true;
#pragma unroll
        for (int i = 0; i < 3 * BLOCKS; i++) z[i] = load4(from + i * 128), ok = ok && both_from(z[i], sequence);
        spun(spins);
      } while (!__all_sync(~0u, ok));
#pragma unroll
      for (int i = 0; i < 3 * BLOCKS; i++) *(uint2 *)(shared + AT_UNITS + warp * UNITS_BYTES + lane * 8 + i * 256) = make_uint2(z[i].x, z[i].z);
      meet_warps();
      hold(10);
      const char *half = shared + AT_UNITS + g * UNITS_BYTES + (warp & 1) * 384 * BLOCKS;
      float a[BLOCKS][2][4] = {};
      int sums[BLOCKS][4] = {};
      float largest = 0.f;
      uint4 units = make_uint4(0, 0, 0, 0); // of two tiles along the inputs
      each_tile<3 * BLOCKS * BLOCKS>(chunk, warp, lane, [&](int i, const uint4 &w) {
        const int tile = i / BLOCKS, m = i % BLOCKS;
        if (FINE) {
          const uint2 these = units_of(half, tile, t4);
          add_tile(a[m], sums[m], w, these.x, these.y, tile, largest);
        } else {
          if (i % (2 * BLOCKS) == 0) units = *(const uint4 *)(half + t4 * 16 + tile / 2 * 64);
          product16(a[m][tile & 1], w, tile & 1 ? units.z : units.x, tile & 1 ? units.w : units.y);
        }
      });
      hold(10);
      check(largest, f.overflow);
#pragma unroll
      for (int m = 0; m < BLOCKS; m++) {
        char *const to = down + (u64)(8 * BLOCKS * member + 2 * ((warp >> 1) + 4 * m)) * SECTOR;
#pragma unroll
        for (int i = 0; i < 4; i++) a[m][0][i] += a[m][1][i];
        if (FINE) add_rows(to, sums[m], t4);
        else add_rows(to, a[m][0], t4, f.overflow);
      }
      add_sums<16>(down_sums + (layer & 1) * SUMS, x, warp, lane, f.overflow);
    }
  }
  leave_squares(x, warp, lane, 0);
  meet_warps();
#pragma unroll
  for (int r = 0; r < ROWS; r++) // program r writes row r
    if ((int)program == r && r < f.rows) {
      const float scale = inverse_rms(0, r);
#pragma unroll
      for (int h = 0; h < BLOCKS; h++) {
        const u32 at = h * 1024 + warp * 128 + lane * 4;
        const uint2 weight = *(const uint2 *)(f.norms + f.layers * LAYER_NORMS + at);
        const float *y = x.at[r][h];
        *(uint2 *)(f.hidden + r * HIDDEN + at) = make_uint2(pack(rounded(y[0] * scale) * low(weight.x), rounded(y[1] * scale) * high(weight.x)),
                                                            pack(rounded(y[2] * scale) * low(weight.y), rounded(y[3] * scale) * high(weight.y)));
      }
    }
}

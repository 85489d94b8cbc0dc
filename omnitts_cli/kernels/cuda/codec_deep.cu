// A residual unit of 384 channels: a convolution of 7 taps, snake, a product, the residual, snake.
//
// A group of four warps has 64 columns and all outputs of the first product, which become the operands of the second one
// without leaving its registers. The two groups of a program (thread block) share weights, which are loaded in stages. The two
// programs of a cluster share them too: each fetches one half of a stage, and the copy engine writes it into the shared memory
// of both (multicast).
#include "codec_tile.cuh"
#define GROUPS 2
#define HALF 192
#define SLICE 64                            // outputs of the second product at once
#define STAGE (N * 32 * 2)                  // 32 inputs of the first product, or 192 of the second one for a slice
#define FIRST (TAPS * INPUTS / 32)
#define SECOND (INPUTS / 192)               // of a slice
#define SLICES (OUTPUTS / SLICE)
#define FACTORS 6
extern "C" __global__ void __launch_bounds__(384, 1) tiles(const Arguments p) {
  const u32 reach = (TAPS - 1) * p.dilation, apart = (GROUPS * ROWS + reach) | 1;
  const u32 ring = address(shared), factors = ring + STAGES * STAGE, bars = factors + FACTORS * N * 4, x = bars + 128;
  const u32 full = bars, empty = bars + 40, x_full = bars + 80, x_empty = bars + 88;
  const u32 rank = blockIdx.x % 2, thread = threadIdx.x;
  const int pair = blockIdx.x / 2, pairs = gridDim.x / 2, per_stream = p.columns / ROWS, turns = (per_stream + 2 * GROUPS - 1) / (2 * GROUPS);
  const int all = p.blocks / per_stream * turns, first = (s64)all * pair / pairs, end = (s64)all * (pair + 1) / pairs;
  if (thread == 0) {
    for (int i = 0; i < STAGES; i++) begin(full + 8 * i, 1), begin(empty + 8 * i, 16);
    begin(x_full, 96), begin(x_empty, 8);
    barriers_ready();
  }
  for (u32 i = thread; i < FACTORS * N; i += blockDim.x) ((float *)(shared + STAGES * STAGE))[i] = p.factors[i];
  meet_pair();
  if (thread >= 128 * GROUPS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (thread < 128 * GROUPS + 32) {
      if (thread == 128 * GROUPS) {
        u32 stage = 0, phase = 1;
        for (int turn = first; turn < end; turn++)
          for (int i = 0; i < FIRST + SLICES * SECOND; i++) {
            wait_for(empty + 8 * stage, phase);
            expect(full + 8 * stage, STAGE);
            fetch_for_both(ring + stage * STAGE + rank * (STAGE / 2), p.weights + (u64)i * STAGE + rank * (STAGE / 2), STAGE / 2, full + 8 * stage);
            next_stage(stage, phase, STAGES);
          }
      }
    } else {
      wait_for_previous();
      u32 phase = 1;
      for (int turn = first; turn < end; turn++, phase ^= 1) {
        const int stream = turn / turns, block = (turn % turns * 2 + rank) * GROUPS, count = min(per_stream - block, GROUPS);
        const char *from = p.x + ((s64)stream * p.pitch + block * ROWS) * (INPUTS * 2);
        if (thread == 128 * GROUPS + 32 && count > 0) {
          to_l2(from, (count * ROWS + reach) * INPUTS * 2);
          to_l2(p.residual + stream * p.residual_stride + (s64)block * ROWS * OUTPUTS, count * ROWS * OUTPUTS * 2);
        }
        wait_for(x_empty, phase);
        if (count > 0) fetch_rows<INPUTS / 8>(x, from, count * ROWS + reach, apart, thread - 128 * GROUPS - 32, 96);
        fetched(x_full);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    wait_for_previous();
    const u32 group = thread / 128, lane = thread % 32, warp = thread / 32 % 4, quad = lane % 4;
    const u32 own = factors + quad * (N / 4) * 4;
    u32 stage = 0, phase = 0, x_phase = 0;
    for (int turn = first; turn < end; turn++, x_phase ^= 1) {
      const int stream = turn / turns, block = (turn % turns * 2 + rank) * GROUPS + group;
      const bool mine = block < per_stream;
      const s64 row = (s64)(mine ? block : 0) * ROWS + warp * 16 + lane / 4;
      float sums[2][HALF / 2];
      begin_sums(sums[0], own);
      begin_sums(sums[1], own + HALF / 4 * 4);
      wait_for(x_full, x_phase);
      u32 used = 0;
#pragma unroll 1
      for (int tap = 0; tap < TAPS; tap++)
#pragma unroll 1
        for (int part = 0; part < INPUTS / 32; part++) {
          wait_for(full + 8 * stage, phase);
          const u32 from = x + (part * 4 * apart + group * ROWS + tap * p.dilation) * 16;
          const u64 w = (u64)N << 16 | (u64)8 << 32 | place(ring + stage * STAGE);
          multiply_begin();
#pragma unroll
          for (int k = 0; k < 2; k++)
#pragma unroll
            for (int half = 0; half < 2; half++) multiply(sums[half], matrix(from + 2 * k * apart * 16, apart * 16), w + 2 * k * N + half * HALF);
          multiply_commit();
          multiply_wait<1>();
          if (lane == 0 && tap + part) release(empty + 8 * used, rank);
          used = stage;
          next_stage(stage, phase, STAGES);
        }
      multiply_wait<0>();
      settled(sums[0]);
      settled(sums[1]);
      if (lane == 0) {
        release(empty + 8 * used, rank);
        arrive(x_empty);
      }
      u32 operands[N / 4];
      activate(operands, sums[0], own + N * 4, own + 2 * N * 4);
      activate(operands + N / 8, sums[1], own + N * 4 + HALF / 4 * 4, own + 2 * N * 4 + HALF / 4 * 4);
      u16 *wide = (u16 *)p.residual + stream * p.residual_stride + row * OUTPUTS + quad * 4;
      char *out = p.out + 2 * (stream * p.out_stride + row * OUTPUTS + quad * 4);
      // the second product is added to the residual; a slice is finished while the next one is multiplied
      float y[2][SLICE / 2];
#pragma unroll
      for (int slice = 0; slice <= SLICES; slice++) {
        const u32 at = own + slice * (SLICE / 4) * 4;
        if (slice < SLICES) {
          float (&next)[SLICE / 2] = y[slice % 2];
#pragma unroll
          for (int i = 0; i < SLICE / 2; i += 8) begin8(next + i, wide + slice * SLICE + i * 2), add8(next + i, at + 3 * N * 4 + i * 2);
          settled(next);
          wait_for(full + 8 * stage, phase);
          multiply_begin();
#pragma unroll
          for (int k = 0; k < 12; k++) multiply(next, operands + 4 * k, (u64)SLICE << 16 | (u64)8 << 32 | place(ring + stage * STAGE + 2 * k * SLICE * 16));
          multiply_commit();
          if (slice) {
            multiply_wait<1>();
            if (lane == 0) release(empty + 8 * used, rank);
          }
          used = stage;
          next_stage(stage, phase, STAGES);
        } else {
          multiply_wait<0>();
          if (lane == 0) release(empty + 8 * used, rank);
        }
        if (slice) {
          settled(y[(slice + 1) % 2]);
          if (mine)
#pragma unroll
            for (int i = 0; i < SLICE / 16; i++) {
              const int n = (slice - 1) * SLICE + i * 16;
              finish8(y[(slice + 1) % 2] + 8 * i, wide + n, out + n * 2, own + 4 * N * 4 + n, own + 5 * N * 4 + n, p.keep);
            }
        }
        if (slice < SLICES) {
          float (&next)[SLICE / 2] = y[slice % 2];
          wait_for(full + 8 * stage, phase);
          multiply_begin();
#pragma unroll
          for (int k = 0; k < 12; k++) multiply(next, operands + 4 * (12 + k), (u64)SLICE << 16 | (u64)8 << 32 | place(ring + stage * STAGE + 2 * k * SLICE * 16));
          multiply_commit();
          multiply_wait<1>();
          if (lane == 0) release(empty + 8 * used, rank);
          used = stage;
          next_stage(stage, phase, STAGES);
        }
      }
    }
  }
  meet_pair(); // the other program of the cluster may still write here
}

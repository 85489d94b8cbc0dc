// Products of the codec whose weights are loaded in stages of 64 inputs, shared by three groups of four warps: a residual unit of
// 192 channels (a convolution of 7 taps, snake, a product, the residual, snake) or one product with what follows it.
//
// A group has 64 columns. Rows of x stay in shared memory for all outputs, N at a time.
#include "codec_tile.cuh"
#define GROUPS 3
#define STAGE (N * 64 * 2)
#define FIRST (TAPS * INPUTS / 64)          // stages of the first product, for N outputs
#define SECOND (POINT * N / 64)
#define SLICES (OUTPUTS / N)
#define FACTORS (3 + 3 * POINT)
extern "C" __global__ void __launch_bounds__(512, 1) tiles(const Arguments p) {
  const u32 reach = (TAPS - 1) * p.dilation, apart = (GROUPS * ROWS + reach) | 1;
  const u32 ring = address(shared), factors = ring + STAGES * STAGE, bars = factors + SLICES * FACTORS * N * 4, x = bars + 128;
  const u32 full = bars, empty = bars + 40, x_full = bars + 80, x_empty = bars + 88;
  const int first = (s64)p.blocks * blockIdx.x / gridDim.x, end = (s64)p.blocks * (blockIdx.x + 1) / gridDim.x, per_stream = p.columns / ROWS;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    for (int i = 0; i < STAGES; i++) begin(full + 8 * i, 1), begin(empty + 8 * i, 12);
    begin(x_full, 96), begin(x_empty, 12);
    barriers_ready();
  }
  for (u32 i = thread; i < SLICES * FACTORS * N; i += blockDim.x) ((float *)(shared + STAGES * STAGE))[i] = p.factors[i];
  __syncthreads();
  if (thread >= 384) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    wait_for_previous();
    if (thread < 416) {
      if (thread == 384) {
        u32 stage = 0, phase = 1;
        for (int block = first; block < end;) {
          block += min(min(GROUPS, end - block), per_stream - block % per_stream);
          for (int i = 0; i < SLICES * (FIRST + SECOND); i++) {
            wait_for(empty + 8 * stage, phase);
            expect(full + 8 * stage, STAGE);
            fetch(ring + stage * STAGE, p.weights + (u64)i * STAGE, STAGE, full + 8 * stage);
            if (++stage == STAGES) stage = 0, phase ^= 1;
          }
        }
      }
    } else {
      u32 phase = 1;
      for (int block = first; block < end; phase ^= 1) {
        const int count = min(min(GROUPS, end - block), per_stream - block % per_stream), stream = block / per_stream, column = block % per_stream * ROWS;
        if (thread == 416) {
          to_l2(p.x + ((s64)stream * p.pitch + column) * (INPUTS * 2), (count * ROWS + reach) * INPUTS * 2);
          if (ADDS) to_l2(p.residual + stream * p.residual_stride + (s64)column * OUTPUTS, count * ROWS * OUTPUTS * 2);
        }
        wait_for(x_empty, phase);
        fetch_rows<INPUTS / 8>(x, p.x + ((s64)stream * p.pitch + column) * (INPUTS * 2), count * ROWS + reach, apart, thread - 416, 96);
        fetched(x_full);
        block += count;
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
  wait_for_previous();
  const u32 group = thread / 128, lane = thread % 32, warp = thread / 32 % 4, quad = lane % 4;
  const u64 across = (u64)N << 16 | (u64)8 << 32;
  u32 stage = 0, phase = 0, x_phase = 0;
  for (int block = first; block < end; x_phase ^= 1) {
    const int count = min(min(GROUPS, end - block), per_stream - block % per_stream), stream = block / per_stream, column = (block % per_stream + group) * ROWS;
    const s64 row = column + warp * 16 + lane / 4;
    block += count;
    wait_for(x_full, x_phase);
    for (int slice = 0; slice < SLICES; slice++) {
      const u32 own = factors + (slice * FACTORS * N + quad * (N / 4)) * 4;
      const u16 *residual = p.residual + stream * p.residual_stride + row * OUTPUTS + slice * N + quad * 4;
      u16 *wide = p.wide + stream * p.wide_stride + row * OUTPUTS + slice * N + quad * 4;
      char *out = p.out + 2 * (stream * p.out_stride + row * OUTPUTS + slice * N + quad * 4);
      float sums[N / 2];
      begin_sums(sums, own);
      u32 last = 0;
      for (int tap = 0; tap < TAPS; tap++)
        for (int part = 0; part < INPUTS / 64; part++) {
          wait_for(full + 8 * stage, phase);
          const u32 from = x + (part * 8 * apart + group * ROWS + tap * p.dilation) * 16;
          const u64 w = across | (u64)((ring + stage * STAGE) >> 4);
          multiply_begin();
#pragma unroll
          for (int k = 0; k < 4; k++) multiply(sums, matrix(from + 2 * k * apart * 16, apart * 16), w + 2 * k * N);
          multiply_commit();
          multiply_wait<1>();
          if (lane == 0 && tap + part) arrive(empty + 8 * last);
          last = stage;
          if (++stage == STAGES) stage = 0, phase ^= 1;
        }
      multiply_wait<0>();
      settled(sums);
      if (lane == 0) {
        arrive(empty + 8 * last);
        if (slice == SLICES - 1) arrive(x_empty);
      }
#if POINT
      u32 operands[N / 4], at[SECOND];
      activate(operands, sums, own + N * 4, own + 2 * N * 4);
#pragma unroll
      for (int part = 0; part < SECOND; part++) {
        wait_for(full + 8 * stage, phase);
        at[part] = ring + stage * STAGE;
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float y[N / 4];
        begin_sums(y, own + 3 * N * 4 + half * (N / 8) * 4);
        settled(y);
        multiply_begin();
#pragma unroll
        for (int k = 0; k < N / 16; k++) multiply(y, operands + 4 * k, across | (u64)((at[k / 4] + (2 * (k % 4) * N + half * (N / 2)) * 16) >> 4));
        multiply_commit();
        uint2 kept[2][4];
        if (group < count) load_residual(kept[0], residual + half * (N / 2)), load_residual(kept[1], residual + half * (N / 2) + 32);
        multiply_wait<0>();
        settled(y);
        if (half && lane == 0)
#pragma unroll
          for (int part = 0; part < SECOND; part++) arrive(empty + (at[part] - ring) / STAGE * 8);
        if (group < count)
#pragma unroll
          for (int i = 0; i < N / 64; i++) {
            const int n = half * (N / 2) + i * 32;
            finish<true>(y + 16 * i, kept[i % 2], wide + n, out + n * 2, own + 4 * N * 4 + n, own + 5 * N * 4 + n, p.keep);
            if (i == 0) load_residual(kept[0], residual + half * (N / 2) + 64);
          }
      }
#else
      if (group < count)
#pragma unroll
        for (int i = 0; i < N / 32; i++) {
          uint2 kept[4];
          if (ADDS) load_residual(kept, residual + i * 32);
          finish<ADDS>(sums + 16 * i, kept, wide + i * 32, out + i * 64, own + N * 4 + i * 32, own + 2 * N * 4 + i * 32, p.keep);
        }
#endif
    }
  }
}

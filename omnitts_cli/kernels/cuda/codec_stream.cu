// Products of the codec whose weights come in stages of 64 inputs, which three groups of four warps share: a residual unit of
// 192 channels (a convolution of 7 taps, snake, a product, the residual, snake) or one product with what follows it.
//
// A group has 64 columns. Rows of x stay in shared memory for all outputs, N at a time. Two programs beside each other need the
// same weights: each fetches one half of a stage and the copy engine writes it into the shared memory of both.
#include "codec_tile.cuh"
#define GROUPS 3
#define STAGE (N * 64 * 2)
#define FIRST (TAPS * INPUTS / 64)          // stages of the first product, for N outputs
#define SECOND (POINT * N / 64)
#define SLICE 64                            // outputs of the second product at once
#define SLICES (OUTPUTS / N)
#define FACTORS (3 + 3 * POINT)
#if POINT
// Sums of SLICE outputs begin with the residual and the bias.
__device__ __forceinline__ void begin_slice(float (&y)[SLICE / 2], const float *residual, u32 bias) {
#pragma unroll
  for (int i = 0; i < SLICE / 2; i += 8) {
    begin8(y + i, residual + i * 2);
    add8(y + i, bias + i * 2);
  }
}
#endif
extern "C" __global__ void __launch_bounds__(512, 1) tiles(const Arguments p) {
  const u32 reach = (TAPS - 1) * p.dilation, apart = (GROUPS * ROWS + reach) | 1;
  const u32 ring = address(shared), factors = ring + STAGES * STAGE, bars = factors + SLICES * FACTORS * N * 4, x = bars + 128;
  const u32 full = bars, empty = bars + 40, x_full = bars + 80, x_empty = bars + 88;
  const u32 rank = blockIdx.x % 2;
  const int pair = blockIdx.x / 2, pairs = gridDim.x / 2, per_stream = p.columns / ROWS;
  const int first = (s64)p.blocks * pair / pairs, end = (s64)p.blocks * (pair + 1) / pairs;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    for (int i = 0; i < STAGES; i++) begin(full + 8 * i, 1), begin(empty + 8 * i, 24);
    begin(x_full, 96), begin(x_empty, 12);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  for (u32 i = thread; i < SLICES * FACTORS * N; i += blockDim.x) ((float *)(shared + STAGES * STAGE))[i] = p.factors[i];
  meet_pair();
  if (thread >= 384) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    wait_for_previous();
    if (thread < 416) {
      if (thread == 384) {
        u32 stage = 0, phase = 1;
        for (int block = first; block < end;) {
          block += min(min(2 * GROUPS, end - block), per_stream - block % per_stream);
          for (int i = 0; i < SLICES * (FIRST + SECOND); i++) {
            wait_for(empty + 8 * stage, phase);
            expect(full + 8 * stage, STAGE);
            fetch_for_both(ring + stage * STAGE + rank * (STAGE / 2), p.weights + (u64)i * STAGE + rank * (STAGE / 2), STAGE / 2, full + 8 * stage);
            if (++stage == STAGES) stage = 0, phase ^= 1;
          }
        }
      }
    } else {
      u32 phase = 1;
      for (int block = first; block < end; phase ^= 1) {
        const int both = min(min(2 * GROUPS, end - block), per_stream - block % per_stream), count = min(max(both - (int)rank * GROUPS, 0), GROUPS);
        const int stream = block / per_stream, column = (block % per_stream + rank * GROUPS) * ROWS;
        if (thread == 416 && count) {
          to_l2(p.x + ((s64)stream * p.pitch + column) * (INPUTS * 2), (count * ROWS + reach) * INPUTS * 2);
          if (ADDS) to_l2(p.residual + stream * p.residual_stride + (s64)column * OUTPUTS, count * ROWS * OUTPUTS * 4);
        }
        wait_for(x_empty, phase);
        if (count) fetch_rows<INPUTS / 8>(x, p.x + ((s64)stream * p.pitch + column) * (INPUTS * 2), count * ROWS + reach, apart, thread - 416, 96);
        asm volatile("cp.async.wait_all;" ::: "memory");
        visible();
        arrive(x_full);
        block += both;
      }
    }
  } else {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
  wait_for_previous();
  const u32 group = thread / 128, lane = thread % 32, warp = thread / 32 % 4, quad = lane % 4;
  const u64 across = (u64)N << 16 | (u64)8 << 32;
  u32 stage = 0, phase = 0, x_phase = 0;
  for (int block = first; block < end; x_phase ^= 1) {
    const int both = min(min(2 * GROUPS, end - block), per_stream - block % per_stream), stream = block / per_stream;
    const bool mine = (int)(rank * GROUPS + group) < both;
    const s64 row = (mine ? block % per_stream + rank * GROUPS + group : 0) * ROWS + warp * 16 + lane / 4;
    block += both;
    wait_for(x_full, x_phase);
    for (int slice = 0; slice < SLICES; slice++) {
      const u32 own = factors + (slice * FACTORS * N + quad * (N / 4)) * 4;
#if ADDS
      float *wide = (float *)p.residual + stream * p.residual_stride + row * OUTPUTS + slice * N + quad * 4;
#else
      float *wide = p.wide + stream * p.wide_stride + row * OUTPUTS + slice * N + quad * 4;
#endif
      char *out = p.out + 2 * (stream * p.out_stride + row * OUTPUTS + slice * N + quad * 4);
      float sums[N / 2];
      begin_sums(sums, own);
      u32 last = 0;
      for (int tap = 0; tap < TAPS; tap++)
        for (int part = 0; part < INPUTS / 64; part++) {
          wait_for(full + 8 * stage, phase);
          const u32 from = x + (part * 8 * apart + group * ROWS + tap * p.dilation) * 16;
          const u64 w = across | place(ring + stage * STAGE);
          multiply_begin();
#pragma unroll
          for (int k = 0; k < 4; k++) multiply(sums, matrix(from + 2 * k * apart * 16, apart * 16), w + 2 * k * N);
          multiply_commit();
          multiply_wait<1>();
          if (lane == 0 && tap + part) release(empty + 8 * last, rank);
          last = stage;
          if (++stage == STAGES) stage = 0, phase ^= 1;
        }
      multiply_wait<0>();
      settled(sums);
      if (lane == 0) {
        release(empty + 8 * last, rank);
        if (slice == SLICES - 1) arrive(x_empty);
      }
#if POINT
      // The second product is added to the residual, SLICE outputs after the other: one is finished while the next is multiplied.
      u32 operands[N / 4], at[SECOND];
      float y[2][SLICE / 2];
      activate(operands, sums, own + N * 4, own + 2 * N * 4);
#pragma unroll
      for (int part = 0; part < SECOND; part++) {
        wait_for(full + 8 * stage, phase);
        at[part] = ring + stage * STAGE;
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
      begin_slice(y[0], wide, own + 3 * N * 4);
      settled(y[0]);
      multiply_begin();
#pragma unroll
      for (int k = 0; k < N / 16; k++) multiply(y[0], operands + 4 * k, across | place(at[k / 4] + 2 * (k % 4) * N * 16));
      multiply_commit();
#pragma unroll
      for (int part = 0; part < N / SLICE; part++) {
        if (part + 1 < N / SLICE) {
          float (&next)[SLICE / 2] = y[(part + 1) % 2];
          begin_slice(next, wide + (part + 1) * SLICE, own + 3 * N * 4 + (part + 1) * SLICE);
          settled(next);
          multiply_begin();
#pragma unroll
          for (int k = 0; k < N / 16; k++) multiply(next, operands + 4 * k, across | place(at[k / 4] + (2 * (k % 4) * N + (part + 1) * SLICE) * 16));
          multiply_commit();
          multiply_wait<1>();
        } else {
          multiply_wait<0>();
          if (lane == 0)
#pragma unroll
            for (int i = 0; i < SECOND; i++) release(empty + (at[i] - ring) / STAGE * 8, rank);
        }
        settled(y[part % 2]);
        if (mine)
#pragma unroll
          for (int i = 0; i < SLICE / 16; i++) {
            const int n = part * SLICE + i * 16;
            finish8(y[part % 2] + 8 * i, wide + n, out + n * 2, own + 4 * N * 4 + n, own + 5 * N * 4 + n, p.keep);
          }
      }
#else
      if (mine)
#pragma unroll
        for (int i = 0; i < N / 32; i++) {
          float4 kept[4];
          if (ADDS) load_residual(kept, wide + i * 32);
          finish<ADDS>(sums + 16 * i, kept, wide + i * 32, out + i * 64, own + N * 4 + i * 32, own + 2 * N * 4 + i * 32, p.keep);
        }
#endif
    }
  }
  }
  meet_pair(); // the other program still writes here
}

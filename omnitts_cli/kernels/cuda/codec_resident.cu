// Products of the codec whose weights stay in shared memory: a residual unit of 96 channels (a convolution of 7 taps, snake, a
// product, the residual, snake) or one product with what follows it.
//
// The groups of four warps take blocks of 64 columns in turn: while one multiplies, the others compute what follows the product.
#include "codec_tile.cuh"
#define K (TAPS * INPUTS)
#define WEIGHTS ((K + POINT * N) * N * 2)
#define FACTORS (3 + 3 * POINT)
#define SLICES (OUTPUTS / N)
#define PIECES 8                            // copies in which the weights are fetched
extern "C" __global__ void __launch_bounds__(128 * GROUPS + 128, 1) tiles(const Arguments p) {
  const u32 apart = (ROWS + (TAPS - 1) * p.dilation) | 1, buffer = INPUTS / 8 * apart * 16;
  const u32 weights = address(shared), factors = weights + WEIGHTS, bars = factors + FACTORS * N * 4, x = bars + 128;
  const u32 full = bars, empty = bars + 24, turn = bars + 48, loaded = bars + 72;
  const int slice = blockIdx.x % SLICES, part = blockIdx.x / SLICES, parts = gridDim.x / SLICES;
  const int first = (s64)p.blocks * part / parts, end = (s64)p.blocks * (part + 1) / parts, per_stream = p.columns / ROWS;
  const u32 thread = threadIdx.x;
  if (thread == 0) {
    for (int i = 0; i < GROUPS; i++) begin(full + 8 * i, 128), begin(empty + 8 * i, 4), begin(turn + 8 * i, 4);
    begin(loaded, 1);
    barriers_ready();
  }
  for (u32 i = thread; i < FACTORS * N; i += blockDim.x) ((float *)(shared + WEIGHTS))[i] = p.factors[slice * FACTORS * N + i];
  __syncthreads();
  if (thread >= 128 * GROUPS) {
    if (GROUPS == 3) asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    const u32 rows = ROWS + (TAPS - 1) * p.dilation, own = thread - 128 * GROUPS;
    if (own == 0) {
      expect(loaded, WEIGHTS);
      for (int i = 0; i < PIECES; i++) fetch(weights + i * (WEIGHTS / PIECES), p.weights + (s64)slice * WEIGHTS + i * (WEIGHTS / PIECES), WEIGHTS / PIECES, loaded);
    }
    wait_for_previous();
    int i = 0;
    for (int block = first; block < end; block++, i++) {
      const int stream = block / per_stream, column = block % per_stream * ROWS, b = i % GROUPS;
      wait_for(empty + 8 * b, (i / GROUPS & 1) ^ 1);
      fetch_rows<INPUTS / 8>(x + b * buffer, p.x + ((s64)stream * p.pitch + column) * (INPUTS * 2), rows, apart, own, 128);
      asm volatile("cp.async.commit_group;" ::: "memory");
      if (ADDS && own == 0 && slice == 0) to_l2(p.residual + stream * p.residual_stride + (s64)column * OUTPUTS, ROWS * OUTPUTS * 2);
      if (i) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        visible();
        arrive(full + 8 * ((i - 1) % GROUPS));
      }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    visible();
    if (i) arrive(full + 8 * ((i - 1) % GROUPS));
    return;
  }
  if (GROUPS == 3) asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
  wait_for_previous();
  const u32 group = thread / 128, lane = thread % 32, warp = thread / 32 % 4, quad = lane % 4;
  const u32 own = factors + quad * (N / 4) * 4, b = group;
  wait_for(loaded, 0);
  u32 round = 0;
  for (int block = first + group; block < end; block += GROUPS, round++) {
    const int stream = block / per_stream, column = block % per_stream * ROWS;
    float sums[N / 2];
    begin_sums(sums, own);
    wait_for(full + 8 * b, round & 1);
#if TURNS
    wait_for(turn + 8 * b, group ? round & 1 : (round & 1) ^ 1);
#endif
    multiply_begin();
    u32 from = x + b * buffer;
    const u64 across = (u64)N << 16 | (u64)8 << 32;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
#pragma unroll
      for (int k = 0; k < INPUTS / 16; k++) {
        multiply(sums, matrix(from + (2 * k * apart + tap * p.dilation) * 16, apart * 16), across | place(weights + (tap * (INPUTS / 8) + 2 * k) * N * 16));
        if (tap * (INPUTS / 16) + k == K / 16 - 7) multiply_commit();
      }
    }
    multiply_commit();
#if TURNS
    multiply_wait<1>();
    if (lane == 0) arrive(turn + 8 * ((b + 1) % GROUPS));
#endif
    const int row = column + warp * 16 + lane / 4;
    const u16 *residual = p.residual + stream * p.residual_stride + (s64)row * OUTPUTS + slice * N + quad * 4;
    u16 *wide = p.wide + stream * p.wide_stride + (s64)row * OUTPUTS + slice * N + quad * 4;
    char *out = p.out + 2 * (stream * p.out_stride + (s64)row * OUTPUTS + slice * N + quad * 4);
    uint2 kept[N / 32][4];
#if POINT
    multiply_wait<0>();
    settled(sums);
    if (lane == 0) arrive(empty + 8 * b);
    u32 operands[N / 4];
    activate(operands, sums, own + N * 4, own + 2 * N * 4);
    begin_sums(sums, own + 3 * N * 4);
    settled(sums);
    multiply_begin();
#pragma unroll
    for (int k = 0; k < N / 16; k++) multiply(sums, operands + 4 * k, across | place(weights + (K / 8 + 2 * k) * N * 16));
    multiply_commit();
#endif
    if (ADDS)
#pragma unroll
      for (int i = 0; i < N / 32; i++) load_residual(kept[i], residual + i * 32);
    multiply_wait<0>();
    settled(sums);
#if !POINT
    if (lane == 0) arrive(empty + 8 * b);
#endif
#pragma unroll
    for (int i = 0; i < N / 32; i++)
      finish<ADDS>(sums + 16 * i, kept[i], wide + i * 32, out + i * 64, own + (FACTORS - 2) * N * 4 + i * 32, own + (FACTORS - 1) * N * 4 + i * 32, p.keep, p.out != nullptr);
  }
}

// The three residual units of the codec's last upsampling block and the products of its final convolution, in one kernel.
//
// A program (thread block) goes along the columns of a stream, 192 at a time, 64 for each of three groups of four warps. It
// reads the residual, which then stays in registers. The input of each unit, the snake of the residual, lies in shared memory
// with the earlier columns that the unit's taps need. A program that begins inside a stream also computes the 192 columns before
// its own.
// The weights of all units are loaded in stages of 16 inputs, so that a unit can begin with the first 16 channels while the
// groups still compute the others. The two programs of a cluster need the same weights: each fetches one half of a stage, and
// the copy engine writes it into the shared memory of both (multicast).
#define INPUTS 96
#define OUTPUTS 96
#define N 96
#include "codec_tile.cuh"
#define GROUPS 3
#define WIDTH (GROUPS * ROWS)
#define UNITS 3
#define TAPS 7
#define PARTS (INPUTS / 16)
#define STAGE (TAPS * 16 * N * 2)           // 16 inputs of all taps
#define POINT (N * N * 2)                   // weights of a unit's second product
#define STAGES 4
#define TURN 16                             // outputs of the closing product: two for each tap, whose weight is a sum of two numbers
// Earlier columns that a unit keeps, and rows of shared memory from one group of 8 channels to the next.
#define PAST(unit) ((unit) == 0 ? 6 : (unit) == 1 ? 18 : 54)
#define APART(unit) ((unit) == 0 ? 199 : (unit) == 1 ? 212 : 252)
#define CLOSING_PAST 6
struct Last {
  char *x, *second, *third, *end;           // tracks [streams, past + columns, 96] float16: inputs of the units and of the closing convolution
  const u16 *residual;                      // [streams, columns, 96] float16
  const char *weights;                      // [3] units: [6][7][2][96][8] float16, [12][96][8]
  const float *factors;                     // [2][96]: scale, inverse of the first unit's input; [3][6][96]: bias, scale, inverse of each product
  const char *closing;                      // [12][16][8] float16: weights of the taps, then the remainders of their rounding
  float *parts;                             // [streams, 6 + columns, 8]: for each column, its product with each tap
  int columns, turns;                       // columns of a stream; turns of 192 columns, in all streams together
};
// The products of a group's columns with the taps of the closing convolution.
__device__ __forceinline__ void multiply_taps(float (&taps)[TURN / 2], const u32 (&operands)[N / 4], u32 closing) {
#pragma unroll
  for (int i = 0; i < TURN / 2; i++) taps[i] = 0;
  settled(taps);
  multiply_begin();
#pragma unroll
  for (int part = 0; part < PARTS; part++) multiply(taps, operands + 4 * part, (u64)TURN << 16 | (u64)8 << 32 | place(closing + 2 * part * TURN * 16));
  multiply_commit();
  multiply_wait<0>();
  settled(taps);
}
// All channels of a thread's two rows.
__device__ __forceinline__ void load_rows(uint2 (&rows)[2 * PARTS], const u16 *from) {
#pragma unroll
  for (int i = 0; i < 2 * PARTS; i++) rows[i] = *(const uint2 *)(from + i % 2 * 8 * OUTPUTS + i / 2 * 16);
}
extern "C" __global__ void __launch_bounds__(512, 1) last(const __grid_constant__ Last p) {
  const u32 ring = address(shared), input = ring + STAGES * STAGE, factors = input + 2 * N * 4, closing = factors + UNITS * 6 * N * 4, bars = closing + INPUTS * TURN * 2;
  const u32 x0 = bars + 640, x1 = x0 + 12 * 16 * APART(0), x2 = x1 + 12 * 16 * APART(1);
  const u32 full = bars, empty = bars + 40;
  const u32 read = bars + 80, copied = read + 72, written = copied + 24; // [unit][group]; `written` also for each 16 channels
  const u32 rank = blockIdx.x % 2, thread = threadIdx.x;
  const int programs = gridDim.x, per_stream = p.columns / WIDTH, passes = (p.turns + programs - 1) / programs + 1;
  const int first = (s64)p.turns * blockIdx.x / programs, end = (s64)p.turns * (blockIdx.x + 1) / programs;
  if (thread == 0) {
    for (int i = 0; i < STAGES; i++) begin(full + 8 * i, 1), begin(empty + 8 * i, 24);
    for (int i = 0; i < UNITS * GROUPS; i++) begin(read + 8 * i, 4);
    for (int i = 0; i < UNITS * GROUPS * PARTS; i++) begin(written + 8 * i, 4);
    for (int i = 0; i < UNITS; i++) begin(copied + 8 * i, 128);
    barriers_ready();
  }
  for (u32 i = thread; i < (2 + UNITS * 6) * N; i += blockDim.x) ((float *)(shared + STAGES * STAGE))[i] = p.factors[i];
  for (u32 i = thread; i < INPUTS * TURN / 2; i += blockDim.x) ((u32 *)(shared + STAGES * STAGE + (2 + UNITS * 6) * N * 4))[i] = ((const u32 *)p.closing)[i];
  visible();
  meet_pair();
  if (thread >= 384) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    if (thread == 384) {
      u32 stage = 0, phase = 1;
      for (int pass = 0; pass < passes; pass++)
        for (int i = 0; i < UNITS * (PARTS + 1); i++) {
          const u32 bytes = i % (PARTS + 1) < PARTS ? STAGE : POINT;
          const char *from = p.weights + i / (PARTS + 1) * (PARTS * STAGE + POINT) + i % (PARTS + 1) * STAGE;
          wait_for(empty + 8 * stage, phase);
          expect(full + 8 * stage, bytes);
          fetch_for_both(ring + stage * STAGE + rank * (bytes / 2), from + rank * (bytes / 2), bytes / 2, full + 8 * stage);
          next_stage(stage, phase, STAGES);
        }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    wait_for_previous();
    const u32 group = thread / 128, lane = thread % 32, warp = thread / 32 % 4, quad = lane % 4, inside = thread % 128;
    const u64 across = (u64)N << 16 | (u64)8 << 32;
    const u32 own_row = group * ROWS + warp * 16 + lane / 4;
    const auto turn_of = [&](int pass) { return min(max(first - 1 + pass, 0), p.turns - 1); };
    const u16 *residual = p.residual + (s64)own_row * OUTPUTS + quad * 4; // turns of all streams are consecutive
    uint2 coming[2 * PARTS];                // the residual of the next pass
    load_rows(coming, residual + (s64)turn_of(0) * WIDTH * OUTPUTS);
    u32 stage = 0, phase = 0;
    for (int pass = 0; pass < passes; pass++) {
      const int turn = turn_of(pass), stream = turn / per_stream, column = turn % per_stream * WIDTH;
      const bool counts = first - 1 + pass == turn && turn >= first && turn < end, opens = column == 0;
      const s64 row = (s64)stream * p.columns + column + own_row;
      float kept[N / 2];
#pragma unroll
      for (int i = 0; i < 2 * PARTS; i++) spread8(kept + 8 * (i / 2), coming[i], i % 2);
      if (thread == 0 && pass + 1 < passes) to_l2(p.residual + (s64)turn_of(pass + 1) * WIDTH * OUTPUTS, WIDTH * OUTPUTS * 2);
      if (group == 0) { // copies the earlier columns
        if (pass) {
          for (int unit = 0; unit < UNITS; unit++) wait_for(written + (unit * GROUPS + 2) * PARTS * 8 + (PARTS - 1) * 8, (pass & 1) ^ 1);
          wait_for(read + (UNITS - 1) * 24, (pass & 1) ^ 1); // by all four warps
        }
        for (int unit = 0; unit < UNITS; unit++) {
          const u32 to = unit == 0 ? x0 : unit == 1 ? x1 : x2, past = PAST(unit), apart = APART(unit);
          const char *from = (unit == 0 ? p.x : unit == 1 ? p.second : p.third) + (s64)stream * (past + p.columns) * (INPUTS * 2);
          for (u32 i = inside; i < past * 12; i += 128) {
            const u32 line = i / 12, chunk = i % 12, at = to + (chunk * apart + line) * 16;
            const float4 v = opens ? *(const float4 *)(from + (s64)i * 16) : shared4(at + WIDTH * 16);
            asm volatile("st.shared.v4.f32 [%0],{%1,%2,%3,%4};" ::"r"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
          }
          visible();
          arrive(copied + unit * 8);
        }
        if (opens && counts) { // the history of the closing convolution, multiplied like the other columns, for the same bits
          const u32 line = warp * 16 + lane / 4;
          const s64 at = (s64)stream * (CLOSING_PAST + p.columns) + line;
          u32 operands[N / 4];
          float taps[TURN / 2];
#pragma unroll
          for (int part = 0; part < PARTS; part++) {
            const uint2 v = line < CLOSING_PAST ? *(const uint2 *)(p.end + at * (INPUTS * 2) + quad * 8 + part * 32) : make_uint2(0, 0);
            operands[part * 4] = v.x, operands[part * 4 + 1] = 0, operands[part * 4 + 2] = v.y, operands[part * 4 + 3] = 0;
          }
          multiply_taps(taps, operands, closing);
          if (line < CLOSING_PAST) *(float2 *)(p.parts + at * 8 + quad * 2) = make_float2(taps[0] + taps[4], taps[1] + taps[5]);
        }
      }
#pragma unroll 1
      for (int unit = 0; unit < UNITS; unit++) {
        const u32 own = factors + (unit * 6 * N + quad * (N / 4)) * 4, x = unit == 0 ? x0 : unit == 1 ? x1 : x2;
        const u32 apart = unit == 0 ? APART(0) : unit == 1 ? APART(1) : APART(2), dilation = unit == 0 ? 1 : unit == 1 ? 3 : 9;
        const u32 past = 6 * dilation, to = x + (past + own_row + quad / 2 * apart) * 16 + quad % 2 * 8;
        const u32 mine = written + (unit * GROUPS + group) * PARTS * 8;
        const bool tail = counts && column + WIDTH + (int)past > p.columns;
        char *end = (unit == 0 ? p.x : unit == 1 ? p.second : p.third) + ((s64)stream * (past + p.columns) + past + column + own_row) * (INPUTS * 2) + quad * 8;
        float sums[N / 2];
        begin_sums(sums, own);
        if (group != 1) wait_for(copied + unit * 8, pass & 1); // group 0 reads these columns, group 2 replaces them
        if (pass && group < 2) wait_for(read + unit * 24 + (group + 1) * 8, (pass & 1) ^ 1);
        u32 used = 0;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
          u32 made[4];
          activate8(made, kept + 8 * part, own - 2 * N * 4 + part * 16, own - N * 4 + part * 16);
          add8(kept + 8 * part, own + 3 * N * 4 + part * 16);
#pragma unroll
          for (int below = 0; below < 2; below++) {
            asm volatile("st.shared.v2.b32 [%0],{%1,%2};" ::"r"(to + (part * 2 * apart + below * 8) * 16), "r"(made[below]), "r"(made[below + 2]) : "memory");
            if (tail && column + (int)own_row + below * 8 >= p.columns - (int)past) *(uint2 *)(end + below * 8 * INPUTS * 2 + part * 32) = make_uint2(made[below], made[below + 2]);
          }
          visible();
          __syncwarp();
          if (lane == 0) arrive(mine + part * 8);
          wait_for(mine + part * 8, pass & 1);
          if (group) wait_for(mine - PARTS * 8 + part * 8, pass & 1);
          wait_for(full + 8 * stage, phase);
          const u32 from = x + (part * 2 * apart + group * ROWS) * 16;
          const u64 w = across | place(ring + stage * STAGE);
          multiply_begin();
#pragma unroll
          for (int tap = 0; tap < TAPS; tap++) multiply(sums, matrix(from + tap * dilation * 16, apart * 16), w + tap * 2 * N);
          multiply_commit();
          multiply_wait<1>();
          if (lane == 0 && part) release(empty + 8 * used, rank);
          used = stage;
          next_stage(stage, phase, STAGES);
        }
        multiply_wait<0>();
        settled(sums);
        if (lane == 0) {
          release(empty + 8 * used, rank);
          arrive(read + unit * 24 + group * 8);
        }
        u32 operands[N / 4];
        wait_for(full + 8 * stage, phase);
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
          activate8(operands + 4 * part, sums + 8 * part, own + N * 4 + part * 16, own + 2 * N * 4 + part * 16);
          multiply_begin();
          multiply(kept, operands + 4 * part, across | place(ring + stage * STAGE + 2 * part * N * 16));
        }
        multiply_commit();
        multiply_wait<0>();
        settled(kept);
        if (lane == 0) release(empty + 8 * stage, rank);
        next_stage(stage, phase, STAGES);
      }
      const u32 own = factors + ((UNITS - 1) * 6 * N + quad * (N / 4)) * 4;
      const bool tail = counts && column + WIDTH + CLOSING_PAST > p.columns;
      char *end = p.end + ((s64)stream * (CLOSING_PAST + p.columns) + CLOSING_PAST + column + own_row) * (INPUTS * 2) + quad * 8;
      u32 operands[N / 4];
      float taps[TURN / 2];
#pragma unroll
      for (int part = 0; part < PARTS; part++) {
        activate8(operands + 4 * part, kept + 8 * part, own + 4 * N * 4 + part * 16, own + 5 * N * 4 + part * 16);
        if (tail)
#pragma unroll
          for (int below = 0; below < 2; below++)
            if (column + (int)own_row + below * 8 >= p.columns - CLOSING_PAST)
              *(uint2 *)(end + below * 8 * INPUTS * 2 + part * 32) = make_uint2(operands[part * 4 + below], operands[part * 4 + below + 2]);
      }
      if (pass + 1 < passes) load_rows(coming, residual + (s64)turn_of(pass + 1) * WIDTH * OUTPUTS);
      multiply_taps(taps, operands, closing);
      if (counts) {
        float *sum = p.parts + (row + (s64)(stream + 1) * CLOSING_PAST) * 8 + quad * 2;
        *(float2 *)sum = make_float2(taps[0] + taps[4], taps[1] + taps[5]);
        *(float2 *)(sum + 64) = make_float2(taps[2] + taps[6], taps[3] + taps[7]);
      }
    }
  }
  meet_pair(); // the other program of the cluster may still write here
}

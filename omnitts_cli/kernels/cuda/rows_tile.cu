// One product of a layer for the rows of many prompts (--exact), in tiles of 64 or 128 rows, where arithmetic and not memory
// is the bottleneck.
//
// Every row has the same bits as in rows_product.cu: the same fragments go into `mma.m16n8k16` in the same chains, and chains
// are added in the same order. There, each of eight warps has an eighth of the inputs, and the sums meet in shared memory.
// Here a warp has all inputs of its outputs, one eighth after the other, and adds in registers.
//
// Weights and inputs go through shared memory in fragments of 512 bytes, as a warp reads them: four stages of 64 or 96
// inputs, copied with cp.async. Neighbouring programs (thread blocks) have the same weights and other rows.
#include "basics.cuh"
#include "early.cuh"
#include "units.cuh"

#define QKV 0
#define OUT 1
#define GATE_UP 2
#define DOWN 3
#define CHUNK 8192u                            // of weights: two tiles of each of eight warps of the persistent kernels
#define HIDDEN (1024 * BLOCKS)
#define ADDED (KIND == OUT || KIND == DOWN)    // to the residual stream, in fixed point
#define INPUTS (KIND == OUT ? 2048 : KIND == DOWN ? 3072 * BLOCKS : HIDDEN)
#define TILES_DOWN (KIND == QKV ? 2 : KIND == GATE_UP ? 3 * BLOCKS : BLOCKS) // tiles of outputs per warp
#define PAIRS (KIND == OUT ? 4 : KIND == DOWN ? 6 * BLOCKS : 4 * BLOCKS)     // of tiles along a part of the inputs
#define WIDTH (KIND == DOWN ? 192 * BLOCKS : 128) // columns from one part to the next
#define CHAINS (KIND == GATE_UP ? 1 : 2)
#define EIGHTS (KIND == DOWN || (KIND == OUT && BLOCKS == 1) ? 8 : 4) // groups of eight rows per warp
#define BANDS (ADDED ? 4 : 2)                  // warps across the outputs of a program, or across programs
#define GROUPS (8 / BANDS)                     // warps across the rows
#define ROWS (8 * EIGHTS * GROUPS)
#define STEP (KIND == DOWN ? 3 : 2)            // pairs of tiles per stage
#define WEIGHTS (2 * STEP * TILES_DOWN)        // fragments per stage and band
#define FRAGMENTS (BANDS * WEIGHTS + STEP * GROUPS * EIGHTS)
#define STAGE (FRAGMENTS * 512u)
#define STAGES 4u

struct Product {
  const char *weights;   // of program 0; the next program's are `line_bytes` further
  const u16 *input;      // [rows][INPUTS]
  const float *scales;   // [rows] 1 / rms of the rows of `input`; unused where the product is added
  void *out;             // bf16 [rows][outputs], or the sums: [rows][HIDDEN / 2], two columns of 32 bits a word
  int *overflow;
  s64 line_bytes;
  int rows, heads;       // `heads`: where the product is added, the groups of inputs of a program, of eight
};

__device__ __forceinline__ void copy16(u32 to, const void *from, u32 bytes) { // `bytes` below 16: the rest becomes zeros
  asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

extern "C" __global__ void __launch_bounds__(256) rows_tile(const Product f) {
  const u32 thread = threadIdx.x, lane = thread & 31, g = lane >> 2, t4 = lane & 3, warp = thread >> 5;
  const u32 band = warp % BANDS, group = warp / BANDS;
  const u32 tiles = ((u32)f.rows + ROWS - 1) / ROWS, tile = blockIdx.x % tiles, place = blockIdx.x / tiles;
  const u32 first_row = tile * ROWS, member = place % 16, first_part = ADDED ? place / 16 * 2 * f.heads : 0;
  const u32 parts = ADDED ? 2 * f.heads : 8, stages = parts * (PAIRS / STEP);
  allow_next();
  wait_for_previous();

  auto load = [&](u32 stage) {
    if (stage < stages) {
      const u32 part = first_part + stage / (PAIRS / STEP), from = stage % (PAIRS / STEP) * STEP; // its first pair
      const u32 buffer = address(shared) + stage % STAGES * STAGE + lane * 16;
#pragma unroll
      for (u32 i = 0; i < (FRAGMENTS + 7) / 8; i++) {
        const u32 fragment = warp + 8 * i;
        if (fragment < BANDS * WEIGHTS) {
          const u32 of = fragment / WEIGHTS, index = from * 2 * TILES_DOWN + fragment % WEIGHTS;
          const u32 program = ADDED ? part / 2 * 16 + member : 2 * place + of, slice = ADDED ? 2 * of + part % 2 : part;
          copy16(buffer + fragment * 512, f.weights + program * f.line_bytes + index / 2 * CHUNK + slice * 1024 + index % 2 * 512 + lane * 16, 16);
        } else if (fragment < FRAGMENTS) {
          const u32 mine = fragment - BANDS * WEIGHTS, pair = from + mine / (GROUPS * EIGHTS), row = first_row + mine % (GROUPS * EIGHTS) * 8 + g;
          const u32 column = part * WIDTH + (ADDED ? 32 * pair : pair / 4 * 1024 + pair % 4 * 32) + 8 * t4;
          const bool there = row < (u32)f.rows;
          copy16(buffer + fragment * 512, f.input + (there ? (u64)row * INPUTS : 0) + column, there ? 16 : 0);
        }
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (u32 stage = 0; stage + 1 < STAGES; stage++) load(stage);

  float total[KIND == QKV || KIND == GATE_UP ? EIGHTS : 1][TILES_DOWN][4] = {};
  int sums[ADDED ? EIGHTS : 1][TILES_DOWN][4] = {};
  float largest = 0.f;
  u32 stage = 0;
#pragma unroll 1
  for (u32 part = 0; part < parts; part++) {
    float a[EIGHTS][TILES_DOWN][CHAINS][4] = {};
#pragma unroll 1
    for (u32 step = 0; step < PAIRS / STEP; step++, stage++) {
      asm volatile("cp.async.wait_group 2;" ::: "memory"); // all but the latest two have arrived, so this stage has
      __syncthreads();
      load(stage + STAGES - 1);
      const u32 weights = address(shared) + stage % STAGES * STAGE + lane * 16 + band * WEIGHTS * 512;
      const u32 inputs = address(shared) + stage % STAGES * STAGE + lane * 16 + (BANDS * WEIGHTS + group * EIGHTS) * 512;
#pragma unroll
      for (int pair = 0; pair < STEP; pair++) {
        uint4 x[EIGHTS];
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) x[e] = shared4(inputs + (pair * GROUPS * EIGHTS + e) * 512);
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
          for (int m = 0; m < TILES_DOWN; m++) {
            const uint4 w = shared4(weights + ((2 * pair + j) * TILES_DOWN + m) * 512);
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) {
              const u32 first = j ? x[e].z : x[e].x, second = j ? x[e].w : x[e].y;
              if (KIND == DOWN) add_tile(a[e][m], sums[e][m], w, first, second, 2 * pair + j, largest);
              else product16(a[e][m][j % CHAINS], w, first, second);
            }
          }
      }
    }
    if (KIND == DOWN) continue;
#pragma unroll
    for (int e = 0; e < EIGHTS; e++)
#pragma unroll
      for (int m = 0; m < TILES_DOWN; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const float sum = CHAINS == 2 ? a[e][m][0][i] + a[e][m][CHAINS - 1][i] : a[e][m][0][i];
          if (ADDED) largest = fmaxf(largest, fabsf(sum)), sums[e][m][i] += fixed(sum);
          else total[e][m][i] += sum;
        }
  }

  const u32 row = first_row + group * EIGHTS * 8 + 2 * t4; // of the first of two columns of a tile
  if constexpr (ADDED) {
    check(largest, f.overflow);
#pragma unroll
    for (int e = 0; e < EIGHTS; e++)
#pragma unroll
      for (int m = 0; m < TILES_DOWN; m++) {
        const u32 to = row + 8 * e, pair = 32 * BLOCKS * member + 8 * (band + 4 * m) + g;
        char *at = (char *)f.out + ((u64)to * (HIDDEN / 2) + pair) * 8;
        auto add = [&](char *p, int first, int second) {
          asm volatile("red.relaxed.gpu.global.add.u64 [%0],%1;" ::"l"(p), "l"(((u64)(u32)first << 32) + (u64)(s64)second) : "memory");
        };
        if (to < (u32)f.rows) add(at, sums[e][m][0], sums[e][m][2]);
        if (to + 1 < (u32)f.rows) add(at + HIDDEN * 4, sums[e][m][1], sums[e][m][3]);
      }
  } else {
    const u32 program = 2 * place + band, odd = g & 1;
#pragma unroll
    for (int e = 0; e < EIGHTS; e++) {
      const u32 to = row + 8 * e + odd; // lanes of even g write the first of two rows, lanes of odd g the second
      const float scale = to < (u32)f.rows ? f.scales[to] : 0.f;
      auto two = [&](int eighth) { // outputs 8 eighth + g - odd and the one after it
        const float *c = &total[e][eighth / 2][eighth % 2 * 2];
        const float other = __shfl_xor_sync(~0u, odd ? c[0] : c[1], 4);
        return odd ? make_float2(other, c[1]) : make_float2(c[0], other);
      };
#pragma unroll
      for (int k = 0; k < (KIND == QKV ? 4 : 3 * BLOCKS); k++) { // eight outputs, or eight units
        float2 v = two(k);
        const u32 pair = 4 * k + g / 2;
        v.x *= scale, v.y *= scale;
        if (KIND == QKV) { // see rows_product.cu
          const u32 kv_head = program >> 4, quarter = (program & 15) >> 2, head = quarter < 2 ? 2 * kv_head + quarter : 8 * quarter + kv_head;
          const u32 dimension = 16 * (program & 3) + (pair >> 1) * 2 + (pair & 1) * 64;
          if (to < (u32)f.rows) *(u32 *)((u16 *)f.out + (u64)to * 4096 + head * 128 + dimension) = pack(v.x, v.y);
        } else {
          const float2 up = two(k + 3 * BLOCKS);
          auto gated = [](float gate, float up) { return rounded(gate / (1.f + __expf(-gate))) * up; };
          const float first = gated(rounded(v.x), rounded(up.x * scale)), second = gated(rounded(v.y), rounded(up.y * scale));
          if (to < (u32)f.rows) *((u32 *)f.out + (u64)to * (1536 * BLOCKS) + place_of(program, pair)) = pack(first, second);
        }
      }
    }
  }
}

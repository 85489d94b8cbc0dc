// One product of a layer for 9 to 64 rows, or for the rows of prompts, 64 at a time.
//
// Every row has the same bits as in the persistent kernels for eight rows: the same fragments go into `mma.m16n8k16` in the
// same chains, chains and warps are added in the same order, and only integers are added in any order. Rows never share a
// sum: each eight of them have tiles of their own.
//
// The grid has 128 programs (thread blocks) for every ROWS rows. A program's weights are one contiguous piece of the line that
// the persistent kernels read (see layout.py); each weight is read once for all rows, and copied into shared memory before the
// previous kernel has ended. Warp w of eight multiplies the same inputs as warp w of the persistent kernels. With BLOCKS 1 the
// warps take 16 rows per pass, so that a multiprocessor has room for two kernels (128 registers per thread). With BLOCKS 2,
// loading weights is the bottleneck: a second team of eight warps takes the other 32 of 64 rows, and the weights go through a
// ring.
#include "basics.cuh"
#include "early.cuh"
#include "units.cuh"

#define QKV 0
#define OUT 1
#define GATE_UP 2
#define DOWN 3
#define HEAD 4
#define PROGRAMS 128
#define HIDDEN (1024 * BLOCKS)
#define CHUNK 8192u                            // two tiles of each of eight warps
#define ADDED (KIND == OUT || KIND == DOWN)    // to the residual stream, in fixed point
#define TILES_DOWN (KIND == QKV ? 2 : KIND == GATE_UP ? 3 * BLOCKS : KIND == HEAD ? 1 : BLOCKS) // tiles of outputs of a warp
#define TILES_ALONG (KIND == OUT ? 8 : KIND == DOWN ? 12 * BLOCKS : 8 * BLOCKS)                 // tiles of inputs
#define PARTED (FINE && KIND == DOWN)          // each part is rounded on its own: `add_tile`
#define CHAINS (PARTED ? 2 : KIND == QKV ? 2 : KIND == GATE_UP ? (PREDICTOR ? 2 : 1) : (PREDICTOR ? 4 : 2))
#define CHUNKS (TILES_DOWN * TILES_ALONG / 2)
#define RING (CHUNKS < 24 ? CHUNKS : 24)
#define BEHIND 4                               // thread 0 replaces a chunk only after so many others, as warps may lag behind
#define GROUP (BLOCKS == 2 && ROWS >= 32 ? 32 : 16) // rows of a warp at once
#define EIGHTS (GROUP / 8)
#define PASSES (BLOCKS == 1 ? ROWS / GROUP : 1)
#define TEAMS (ROWS / GROUP / PASSES)
#define THREADS (256 * TEAMS)
#define INPUTS (KIND == OUT ? 2048 : KIND == DOWN ? 3072 * BLOCKS : HIDDEN)
#define PAIRS (TILES_ALONG / 2)                // of tiles along the inputs: 32 columns
#define DEPTH (BLOCKS == 1 ? PAIRS : (TILES_DOWN == 6 || PARTED) && TEAMS == 2 ? 1 : 2) // pairs whose inputs are loaded ahead
#define OUTPUTS (16 * TILES_DOWN)
#define STRIDE (OUTPUTS + 4)                   // floats between rows of parts: no bank conflicts
#define EACH (KIND == GATE_UP ? OUTPUTS / 4 : OUTPUTS / 2)  // pairs of results of a row
#define RESULTS (TEAMS * GROUP * EACH)
#define TURNS ((RESULTS + THREADS - 1) / THREADS)
#define AT_PARTS (ADDED || BLOCKS == 1 ? RING * CHUNK : 0) // else the parts overwrite the weights after use
#define PARTS_BYTES (ADDED ? TEAMS * 4 * TILES_DOWN * EIGHTS * 512 : 8 * TEAMS * GROUP * STRIDE * 4)
#define AT_BARRIERS ((AT_PARTS + PARTS_BYTES > RING * CHUNK ? AT_PARTS + PARTS_BYTES : RING * CHUNK))

struct Product {
  const char *weights;   // of program 0; the next program's are `line_bytes` further
  const u16 *input;      // [rows][INPUTS]
  const float *scales;   // [rows] 1 / rms of the rows of `input`; unused where the product is added
  void *out;             // bf16 [rows][outputs], or the sums: [rows][HIDDEN / 2], two columns of 32 bits a word
  int *overflow;
  s64 line_bytes;
  int rows;
};

__device__ __forceinline__ void meet_threads() { asm volatile("bar.sync 1,%0;" ::"r"((u32)THREADS) : "memory"); }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS == 1 ? 2 : 1) rows_product(const Product f) {
  const u32 thread = threadIdx.x, lane = thread & 31, g = lane >> 2, t4 = lane & 3;
  const u32 team = thread / 256, slice = (thread >> 5) & 7;
  const u32 program = blockIdx.x % PROGRAMS, first_row = blockIdx.x / PROGRAMS * ROWS + team * GROUP;
  const u32 kv_head = program >> 4, member = program & 15;
  const u32 full = address(shared) + AT_BARRIERS, empty = full + RING * 8;
  allow_next();
  if (thread == 0) {
    for (u32 i = 0; i < RING; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0],1;" ::"r"(full + i * 8));
      asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(empty + i * 8), "r"(8u * TEAMS));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  auto copy = [&](u32 k) { // chunk k
    const u32 s = k % RING;
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0,1.0;" : "=l"(policy));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(full + s * 8), "r"(CHUNK) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0],[%1],%2,[%3],%4;" ::"r"(address(shared) + s * CHUNK),
                 "l"(f.weights + program * f.line_bytes + k * CHUNK), "r"(CHUNK), "r"(full + s * 8), "l"(policy) : "memory");
  };
  if (thread == 0)
    for (u32 k = 0; k < RING; k++) copy(k);
  wait_for_previous();

  // this warp's first column of the inputs
  const u32 column = KIND == OUT ? 256 * kv_head + 128 * (slice & 1) : KIND == DOWN ? 192 * BLOCKS * (2 * kv_head + (slice & 1)) : 128 * slice;
  uint4 x[DEPTH][EIGHTS]; // inputs of two tiles, of eight rows each
  auto load = [&](int pair, u32 row) {
#pragma unroll
    for (int e = 0; e < EIGHTS; e++) {
      const u32 here = row + 8 * e + g, block = KIND == OUT || KIND == DOWN ? 0 : pair / 4;
      x[pair % DEPTH][e] = make_uint4(0, 0, 0, 0);
      if (here < (u32)f.rows) x[pair % DEPTH][e] = *(const uint4 *)(f.input + (u64)here * INPUTS + column + 1024 * block + 32 * (pair - 4 * block) + 8 * t4);
    }
  };
  const u32 tiles_at = address(shared) + slice * 1024 + lane * 16;
#pragma unroll
  for (int p = 0; p < DEPTH; p++) load(p, first_row);
#pragma unroll 1
  for (u32 pass = 0; pass < PASSES; pass++) {
    const u32 row = first_row + pass * GROUP, begin = row - team * GROUP;
    float scales[ADDED ? 1 : TURNS]; // loaded while the inputs are multiplied
    if constexpr (!ADDED) {
#pragma unroll
      for (int turn = 0; turn < TURNS; turn++) {
        const u32 to = begin + (thread + turn * THREADS) / EACH;
        scales[turn] = to < (u32)f.rows ? f.scales[to] : 0.f;
      }
    }
    float a[EIGHTS][CHAINS][TILES_DOWN][4] = {};
    float largest = 0.f;
    int sums[PARTED ? EIGHTS : 1][TILES_DOWN][4] = {};
    float parts[PARTED ? EIGHTS : 1][TILES_DOWN][2][4] = {};
    uint4 w[2][2]; // the tiles of this chunk and of the next
    auto get = [&](int chunk) {
      if (pass == 0) wait_for(full + chunk % RING * 8, (chunk / RING) & 1);
#pragma unroll
      for (int j = 0; j < 2; j++) w[chunk & 1][j] = shared4(tiles_at + chunk % RING * CHUNK + j * 512);
    };
    get(0);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
      if (c + 1 < CHUNKS) get(c + 1);
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const int along = (2 * c + j) / TILES_DOWN, down = (2 * c + j) % TILES_DOWN;
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
          const uint4 &v = x[along / 2 % DEPTH][e];
          const u32 first = along & 1 ? v.z : v.x, second = along & 1 ? v.w : v.y;
          if (PARTED) add_tile(parts[e][down], sums[e][down], w[c & 1][j], first, second, along, largest);
          else product16(a[e][along % CHAINS][down], w[c & 1][j], first, second);
        }
      }
      if (CHUNKS > RING) {
        __syncwarp();
        if (lane == 0) arrive(empty + c % RING * 8);
        if (thread == 0 && c >= BEHIND && c - BEHIND + RING < CHUNKS) {
          wait_for(empty + (c - BEHIND) % RING * 8, (c - BEHIND) / RING & 1);
          copy(c - BEHIND + RING);
        }
      }
      if ((c + 1) % TILES_DOWN == 0 && c / TILES_DOWN + DEPTH < PAIRS) load(c / TILES_DOWN + DEPTH, row); // both tiles of a pair are done
    }
    if (DEPTH == PAIRS && pass + 1 < PASSES) {
#pragma unroll
      for (int p = 0; p < PAIRS; p++) load(p, row + GROUP); // while this pass is added up
    }
#pragma unroll
    for (int e = 0; e < EIGHTS; e++)
#pragma unroll
      for (int m = 0; m < TILES_DOWN; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          if (CHAINS == 2) a[e][0][m][i] += a[e][CHAINS - 1][m][i];
          if (CHAINS == 4) a[e][0][m][i] = (a[e][0][m][i] + a[e][CHAINS / 4][m][i]) + (a[e][CHAINS / 2][m][i] + a[e][CHAINS - 1][m][i]);
        }
    if constexpr (ADDED) { // two warps have half of the inputs each
      uint4 *half = (uint4 *)(shared + AT_PARTS) + (team * 4 + (slice >> 1)) * TILES_DOWN * EIGHTS * 32 + lane;
#pragma unroll
      for (int m = 0; m < TILES_DOWN; m++)
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
          const float *c = a[e][0][m]; // columns 2 g, 2 g + 1 of two rows
          uint4 mine;
          if (PARTED) mine = make_uint4(sums[e][m][0], sums[e][m][2], sums[e][m][1], sums[e][m][3]);
          else {
            largest = fmaxf(largest, fmaxf(fmaxf(fabsf(c[0]), fabsf(c[1])), fmaxf(fabsf(c[2]), fabsf(c[3]))));
            mine = make_uint4(fixed(c[0]), fixed(c[2]), fixed(c[1]), fixed(c[3]));
          }
          if (slice & 1) half[(m * EIGHTS + e) * 32] = mine;
          else *(uint4 *)c = mine;
        }
      check(largest, f.overflow);
      meet_threads();
      if (!(slice & 1)) {
#pragma unroll
        for (int m = 0; m < TILES_DOWN; m++)
#pragma unroll
          for (int e = 0; e < EIGHTS; e++) {
            const uint4 other = half[(m * EIGHTS + e) * 32], mine = *(const uint4 *)a[e][0][m];
            const u32 to = row + 8 * e + 2 * t4, pair = 32 * BLOCKS * member + 8 * ((slice >> 1) + 4 * m) + g;
            char *at = (char *)f.out + ((u64)to * (HIDDEN / 2) + pair) * 8;
            auto add = [&](char *p, int first, int second) {
              asm volatile("red.relaxed.gpu.global.add.u64 [%0],%1;" ::"l"(p), "l"(((u64)(u32)first << 32) + (u64)(s64)second) : "memory");
            };
            if (to < (u32)f.rows) add(at, (int)(mine.x + other.x), (int)(mine.y + other.y));
            if (to + 1 < (u32)f.rows) add(at + HIDDEN * 4, (int)(mine.z + other.z), (int)(mine.w + other.w));
          }
      }
      if (pass + 1 < PASSES) meet_threads();
    } else { // eight warps have an eighth of the inputs each
      if (AT_PARTS == 0) meet_threads(); // the weights have been used
      float *parts = (float *)(shared + AT_PARTS);
#pragma unroll
      for (int e = 0; e < EIGHTS; e++)
#pragma unroll
        for (int m = 0; m < TILES_DOWN; m++) {
          float *p = parts + ((slice * TEAMS + team) * GROUP + 8 * e + 2 * t4) * STRIDE + 16 * m + g;
          const float *c = a[e][0][m];
          p[0] = c[0], p[8] = c[2], p[STRIDE] = c[1], p[STRIDE + 8] = c[3];
        }
      meet_threads();
      auto sum = [&](u32 here, u32 output) { // of two neighbouring outputs
        float2 v = make_float2(0.f, 0.f);
#pragma unroll
        for (int i = 0; i < 8; i++) {
          const float2 part = *(const float2 *)(parts + (i * TEAMS * GROUP + here) * STRIDE + output);
          v.x += part.x, v.y += part.y;
        }
        return v;
      };
#pragma unroll
      for (int turn = 0; turn < TURNS; turn++) {
        const u32 i = thread + turn * THREADS, here = i / EACH, pair = i % EACH;
        if (i >= RESULTS || begin + here >= (u32)f.rows) break;
        const u64 to = begin + here;
        const float scale = scales[turn];
        float2 v = sum(here, 2 * pair);
        v.x *= scale, v.y *= scale;
        if (KIND == QKV) { // dimensions 16 (member % 4) ... + 15: a head's pairs that are rotated together lie together
          const u32 quarter = member >> 2, head = quarter < 2 ? 2 * kv_head + quarter : 8 * quarter + kv_head;
          const u32 dimension = 16 * (member & 3) + (pair >> 1) * 2 + (pair & 1) * 64;
          *(u32 *)((u16 *)f.out + to * 4096 + head * 128 + dimension) = pack(v.x, v.y);
        } else if (KIND == GATE_UP) {
          float2 up = sum(here, OUTPUTS / 2 + 2 * pair);
          auto gated = [](float gate, float up) { return rounded(gate / (1.f + __expf(-gate))) * up; };
          const float first = gated(rounded(v.x), rounded(up.x * scale)), second = gated(rounded(v.y), rounded(up.y * scale));
          *((u32 *)f.out + to * (1536 * BLOCKS) + (FINE ? place_of(program, pair) : program * (12 * BLOCKS) + pair)) = pack(first, second);
        } else {
          *(u32 *)((u16 *)f.out + to * 2048 + program * 16 + 2 * pair) = pack(v.x, v.y);
        }
      }
      if (pass + 1 < PASSES) meet_threads();
    }
  }
}

// Shared by the persistent kernels; predictor.cu explains how they work.
//
// ROWS is 1, 8 or 16. BLOCKS is the width of the residual stream in blocks of 1,024 columns; a warp holds 128 columns of
// each block. AHEAD is the number of chunks in flight (BUSY_AHEAD while warps multiply); a higher number makes
// every exchange slower. HOLD delays warps at random points, so that tests find races.
#include "basics.cuh"

#define ALONE (ROWS == 1)
#define EIGHTS ((ROWS + 7) / 8)                // groups of eight rows: a product takes one at a time
#define HIDDEN (1024 * BLOCKS)
#define PROGRAMS 128
#define TILES (ALONE ? 4 : 2)                  // tiles per warp in a chunk of 16 or 8 KB; weights lie in pieces of 8 KB
#define CHUNK (TILES * 4096u)
#define RING ((ROWS == 16 ? 34u : 36u) / TILES) // chunks in the ring: 136 or 144 KB
#define SECTOR (ALONE ? 1024 : 64)             // bytes between sectors (4 words, 8 columns) of the sums
#define ROW_SUMS (128 * BLOCKS * SECTOR)
#define SUMS (ROWS * ROW_SUMS)                 // one set of sums
#ifndef AHEAD
#define AHEAD 2u
#endif
#ifndef HOLD
#define HOLD 0
#endif

#define PARTS_STRIDE (48 * BLOCKS + 4)         // floats between the rows of a warp's parts
#define WARP_BYTES (BLOCKS * EIGHTS == 1 ? 2560 : 3328) // eight rows of a warp's inputs, then its parts of the outputs
#define UNITS_BYTES (768 * BLOCKS + 64)        // a row of gated units, bf16
#define AT_ROWS (RING * CHUNK)
#define AT_UNITS (AT_ROWS + 8 * WARP_BYTES)
#define AT_SQUARES (AT_UNITS + 8 * EIGHTS * UNITS_BYTES) // 2 x 8 warps x 8 EIGHTS sums of squares
#define AT_PACE (AT_SQUARES + 512 * EIGHTS)    // chunks that may be in flight now
#define AT_BARRIERS (AT_PACE + 16)
#define AT_MORE (AT_BARRIERS + RING * 16)      // where the memory of a particular kernel begins

// ---- sums in fixed point
__device__ __forceinline__ void add_part(char *p, int A, int B) {
  u32 l = ((u32)B << 8) | 1u, h = ((u32)A << 4) + (u32)(B >> 24);
  asm volatile("red.relaxed.gpu.global.add.u64 [%0],%1;" ::"l"(p), "l"(((u64)h << 32) | l) : "memory");
}
__device__ __forceinline__ void add_part(char *p, float a, float b, int *overflow) {
  check(fmaxf(fabsf(a), fabsf(b)), overflow);
  add_part(p, fixed(a), fixed(b));
}
// Add a tile to the sums: 16 columns of up to eight rows from `row` on; a lane has two columns of two rows.
__device__ __forceinline__ void add_rows(char *p, const int *a, u32 t4, u32 row = 0) {
  row += 2 * t4;
  if (row < ROWS) add_part(p + row * ROW_SUMS, a[0], a[2]);
  if (row + 1 < ROWS) add_part(p + (row + 1) * ROW_SUMS, a[1], a[3]);
}
__device__ __forceinline__ void add_rows(char *p, const float *a, u32 t4, int *overflow, u32 row = 0) {
  row += 2 * t4;
  if (row < ROWS) add_part(p + row * ROW_SUMS, a[0], a[2], overflow);
  if (row + 1 < ROWS) add_part(p + (row + 1) * ROW_SUMS, a[1], a[3], overflow);
}
// FINE: the units that tile `tile` of a warp's half of `down` multiplies.
__device__ __forceinline__ uint2 units_of(const char *half, int tile, u32 t4) {
  if (BLOCKS == 2) return *(const uint2 *)(half + tile * 32 + t4 * 8);
  const char *parts = half + tile / 3 * 96;
  if (tile % 3 < 2) return *(const uint2 *)(parts + tile % 3 * 48 + t4 * 8);
  return make_uint2(*(const u32 *)(parts + 32 + t4 * 4), *(const u32 *)(parts + 80 + t4 * 4));
}
__device__ __forceinline__ void split(u32 l, u32 h, float &a, float &b) {
  int B = ((int)(__funnelshift_r(l, h, 8) << 4)) >> 4, A = ((int)(h - (u32)(B >> 24))) >> 4;
  a = (float)A * (1.f / (1 << FRACTION));
  b = (float)B * (1.f / (1 << FRACTION));
}
struct Rows { float at[ROWS][BLOCKS][4]; }; // columns 128 warp + 4 lane ... + 3 of every block of the residual stream

// Wait until this warp's columns of every row have all their parts, and add them to the residual stream.
template <int PARTS> __device__ __forceinline__ void add_sums(const char *sums, Rows &x, u32 warp, u32 lane, int *overflow) {
  const bool looks = lane == ((warp * 5 + blockIdx.x) & 31);
  u32 spins = 0;
  bool ok;
  const char *p = sums + (warp * 16 + (lane >> 1)) * SECTOR + (lane & 1) * 16;
  const char *hint = p + ((blockIdx.x * 3) % ROWS) * ROW_SUMS; // one lane polls one word; all are read once it is complete
  do { ok = !looks || (load1(hint) & 255u) == PARTS; spun(spins); } while (!__all_sync(~0u, ok));
  uint4 v[ROWS][BLOCKS];
  do {
    ok = true;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int h = 0; h < BLOCKS; h++) v[r][h] = load4(p + r * ROW_SUMS + h * 128 * SECTOR);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int h = 0; h < BLOCKS; h++) ok = ok && (v[r][h].x & 255u) == PARTS && (v[r][h].z & 255u) == PARTS;
    spun(spins);
  } while (!__all_sync(~0u, ok));
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int h = 0; h < BLOCKS; h++) {
      float d[4];
      split(v[r][h].x, v[r][h].y, d[0], d[1]);
      split(v[r][h].z, v[r][h].w, d[2], d[3]);
#pragma unroll
      for (int i = 0; i < 4; i++) x.at[r][h][i] += d[i];
      if (fmaxf(fmaxf(fabsf(d[0]), fabsf(d[1])), fmaxf(fabsf(d[2]), fabsf(d[3]))) >= 4096.f) *(volatile int *)overflow = 1;
    }
}
// Clear this program's sectors of every row, in sums that all programs have read.
__device__ __forceinline__ void clear_sums(char *out_sums, char *down_sums, u32 turn, u32 program, u32 lane) {
  if (lane < 2 * ROWS * BLOCKS) {
    const u64 at = (u64)(lane >> 1) * 128 * SECTOR + program * SECTOR + (lane & 1) * 16;
    if (turn > 0) store4(out_sums + ((turn - 1) & 1) * SUMS + at, 0, 0, 0, 0);
    if (turn > 1) store4(down_sums + (turn & 1) * SUMS + at, 0, 0, 0, 0);
  }
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

// ---- products. First the sums of squares of the rows, for `inverse_rms` after the next barrier.
__device__ __forceinline__ void leave_squares(Rows &x, u32 warp, u32 lane, int which) {
  float *squares = (float *)(shared + AT_SQUARES) + which * 64 * EIGHTS + warp * 8 * EIGHTS;
  float s[8 * EIGHTS];
#pragma unroll
  for (int r = 0; r < 8 * EIGHTS; r++) {
    s[r] = 0.f;
#pragma unroll
    for (int h = 0; h < BLOCKS; h++) {
      const float *y = x.at[r < ROWS ? r : 0][h];
      if (r < ROWS) s[r] += square_sum(y[0], y[1], y[2], y[3]);
    }
  }
  if (ALONE) {
    float v = warp_sum(s[0]);
    if (lane == 0) squares[0] = v;
  } else {
#pragma unroll
    for (int e = 0; e < EIGHTS; e++) { // in groups of eight, so that a row has the same bits among eight and among sixteen
      fold<4>(s + 8 * e, lane);
      float v = s[8 * e];
      v += __shfl_xor_sync(~0u, v, 8);
      v += __shfl_xor_sync(~0u, v, 16);
      if (lane < 8) squares[8 * e + lane] = v;
    }
  }
}
__device__ __forceinline__ float inverse_rms(int which, u32 row) {
  const float *squares = (const float *)(shared + AT_SQUARES) + which * 64 * EIGHTS + row;
  float v = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) v += squares[i * 8 * EIGHTS];
  return rsqrtf(fmaf(v, 1.f / HIDDEN, 1e-6f));
}
// Fragments of this warp's inputs, by groups of eight rows: rows times the norm's weight, in bf16. 1 / rms is applied to
// the product.
__device__ __forceinline__ void fragments(Rows &x, const u16 *norm, u32 warp, u32 lane, int which, u32 (*b)[2]) {
  char *rows = shared + AT_ROWS + warp * WARP_BYTES;
  u32 g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int h = 0; h < BLOCKS; h++) {
    const uint2 weight = *(const uint2 *)(norm + h * 1024 + warp * 128 + lane * 4);
    float n0 = low(weight.x), n1 = high(weight.x), n2 = low(weight.y), n3 = high(weight.y);
#pragma unroll
    for (int e = 0; e < EIGHTS; e++) {
#pragma unroll
      for (int r = 8 * e; r < 8 * e + 8 && r < ROWS; r++)
        *(uint2 *)(rows + r % 8 * 320 + lane * 8) = make_uint2(pack(x.at[r][h][0] * n0, x.at[r][h][1] * n1), pack(x.at[r][h][2] * n2, x.at[r][h][3] * n3));
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (g < ROWS) v = *(uint4 *)(rows + g * 320 + i * 64 + t * 16);
        u32(*to)[2] = b + 8 * (BLOCKS * e + h) + 2 * i;
        to[0][0] = v.x, to[0][1] = v.y, to[1][0] = v.z, to[1][1] = v.w;
      }
      __syncwarp();
    }
  }
  leave_squares(x, warp, lane, which);
}
// The ring of chunks: for each chunk a barrier "full"; after these, for each a barrier "all warps have read it".
__device__ __forceinline__ void prepare_ring(u32 thread) {
  const u32 full = address(shared) + AT_BARRIERS, empty = full + RING * 8;
  if (thread == 0) {
    *(volatile u32 *)(shared + AT_PACE) = AHEAD;
    for (u32 i = 0; i < RING; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0],1;" ::"r"(full + i * 8));
      asm volatile("mbarrier.init.shared::cta.b64 [%0],8;" ::"r"(empty + i * 8));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
}
// The producer: copy `chunks` chunks from `line` into the ring; `chunk` counts all chunks of the kernel.
__device__ __forceinline__ void stream(u32 &chunk, const char *line, u32 chunks) {
  const u32 full = address(shared) + AT_BARRIERS, empty = full + RING * 8;
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0,1.0;" : "=l"(policy));
  for (u32 k = 0; k < chunks; k++, chunk++) {
    const u32 s = chunk % RING;
    if (chunk >= RING) wait_for(empty + s * 8, (chunk / RING - 1) & 1);
    const u32 ahead = BUSY_AHEAD == AHEAD ? AHEAD : *(volatile u32 *)(shared + AT_PACE);
    if (chunk >= ahead) wait_for(full + (chunk - ahead) % RING * 8, ((chunk - ahead) / RING) & 1);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(full + s * 8), "r"(CHUNK) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0],[%1],%2,[%3],%4;" ::"r"(address(shared) + s * CHUNK),
                 "l"(line + k * CHUNK), "r"(CHUNK), "r"(full + s * 8), "l"(policy) : "memory");
  }
}
// The producer: copy the weights of a layer. One row has a `down` of its own, which follows the others.
__device__ __forceinline__ void stream_layer(u32 &chunk, const char *lines, const char *down, u32 layer, u32 bytes, u32 down_bytes) {
  const u64 line = (u64)layer * PROGRAMS + blockIdx.x;
#pragma unroll 1
  for (u32 part = 0; part < (ALONE ? 2 : 1); part++)
    stream(chunk, part ? down + line * down_bytes : lines + line * bytes, (part ? down_bytes : ALONE ? bytes - down_bytes : bytes) / CHUNK);
}
// Calls `use(tile, fragment)` for FOURS x 4 tiles of weights from the ring.
template <int FOURS, class Use> __device__ __forceinline__ void each_tile(u32 &chunk, u32 warp, u32 lane, Use use) {
  constexpr int N = FOURS * 4 / TILES;
  uint4 a[2][TILES];
  const u32 base = address(shared) + warp * 1024 + lane * 16, full = address(shared) + AT_BARRIERS;
  auto get = [&](u32 i, uint4 *d) {
    u32 s = i % RING;
    wait_for(full + s * 8, (i / RING) & 1);
#pragma unroll
    for (int j = 0; j < TILES; j++) d[j] = shared4(base + s * CHUNK + j / 2 * 8192 + j % 2 * 512);
  };
  if (BUSY_AHEAD != AHEAD && warp == 0 && lane == 0) *(volatile u32 *)(shared + AT_PACE) = BUSY_AHEAD;
  get(chunk, a[0]);
#pragma unroll
  for (int i = 0; i < N; i++) {
    if (i + 1 < N) get(chunk + i + 1, a[(i + 1) & 1]);
#pragma unroll
    for (int j = 0; j < TILES; j++) use(TILES * i + j, a[i & 1][j]);
    __syncwarp();
    if (lane == 0) arrive(full + RING * 8 + ((chunk + i) % RING) * 8);
  }
  if (BUSY_AHEAD != AHEAD && warp == 0 && lane == 0) *(volatile u32 *)(shared + AT_PACE) = AHEAD;
  chunk += N;
}
// Leave this warp's parts of T tiles of 16 outputs, for the rows from `row` on; `sum_parts` adds those of all warps.
template <int T> __device__ __forceinline__ void leave_parts(float (*c)[4], u32 warp, u32 lane, u32 at, u32 row = 0) {
  float *p = (float *)(shared + AT_ROWS + warp * WARP_BYTES + at);
  u32 g = lane >> 2;
  row += 2 * (lane & 3);
#pragma unroll
  for (int m = 0; m < T; m++) {
    if (row < ROWS) p[row * PARTS_STRIDE + m * 16 + g] = c[m][0], p[row * PARTS_STRIDE + m * 16 + g + 8] = c[m][2];
    if (row + 1 < ROWS) p[(row + 1) * PARTS_STRIDE + m * 16 + g] = c[m][1], p[(row + 1) * PARTS_STRIDE + m * 16 + g + 8] = c[m][3];
  }
}
__device__ __forceinline__ float sum_parts(u32 row, u32 output, u32 at) {
  float v = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) v += ((const float *)(shared + AT_ROWS + i * WARP_BYTES + at))[row * PARTS_STRIDE + output];
  return v;
}

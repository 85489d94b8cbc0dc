// One product of a layer, for 17 rows and more. Its weights are fetched before the previous kernel has ended.
//
// A program (thread block) multiplies ROWS rows by WIDE outputs over 64 BOXES inputs; SPLIT programs share the inputs of the
// same outputs. Two threads fetch boxes of 64 inputs into rings in shared memory (TMA). One fetches weights without waiting for
// the previous kernel, with up to PACE boxes in flight; the other fetches the rows once that kernel has ended. Four warps
// multiply 64 rows (wgmma). The CLUSTER programs of a cluster add up their parts of a sum; if SPLIT is larger, the next kernel
// adds the rest (ADDED).
#define BLOCKS 1 // of basics.cuh, unused here
#include "basics.cuh"
#include "early.cuh"
#include "wgmma.cuh"

#define LINEAR 0
#define GATED 1 // WIDE / 2 gates and as many ups
#define ADDED 2 // the parts are stored, in float32
#define TEAMS ((ROWS + 63) / 64)
#define PIECES CLUSTER                    // each program of a cluster adds up one piece of the outputs
#define COLUMNS (WIDE / PIECES)           // of a piece
#define X_BOX (ROWS * 128u)
#define W_BOX (WIDE * 128u)
#define R (WIDE / 2)                      // sums of a thread
#define AT_ROWS (W_STAGES * W_BOX)
#define AT_INBOX (AT_ROWS + X_STAGES * X_BOX + (ROWS < 64 ? 8192 - X_BOX : 0)) // wgmma reads 64 rows
#define INBOX ((PIECES - 1) * TEAMS * 128 * (COLUMNS / 2) * 4)
#define AT_BARRIERS (AT_INBOX + INBOX)
#ifndef PACE
#define PACE 100 // boxes of weights in flight before the previous kernel has ended
#endif
#define MULTIPLIERS (TEAMS * 128u)

struct __align__(64) Product {
  char x[128], weight[128]; // tensor maps: boxes of ROWS rows, and of WIDE outputs, or of half a piece if GATED
  void *out;                // bf16 [count][outputs], or float32 [SPLIT / CLUSTER][count][outputs]
  int count, outputs, heights; // heights: tiles of ROWS rows
};

__device__ __forceinline__ u64 box_at(u32 address) { // K-major, swizzle of 128 bytes, 1,024 bytes between eight rows
  return ((u64)1 << 62) | ((u64)64 << 32) | ((u64)1 << 16) | ((address >> 4) & 0x3fff);
}
__device__ __forceinline__ u32 cluster_rank() { u32 r; asm volatile("mov.u32 %0,%%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ void expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void fetch(u32 to, const char *map, u32 column, u32 row, u32 barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1,{%2,%3}],[%4];" ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier) : "memory");
}
__device__ __forceinline__ void fetch_hinted(u32 to, const char *map, u32 column, u32 row, u32 barrier, u64 policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0],[%1,{%2,%3}],[%4],%5;" ::"r"(to),
               "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(policy) : "memory");
}

struct Rings {
  u32 base, w_full, w_empty, x_full, x_empty, inbox;
  __device__ Rings() {
    base = (address(shared) + 1023) & ~1023u;
    w_full = base + AT_BARRIERS, w_empty = w_full + 8 * W_STAGES, x_full = w_empty + 8 * W_STAGES, x_empty = x_full + 8 * X_STAGES;
    inbox = x_empty + 8 * X_STAGES;
  }
};

// The tile of a program and its part of the inputs.
__device__ __forceinline__ u32 part_of() { return blockIdx.x % SPLIT; }
__device__ __forceinline__ u32 tile_of(const Product &f) { return blockIdx.x / SPLIT / f.heights; } // programs with the same weights are neighbours
__device__ __forceinline__ u32 first_row_of(const Product &f) { return blockIdx.x / SPLIT % f.heights * ROWS; }
__device__ __forceinline__ u32 column_of(u32 box) { return 64 * (part_of() * BOXES + box); }

__device__ __forceinline__ void fetch_weights(const Product &f, const Rings &at, u32 box, u64 policy) {
  const u32 slot = box % W_STAGES, to = at.base + slot * W_BOX, full = at.w_full + 8 * slot;
  expect(full, W_BOX);
  if (KIND == GATED) {
    constexpr u32 HALF = COLUMNS / 2;
#pragma unroll
    for (u32 i = 0; i < 2 * PIECES; i++) // the gates of each piece, then its ups
      fetch_hinted(to + i * HALF * 128, f.weight, column_of(box), (i % 2 ? f.outputs : 0) + tile_of(f) * (WIDE / 2) + i / 2 * HALF, full, policy);
  } else fetch_hinted(to, f.weight, column_of(box), tile_of(f) * WIDE, full, policy);
}
__device__ __forceinline__ void fetch_rows(const Product &f, const Rings &at, u32 box) {
  const u32 slot = box % X_STAGES, full = at.x_full + 8 * slot;
  expect(full, X_BOX);
  fetch(at.base + AT_ROWS + slot * X_BOX, f.x, column_of(box), first_row_of(f), full);
}

// Two neighbouring columns of two rows, g and g + 8 of a warp's sixteen.
__device__ __forceinline__ void store_pair(const Product &f, u32 row, u32 column, float a, float b, float c, float d) {
  if (KIND == ADDED) {
    float *to = (float *)f.out + ((u64)(part_of() / CLUSTER) * f.count + row) * f.outputs + column;
    if ((int)row < f.count) *(float2 *)to = make_float2(a, b);
    if ((int)row + 8 < f.count) *(float2 *)(to + 8 * f.outputs) = make_float2(c, d);
  } else {
    u16 *to = (u16 *)f.out + (u64)row * f.outputs + column;
    if ((int)row < f.count) *(u32 *)to = pack(a, b);
    if ((int)row + 8 < f.count) *(u32 *)(to + 8 * f.outputs) = pack(c, d);
  }
}
__device__ __forceinline__ float gated(float gate, float up) {
  gate = rounded(gate), up = rounded(up);
  return rounded(gate / (1.f + __expf(-gate))) * up;
}

extern "C" __global__ void __launch_bounds__(MULTIPLIERS + 64, 1) prefetched(const __grid_constant__ Product f) {
  const u32 thread = threadIdx.x, lane = thread & 31, team = thread / 128;
  const Rings at;
  constexpr u32 FIRST_W = W_STAGES < BOXES ? W_STAGES : BOXES, FIRST_X = X_STAGES < BOXES ? X_STAGES : BOXES;
  u64 policy;
  if (f.heights == 1) asm volatile("createpolicy.fractional.L2::evict_first.b64 %0,1.0;" : "=l"(policy)); // read once
  else asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0,1.0;" : "=l"(policy));
  if (thread == MULTIPLIERS) {
    for (u32 i = 0; i < W_STAGES; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0],1;" ::"r"(at.w_full + 8 * i));
      asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(at.w_empty + 8 * i), "r"(4u * TEAMS));
    }
    for (u32 i = 0; i < X_STAGES; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0],1;" ::"r"(at.x_full + 8 * i));
      asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(at.x_empty + 8 * i), "r"(4u * TEAMS));
    }
    asm volatile("mbarrier.init.shared::cta.b64 [%0],1;" ::"r"(at.inbox));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (u32 i = 0; i < FIRST_W && i < PACE; i++) fetch_weights(f, at, i, policy);
    asm volatile("prefetch.tensormap [%0];" ::"l"(f.x) : "memory");
    if (CLUSTER > 1) expect(at.inbox, INBOX);
  }
  __syncwarp();
  if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  else __syncthreads();
  allow_next();
  if (thread >= MULTIPLIERS) {
    if (thread == MULTIPLIERS)
      for (u32 i = PACE < FIRST_W ? PACE : FIRST_W; i < BOXES; i++) {
        if (i < FIRST_W) wait_for(at.w_full + 8 * (i - PACE), 0);
        else wait_for(at.w_empty + 8 * (i % W_STAGES), (i / W_STAGES - 1) & 1);
        fetch_weights(f, at, i, policy);
      }
    if (thread != MULTIPLIERS + 32) return;
    wait_for_previous();
    for (u32 i = 0; i < BOXES; i++) {
      if (i >= FIRST_X) wait_for(at.x_empty + 8 * (i % X_STAGES), (i / X_STAGES - 1) & 1);
      fetch_rows(f, at, i);
    }
    return;
  }
  wait_for_previous();
  float a[R];
#pragma unroll
  for (int i = 0; i < R; i++) a[i] = 0.f;
  for (u32 i = 0; i < BOXES; i++) {
    const u32 w = i % W_STAGES, x = i % X_STAGES;
    wait_for(at.w_full + 8 * w, i / W_STAGES & 1);
    wait_for(at.x_full + 8 * x, i / X_STAGES & 1);
    const u64 rows = box_at(at.base + AT_ROWS + x * X_BOX + team * 8192), weights = box_at(at.base + w * W_BOX);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; k++) multiply(a, rows + 2 * k, weights + 2 * k);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (i > 0 && (FIRST_W < BOXES || FIRST_X < BOXES)) { // free the box that the previous iteration has read
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (lane == 0) arrive(at.w_empty + 8 * ((i - 1) % W_STAGES)), arrive(at.x_empty + 8 * ((i - 1) % X_STAGES));
    }
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < R; i++) asm volatile("" : "+f"(a[i])::"memory");

  constexpr int MINE = COLUMNS / 2; // sums of a thread in a piece
  const u32 rank = CLUSTER > 1 ? cluster_rank() : 0, row = first_row_of(f) + thread / 32 * 16 + lane / 4, pair = 2 * (lane & 3);
  const u32 inbox = at.base + AT_INBOX;
  if (CLUSTER > 1) {
#pragma unroll
    for (u32 p = 0; p < PIECES; p++) {
      if (p == rank) continue;
      u32 there, barrier;
      asm volatile("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(there) : "r"(inbox), "r"(p));
      asm volatile("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(barrier) : "r"(at.inbox), "r"(p));
      const u32 from = rank < p ? rank : rank - 1;
#pragma unroll
      for (u32 q = 0; q < MINE / 4; q++) {
        const u32 i = p * MINE + 4 * q, to = there + ((from * (MINE / 4) + q) * MULTIPLIERS + thread) * 16;
        u32 v[4];
#pragma unroll
        for (u32 e = 0; e < 4; e++) v[e] = __float_as_uint(a[i + e]);
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0],{%1,%2,%3,%4},[%5];" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(barrier) : "memory");
      }
    }
    wait_for(at.inbox, 0);
  }
#pragma unroll
  for (u32 p = 0; p < PIECES; p++) {
    if (p != rank) continue;
    float sum[MINE];
#pragma unroll
    for (u32 q = 0; q < MINE / 4; q++) {
      float part[4] = {};
#pragma unroll
      for (u32 s = 0; s < PIECES; s++) {
        const u32 i = p * MINE + 4 * q;
        if (s == p) {
#pragma unroll
          for (u32 e = 0; e < 4; e++) part[e] += a[i + e];
        } else {
          const uint4 v = shared4(inbox + (((s < p ? s : s - 1) * (MINE / 4) + q) * MULTIPLIERS + thread) * 16);
          part[0] += __uint_as_float(v.x), part[1] += __uint_as_float(v.y), part[2] += __uint_as_float(v.z), part[3] += __uint_as_float(v.w);
        }
      }
#pragma unroll
      for (u32 e = 0; e < 4; e++) sum[4 * q + e] = part[e];
    }
    if constexpr (KIND == GATED) {
      const u32 first = tile_of(f) * (WIDE / 2) + p * (COLUMNS / 2) + pair;
#pragma unroll
      for (u32 j = 0; j < COLUMNS / 16; j++) {
        const float *gate = sum + 4 * j, *up = sum + 4 * (j + COLUMNS / 16);
        store_pair(f, row, first + 8 * j, gated(gate[0], up[0]), gated(gate[1], up[1]), gated(gate[2], up[2]), gated(gate[3], up[3]));
      }
    } else {
      const u32 first = tile_of(f) * WIDE + p * COLUMNS + pair;
#pragma unroll
      for (u32 j = 0; j < COLUMNS / 8; j++) store_pair(f, row, first + 8 * j, sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
    }
  }
}

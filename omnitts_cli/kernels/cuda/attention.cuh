// Attention of one query position to a long cache, for talker.cu and rows_rest.cu. Positions are divided into eight shares
// (position % 8), one per warp, or per program in talker.cu with one row. Each share takes eight positions at a time and keeps a
// partial softmax; the shares are added in order.
// Uses shared memory at AT_SOFTMAX [8 warps][2 heads][128] fp32, AT_SCALES [8 warps][2 heads][2] and AT_CHANCES [8][32].
#define NOTHING -1e30f

// A softmax over some positions: the largest score, the sum, and the weighted values before division.
struct Softmax {
  float largest, sum, o[4];
  __device__ __forceinline__ void clear() { largest = NOTHING, sum = o[0] = o[1] = o[2] = o[3] = 0.f; }
  __device__ __forceinline__ void add(float other_largest, float other_sum, const float *other) {
    const float most = fmaxf(largest, other_largest), mine = __expf(largest - most), theirs = __expf(other_largest - most);
    sum = fmaf(sum, mine, other_sum * theirs);
#pragma unroll
    for (int i = 0; i < 4; i++) o[i] = fmaf(o[i], mine, other[i] * theirs);
    largest = most;
  }
  __device__ __forceinline__ void leave(u32 warp, u32 head, u32 lane) const {
    *(float4 *)(shared + AT_SOFTMAX + (warp * 2 + head) * 512 + lane * 16) = make_float4(o[0], o[1], o[2], o[3]);
    if (lane == 0) *(float2 *)(shared + AT_SCALES + (warp * 2 + head) * 8) = make_float2(largest, sum);
  }
  // add what the first `count` warps have left
  __device__ __forceinline__ void gather(u32 head, u32 lane, int count = 8) {
#pragma unroll
    for (int w = 0; w < 8; w++) {
      if (w >= count) break;
      const float2 scale = *(const float2 *)(shared + AT_SCALES + (w * 2 + head) * 8);
      const float4 v = *(const float4 *)(shared + AT_SOFTMAX + (w * 2 + head) * 512 + lane * 16);
      const float other[4] = {v.x, v.y, v.z, v.w};
      add(scale.x, scale.y, other);
    }
  }
};

// Load keys or values [positions][128] of eight positions, 8 apart, from `from` on: four columns per lane. Positions from `end`
// on count as zero.
__device__ __forceinline__ void load_eight(uint2 *to, const u16 *rows, int from, int end, u32 lane) {
#pragma unroll
  for (int r = 0; r < 8; r++) {
    to[r] = make_uint2(0, 0);
    const int position = from + 8 * r;
    const u16 *at = rows + position * 128 + 2 * lane;
    if (position < end) to[r] = make_uint2(*(const u32 *)at, *(const u32 *)(at + 64));
  }
}
// Add eight positions, whose scores and values this warp holds. `there` in lanes r, r + 8, ... says whether position r exists.
template <int HEADS> __device__ __forceinline__ void see_eight(float (*scores)[8], const uint2 *value, bool there, Softmax *seen, u32 warp, u32 lane) {
  float score = 0.f;
#pragma unroll
  for (int h = 0; h < HEADS; h++) { // one head after the other, so that its sums do not depend on the number of heads
    fold<4>(scores[h], lane);
    float s = scores[h][0];
    s += __shfl_xor_sync(~0u, s, 8);
    s += __shfl_xor_sync(~0u, s, 16);
    if (h == 0 || (lane >> 3) == h) score = s; // lane 8 h + r has the score of head h, position r
  }
  float largest = there ? score : NOTHING;
  for (int o = 4; o; o >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
  const float chance = there ? __expf(score - largest) : 0.f;
  float sum = chance;
  for (int o = 4; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  float *chances = (float *)(shared + AT_CHANCES) + warp * 32;
  __syncwarp();
  chances[lane] = chance;
  __syncwarp();
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    float o[4] = {};
#pragma unroll
    for (int r = 0; r < 8; r++) add_value(o, chances[8 * h + r], value[r].x, value[r].y);
    seen[h].add(__shfl_sync(~0u, largest, 8 * h), __shfl_sync(~0u, sum, 8 * h), o);
  }
}

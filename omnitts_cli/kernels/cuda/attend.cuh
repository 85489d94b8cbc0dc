// The argument of attend.cu and attend_long.cu.
struct Attend {
  const u16 *qkv;               // [rows][4096]
  const u16 *query_norm, *key_norm; // [128]
  const float *cosines, *sines; // [capacity][64]
  const s64 *positions, *slots; // [rows]
  u16 *keys, *values;           // [slots][8][capacity][128], written
  u16 *out;                     // [rows][2048]
  s64 capacity;
  float eps;
};

__device__ __forceinline__ s64 load_now(const s64 *p) { const uint2 v = load2(p); return (s64)((u64)v.y << 32 | v.x); }

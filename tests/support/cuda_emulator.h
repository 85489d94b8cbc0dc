// What a persistent kernel needs of CUDA, on one core: every thread of the grid is a fiber, and a warp's lanes meet at
// each instruction that they execute together. cuda_emulator.py turns the kernels' inline PTX into calls of emu_*.
#include <sys/mman.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

#define __global__
#define __grid_constant__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
#define __expf expf
static inline int __float2int_rn(float x) { return (int)lrintf(x); }
static inline unsigned __float_as_uint(float x) { unsigned v; memcpy(&v, &x, 4); return v; }
static inline float __uint_as_float(unsigned x) { float v; memcpy(&v, &x, 4); return v; }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned order) {
  unsigned v = 0;
  for (int i = 0; i < 4; i++) v |= (unsigned)((((uint64_t)y << 32) | x) >> (order >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
  return v;
}
static inline unsigned __funnelshift_r(unsigned l, unsigned h, unsigned n) { return (unsigned)((((uint64_t)h << 32) | l) >> (n & 31)); }

// ---- fibers
enum Meeting { SYNC, XOR, FROM, UP, ALL, MOST, SUM, PRODUCT16, PRODUCT8 };
struct Exchange { // what a lane brings to a meeting of its warp, and takes from it
  Meeting kind;
  unsigned value = 0, other = 0;
  float *c = nullptr;
  unsigned a[4], b[2];
};
struct Barrier { unsigned count = 0, pending = 0, phase = 0; long bytes = 0; };
struct Program;
struct Copy { unsigned to; const void *from; unsigned bytes; }; // of cp.async, not yet done
struct Fiber {
  void *stack;
  Program *program;
  unsigned thread;
  std::vector<std::vector<Copy>> groups = {{}}; // the last one is not committed
};
struct Warp { Exchange *lanes[32]; unsigned count = 0; };
struct Program {
  unsigned index;
  char *memory;
  std::vector<Warp> warps;
  std::vector<Fiber *> waiting[3]; // at `__syncthreads`, at the named barrier, and of a cluster at its first program
  std::vector<Barrier> barriers;   // by place in shared memory
};
static std::vector<Fiber *> ready;
static size_t head;
static Fiber *now;
static void *outside;
static const char *failure;
static unsigned grid, block, cluster, seed, alive;
static void (*body)();

extern "C" void emu_switch(void **from, void *to);
asm(".text\nemu_switch:\npushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\nmovq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");

static void push(Fiber *fiber) { ready.push_back(fiber); }
static Fiber *next() {
  if (head == ready.size()) return nullptr;
  if (seed) { // any of those that are ready
    seed = seed * 1664525u + 1013904223u;
    std::swap(ready[head], ready[head + (seed >> 8) % (ready.size() - head)]);
  }
  Fiber *fiber = ready[head++];
  if (head > 1 << 20) ready.erase(ready.begin(), ready.begin() + head), head = 0;
  return fiber;
}
static void leave() { // run another fiber; this one goes on when somebody pushes it
  Fiber *before = now;
  now = failure ? nullptr : next();
  if (now != before) emu_switch(&before->stack, now ? now->stack : outside);
}
static void fail(const char *why) { failure = why; leave(); }
static void yield() { push(now); leave(); }
static void first() {
  body();
  alive--;
  leave();
}

#define shared (now->program->memory)
struct { struct { operator unsigned() const { return now->thread; } } x; } threadIdx;
struct { struct { operator unsigned() const { return now->program->index; } } x; } blockIdx;
struct { struct { operator unsigned() const { return block; } } x; } blockDim;
struct { struct { operator unsigned() const { return grid; } } x; } gridDim;
// An address in shared memory holds the program's place in its cluster, above 20 bits.
static inline unsigned __cvta_generic_to_shared(const void *p) { return (unsigned)((const char *)p - shared) | now->program->index % cluster << 24; }
static inline unsigned offset_of(unsigned at) { return at & 0xfffff; }
static inline char *shared_at(unsigned at) { return shared + offset_of(at); }
static inline unsigned clock() { return 1; }
static inline void __nanosleep(unsigned) { yield(); }

static void meet(Program &program, int which, unsigned count) {
  auto &waiting = program.waiting[which];
  if (waiting.size() + 1 < count) { waiting.push_back(now); leave(); return; }
  for (Fiber *fiber : waiting) push(fiber);
  waiting.clear();
}
static inline void __syncthreads() { meet(*now->program, 0, block); }
static inline void emu_meet(unsigned count) { meet(*now->program, 1, count); }

static float bf16(unsigned v) { return __uint_as_float(v << 16); }
__attribute__((optimize("O3"))) static void product(Exchange **lanes, bool wide) { // mma.m16n8k16 or .m16n8k8, row.col, bf16 with float32 sums
  static float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; lane++) {
    const int g = lane >> 2, t = lane & 3;
    for (int i = 0; i < (wide ? 4 : 2); i++)
      for (int j = 0; j < 2; j++) a[g + 8 * (i & 1)][2 * t + j + 8 * (i >> 1)] = bf16((lanes[lane]->a[i] >> (16 * j)) & 0xffff);
    for (int i = 0; i < (wide ? 2 : 1); i++)
      for (int j = 0; j < 2; j++) b[2 * t + j + 8 * i][g] = bf16((lanes[lane]->b[i] >> (16 * j)) & 0xffff);
  }
  static float c[16][8];
  for (int row = 0; row < 16; row++) {
    float sums[8] = {};
    for (int k = 0; k < (wide ? 16 : 8); k++)
      for (int column = 0; column < 8; column++) sums[column] += a[row][k] * b[k][column];
    memcpy(c[row], sums, sizeof sums);
  }
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 4; i++) lanes[lane]->c[i] += c[(lane >> 2) + 8 * (i >> 1)][2 * (lane & 3) + (i & 1)];
}
static void settle(Exchange **lanes) {
  unsigned all = 1, most = 0, sum = 0, values[32];
  for (int i = 0; i < 32; i++) {
    if (lanes[i]->kind != lanes[0]->kind) return fail("the lanes of a warp meet at different instructions");
    values[i] = lanes[i]->value, all &= values[i] != 0, most = max(most, values[i]), sum += values[i];
  }
  const Meeting kind = lanes[0]->kind;
  if (kind == PRODUCT16 || kind == PRODUCT8) return product(lanes, kind == PRODUCT16);
  for (unsigned i = 0; i < 32; i++) {
    const unsigned o = lanes[i]->other;
    lanes[i]->value = kind == XOR ? values[i ^ o] : kind == FROM ? values[o & 31] : kind == UP ? values[i < o ? i : i - o]
                      : kind == ALL ? all : kind == MOST ? most : sum;
  }
}
static void meet_lanes(Exchange &mine) {
  Program *program = now->program;
  const unsigned first = now->thread & ~31u, lane = now->thread & 31;
  Warp &warp = program->warps[first / 32];
  static std::vector<Fiber *> waiting; // of all warps: a slot for each thread
  waiting.resize(grid * block);
  warp.lanes[lane] = &mine;
  if (++warp.count < 32) { waiting[program->index * block + now->thread] = now; leave(); return; }
  warp.count = 0;
  settle(warp.lanes);
  for (unsigned i = 0; i < 32; i++)
    if (i != lane) push(waiting[program->index * block + first + i]);
}
static inline unsigned meet_with(Meeting kind, unsigned value, unsigned other = 0) {
  Exchange mine{kind, value, other};
  meet_lanes(mine);
  return mine.value;
}
static inline void __syncwarp() { meet_with(SYNC, 0); }
static inline unsigned __shfl_xor_sync(unsigned, unsigned v, unsigned o) { return meet_with(XOR, v, o); }
static inline float __shfl_xor_sync(unsigned, float v, unsigned o) { return __uint_as_float(meet_with(XOR, __float_as_uint(v), o)); }
static inline unsigned __shfl_sync(unsigned, unsigned v, unsigned o) { return meet_with(FROM, v, o); }
static inline float __shfl_sync(unsigned, float v, unsigned o) { return __uint_as_float(meet_with(FROM, __float_as_uint(v), o)); }
static inline float __shfl_up_sync(unsigned, float v, unsigned o) { return __uint_as_float(meet_with(UP, __float_as_uint(v), o)); }
static inline bool __all_sync(unsigned, bool v) { return meet_with(ALL, v); }
static inline unsigned __reduce_max_sync(unsigned, unsigned v) { return meet_with(MOST, v); }
static inline unsigned __reduce_add_sync(unsigned, unsigned v) { return meet_with(SUM, v); }

// ---- PTX
static Barrier &barrier_at(unsigned at) { return now->program->barriers[offset_of(at) / 8]; }
static void advance(Barrier &barrier) {
  if (barrier.pending == 0 && barrier.bytes == 0) barrier.phase ^= 1, barrier.pending = barrier.count;
}
static inline void emu_init(unsigned at, unsigned count) { barrier_at(at) = {count, count, 0, 0}; }
static inline void emu_arrive(unsigned at) { Barrier &b = barrier_at(at); b.pending--, advance(b); }
static inline void emu_expect(unsigned at, unsigned bytes) { barrier_at(at).bytes += bytes, emu_arrive(at); }
static inline void emu_copy(unsigned to, const void *from, unsigned bytes, unsigned at, unsigned long long = 0) {
  yield();
  memcpy(shared_at(to), from, bytes);
  Barrier &b = barrier_at(at);
  b.bytes -= bytes, advance(b);
}
struct Box { const char *matrix; uint64_t width, height, rows; }; // stands in for a tensor map: a bf16 matrix, rows of 64 columns
static inline unsigned swizzled(unsigned at) { return at ^ (at >> 7 & 7) << 4; }
static inline void emu_copy_box(unsigned to, const char *map, unsigned column, unsigned row, unsigned at, unsigned long long = 0) {
  yield();
  const Box &box = *(const Box *)map;
  if (to % 1024) return fail("a box of 128 bytes a row does not begin at a multiple of 1,024");
  for (unsigned r = 0; r < box.rows; r++)
    for (unsigned i = 0; i < 128; i += 16) {
      char *there = shared_at(swizzled(to + r * 128 + i));
      if (row + r < box.height) memcpy(there, box.matrix + ((row + r) * box.width + column) * 2 + i, 16);
      else memset(there, 0, 16);
    }
  Barrier &b = barrier_at(at);
  b.bytes -= box.rows * 128, advance(b);
}
// Clusters.
static inline Program &first_of_cluster() { return *(now->program - now->program->index % cluster); }
static inline void emu_meet_cluster() { meet(first_of_cluster(), 2, cluster * block); }
static inline void emu_rank(unsigned &v) { v = now->program->index % cluster; }
static inline void emu_place_there(unsigned &v, unsigned at, unsigned rank) { v = offset_of(at) | rank << 24; }
static inline void emu_send(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d, unsigned at) {
  yield();
  Program &there = (&first_of_cluster())[to >> 24];
  const unsigned values[4] = {a, b, c, d};
  memcpy(there.memory + offset_of(to), values, 16);
  Barrier &barrier = there.barriers[offset_of(at) / 8];
  barrier.bytes -= 16, advance(barrier);
}
static inline void emu_arrive_there(unsigned at) {
  Barrier &b = (&first_of_cluster())[at >> 24].barriers[offset_of(at) / 8];
  b.pending--, advance(b);
}
static inline void emu_copy_to_both(unsigned to, const void *from, unsigned bytes, unsigned at, unsigned short all) {
  yield();
  for (unsigned i = 0; i < cluster; i++)
    if (all >> i & 1) {
      Program &there = (&first_of_cluster())[i];
      memcpy(there.memory + offset_of(to), from, bytes);
      Barrier &b = there.barriers[offset_of(at) / 8];
      b.bytes -= bytes, advance(b);
    }
}
// wgmma, 64 rows, float16, both operands K-major without a swizzle, or the first one in registers.
static float half_values[65536];
static unsigned short half_of(float x) { _Float16 h = (_Float16)x; unsigned short v; memcpy(&v, &h, 2); return v; }
static float half(unsigned short v) {
  if (half_values[0x3c00] == 0)
    for (unsigned i = 0; i < 65536; i++) { unsigned short u = i; _Float16 h; memcpy(&h, &u, 2); half_values[i] = (float)h; }
  return half_values[v];
}
template <class... A> static inline void emu_multiply_halves(A &&...all) {
  constexpr int COUNT = sizeof...(A), R = COUNT % 4 == 2 ? COUNT - 2 : COUNT - 5;
  struct Any { float *c = nullptr; uint64_t value = 0; Any(float &v) : c(&v) {} Any(uint64_t v) : value(v) {} };
  Any each[] = {Any(all)...};
  const unsigned lane = now->thread & 31, first = now->thread % 128 / 32 * 16 + lane / 4;
  auto row = [&](uint64_t d, unsigned index, float *values) {
    const unsigned start = (d & 0x3fff) << 4, across = (d >> 16 & 0x3fff) << 4, below = (d >> 32 & 0x3fff) << 4;
    if (d >> 62 || d >> 46 || below != 128 || across % 16 || across > 8192) return fail("not a descriptor without a swizzle");
    for (unsigned i = 0; i < 2; i++) {
      unsigned short raw[8];
      memcpy(raw, shared + start + i * across + index / 8 * below + index % 8 * 16, 16);
      for (int k = 0; k < 8; k++) values[8 * i + k] = half(raw[k]);
    }
  };
  float x[2][16], w[16];
  if (R == COUNT - 2) row(each[R].value, first, x[0]), row(each[R].value, first + 8, x[1]);
  else {
    for (int i = 0; i < 4; i++) // rows of four lanes
      for (unsigned q = 0; q < 4; q++) {
        const unsigned v = meet_with(FROM, each[R + i].value, (lane & ~3u) | q);
        for (int j = 0; j < 2; j++) x[i & 1][(i >> 1) * 8 + 2 * q + j] = half(v >> (16 * j));
      }
  }
  for (int j = 0; j < R / 4; j++)
    for (int i = 0; i < 2; i++) {
      row(each[COUNT - 1].value, 8 * j + 2 * (lane & 3) + i, w);
      for (int r = 0; r < 2; r++) {
        float sum = 0;
        for (int k = 0; k < 16; k++) sum += x[r][k] * w[k];
        *each[4 * j + 2 * r + i].c += sum;
      }
    }
}
// wgmma, 64 rows, both operands K-major with a swizzle of 128 bytes: each thread makes its own part. The last two are the descriptors.
template <class... A> static inline void emu_multiply(A &&...all) {
  constexpr int R = sizeof...(A) - 2;
  struct Any { float *c; uint64_t descriptor; Any(float &v) : c(&v) {} Any(unsigned long long &v) : descriptor(v) {} Any(unsigned long long &&v) : descriptor(v) {} };
  Any each[] = {Any(all)...};
  unsigned start[2];
  for (int i = 0; i < 2; i++) {
    const uint64_t d = each[R + i].descriptor;
    if (d >> 62 != 1 || (d >> 32 & 0x3fff) != 64) return fail("not a descriptor of rows of 128 bytes");
    start[i] = (d & 0x3fff) << 4;
  }
  auto row = [&](unsigned from, unsigned index, float *values) {
    unsigned short raw[16];
    for (unsigned i = 0; i < 2; i++) memcpy(raw + 8 * i, shared + swizzled(from + index * 128 + 16 * i), 16);
    for (int k = 0; k < 16; k++) values[k] = bf16(raw[k]);
  };
  const unsigned lane = now->thread & 31, first = now->thread % 128 / 32 * 16 + lane / 4;
  float x[2][16], w[16];
  row(start[0], first, x[0]), row(start[0], first + 8, x[1]);
  for (int j = 0; j < R / 4; j++)
    for (int i = 0; i < 2; i++) {
      row(start[1], 8 * j + 2 * (lane & 3) + i, w);
      for (int r = 0; r < 2; r++) {
        float sum = 0;
        for (int k = 0; k < 16; k++) sum += x[r][k] * w[k];
        *each[4 * j + 2 * r + i].c += sum;
      }
    }
}
static inline void emu_copy16(unsigned to, const void *from, unsigned bytes) { now->groups.back().push_back({to, from, bytes}); }
static inline void emu_commit() { now->groups.emplace_back(); }
static inline void emu_wait_group(unsigned left) { // copies happen as late as they may
  auto &groups = now->groups;
  while (groups.size() > left + 1) {
    for (const Copy &copy : groups.front()) memset(shared_at(copy.to), 0, 16), memcpy(shared_at(copy.to), copy.from, copy.bytes);
    groups.erase(groups.begin());
  }
}
static inline void emu_wait_all() { emu_commit(), emu_wait_group(0); }
static inline void emu_copy16(unsigned to, const void *from) { emu_copy16(to, from, 16); }
static inline void emu_round_halves(unsigned &v, float high, float low, unsigned = 0, unsigned = 0) {
  auto one = [](float x) { return (unsigned)half_of(x > 65504.f ? 65504.f : x < -65504.f ? -65504.f : x); };
  v = one(high) << 16 | one(low);
}
static inline void emu_single(float &v, unsigned short h) { v = half(h); }
static inline void emu_sine(float &v, float x) { v = sinf(x); }
static inline void emu_load_shared(float &x, float &y, float &z, float &w, unsigned at) {
  float4 v;
  memcpy(&v, shared_at(at), 16);
  x = v.x, y = v.y, z = v.z, w = v.w;
}
template <class... A> static inline void emu_store_shared(unsigned at, A... values) {
  int i = 0;
  (void)std::initializer_list<int>{(memcpy(shared_at(at) + 4 * i++, &values, 4), 0)...};
}
static inline void emu_try_wait(unsigned &ok, unsigned at, unsigned phase) {
  ok = barrier_at(at).phase != phase;
  if (!ok) yield();
}
static inline void emu_trap() { fail("a wait never ends"); }
static inline void emu_nothing() {}
static inline void emu_zero(unsigned long long &v) { v = 0; }
static inline void emu_meet_lanes() { __syncwarp(); }
static inline void emu_round(unsigned &v, float high, float low) { // to bf16, to even
  auto one = [](float x) { unsigned u = __float_as_uint(x); return x != x ? 0x7fffu : (u + 0x7fff + ((u >> 16) & 1)) >> 16; };
  v = one(high) << 16 | one(low);
}
static inline void emu_load_shared(unsigned &x, unsigned &y, unsigned &z, unsigned &w, unsigned at) {
  uint4 v;
  memcpy(&v, shared_at(at), 16);
  x = v.x, y = v.y, z = v.z, w = v.w;
}
static inline void emu_load(unsigned &x, const void *p) { yield(); memcpy(&x, p, 4); }
static inline void emu_load(unsigned &x, unsigned &y, const void *p) { yield(); memcpy(&x, p, 4), memcpy(&y, (const char *)p + 4, 4); }
static inline void emu_load(unsigned &x, unsigned &y, unsigned &z, unsigned &w, const void *p) {
  emu_load(x, y, p), emu_load(z, w, (const char *)p + 8); // a pair is whole, two pairs need not be
}
static inline void emu_store(void *p, unsigned a, unsigned b) { yield(); memcpy(p, &a, 4), memcpy((char *)p + 4, &b, 4); }
static inline void emu_store(void *p, unsigned a, unsigned b, unsigned c, unsigned d) { emu_store(p, a, b), emu_store((char *)p + 8, c, d); }
static inline void emu_add(void *p, uint64_t v) { yield(); uint64_t w; memcpy(&w, p, 8), w += v, memcpy(p, &w, 8); }
static inline void emu_product16(float &c0, float &, float &, float &, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  Exchange mine{PRODUCT16, 0, 0, &c0, {a0, a1, a2, a3}, {b0, b1}};
  meet_lanes(mine);
}
static inline void emu_product8(float &c0, float &, float &, float &, unsigned a0, unsigned a1, unsigned b) {
  Exchange mine{PRODUCT8, 0, 0, &c0, {a0, a1, 0, 0}, {b, 0}};
  meet_lanes(mine);
}

// ---- a launch
template <class A> static void call(void (*kernel)(const A), const void *argument) { kernel(*(const A *)argument); }
static const void *argument;
static const size_t STACK = 32768;

// Returns why it failed, or null. `order` is the seed of the order in which fibers run; 0: in turn.
template <class Kernel> static const char *launch_grid(Kernel, void (*run)(), const void *with, unsigned programs, unsigned threads, unsigned bytes, unsigned order, unsigned together) {
  grid = programs, block = threads, cluster = together, seed = order, argument = with, body = run, failure = nullptr, alive = grid * block;
  ready.clear(), head = 0;
  const size_t guard = 4096, whole = (size_t)grid * block * STACK;
  char *stacks = (char *)mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  std::vector<Fiber> fibers(grid * block);
  std::vector<Program> all(grid);
  for (unsigned p = 0; p < grid; p++) {
    char *memory = (char *)aligned_alloc(4096, (bytes + guard + 4095) / 4096 * 4096);
    memset(memory, 0xff, bytes + guard); // what nobody has written is NaN
    all[p] = {p, memory, std::vector<Warp>(block / 32), {}, std::vector<Barrier>(bytes / 8)};
    for (unsigned t = 0; t < block; t++) {
      Fiber &fiber = fibers[p * block + t];
      void **top = (void **)(stacks + ((size_t)p * block + t + 1) * STACK) - 8;
      for (int i = 0; i < 8; i++) top[i] = nullptr;
      top[6] = (void *)first; // six saved registers below it; the stack is aligned as after a call
      fiber = {top, &all[p], t};
      push(&fiber);
    }
  }
  now = next();
  emu_switch(&outside, now->stack);
  if (!failure && alive) failure = "all threads wait for each other";
  for (Program &program : all) {
    for (size_t i = 0; i < guard; i++)
      if (program.memory[bytes + i] != (char)0xff) failure = "a write behind the end of shared memory";
    free(program.memory);
  }
  munmap(stacks, whole);
  return failure;
}

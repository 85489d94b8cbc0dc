// SIMD vectors of floats, numbers in float16, and elementwise functions.
//
// Every file that includes this is compiled once per instruction set. FUNCTION(name) adds the name of the set, so that all
// variants link into one library.
#pragma once
#include "system.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define FUNCTION(name) JOIN(name, VARIANT)
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
// lanes of a vector, rows of a tile, and registers for the sums of a tile
enum { LANES = 16, MAX_ROWS = 12, MAX_SUMS = 24 }; // 32 vector registers
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
enum { LANES = 8, MAX_ROWS = 6, MAX_SUMS = 12 }; // 16 vector registers
#elif defined(__aarch64__)
enum { LANES = 4, MAX_ROWS = 6, MAX_SUMS = 24 }; // 32 vector registers
#else
enum { LANES = 4, MAX_ROWS = 3, MAX_SUMS = 12 }; // 16 vector registers
#endif
enum { PANEL = 16, PARTS = PANEL / LANES }; // outputs in a panel of weights; vectors in a panel

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef float unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE vec load(const float *x) { return *(const unaligned *)x; }
INLINE void store(float *x, vec v) { *(unaligned *)x = v; }
INLINE vec broadcast(float x) { return x - (vec){0}; }
INLINE vec blend(ivec mask, vec yes, vec no) { return (vec)((mask & (ivec)yes) | (~mask & (ivec)no)); }

// ---- float16

INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
INLINE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

// float16 by the rules of IEEE 754: nearest, ties to even. What is too large becomes the largest number, not infinity.
static inline uint16_t half_of(float x) {
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000) return (uint16_t)(sign | 0x7E00); // NaN
    if (size >= 0x477FE000) return (uint16_t)(sign | 0x7BFF);
    if (size < 0x38800000) { // below the smallest normal number: adding 0.5 rounds at the right bit
        float shifted = float_of(size) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - 0x3F000000));
    }
    size += 0xFFF + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000) >> 13);
}

static inline float of_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7FFF;
    if (size >= 0x7C00) return float_of(sign | 0x7F800000 | (size & 0x3FF) << 13);
    return float_of(sign | bits_of(float_of(size << 13) * 0x1p112f));
}

INLINE vec load_half(const uint16_t *p) {
#if defined(__AVX512F__)
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__AVX2__)
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#elif defined(__aarch64__)
    return (vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
    vec v;
    for (int i = 0; i < LANES; i++) v[i] = of_half(p[i]);
    return v;
#endif
}

// ---- functions of vectors and rows

INLINE float sum_lanes(vec v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#else
    float x[LANES];
    store(x, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
#endif
}

INLINE int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t padded(int64_t n) { return (n + PANEL - 1) / PANEL * PANEL; }

// e^x with a relative error of at most 2e-7, for x clamped to -87..88.
INLINE vec exponential(vec x) {
    x = blend(x < broadcast(-87.0f), broadcast(-87.0f), x);
    x = blend(x > broadcast(88.0f), broadcast(88.0f), x);
    const vec magic = broadcast(12582912.0f); // 1.5 * 2^23: adding it rounds to an integer
    vec n = x * 1.44269504f + magic;
    ivec power = ((ivec)n << 23) + (127 << 23); // the low bits of `n` hold the integer
    n -= magic;
    vec r = x - n * 0.693359375f;
    r -= n * -2.12194440e-4f;
    vec p = broadcast(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * (r * r) + r + 1.0f) * (vec)power;
}

INLINE vec silu(vec x) { return x / (1.0f + exponential(-x)); }

// x + sin^2(x * scale) * inverse. sin^2 has period pi, so a polynomial for sin on -pi/2..pi/2 is enough.
INLINE vec snake(vec x, vec scale, vec inverse) {
    const vec magic = broadcast(12582912.0f);
    vec a = x * scale;
    vec n = a * 0.318309886f + magic - magic;
    vec r = a - n * 3.140625f;
    r -= n * 9.67502593994140625e-4f;
    r -= n * 1.509957990978376432e-7f;
    vec q = r * r, p = broadcast(-2.3889859e-8f);
    p = p * q + 2.7525562e-6f;
    p = p * q + -1.9840874e-4f;
    p = p * q + 8.3333310e-3f;
    p = p * q + -1.6666667e-1f;
    r += r * (q * p);
    return x + r * r * inverse;
}

INLINE float dot(const float *a, const float *b, int64_t n) {
    vec even = broadcast(0), odd = broadcast(0);
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        even += load(a + i) * load(b + i);
        odd += load(a + i + LANES) * load(b + i + LANES);
    }
    for (; i + LANES <= n; i += LANES) even += load(a + i) * load(b + i);
    float sum = sum_lanes(even + odd);
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

// `n` is a multiple of LANES.
INLINE void add_to(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) store(y + i, load(y + i) + load(x + i));
}

INLINE void add_scaled(float *y, const float *x, float factor, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(y + i, load(y + i) + load(x + i) * factor);
    for (; i < n; i++) y[i] += x[i] * factor;
}

// y = x / sqrt(mean(x^2) + eps)
INLINE void rms_norm(const float *x, float *y, int64_t n, float eps) {
    float factor = (float)(1.0 / sqrt((double)dot(x, x, n) / (double)n + eps));
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * factor;
}

// Replaces n scores by e^(score - max) and returns the inverse of their sum.
INLINE float softmax(float *x, int64_t n) {
    float top = x[0];
    for (int64_t i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(x + i, exponential(load(x + i) - top));
    if (i < n) {
        float rest[LANES] = {0};
        memcpy(rest, x + i, 4 * (n - i));
        store(rest, exponential(load(rest) - top));
        memcpy(x + i, rest, 4 * (n - i));
    }
    double sum = 0;
    for (i = 0; i < n; i++) sum += x[i];
    return (float)(1.0 / sum);
}

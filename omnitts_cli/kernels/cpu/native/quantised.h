// Matrices of 8 bits, and their products with rows of 8 bits. quantised.c says how they are used.
//
// A matrix lies in blocks of 64 outputs, block after block. In a block, each group of 32 inputs has 64 scales in
// float16, one for each output, and then 8 steps of [64 outputs][4 inputs] bytes: the weight / scale, plus 128. Widths
// are filled up with zeros. The same bytes serve every instruction set. Rows are rounded by groups of 32 too.
//
// The sum of a group is an integer, and so the same however it is computed. The sums of groups are added in float32, group by
// group, with no fused multiply-add: a result has the same bits on every instruction set, with any number of rows and
// threads. The file is compiled with -ffp-contract=off for that.
#pragma once
#include "vectors.h"

enum { BLOCK = 64, GROUP = 32, GROUP_BYTES = BLOCK * (2 + GROUP), TILE_ROWS = 8, HEADER_BYTES = 64 };

typedef struct { // at the front of every matrix
    int64_t outputs, inputs, unused[6];
} Matrix;

INLINE int64_t blocks_of(int64_t n) { return (n + BLOCK - 1) / BLOCK; }
INLINE int64_t groups_of(int64_t n) { return (n + GROUP - 1) / GROUP; }
INLINE int64_t matrix_bytes(int64_t outputs, int64_t inputs) {
    return HEADER_BYTES + blocks_of(outputs) * groups_of(inputs) * GROUP_BYTES;
}
INLINE const uint8_t *block_at(const Matrix *m, int64_t block) {
    return (const uint8_t *)m + HEADER_BYTES + block * groups_of(m->inputs) * GROUP_BYTES;
}

// ---- sums of four products, by instruction set: DOT(sum, weights + 128, row). Where OFFSET is 1, the weights are taken
// as they are, and the sum has to begin with -128 times the sum of the row.
#if defined(__AVX512VNNI__)
#define OFFSET 1
// As an instruction of its own: gcc 12 copies every sum before the intrinsic, and keeps the sums of a tile on the stack.
INLINE ivec DOT(ivec sum, ivec w, ivec x) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
}
#elif defined(__AVXVNNI__)
#define OFFSET 1
INLINE ivec DOT(ivec sum, ivec w, ivec x) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
    return sum;
}
#elif defined(__AVX2__) && !defined(__AVX512F__)
#define OFFSET 0
// Two products of up to 255 * 127 would not fit in 16 bits. So the sign of the weight moves to the row.
INLINE ivec DOT(ivec sum, ivec w, ivec x) {
    __m256i s = _mm256_xor_si256((__m256i)w, _mm256_set1_epi8(-128)); // never -128
    __m256i two = _mm256_maddubs_epi16(_mm256_abs_epi8(s), _mm256_sign_epi8((__m256i)x, s));
    return sum + (ivec)_mm256_madd_epi16(two, _mm256_set1_epi16(1));
}
#elif defined(__ARM_FEATURE_DOTPROD)
#define OFFSET 0
INLINE ivec DOT(ivec sum, ivec w, ivec x) {
    int8x16_t s = vreinterpretq_s8_u8(veorq_u8((uint8x16_t)w, vdupq_n_u8(128)));
    return (ivec)vdotq_s32((int32x4_t)sum, s, (int8x16_t)x);
}
#else
#define OFFSET 0
#define BYTEWISE // no vectors of bytes
#endif

typedef struct { // rows in 8 bits, of groups_of(inputs) groups
    int8_t *q;
    float *scale;
    int32_t *sum; // of each group, times -128
    int64_t rows, groups;
} Quantised;

INLINE int64_t quantised_bytes(int64_t rows, int64_t inputs) { return rows * groups_of(inputs) * (GROUP + 8); }
INLINE Quantised quantised_in(void *memory, int64_t rows, int64_t inputs) {
    int64_t groups = groups_of(inputs), count = rows * groups;
    float *scale = memory;
    return (Quantised){(int8_t *)(scale + 2 * count), scale, (int32_t *)(scale + count), rows, groups};
}

// Rounds x [n] to `row`. A group with NaN or infinity gets the scale NaN, so that what it is multiplied with becomes NaN.
static void quantise_row(const float *x, int64_t n, Quantised *in, int64_t row) {
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    for (int64_t g = 0; g < in->groups; g++) {
        float part[GROUP] = {0};
        memcpy(part, x + g * GROUP, 4 * (n - g * GROUP < GROUP ? n - g * GROUP : GROUP));
        int32_t size[GROUP], most = 0, total = 0;
        memcpy(size, part, sizeof size);
        for (int i = 0; i < GROUP; i++) {
            int32_t own = size[i] & 0x7FFFFFFF; // compares as the absolute value does, and NaN is above infinity
            most = own > most ? own : most;
        }
        float top = float_of((uint32_t)most);
        int finite = most < 0x7F800000, tiny = most < 0x0DA24260; // 1e-30
        float inverse = finite && !tiny ? 127.0f / top : 0;
        int8_t *q = in->q + (row * in->groups + g) * GROUP;
        if (!finite) memset(part, 0, sizeof part);
        for (int i = 0; i < GROUP; i++) {
            int32_t v = (int32_t)bits_of(part[i] * inverse + magic) - 0x4B400000;
            q[i] = (int8_t)v, total += v;
        }
        in->scale[row * in->groups + g] = !finite ? NAN : tiny ? 0 : top / 127.0f;
        in->sum[row * in->groups + g] = -128 * total;
    }
}

// ---- one block of 64 outputs, for `rows` rows and `vectors` of its vectors at a time, so that sums stay in registers

enum { VECTORS = BLOCK / LANES };

#ifndef BYTEWISE
INLINE void block_tile(const int rows, const int vectors, const uint8_t *block, const Quantised *in, int64_t row,
                       float *y, int64_t y_step) {
    const int64_t groups = in->groups;
    const int8_t *q = in->q + row * groups * GROUP;
    const float *scale = in->scale + row * groups;
    const int32_t *start = in->sum + row * groups;
    (void)start;
    for (int first = 0; first < VECTORS; first += vectors) {
        vec out[TILE_ROWS][VECTORS];
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) out[r][v] = broadcast(0);
        const uint8_t *w = block + 4 * LANES * first;
        for (int64_t g = 0; g < groups; g++, w += GROUP_BYTES) {
            ivec sum[TILE_ROWS][VECTORS];
            UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
                sum[r][v] = (ivec){0} + (OFFSET ? start[r * groups + g] : 0);
            UNROLL for (int k = 0; k < GROUP / 4; k++) {
                ivec x[TILE_ROWS];
                UNROLL for (int r = 0; r < rows; r++) {
                    int32_t four;
                    memcpy(&four, q + (r * groups + g) * GROUP + 4 * k, 4);
                    x[r] = (ivec){0} + four;
                }
                UNROLL for (int v = 0; v < vectors; v++) {
                    ivec bytes = (ivec)load((const float *)(w + 2 * BLOCK + 4 * (k * BLOCK + v * LANES)));
                    UNROLL for (int r = 0; r < rows; r++) sum[r][v] = DOT(sum[r][v], bytes, x[r]);
                }
            }
            UNROLL for (int v = 0; v < vectors; v++) {
                vec each = load_half((const uint16_t *)(w - 2 * LANES * first) + v * LANES);
                UNROLL for (int r = 0; r < rows; r++)
                    out[r][v] += __builtin_convertvector(sum[r][v], vec) * (each * scale[r * groups + g]);
            }
        }
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
            store(y + r * y_step + (first + v) * LANES, out[r][v]);
    }
}
#else
INLINE void block_tile(const int rows, const int vectors, const uint8_t *block, const Quantised *in, int64_t row,
                       float *y, int64_t y_step) {
    (void)vectors;
    for (int r = 0; r < rows; r++) {
        float out[BLOCK] = {0};
        const int64_t at = (row + r) * in->groups;
        for (int64_t g = 0; g < in->groups; g++) {
            const uint8_t *w = block + g * GROUP_BYTES, *bytes = w + 2 * BLOCK;
            const int8_t *q = in->q + (at + g) * GROUP;
            int32_t sum[BLOCK] = {0};
            for (int k = 0; k < GROUP / 4; k++)
                for (int o = 0; o < BLOCK; o++)
                    for (int i = 0; i < 4; i++) sum[o] += (bytes[(k * BLOCK + o) * 4 + i] - 128) * q[4 * k + i];
            for (int o = 0; o < BLOCK; o++)
                out[o] += (float)sum[o] * (of_half(((const uint16_t *)w)[o]) * in->scale[at + g]);
        }
        memcpy(y + r * y_step, out, sizeof out);
    }
}
#endif

// vectors at a time for 1, 2, 4 and 8 rows: AVX-512 and NEON have 32 registers, AVX2 has 16. With one row, reading the
// whole block in order is worth more than keeping all sums in registers.
#if defined(__AVX512F__)
enum { V1 = 4, V2 = 4, V4 = 4, V8 = 2 };
#elif defined(__AVX2__)
enum { V1 = 8, V2 = 4, V4 = 2, V8 = 1 };
#else
enum { V1 = 16, V2 = 8, V4 = 4, V8 = 2 };
#endif

// y [rows, y_step] gets the 64 outputs of a block.
static void multiply_block(const uint8_t *block, const Quantised *in, float *y, int64_t y_step) {
    for (int64_t r = 0, left; (left = in->rows - r) > 0;) {
        float *out = y + r * y_step;
        if (left >= 8) block_tile(8, V8, block, in, r, out, y_step), r += 8;
        else if (left >= 4) block_tile(4, V4, block, in, r, out, y_step), r += 4;
        else if (left >= 2) block_tile(2, V2, block, in, r, out, y_step), r += 2;
        else block_tile(1, V1, block, in, r, out, y_step), r += 1;
    }
}

// ---- making a matrix

enum { FINE, NOT_FINITE = 2, TOO_LARGE = 3 };

// Writes block `block` of w [outputs, inputs] to `to`. A scale is the largest weight of its group / 127, in float16.
static int quantise_block(const float *w, int64_t outputs, int64_t inputs, int64_t block, uint8_t *to) {
    for (int64_t g = 0; g < groups_of(inputs); g++, to += GROUP_BYTES) {
        uint16_t *scales = (uint16_t *)to;
        for (int64_t o = 0; o < BLOCK; o++) {
            const int64_t output = block * BLOCK + o, left = inputs - g * GROUP;
            float part[GROUP] = {0}, top = 0;
            if (output < outputs) memcpy(part, w + output * inputs + g * GROUP, 4 * (left < GROUP ? left : GROUP));
            for (int i = 0; i < GROUP; i++) {
                if (!isfinite(part[i])) return NOT_FINITE;
                top = fabsf(part[i]) > top ? fabsf(part[i]) : top;
            }
            if (top > 65504.0f * 127.0f) return TOO_LARGE;
            scales[o] = half_of(top / 127.0f);
            const float scale = of_half(scales[o]);
            for (int i = 0; i < GROUP; i++) {
                float v = scale > 0 ? part[i] / scale : 0;
                v = v > 127 ? 127 : v < -127 ? -127 : v;
                to[2 * BLOCK + (i / 4 * BLOCK + o) * 4 + i % 4] = (uint8_t)((int32_t)rintf(v) + 128);
            }
        }
    }
    return FINE;
}

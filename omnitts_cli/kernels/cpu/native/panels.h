// The product of rows of floats with a matrix of floats, which all layers in float32 use.
//
// The order of additions depends only on the shapes: the result of a row does not depend on the other rows of a call.
#pragma once
#include "vectors.h"

enum {
    AHEAD = 32,      // inputs: weights come from the memory while those of this many inputs are multiplied
    IN_L2 = 96 << 10 // floats: so many weights are in the L2 cache anyway
};

// Weights that come from the memory into the L2 cache while others are multiplied: so many lines for each sum.
typedef struct {
    const float *from;
    int64_t lines;
} Later;

// The input rows of a product. Row r consists of `taps` runs of `inputs` floats, the first at x + r * step, the others
// `tap_step` apart. Products are summed in blocks of `sum_length` and the block sums are then added, which
// has smaller rounding errors than one long sum. Blocks run on from one tap into the next, so the order of additions is
// the same for rows that were gathered into one run.
typedef struct {
    const float *x;
    int64_t step, taps, tap_step, inputs, sum_length;
} Rows;

// Inputs begin..end of the product of `rows` rows and `panels` panels, with sums in registers. Both counts are constants
// at every call. `weight` is input `begin` of the first panel; panels are `apart` floats apart. `begin` is a multiple of
// `sum_length`; unless it is 0, the sums are added to y.
INLINE void tile(const int rows, const int panels, Rows in, const float *weight, int64_t apart, int64_t begin,
                 int64_t end, float *y, int64_t y_step, Later *later) {
    const int parts = panels * PARTS;
    const float *x = in.x + (begin ? begin / in.inputs * in.tap_step : 0);
    int64_t first = begin ? begin % in.inputs : 0, left = in.sum_length, add = begin;
    vec sum[MAX_ROWS][8];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int p = 0; p < parts; p++) sum[r][p] = broadcast(0);
    for (int64_t done = begin; done < end;) {
        int64_t last = first + (end - done < left ? end - done : left);
        last = last < in.inputs ? last : in.inputs;
        done += last - first, left -= last - first;
        for (int64_t i = 0; i < later->lines; i++, later->from += PANEL) __builtin_prefetch(later->from, 0, 2);
        for (int64_t k = first; k < last; k++, weight += PANEL) {
            vec w[8];
            UNROLL for (int p = 0; p < panels; p++) __builtin_prefetch(weight + p * apart + AHEAD * PANEL);
            UNROLL for (int p = 0; p < parts; p++) w[p] = load(weight + p / PARTS * apart + p % PARTS * LANES);
            UNROLL for (int r = 0; r < rows; r++) {
                vec value = broadcast(x[r * in.step + k]);
                UNROLL for (int p = 0; p < parts; p++) sum[r][p] += value * w[p];
            }
        }
        first = last;
        if (first == in.inputs) first = 0, x += in.tap_step;
        if (left && done < end) continue;
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int p = 0; p < parts; p++) {
            float *out = y + r * y_step + p * LANES;
            store(out, add ? load(out) + sum[r][p] : sum[r][p]);
            sum[r][p] = broadcast(0);
        }
        left = in.sum_length, add = 1;
    }
}

// Takes as many panels at once as fit in registers: with few rows, one panel has too few independent sums.
#define TRY(rows, count)                                                                                               \
    if (rows * count * PARTS <= MAX_SUMS && count * PARTS <= 8 && panels >= count) {                                   \
        tile(rows, count, in, weight, apart, begin, end, y, y_step, later);                                            \
        panels -= count, weight += count * apart, y += count * PANEL;                                                  \
        continue;                                                                                                      \
    }
#define TILES(rows)                                                                                                    \
    static void tiles_##rows(int64_t panels, Rows in, const float *weight, int64_t apart, int64_t begin, int64_t end,  \
                             float *y, int64_t y_step, Later *later) {                                                 \
        while (panels > 0) { TRY(rows, 8) TRY(rows, 4) TRY(rows, 2) TRY(rows, 1) }                                     \
    }
// clang-format off
TILES(1) TILES(2) TILES(3)
#if defined(__AVX2__) || defined(__aarch64__)
TILES(4) TILES(5) TILES(6)
#endif
#if defined(__AVX512F__)
TILES(7) TILES(8) TILES(9) TILES(10) TILES(11) TILES(12)
#endif

static void (*const TILES_OF[])(int64_t, Rows, const float *, int64_t, int64_t, int64_t, float *, int64_t,
                                Later *) = {
    tiles_1, tiles_2, tiles_3,
#if defined(__AVX2__) || defined(__aarch64__)
    tiles_4, tiles_5, tiles_6,
#endif
#if defined(__AVX512F__)
    tiles_7, tiles_8, tiles_9, tiles_10, tiles_11, tiles_12,
#endif
};
// clang-format on

// Inputs begin..end of y[row] = W x[row], for `panels` panels. `after`: the weights that will be needed next, or NULL.
static void multiply_part(Rows in, int64_t rows, const float *weight, int64_t apart, int64_t panels, int64_t begin,
                          int64_t end, float *y, int64_t y_step, const float *after) {
    const int64_t blocks = (rows + MAX_ROWS - 1) / MAX_ROWS;
    Later later = {after, after ? in.sum_length / blocks + 1 : 0};
    for (int64_t block = 0, row = 0; block < blocks; block++) {
        int64_t next = (block + 1) * rows / blocks;
        Rows here = in;
        here.x += row * in.step;
        TILES_OF[next - row - 1](panels, here, weight, apart, begin, end, y + row * y_step, y_step, &later);
        row = next;
    }
}

// y[row] = W x[row]. `weight` is stored in panels [outputs / PANEL][taps * inputs][PANEL]; `outputs` and the rows of y
// are padded to whole panels. With many rows, two panels at a time stay in the L1 cache while all rows are multiplied.
static void multiply(Rows in, int64_t rows, const float *weight, int64_t outputs, float *y, int64_t y_step) {
    const int64_t wide = in.taps * in.inputs, apart = wide * PANEL, all = outputs / PANEL;
    const int64_t group = rows > MAX_ROWS ? 2 : all, fetch = group < all && all * apart > IN_L2; // panels
    for (int64_t first = 0; first < all; first += group)
        multiply_part(in, rows, weight + first * apart, apart, all - first < group ? all - first : group, 0, wide,
                      y + first * PANEL, y_step, fetch ? weight + (first + group) * apart : NULL);
}

INLINE Rows plain_rows(const float *x, int64_t step, int64_t inputs, int64_t sum_length) {
    return (Rows){x, step, 1, 0, inputs, sum_length};
}

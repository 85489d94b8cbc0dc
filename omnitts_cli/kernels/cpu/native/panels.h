// The product of rows of floats with a matrix, which all layers in float32 use.
//
// A matrix lies in panels of 16 outputs, [outputs / PANEL][inputs][PANEL], in float32 or float16. If all of its weights
// are exact in bfloat16, it may also have words of two: [outputs / PANEL][inputs / 2][PANEL], with the bits of an even
// input below those of the next one. The bits of a bfloat16 are the upper half of those of the float.
//
// The order of additions depends only on the shapes: the result of a row does not depend on the other rows of a call, and
// is the same for floats and for words.
#pragma once
#include "vectors.h"

enum { FLOATS, WORDS, NORMED, HALVES }; // forms of a matrix; NORMED: words, to be multiplied by the weights of a norm

enum {
    AHEAD = 32,       // lines: weights come from the memory while those of this many lines are multiplied
    IN_L2 = 96 << 10, // floats: so many weights are in the L2 cache anyway
    READY = 8192      // floats: weights that stay in the cache while all rows are multiplied
};

// Weights that come from the memory into the L2 cache while others are multiplied: so many lines for each sum.
typedef struct {
    const float *from;
    int64_t lines;
} Later;

// The input rows of a product. Row r consists of `taps` runs of `inputs` floats, the first at x + r * step, the others
// `tap_step` apart. Products are summed in blocks of `sum_length` and the block sums are then added, which
// has smaller rounding errors than one long sum. Blocks run on from one tap into the next, so the order of additions is
// the same for rows that were gathered into one run. `form`: of the matrix that they are multiplied with.
typedef struct {
    const float *x;
    int64_t step, taps, tap_step, inputs, sum_length, form;
    const float *norm; // [inputs], for a NORMED matrix
} Rows;

// Panel `panel` of a matrix.
INLINE const void *panel_at(Rows in, const void *weight, int64_t panel) {
    return (const char *)weight + panel * in.taps * in.inputs * PANEL * (in.form == FLOATS ? 4 : 2);
}

INLINE int inputs_of(int64_t form) { return form == WORDS || form == NORMED ? 2 : 1; } // of a line of PANEL numbers

// The weights of one input from a vector of floats, or of words, which have an even and an odd one.
INLINE vec weights_in(const int64_t form, vec held, const int odd, vec norm) {
    if (form == FLOATS) return held;
    const vec weights = (vec)(odd ? (ivec)held & (int32_t)0xFFFF0000 : (ivec)held << 16);
    return form == NORMED ? weights * norm : weights;
}

// Inputs begin..end of the product of `rows` rows and `panels` panels, with sums in registers. Both counts and the form
// are constants at every call. `weight` is input `begin` of the first panel; panels are `apart` floats apart. `begin` is a
// multiple of `sum_length`; unless it is 0, the sums are added to y. Inputs of words and `sum_length` are even.
INLINE void tile(const int form, const int rows, const int panels, Rows in, const float *weight, int64_t apart,
                 int64_t begin, int64_t end, float *y, int64_t y_step, Later *later) {
    const int inputs = inputs_of(form);
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
        for (int64_t k = first; k < last; k += inputs, weight += PANEL) {
            vec held[8];
            UNROLL for (int p = 0; p < panels; p++) __builtin_prefetch(weight + p * apart + AHEAD * PANEL);
            UNROLL for (int p = 0; p < parts; p++) held[p] = load(weight + p / PARTS * apart + p % PARTS * LANES);
            UNROLL for (int odd = 0; odd < inputs; odd++) {
                vec w[8], norm = broadcast(form == NORMED ? in.norm[k + odd] : 1);
                UNROLL for (int p = 0; p < parts; p++) w[p] = weights_in(form, held[p], odd, norm);
                UNROLL for (int r = 0; r < rows; r++) {
                    vec value = broadcast(x[r * in.step + k + odd]);
                    UNROLL for (int p = 0; p < parts; p++) sum[r][p] += value * w[p];
                }
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
#define TRY(form, rows, count)                                                                                         \
    if (rows * count * PARTS <= MAX_SUMS && count * PARTS <= 8 && panels >= count) {                                   \
        tile(form, rows, count, in, weight, apart, begin, end, y, y_step, later);                                      \
        panels -= count, weight += count * apart, y += count * PANEL;                                                  \
        continue;                                                                                                      \
    }
#define TILES(form, rows)                                                                                              \
    static void form##_##rows(int64_t panels, Rows in, const float *weight, int64_t apart, int64_t begin, int64_t end, \
                              float *y, int64_t y_step, Later *later) {                                                \
        while (panels > 0) { TRY(form, rows, 8) TRY(form, rows, 4) TRY(form, rows, 2) TRY(form, rows, 1) }             \
    }
#if defined(__AVX512F__)
#define EACH(form, DO) \
    DO(form, 1) DO(form, 2) DO(form, 3) DO(form, 4) DO(form, 5) DO(form, 6) \
    DO(form, 7) DO(form, 8) DO(form, 9) DO(form, 10) DO(form, 11) DO(form, 12)
#elif defined(__AVX2__) || defined(__aarch64__)
#define EACH(form, DO) DO(form, 1) DO(form, 2) DO(form, 3) DO(form, 4) DO(form, 5) DO(form, 6)
#else
#define EACH(form, DO) DO(form, 1) DO(form, 2) DO(form, 3)
#endif
#define NAME(form, rows) form##_##rows,
// clang-format off
EACH(FLOATS, TILES) EACH(WORDS, TILES) EACH(NORMED, TILES)
// clang-format on
typedef void (*Tiles)(int64_t, Rows, const float *, int64_t, int64_t, int64_t, float *, int64_t, Later *);
static const Tiles TILES_OF[][MAX_ROWS] = {{EACH(FLOATS, NAME)}, {EACH(WORDS, NAME)}, {EACH(NORMED, NAME)}};

// Inputs begin..end of y[row] = W x[row], for `panels` panels. `after`: the weights that will be needed next, or NULL.
static void multiply_part(Rows in, int64_t rows, const float *weight, int64_t apart, int64_t panels, int64_t begin,
                          int64_t end, float *y, int64_t y_step, const float *after) {
    const int64_t blocks = (rows + MAX_ROWS - 1) / MAX_ROWS;
    Later later = {after, after ? in.sum_length / blocks + 1 : 0};
    for (int64_t block = 0, row = 0; block < blocks; block++) {
        int64_t next = (block + 1) * rows / blocks;
        Rows here = in;
        here.x += row * in.step;
        TILES_OF[in.form][next - row - 1](panels, here, weight, apart, begin, end, y + row * y_step, y_step, &later);
        row = next;
    }
}

// So many inputs of a panel become floats in `ready`.
INLINE void widen(const int form, const void *panel, const float *norm, int64_t inputs, float *ready) {
    for (int64_t k = 0; k < inputs * PANEL && form == HALVES; k += LANES)
        store(ready + k, load_half((const uint16_t *)panel + k));
    for (int64_t k = 0; k < inputs && form != HALVES; k += 2, ready += 2 * PANEL) {
        const vec even = broadcast(form == NORMED ? norm[k] : 1), odd = broadcast(form == NORMED ? norm[k + 1] : 1);
        UNROLL for (int p = 0; p < PARTS; p++) {
            const vec held = load((const float *)panel + k / 2 * PANEL + p * LANES);
            store(ready + p * LANES, weights_in(form, held, 0, even));
            store(ready + PANEL + p * LANES, weights_in(form, held, 1, odd));
        }
    }
}

// y[row] = W x[row], for `panels` panels. Weights are taken in parts, each of which becomes floats in `ready` if it is in
// another form, for all rows. `after`: the weights that will be needed next, or NULL.
static void multiply_in_parts(Rows in, int64_t rows, const void *weight, int64_t panels, float *y, int64_t y_step,
                              const float *after, float *ready) {
    const int64_t wide = in.taps * in.inputs, most = READY / (panels * PANEL) / in.sum_length * in.sum_length;
    Rows of_floats = in;
    of_floats.form = FLOATS;
    for (int64_t begin = 0, end; begin < wide; begin = end) {
        end = wide - begin < most ? wide : begin + most;
        const int64_t floats = (end - begin) * PANEL;
        const float *next = after ? after + panels * begin * PANEL / inputs_of(in.form) : NULL;
        if (in.form == FLOATS) {
            const float *from = (const float *)weight + begin * PANEL;
            multiply_part(in, rows, from, wide * PANEL, panels, begin, end, y, y_step, next);
            continue;
        }
        for (int64_t i = 0; i < panels; i++) {
            const uint16_t *from = (const uint16_t *)panel_at(in, weight, i) + begin * PANEL;
            float *to = ready + i * floats;
            if (in.form == HALVES) widen(HALVES, from, NULL, end - begin, to);
            else if (in.form == WORDS) widen(WORDS, from, NULL, end - begin, to);
            else widen(NORMED, from, in.norm + begin, end - begin, to);
        }
        multiply_part(of_floats, rows, ready, floats, panels, begin, end, y, y_step, next);
    }
}

// y[row] = W x[row], not for HALVES; `outputs` and the rows of y are padded to whole panels. With many rows, two panels at
// a time stay in the L1 cache while all rows are multiplied.
static void multiply(Rows in, int64_t rows, const void *weight, int64_t outputs, float *y, int64_t y_step) {
    const int64_t wide = in.taps * in.inputs, apart = wide * PANEL / inputs_of(in.form), all = outputs / PANEL;
    const int64_t group = rows > MAX_ROWS ? 2 : all, fetch = group < all && all * apart > IN_L2; // panels
    float ready[READY];
    for (int64_t first = 0; first < all; first += group) {
        const int64_t panels = min_of(group, all - first);
        const float *from = panel_at(in, weight, first), *after = fetch ? from + group * apart : NULL;
        float *to = y + first * PANEL;
        if (rows > 2 * MAX_ROWS && in.form != FLOATS) multiply_in_parts(in, rows, from, panels, to, y_step, after, ready);
        else multiply_part(in, rows, from, apart, panels, 0, wide, to, y_step, after);
    }
}

INLINE Rows plain_rows(const float *x, int64_t step, int64_t inputs, int64_t sum_length) {
    return (Rows){x, step, 1, 0, inputs, sum_length, FLOATS, NULL};
}

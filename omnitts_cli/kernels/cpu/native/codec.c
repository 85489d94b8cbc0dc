// The codec's decoder: one call decodes the next codes of several streams to sound.
//
// networks.py in the parent folder fills the structures below; codec.py there has the same layers in Python. Weights
// have the layout of FusedSlotDecoder in models/slot_decoder.py. All threads of a call run the same code: they take
// pieces of each layer and meet at its end. A piece of a layer whose weights fit in a cache is some columns; of a larger
// one, some outputs, so that weights are read once. With one thread, layers near the sample rate take one stream and one
// frame at a time, so that activations stay in the cache.
#include "panels.h"
#include "team.h"

enum { CODEC_SUM = 64 }; // `sum_length` of products; 16 makes ten streams 10 % slower

enum { NONE, SNAKE, GELU, SWIGLU };

typedef struct {        // y = activation(weight [x(t), x(t + dilation), ...] + bias)
    const void *weight; // panels of [outputs, taps * inputs]; for SWIGLU: panels of the gate, then those of up
    const float *bias, *scale, *inverse; // padded to whole panels; NULL if the layer has none, as SWIGLU has no bias
    int64_t outputs, inputs, taps, dilation, activation;
    int64_t form;  // of the weights: FLOATS, or for large products HALVES
    int64_t quads; // whether four outputs are calculated at a time; `weight`: [TERMS] times the panels of one tap
    float eps;     // of the RMS norm of x before the product; negative: no norm
} Product;

typedef struct {
    Product qkv, out, gate_up, down;
} DecoderLayer;

typedef struct {
    Product rise, up, down;
    const float *weight, *bias; // depthwise: [taps, channels], [channels]
    int64_t taps;
    float eps;
} Stretch;

typedef struct {
    Product conv, point;
} Unit;

typedef struct {
    Product rise;
    const Unit *unit;
    int64_t units;
} Rise;

typedef struct { // buffer for the input of a causal convolution: `past` old columns, then `rate` per frame
    int64_t past, rate, channels;
} Track;

typedef struct {
    Product opening, leaving, widen;
    const DecoderLayer *layer;
    const Stretch *stretch;
    const Rise *rise;
    const Track *track;
    const float *books, *closing, *closing_bias, *rates; // [groups, codes, book]; [taps, channels]; [1]; [depth / 2]
    int64_t layers, stretches, rises, tracks, groups, codes, book, closing_taps;
    int64_t heads, depth, window, ring, slots, kept, samples;
    int64_t large;                  // products of more weights are dealt by outputs
    float *history, *keys, *values; // [slots, kept]; [layers, slots, heads, ring, depth]
    int64_t *frames;                // [slots] decoded so far
} Decoder;

typedef struct { // [streams, columns, channels]: columns are contiguous, streams are `stride` floats apart
    float *x;
    int64_t stride;
} View;

INLINE View offset_view(View v, int64_t offset) { return (View){v.x ? v.x + offset : NULL, v.stride}; }

// Approximates erf with an error of at most 2e-7 (Abramowitz and Stegun, 7.1.26).
INLINE vec gelu(vec x) {
    vec a = (vec)((ivec)(x * 0.707106781f) & 0x7FFFFFFF), t = 1.0f / (1.0f + 0.3275911f * a);
    vec p = broadcast(1.061405429f);
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    vec tail = 0.5f * p * t * exponential(-a * a);
    return x * blend(x < broadcast(0), tail, 1.0f - tail);
}

// Outputs first..first + width of a row. For SWIGLU, those of the gate are followed by those of up.
static void activate(const Product *p, float *y, int64_t first, int64_t width) {
    if (p->activation == SNAKE)
        for (int64_t i = 0; i < width; i += LANES)
            store(y + i, snake(load(y + i), load(p->scale + first + i), load(p->inverse + first + i)));
    else if (p->activation == GELU)
        for (int64_t i = 0; i < width; i += LANES) store(y + i, gelu(load(y + i)));
    else if (p->activation == SWIGLU)
        for (int64_t i = 0; i < width; i += LANES) store(y + i, silu(load(y + i)) * load(y + width + i));
}

// Panels of a product; of SWIGLU, those of the gate.
static int64_t panels_of(const Product *p) {
    return padded(p->activation == SWIGLU ? p->outputs / 2 : p->outputs) / PANEL;
}
static int64_t outputs_of(const Product *p) { return panels_of(p) * PANEL * (p->activation == SWIGLU ? 2 : 1); }
static int64_t weights_of(const Product *p) { return outputs_of(p) * p->taps * p->inputs; }

typedef struct {     // one call: its streams, and buffers that all of its threads use
    Team team;
    const Decoder *d;
    const int64_t *codes, *slots;
    int64_t streams, length;
    float *sound;
    View tracks[64]; // tracks with their past columns in front
    float *x, *qkv, *attended, *hidden, *wide, *mixed, *ready, *turns, *own;
    int64_t own_size; // floats at `own` for each thread
} DecoderCall;

typedef struct { // one of its threads
    DecoderCall *call;
    const Decoder *d;
    Team *team;
    float *scratch; // for itself
} Hand;

// ---- products

enum { // of convolutions in quads, see below
    QUAD = 4,
    QUAD_TAPS = 7,
    TERMS = QUAD + QUAD_TAPS - 1,
    QUAD_ROWS = 48,  // most quads of a piece
    QUAD_PANELS = 4, // most panels of a piece
    QUAD_FLOATS = (TERMS * QUAD_ROWS + QUAD) * QUAD_PANELS * PANEL,
    QUADS_TOGETHER = 1 << 20 // floats: about so many inputs are prepared at a time
};

enum {
    TILE = 96,        // largest number of rows of a tile, whose results stay in the cache for bias and activation
    LONG_TILE = 192,  // the same if a tile has only some of the outputs
    FEW_PANELS = 4    // most panels of a piece
};

typedef struct { // the input rows of a product: `columns` rows of each stream lie `step` apart
    View x;
    int64_t columns, step, taps, tap_step, inputs;
} Source;

// Whether rows are copied to be one matrix: because they need a norm, or because runs of few rows would take long.
static int is_copied(const Product *p, int64_t streams, int64_t columns, int64_t stride) {
    if (p->eps >= 0) return 1;
    return streams > 1 && columns < 2 * MAX_ROWS && (p->taps > 1 || stride != columns * p->inputs);
}

static Source source_of(const Product *p, View in, int64_t streams, int64_t columns, Hand *me) {
    const int64_t inputs = p->inputs, wide = p->taps * inputs, rows = streams * columns;
    if (!is_copied(p, streams, columns, in.stride)) {
        const int one = p->taps == 1 && in.stride == columns * inputs;
        return (Source){in, one ? rows : columns, inputs, p->taps, p->dilation * inputs, inputs};
    }
    float *ready = me->call->ready;
    for (int64_t r; (r = take(me->team)) < rows;) {
        const float *x = in.x + r / columns * in.stride + r % columns * inputs;
        if (p->eps >= 0)
            rms_norm(x, ready + r * wide, inputs, p->eps);
        else
            for (int64_t tap = 0; tap < p->taps; tap++)
                memcpy(ready + r * wide + tap * inputs, x + tap * p->dilation * inputs, 4 * inputs);
    }
    meet(me->team);
    return (Source){{ready, 0}, rows, wide, 1, 0, wide};
}

// How a product is dealt: tiles of rows, none of which has rows of two runs, times groups of panels.
typedef struct {
    int64_t run, rows, runs, tiles, panels, groups; // rows of a run and of a tile; tiles of a run; panels of a group
} Deal;

static Deal deal_of(const Product *p, const Source *s, int64_t rows, int64_t large, int threads) {
    const int64_t all = panels_of(p), runs = rows / s->columns;
    if (weights_of(p) <= large) {
        int64_t n = 8192 / outputs_of(p) / MAX_ROWS * MAX_ROWS;
        n = n < MAX_ROWS ? MAX_ROWS : n > TILE ? TILE : n;
        return (Deal){s->columns, n, runs, (s->columns + n - 1) / n, all, 1};
    }
    const int64_t tiles = (s->columns + LONG_TILE - 1) / LONG_TILE;
    const int64_t blocks = (s->columns + tiles * MAX_ROWS - 1) / (tiles * MAX_ROWS);
    int64_t panels = s->columns > MAX_ROWS ? FEW_PANELS / 2 : FEW_PANELS;
    while (panels > 1 && runs * tiles * ((all + panels - 1) / panels) < 4 * threads) panels /= 2;
    return (Deal){s->columns, blocks * MAX_ROWS, runs, tiles, panels, (all + panels - 1) / panels};
}

typedef struct {
    int64_t first, rows, panel, panels;
} Piece;

// The next piece for this thread; false if there is none. Pieces with the same weights are neighbours.
static int next_piece(const Deal *deal, Hand *me, Piece *piece) {
    const int64_t number = take(me->team), tiles = deal->runs * deal->tiles, tile = number % tiles;
    if (number >= tiles * deal->groups) return 0;
    const int64_t column = tile % deal->tiles * deal->rows, panel = number / tiles * deal->panels;
    piece->first = tile / deal->tiles * deal->run + column;
    piece->rows = deal->run - column < deal->rows ? deal->run - column : deal->rows;
    piece->panel = panel, piece->panels = deal->panels;
    return 1;
}

static Rows rows_of(const Product *p, const Source *s, int64_t first) {
    const float *x = s->x.x + first / s->columns * s->x.stride + first % s->columns * s->step;
    return (Rows){x, s->step, s->taps, s->tap_step, s->inputs, CODEC_SUM, p->form, NULL};
}

static int64_t tile_floats(const Product *p, int64_t large) {
    if (p->quads) return QUAD_FLOATS;
    if (weights_of(p) <= large) return TILE * outputs_of(p);
    return READY + LONG_TILE * 2 * FEW_PANELS * PANEL;
}

// `out_f32` gets the product plus bias and residual, `out` the activation of that. Each may be empty.
static void product(const Product *p, View in, int64_t streams, int64_t columns, View residual, View out_f32, View out,
                    Hand *me) {
    const int64_t wide = p->activation == SWIGLU ? p->outputs / 2 : p->outputs, all = panels_of(p);
    const Source s = source_of(p, in, streams, columns, me);
    const Deal deal = deal_of(p, &s, streams * columns, me->d->large, me->team->threads);
    const int is_large = weights_of(p) > me->d->large, gated = p->activation == SWIGLU;
    float *y = me->scratch + (is_large ? READY : 0);
    for (Piece piece; next_piece(&deal, me, &piece);) {
        const int64_t panels = min_of(piece.panels, all - piece.panel), width = panels * PANEL, step = width << gated;
        const int64_t at = piece.panel * PANEL, made = min_of(width, wide - at);
        for (int part = 0; part <= gated; part++) {
            const int64_t panel = piece.panel + part * all;
            const Rows rows = rows_of(p, &s, piece.first);
            const void *weight = panel_at(rows, p->weight, panel);
            if (is_large) multiply_in_parts(rows, piece.rows, weight, panels, y + part * width, step, NULL, me->scratch);
            else multiply(rows, piece.rows, weight, width, y + part * width, step);
        }
        int64_t stream = piece.first / columns, column = piece.first % columns;
        for (int64_t r = 0; r < piece.rows; r++) {
            float *own = y + r * step;
            const int64_t place = column * wide + at;
            if (p->bias) add_to(own, p->bias + at, width);
            if (residual.x) add_scaled(own, residual.x + stream * residual.stride + place, 1.0f, made);
            if (out_f32.x) memcpy(out_f32.x + stream * out_f32.stride + place, own, 4 * made);
            if (out.x) {
                activate(p, own, at, width);
                memcpy(out.x + stream * out.stride + place, own, 4 * made);
            }
            if (++column == columns) column = 0, stream++;
        }
    }
    meet(me->team);
}

// ---- convolutions in quads
//
// The four outputs y(t), y(t + d), y(t + 2d), y(t + 3d) of a convolution with seven taps and the dilation d take 28
// products of an input and a weight. They are also four coefficients of a product of polynomials, which is known from
// its values at ten points: 0, infinity, and the POINTS with both signs (minimal filtering, by Toom and Cook). So ten
// sums of inputs are multiplied with ten sums of weights, which networks.py made. A frame has its own quads, whatever
// frames follow it: beyond its end, inputs count as zeros and outputs are dropped.

#define POINTS {1.0f, 1.25f, 0.5f, 2.0f}
// Coefficients of (x - a)(x - b)(x - c) and (x - a)(x - b)(x - c)(x - d) without that of the highest power, which is 1.
#define THREE(a, b, c) {-a * b * c, a * b + a * c + b * c, -(a + b + c)}
#define FOUR(a, b, c, d) {a * b * c * d, -(a * b * c + a * b * d + a * c * d + b * c * d), \
                          a * b + a * c + a * d + b * c + b * d + c * d, -(a + b + c + d)}

// The quads of a frame: those of column 0 and every d-th after it, then those of column 1, ... The first `longer` of d
// columns have each[0] quads, the others each[1].
typedef struct {
    int64_t columns, dilation, longer, each[2], count;
} Quads;

static Quads quads_of(int64_t columns, int64_t dilation) {
    const int64_t fewest = columns / dilation, longer = columns % dilation;
    const int64_t each[] = {(fewest + QUAD) / QUAD, (fewest + QUAD - 1) / QUAD};
    return (Quads){columns, dilation, longer, {each[0], each[1]}, longer * each[0] + (dilation - longer) * each[1]};
}

// The column of the first output of a quad.
static int64_t quad_at(const Quads *q, int64_t number) {
    const int64_t later = number - q->longer * q->each[0], each = q->each[later >= 0], own = later < 0 ? number : later;
    return (later < 0 ? 0 : q->longer) + own / each + own % each * QUAD * q->dilation;
}

// Frames whose inputs are prepared at a time.
static int64_t frames_together(const Quads *q, int64_t frames, int64_t channels) {
    return min_of(frames, max_of(1, QUADS_TOGETHER / (TERMS * q->count * channels)));
}

// The ten sums of the inputs x, x + step, ... of a quad, of which the first `there` are in the frame; they lie `apart`.
static void quad_inputs(const float *x, int64_t step, int64_t there, int64_t channels, float *out, int64_t apart) {
    static const float points[] = POINTS, all[] = FOUR(1.0f, 1.5625f, 0.25f, 4.0f);
    static const float others[][3] = {THREE(1.5625f, 0.25f, 4.0f), THREE(1.0f, 0.25f, 4.0f), THREE(1.0f, 1.5625f, 4.0f),
                                      THREE(1.0f, 1.5625f, 0.25f)};
    for (int64_t c = 0; c < channels; c += LANES) {
        vec v[TERMS];
        UNROLL for (int i = 0; i < TERMS; i++) v[i] = i < there ? load(x + i * step + c) : broadcast(0);
        store(out + c, v[0] * all[0] + v[2] * all[1] + v[4] * all[2] + v[6] * all[3] + v[8]);
        UNROLL for (int i = 0; i < 4; i++) {
            vec even = v[2] * others[i][0] + v[4] * others[i][1] + v[6] * others[i][2] + v[8];
            vec odd = (v[1] * others[i][0] + v[3] * others[i][1] + v[5] * others[i][2] + v[7]) * points[i];
            store(out + (1 + 2 * i) * apart + c, even + odd);
            store(out + (2 + 2 * i) * apart + c, even - odd);
        }
        store(out + 9 * apart + c, v[1] * all[0] + v[3] * all[1] + v[5] * all[2] + v[7] * all[3] + v[9]);
    }
}

// The outputs of a quad [QUAD, width] from its ten products, which lie `apart`.
static void quad_outputs(const float *y, int64_t apart, const float *bias, int64_t width, float *out) {
    static const float points[] = POINTS;
    for (int64_t k = 0; k < width; k += LANES) {
        vec own = load(bias + k), made[QUAD] = {own + load(y + k), own, own, own + load(y + 9 * apart + k)};
        UNROLL for (int i = 0; i < 4; i++) {
            vec plus = load(y + (1 + 2 * i) * apart + k), minus = load(y + (2 + 2 * i) * apart + k);
            vec sum = plus + minus, difference = (plus - minus) * points[i];
            made[0] += sum, made[1] += difference;
            made[2] += sum * (points[i] * points[i]), made[3] += difference * (points[i] * points[i]);
        }
        UNROLL for (int i = 0; i < QUAD; i++) store(out + i * width + k, made[i]);
    }
}

// `out` gets the activation of the convolution of `in`, whose streams have whole frames of `rate` columns.
static void quad_convolution(const Product *p, View in, int64_t streams, int64_t columns, int64_t rate, View out,
                             Hand *me) {
    const Quads q = quads_of(rate, p->dilation);
    const int64_t channels = p->inputs, all = panels_of(p), each = columns / rate, frames = streams * each;
    const int64_t step = p->dilation * channels, together = frames_together(&q, frames, channels);
    float *ready = me->call->ready, *y = me->scratch, *made = y + TERMS * QUAD_ROWS * QUAD_PANELS * PANEL;
    for (int64_t first = 0; first < frames; first += together) {
        const int64_t rows = min_of(together, frames - first) * q.count, apart = rows * channels;
        for (int64_t piece; (piece = take(me->team)) < (rows + QUAD - 1) / QUAD;)
            for (int64_t r = piece * QUAD; r < min_of((piece + 1) * QUAD, rows); r++) {
                const int64_t frame = first + r / q.count, column = quad_at(&q, r % q.count);
                const float *x = in.x + frame / each * in.stride + (frame % each * rate + column) * channels;
                const int64_t there = (rate - 1 - column) / p->dilation + QUAD_TAPS;
                quad_inputs(x, step, there, channels, ready + r * channels, apart);
            }
        meet(me->team);
        const int64_t blocks = (rows + QUAD_ROWS - 1) / QUAD_ROWS;
        int64_t most = QUAD_PANELS;
        while (most > 1 && blocks * ((all + most - 1) / most) < 4 * me->team->threads) most /= 2;
        for (int64_t piece; (piece = take(me->team)) < blocks * ((all + most - 1) / most);) {
            const int64_t panel = piece / blocks * most, panels = min_of(most, all - panel), width = panels * PANEL;
            const int64_t from = piece % blocks * rows / blocks, count = (piece % blocks + 1) * rows / blocks - from;
            for (int64_t term = 0; term < TERMS; term++)
                multiply_part(plain_rows(ready + term * apart + from * channels, channels, channels, CODEC_SUM), count,
                              (const float *)p->weight + (term * all + panel) * channels * PANEL, channels * PANEL,
                              panels, 0, channels, y + term * count * width, width, NULL);
            for (int64_t r = 0; r < count; r++) {
                const int64_t frame = first + (from + r) / q.count, column = quad_at(&q, (from + r) % q.count);
                float *to = out.x + frame / each * out.stride + frame % each * rate * p->outputs + panel * PANEL;
                quad_outputs(y + r * width, count * width, p->bias + panel * PANEL, width, made);
                for (int64_t i = 0, at; i < QUAD && (at = column + i * p->dilation) < rate; i++) {
                    activate(p, made + i * width, panel * PANEL, width);
                    memcpy(to + at * p->outputs, made + i * width, 4 * width);
                }
            }
        }
        meet(me->team);
    }
}

// y = residual + point(conv(x)). `out` gets the activation of y; with `keep`, `residual` is overwritten by y. A frame
// has `rate` columns.
static void residual_unit(const Unit *u, View in, int64_t streams, int64_t columns, int64_t rate, View residual,
                          int keep, View out, Hand *me) {
    const int64_t outputs = outputs_of(&u->conv), channels = u->point.outputs;
    const View none = {0}, mixed = {me->call->mixed, columns * channels};
    if (u->conv.quads || weights_of(&u->conv) > me->d->large) {
        if (u->conv.quads)
            quad_convolution(&u->conv, in, streams, columns, rate, mixed, me);
        else
            product(&u->conv, in, streams, columns, none, none, mixed, me);
        product(&u->point, mixed, streams, columns, residual, keep ? residual : none, out, me);
        return;
    }
    const Source s = source_of(&u->conv, in, streams, columns, me);
    const Deal deal = deal_of(&u->conv, &s, streams * columns, me->d->large, me->team->threads);
    float *between = me->scratch, *y = between + TILE * outputs;
    for (Piece piece; next_piece(&deal, me, &piece);) {
        multiply(rows_of(&u->conv, &s, piece.first), piece.rows, u->conv.weight, outputs, between, outputs);
        for (int64_t r = 0; r < piece.rows; r++) {
            if (u->conv.bias) add_to(between + r * outputs, u->conv.bias, outputs);
            activate(&u->conv, between + r * outputs, 0, outputs);
        }
        multiply(plain_rows(between, outputs, u->point.inputs, CODEC_SUM), piece.rows, u->point.weight, outputs, y,
                 outputs);
        int64_t stream = piece.first / columns, column = piece.first % columns;
        for (int64_t r = 0; r < piece.rows; r++) {
            float *own = y + r * outputs, *held = residual.x + stream * residual.stride + column * channels;
            if (u->point.bias) add_to(own, u->point.bias, outputs);
            add_scaled(own, held, 1.0f, channels);
            if (keep) memcpy(held, own, 4 * channels);
            activate(&u->point, own, 0, outputs);
            memcpy(out.x + stream * out.stride + column * channels, own, 4 * channels);
            if (++column == columns) column = 0, stream++;
        }
    }
    meet(me->team);
}

// ---- the transformer

// cos and sin of the angles of each frame: [streams, length, depth / 2, 2].
static void make_turns(Hand *me) {
    const DecoderCall *c = me->call;
    const int64_t half = me->d->depth / 2;
    for (int64_t i; (i = take(me->team)) < c->streams * c->length;)
        for (int64_t k = 0; k < half; k++) {
            float angle = (float)(me->d->frames[c->slots[i / c->length]] + i % c->length) * me->d->rates[k];
            float *turn = c->turns + 2 * (i * half + k);
            turn[0] = cosf(angle), turn[1] = sinf(angle);
        }
    meet(me->team);
}

static void rotate(float *x, const float *turns, int64_t half) {
    for (int64_t i = 0; i < half; i++) {
        float low = x[i], high = x[i + half], c = turns[2 * i], s = turns[2 * i + 1];
        x[i] = low * c - high * s;
        x[i + half] = high * c + low * s;
    }
}

// Attention of one head of one stream over the last `window` frames: rotates its queries and keys in qkv [length, 3,
// heads, depth], stores keys and values in the ring, attends.
static void attend_window(const Hand *me, int64_t layer, int64_t stream, int64_t head) {
    const Decoder *d = me->d;
    const DecoderCall *c = me->call;
    const int64_t depth = d->depth, wide = d->heads * depth, slot = c->slots[stream], before = d->frames[slot];
    const int64_t ring = ((layer * d->slots + slot) * d->heads + head) * d->ring * depth;
    float *keys = d->keys + ring, *values = d->values + ring, *scores = me->scratch;
    float *qkv = c->qkv + stream * c->length * 3 * wide + head * depth;
    float *out = c->attended + stream * c->length * wide + head * depth;
    for (int64_t t = 0; t < c->length; t++) {
        float *own = qkv + t * 3 * wide;
        const float *turns = c->turns + (stream * c->length + t) * depth;
        const int64_t place = (before + t) % d->ring * depth;
        rotate(own, turns, depth / 2);
        rotate(own + wide, turns, depth / 2);
        memcpy(keys + place, own + wide, 4 * depth);
        memcpy(values + place, own + 2 * wide, 4 * depth);
    }
    const float root = 1.0f / sqrtf((float)depth);
    for (int64_t t = 0; t < c->length; t++) {
        const int64_t last = before + t, oldest = max_of(0, last - d->window + 1), count = last - oldest + 1;
        const float *query = qkv + t * 3 * wide;
        float *own = out + t * wide;
        for (int64_t i = 0; i < count; i++)
            scores[i] = dot(query, keys + (oldest + i) % d->ring * depth, depth) * root;
        float inverse = softmax(scores, count);
        memset(own, 0, 4 * depth);
        for (int64_t i = 0; i < count; i++)
            add_scaled(own, values + (oldest + i) % d->ring * depth, scores[i], depth);
        for (int64_t i = 0; i < depth; i++) own[i] *= inverse;
    }
}

static void transformer(Hand *me) {
    const Decoder *d = me->d;
    const DecoderCall *c = me->call;
    const int64_t hidden = d->opening.outputs, heads = d->heads * d->depth, streams = c->streams, length = c->length;
    const View none = {0}, x = {c->x, length * hidden}, qkv = {c->qkv, 3 * length * heads};
    for (int64_t i = 0; i < d->layers; i++) {
        const DecoderLayer *l = d->layer + i;
        const View attended = {c->attended, length * heads}, inner = {c->hidden, length * l->down.inputs};
        product(&l->qkv, x, streams, length, none, qkv, none, me);
        for (int64_t k; (k = take(me->team)) < streams * d->heads;) attend_window(me, i, k / d->heads, k % d->heads);
        meet(me->team);
        product(&l->out, attended, streams, length, x, x, none, me);
        product(&l->gate_up, x, streams, length, none, none, inner, me);
        product(&l->down, inner, streams, length, x, x, none, me);
    }
}

// ---- from the frame rate to the sample rate

// A depthwise convolution of x [taps, channels] to one column, then layer norm without weights.
static void depthwise_norm(const Stretch *s, const float *x, int64_t channels, float *out) {
    float mean = 0, square = 0;
    for (int64_t c = 0; c < channels; c++) out[c] = s->bias[c];
    for (int64_t tap = 0; tap < s->taps; tap++)
        for (int64_t c = 0; c < channels; c++) out[c] += x[tap * channels + c] * s->weight[tap * channels + c];
    for (int64_t c = 0; c < channels; c++) mean += out[c];
    mean /= (float)channels;
    for (int64_t c = 0; c < channels; c++) square += (out[c] - mean) * (out[c] - mean);
    float factor = 1.0f / sqrtf(square / (float)channels + s->eps);
    for (int64_t c = 0; c < channels; c++) out[c] = (out[c] - mean) * factor;
}

static View past_of(const DecoderCall *c, int64_t track) {
    return offset_view(c->tracks[track], c->d->track[track].past * c->d->track[track].channels);
}

// Reads `in` [streams, columns / rate of the stretch] and track `track`; writes that track, then `out`.
static void run_stretch(const Stretch *s, int64_t track, View in, int64_t rate, View out, Hand *me) {
    const Decoder *d = me->d;
    const DecoderCall *c = me->call;
    const View none = {0}, from = c->tracks[track];
    const int64_t channels = d->track[track].channels, columns = c->length * d->track[track].rate;
    const View wide = {c->wide, columns * channels}, mixed = {c->mixed, columns * channels};
    const View inner = {c->hidden, columns * s->down.inputs};
    product(&s->rise, in, c->streams, c->length * rate, none, wide, past_of(c, track), me);
    for (int64_t i; (i = take(me->team)) < c->streams * columns;)
        depthwise_norm(s, from.x + i / columns * from.stride + i % columns * channels, channels, mixed.x + i * channels);
    meet(me->team);
    product(&s->up, mixed, c->streams, columns, none, none, inner, me);
    product(&s->down, inner, c->streams, columns, wide, none, out, me);
}

// Runs a rise and its units on frames first..first + length of `streams` streams, beginning with number `stream`. The
// rise reads track `track`, each unit the next one; all write to the track after the one they read.
static void run_rise(const Rise *rise, int64_t track, int64_t stream, int64_t streams, int64_t first, int64_t length,
                     Hand *me) {
    const DecoderCall *c = me->call;
    const Track *in = me->d->track + track, *made = in + 1;
    const int64_t skip = first * made->rate * made->channels, columns = length * made->rate;
    const View none = {0}, wide = {c->wide, columns * made->channels};
    View x = offset_view(c->tracks[track], stream * c->tracks[track].stride + first * in->rate * in->channels), out;
    for (int64_t unit = 0; unit <= rise->units; unit++) {
        out = past_of(c, track + 1 + unit);
        out = offset_view(out, stream * out.stride + skip);
        if (unit == 0)
            product(&rise->rise, x, streams, length * in->rate, none, wide, out, me);
        else
            residual_unit(rise->unit + unit - 1, x, streams, columns, made->rate, wide, unit < rise->units, out, me);
        x = offset_view(c->tracks[track + 1 + unit], stream * c->tracks[track + 1 + unit].stride + skip);
    }
}

// The first rise from which on all weights fit in a part of the L2 cache (192 Ki floats).
static int64_t first_cached_rise(const Decoder *d) {
    int64_t floats = 0, first = d->rises;
    while (first > 0) {
        const Rise *rise = d->rise + first - 1;
        floats += weights_of(&rise->rise);
        for (int64_t i = 0; i < rise->units; i++)
            floats += weights_of(&rise->unit[i].conv) + weights_of(&rise->unit[i].point);
        if (floats > 192 << 10) break;
        first--;
    }
    return first;
}

// `samples` samples of a stream from number `first` on.
static void close_sound(Hand *me, int64_t stream, int64_t first, int64_t samples) {
    const Decoder *d = me->d;
    const int64_t channels = d->track[d->tracks - 1].channels;
    const View track = me->call->tracks[d->tracks - 1];
    const float *columns = track.x + stream * track.stride + first * channels;
    float *out = me->call->sound + stream * me->call->length * d->samples + first;
    for (int64_t i = 0; i < samples; i++) {
        float y = dot(columns + i * channels, d->closing, d->closing_taps * channels) + d->closing_bias[0];
        out[i] = y < -1.0f ? -1.0f : y > 1.0f ? 1.0f : y;
    }
}

static void embed(Hand *me) {
    const Decoder *d = me->d;
    const DecoderCall *c = me->call;
    const View new = past_of(c, 0);
    for (int64_t i; (i = take(me->team)) < c->streams * c->length;) {
        const int64_t *own = c->codes + i * d->groups;
        float *row = new.x + i / c->length * new.stride + i % c->length * 2 * d->book;
        memcpy(row, d->books + own[0] * d->book, 4 * d->book);
        memset(row + d->book, 0, 4 * d->book);
        for (int64_t g = 1; g < d->groups; g++)
            add_scaled(row + d->book, d->books + (g * d->codes + own[g]) * d->book, 1.0f, d->book);
    }
    meet(me->team);
}

// The rises and the sound. One thread takes those whose weights stay in the cache frame by frame; several threads take
// each layer as a whole, because a frame needs what the one before it left.
static void rise_to_sound(int64_t track, Hand *me) {
    const Decoder *d = me->d;
    const int64_t streams = me->call->streams, length = me->call->length, frames = streams * length;
    const int64_t cached = me->team->threads == 1 ? first_cached_rise(d) : d->rises;
    for (int64_t i = 0; i < cached; i++, track += 1 + d->rise[i - 1].units)
        run_rise(d->rise + i, track, 0, streams, 0, length, me);
    for (int64_t f = 0; f < frames && cached < d->rises; f++) {
        int64_t from = track;
        for (int64_t i = cached; i < d->rises; i++, from += 1 + d->rise[i - 1].units)
            run_rise(d->rise + i, from, f / length, 1, f % length, 1, me);
        close_sound(me, f / length, f % length * d->samples, d->samples);
    }
    if (cached < d->rises) return;
    const int64_t parts = (d->samples + 255) / 256;
    for (int64_t i; (i = take(me->team)) < frames * parts;) {
        const int64_t frame = i / parts, first = i % parts * 256;
        close_sound(me, frame / length, frame % length * d->samples + first, min_of(256, d->samples - first));
    }
    meet(me->team);
}

static void run(Hand *me) {
    const Decoder *d = me->d;
    const DecoderCall *c = me->call;
    const View none = {0};
    const int64_t hidden = d->opening.outputs, streams = c->streams, length = c->length;
    int64_t track = 0, rate = 1;
    View x = {c->x, length * hidden};
    make_turns(me);
    embed(me);
    product(&d->opening, c->tracks[track++], streams, length, none, x, none, me);
    transformer(me);
    if (!d->stretches) product(&d->leaving, x, streams, length, none, none, past_of(c, track), me);
    for (int64_t i = 0; i < d->stretches; i++, track++) {
        const Track *made = d->track + track;
        const View mixed = {c->mixed, length * made->rate * made->channels};
        const View out = i + 1 < d->stretches ? mixed : past_of(c, track + 1);
        run_stretch(d->stretch + i, track, x, rate, out, me);
        x = out, rate = made->rate;
    }
    product(&d->widen, c->tracks[track], streams, length * d->track[track].rate, none, none, past_of(c, track + 1), me);
    rise_to_sound(track + 1, me);
}

// Copies each stream's history to the front of the tracks or, with `back`, the end of the tracks to the history.
static void move_history(Hand *me, int back) {
    const Decoder *d = me->d;
    const DecoderCall *c = me->call;
    for (int64_t s; (s = take(me->team)) < c->streams;) {
        float *held = d->history + c->slots[s] * d->kept;
        for (int64_t i = 0; i < d->tracks; i++) {
            const Track *t = d->track + i;
            int64_t kept = t->past * t->channels;
            float *track = c->tracks[i].x + s * c->tracks[i].stride;
            if (back)
                memcpy(held, track + c->length * t->rate * t->channels, 4 * kept);
            else
                memcpy(track, held, 4 * kept);
            held += kept;
        }
    }
    meet(me->team);
}

static void decode_work(void *call, int number) {
    DecoderCall *c = call;
    Hand me = {c, c->d, &c->team, c->own + number * c->own_size};
    move_history(&me, 0);
    run(&me);
    move_history(&me, 1);
}

// ---- memory of a call

typedef struct { // floats, in all threads together and in each
    int64_t ready, own;
} Needs;

static void need(Needs *n, const Decoder *d, const Product *p, int64_t streams, int64_t columns) {
    if (p->quads) { // `streams` counts frames, and `columns` those of one
        const Quads q = quads_of(columns, p->dilation);
        n->ready = max_of(n->ready, frames_together(&q, streams, p->inputs) * TERMS * q.count * p->inputs);
        n->own = max_of(n->own, tile_floats(p, d->large));
        return;
    }
    if (is_copied(p, streams, columns, 0)) n->ready = max_of(n->ready, streams * columns * p->taps * p->inputs);
    n->own = max_of(n->own, tile_floats(p, d->large));
}

static Needs needs_of(const Decoder *d, int64_t streams, int64_t length) {
    Needs n = {0, d->window};
    need(&n, d, &d->opening, streams, length);
    need(&n, d, &d->leaving, streams, length);
    for (int64_t i = 0; i < d->layers; i++) {
        const DecoderLayer *l = d->layer + i;
        const Product *all[] = {&l->qkv, &l->out, &l->gate_up, &l->down};
        for (int k = 0; k < 4; k++) need(&n, d, all[k], streams, length);
    }
    int64_t track = 1, columns = length;
    for (int64_t i = 0; i < d->stretches; i++) {
        const Stretch *s = d->stretch + i;
        need(&n, d, &s->rise, streams, columns);
        columns = length * d->track[track++].rate;
        need(&n, d, &s->up, streams, columns);
        need(&n, d, &s->down, streams, columns);
    }
    need(&n, d, &d->widen, streams, columns);
    track++;
    for (int64_t i = 0; i < d->rises; i++) {
        const Rise *rise = d->rise + i;
        need(&n, d, &rise->rise, streams, length * d->track[track++].rate);
        for (int64_t u = 0; u < rise->units; u++) {
            const Unit *unit = rise->unit + u;
            columns = length * d->track[track++].rate;
            if (unit->conv.quads)
                need(&n, d, &unit->conv, streams * length, columns / length);
            else
                need(&n, d, &unit->conv, streams, columns);
            need(&n, d, &unit->point, streams, columns);
            n.own = max_of(n.own, tile_floats(&unit->conv, d->large) + tile_floats(&unit->point, d->large));
        }
    }
    return n;
}

enum { BUFFERS = 10 };

typedef struct { // floats: of each buffer, of what each thread has for itself, of all together
    int64_t of[BUFFERS], own, all;
} Sizes;

static int allowed(int threads) { return threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads; }

static Sizes sizes_of(const Decoder *d, int64_t streams, int64_t length, int threads) {
    int64_t wide = 0, inner = 0, tracks = 0, heads = d->heads * d->depth, frames = streams * length;
    for (int64_t i = 0; i < d->layers; i++) inner = max_of(inner, d->layer[i].down.inputs);
    for (int64_t i = 0; i < d->tracks; i++) {
        const Track *t = d->track + i;
        wide = max_of(wide, t->rate * t->channels);
        tracks += streams * (t->past + t->rate * length) * t->channels;
    }
    for (int64_t i = 0, rate = 1; i < d->stretches; i++) {
        rate *= d->stretch[i].rise.outputs / d->stretch[i].up.inputs;
        inner = max_of(inner, rate * d->stretch[i].down.inputs);
    }
    const Needs needs = needs_of(d, streams, length);
    const int64_t own = (needs.own + 15) / 16 * 16;
    Sizes s = {{tracks, frames * d->opening.outputs, 3 * frames * heads, frames * heads, frames * inner, frames * wide,
                frames * wide, needs.ready, frames * d->depth, own * allowed(threads)},
               own,
               16};
    for (int i = 0; i < BUFFERS; i++) s.all += s.of[i] = (s.of[i] + 15) / 16 * 16;
    return s;
}

// How much memory a call takes.
EXPORT int64_t FUNCTION(decode_bytes)(const Decoder *d, int64_t streams, int64_t length, int threads) {
    return 4 * sizes_of(d, streams, length, threads).all;
}

// Decodes codes [streams, length, groups] of `slots` to sound [streams, length * samples]. `memory`: decode_bytes();
// NULL: it is allocated for this call. Returns 1 if memory ran out, otherwise 0.
EXPORT int FUNCTION(decode)(const Decoder *d, const int64_t *codes, const int64_t *slots, int64_t streams,
                            int64_t length, float *sound, int threads, float *memory) {
    DecoderCall c = {.d = d, .codes = codes, .slots = slots, .streams = streams, .length = length, .sound = sound};
    const Sizes sizes = sizes_of(d, streams, length, threads);
    float *all = memory ? memory : malloc(4 * sizes.all), *next = all + (64 - (uintptr_t)all % 64) / 4;
    if (!all) return 1;
    c.own_size = sizes.own;
    for (int64_t i = 0, first = 0; i < d->tracks; i++) {
        const Track *t = d->track + i;
        c.tracks[i] = (View){next + first, (t->past + t->rate * length) * t->channels};
        first += streams * c.tracks[i].stride;
    }
    float **parts[] = {&c.x, &c.qkv, &c.attended, &c.hidden, &c.wide, &c.mixed, &c.ready, &c.turns, &c.own};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) next += sizes.of[i], *parts[i] = next;
    work_together(&c.team, allowed(threads), decode_work, &c);
    for (int64_t s = 0; s < streams; s++) d->frames[slots[s]] += length;
    if (!memory) free(all);
    return 0;
}

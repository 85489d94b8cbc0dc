// The codec's decoder: one call decodes the next codes of several streams to sound.
//
// decoder.py in the parent folder fills the structures below; codec.py there has the same layers in Python. Weights
// have the layout of FusedSlotDecoder in models/slot_decoder.py. Layers at the frame rate take all streams together,
// because reading weights dominates their time. Layers near the sample rate take one stream and one frame at a time, so
// that activations stay in the cache.
#include "panels.h"

enum { CODEC_SUM = 64 }; // `sum_length` of products; 16 makes ten streams 10 % slower

enum { NONE, SNAKE, GELU, SWIGLU };

typedef struct {         // y = activation(weight [x(t), x(t + dilation), ...] + bias)
    const float *weight; // panels of [outputs, taps * inputs]; for SWIGLU: panels of the gate, then those of up
    const float *bias, *scale, *inverse; // padded to whole panels; NULL if the layer has none
    int64_t outputs, inputs, taps, dilation, activation;
    float eps; // of the RMS norm of x before the product; negative: no norm
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

static void activate(const Product *p, float *y) {
    int64_t outputs = padded(p->outputs), inner = padded(p->outputs / 2);
    if (p->activation == SNAKE)
        for (int64_t i = 0; i < outputs; i += LANES)
            store(y + i, snake(load(y + i), load(p->scale + i), load(p->inverse + i)));
    else if (p->activation == GELU)
        for (int64_t i = 0; i < outputs; i += LANES) store(y + i, gelu(load(y + i)));
    else if (p->activation == SWIGLU)
        for (int64_t i = 0; i < inner; i += LANES) store(y + i, silu(load(y + i)) * load(y + inner + i));
}

static int64_t outputs_of(const Product *p) {
    return p->activation == SWIGLU ? 2 * padded(p->outputs / 2) : padded(p->outputs);
}

enum { TILE = 96 }; // largest number of rows of a tile, whose results stay in the cache for bias and activation

// Floats of scratch memory for one tile: its gathered or normalized inputs, and its results.
static int64_t tile_scratch(const Product *p) { return TILE * (p->taps * p->inputs + outputs_of(p)); }

// Input rows first..first + n. They are copied to `scratch` if they span streams or need a norm.
static Rows gather(const Product *p, View in, int64_t columns, int64_t first, int64_t n, float *scratch) {
    int64_t inputs = p->inputs, stream = first / columns, column = first % columns;
    if (column + n <= columns && p->eps < 0)
        return (Rows){
            in.x + stream * in.stride + column * inputs, inputs, p->taps, p->dilation * inputs, inputs, CODEC_SUM};
    int64_t wide = p->taps * inputs;
    for (int64_t r = 0; r < n; r++) {
        const float *x = in.x + stream * in.stride + column * inputs;
        if (p->eps >= 0)
            rms_norm(x, scratch + r * wide, inputs, p->eps);
        else
            for (int64_t tap = 0; tap < p->taps; tap++)
                memcpy(scratch + r * wide + tap * inputs, x + tap * p->dilation * inputs, 4 * inputs);
        if (++column == columns) column = 0, stream++;
    }
    return plain_rows(scratch, wide, wide, CODEC_SUM);
}

// Rows of the next tile. Tiles end with their stream if streams are long enough, so that no input has to be copied.
static int64_t tile_rows(int64_t outputs, int64_t rows, int64_t columns, int64_t first) {
    int64_t n = 8192 / outputs / MAX_ROWS * MAX_ROWS;
    n = n < MAX_ROWS ? MAX_ROWS : n > TILE ? TILE : n;
    if (columns >= 2 * MAX_ROWS && n > columns - first % columns) n = columns - first % columns;
    return n > rows - first ? rows - first : n;
}

static void add_bias(const Product *p, float *y, int64_t outputs) {
    if (p->bias)
        for (int64_t i = 0; i < outputs; i += LANES) store(y + i, load(y + i) + load(p->bias + i));
}

// `out_f32` gets the product plus bias and residual, `out` the activation of that. Each may be empty.
static void product(const Product *p, View in, int64_t streams, int64_t columns, View residual, View out_f32, View out,
                    float *scratch) {
    int64_t rows = streams * columns, outputs = outputs_of(p), wide = p->outputs;
    int64_t made = p->activation == SWIGLU ? wide / 2 : wide;
    float *y = scratch + TILE * p->taps * p->inputs;
    for (int64_t first = 0, n; first < rows; first += n) {
        n = tile_rows(outputs, rows, columns, first);
        multiply(gather(p, in, columns, first, n, scratch), n, p->weight, outputs, y, outputs);
        int64_t stream = first / columns, column = first % columns;
        for (int64_t r = 0; r < n; r++) {
            float *own = y + r * outputs;
            add_bias(p, own, outputs);
            if (residual.x) add_scaled(own, residual.x + stream * residual.stride + column * wide, 1.0f, wide);
            if (out_f32.x) memcpy(out_f32.x + stream * out_f32.stride + column * wide, own, 4 * wide);
            if (out.x) {
                activate(p, own);
                memcpy(out.x + stream * out.stride + column * made, own, 4 * made);
            }
            if (++column == columns) column = 0, stream++;
        }
    }
}

// y = residual + point(conv(x)). `out` gets the activation of y; with `keep`, `residual` is overwritten by y.
static void residual_unit(const Unit *u, View in, int64_t streams, int64_t columns, View residual, int keep, View out,
                          float *scratch) {
    int64_t rows = streams * columns, outputs = outputs_of(&u->conv), channels = u->point.outputs;
    float *between = scratch + TILE * u->conv.taps * u->conv.inputs, *y = between + TILE * outputs;
    for (int64_t first = 0, n; first < rows; first += n) {
        n = tile_rows(outputs, rows, columns, first);
        multiply(gather(&u->conv, in, columns, first, n, scratch), n, u->conv.weight, outputs, between, outputs);
        for (int64_t r = 0; r < n; r++) {
            add_bias(&u->conv, between + r * outputs, outputs);
            activate(&u->conv, between + r * outputs);
        }
        multiply(plain_rows(between, outputs, u->point.inputs, CODEC_SUM), n, u->point.weight, outputs, y, outputs);
        int64_t stream = first / columns, column = first % columns;
        for (int64_t r = 0; r < n; r++) {
            float *own = y + r * outputs, *held = residual.x + stream * residual.stride + column * channels;
            add_bias(&u->point, own, outputs);
            add_scaled(own, held, 1.0f, channels);
            if (keep) memcpy(held, own, 4 * channels);
            activate(&u->point, own);
            memcpy(out.x + stream * out.stride + column * channels, own, 4 * channels);
            if (++column == columns) column = 0, stream++;
        }
    }
}

// Attention over the last `window` frames for one stream: rotates qkv [length, 3, heads, depth] in place, stores keys
// and values in the ring, attends.
static void attend_window(const Decoder *d, int64_t layer, int64_t slot, float *qkv, int64_t length, float *scores,
                          float *out) {
    const int64_t depth = d->depth, half = depth / 2, wide = d->heads * depth, before = d->frames[slot];
    const int64_t ring = ((layer * d->slots + slot) * d->heads) * d->ring * depth;
    float *keys = d->keys + ring, *values = d->values + ring;
    for (int64_t t = 0; t < length; t++)
        for (int64_t i = 0; i < half; i++) {
            float angle = (float)(before + t) * d->rates[i], c = cosf(angle), s = sinf(angle);
            for (int64_t head = 0; head < 2 * d->heads; head++) { // heads of the queries, then those of the keys
                float *x = qkv + t * 3 * wide + head * depth, low = x[i], high = x[i + half];
                x[i] = low * c - high * s;
                x[i + half] = high * c + low * s;
            }
        }
    for (int64_t t = 0; t < length; t++)
        for (int64_t head = 0; head < d->heads; head++) {
            int64_t place = (head * d->ring + (before + t) % d->ring) * depth;
            memcpy(keys + place, qkv + t * 3 * wide + wide + head * depth, 4 * depth);
            memcpy(values + place, qkv + t * 3 * wide + 2 * wide + head * depth, 4 * depth);
        }
    float root = 1.0f / sqrtf((float)depth);
    for (int64_t t = 0; t < length; t++)
        for (int64_t head = 0; head < d->heads; head++) {
            int64_t last = before + t, oldest = max_of(0, last - d->window + 1), count = last - oldest + 1;
            const float *query = qkv + t * 3 * wide + head * depth;
            float *own = out + t * wide + head * depth;
            for (int64_t i = 0; i < count; i++)
                scores[i] = dot(query, keys + (head * d->ring + (oldest + i) % d->ring) * depth, depth) * root;
            float inverse = softmax(scores, count);
            memset(own, 0, 4 * depth);
            for (int64_t i = 0; i < count; i++)
                add_scaled(own, values + (head * d->ring + (oldest + i) % d->ring) * depth, scores[i], depth);
            for (int64_t i = 0; i < depth; i++) own[i] *= inverse;
        }
}

// A depthwise convolution of x [columns + taps - 1, channels], then layer norm without weights.
static void depthwise_norm(const Stretch *s, const float *x, int64_t columns, int64_t channels, float *out) {
    for (int64_t t = 0; t < columns; t++, out += channels) {
        float mean = 0, square = 0;
        for (int64_t c = 0; c < channels; c++) out[c] = s->bias[c];
        for (int64_t tap = 0; tap < s->taps; tap++)
            for (int64_t c = 0; c < channels; c++)
                out[c] += x[(t + tap) * channels + c] * s->weight[tap * channels + c];
        for (int64_t c = 0; c < channels; c++) mean += out[c];
        mean /= (float)channels;
        for (int64_t c = 0; c < channels; c++) square += (out[c] - mean) * (out[c] - mean);
        float factor = 1.0f / sqrtf(square / (float)channels + s->eps);
        for (int64_t c = 0; c < channels; c++) out[c] = (out[c] - mean) * factor;
    }
}

typedef struct {     // buffers of one call
    View tracks[64]; // tracks with their past columns in front
    float *x, *qkv, *attended, *hidden, *wide, *mixed, *scratch;
} DecoderWork;

static View past_of(const Decoder *d, const DecoderWork *w, int64_t track) {
    return offset_view(w->tracks[track], d->track[track].past * d->track[track].channels);
}

static void transformer(const Decoder *d, const DecoderWork *w, const int64_t *slots, int64_t streams, int64_t length) {
    const int64_t hidden = d->opening.outputs, heads = d->heads * d->depth;
    const View none = {0}, x = {w->x, length * hidden}, qkv = {w->qkv, 3 * length * heads};
    for (int64_t i = 0; i < d->layers; i++) {
        const DecoderLayer *l = d->layer + i;
        View attended = {w->attended, length * heads}, inner = {w->hidden, length * l->down.inputs};
        product(&l->qkv, x, streams, length, none, qkv, none, w->scratch);
        for (int64_t s = 0; s < streams; s++)
            attend_window(d, i, slots[s], qkv.x + s * qkv.stride, length, w->scratch, attended.x + s * attended.stride);
        product(&l->out, attended, streams, length, x, x, none, w->scratch);
        product(&l->gate_up, x, streams, length, none, none, inner, w->scratch);
        product(&l->down, inner, streams, length, x, x, none, w->scratch);
    }
}

// Runs a rise and its units on frames first..first + length of `streams` streams, beginning with number `stream`. The
// rise reads track `track`, each unit the next one; all write to the track after the one they read.
static void run_rise(const Decoder *d, const DecoderWork *w, const Rise *rise, int64_t track, int64_t stream,
                     int64_t streams, int64_t first, int64_t length) {
    const Track *in = d->track + track, *made = in + 1;
    const int64_t skip = first * made->rate * made->channels, columns = length * made->rate;
    const View none = {0};
    View x = offset_view(w->tracks[track], stream * w->tracks[track].stride + first * in->rate * in->channels);
    View wide = {w->wide, columns * made->channels}, out;
    for (int64_t unit = 0; unit <= rise->units; unit++) {
        out = past_of(d, w, track + 1 + unit);
        out = offset_view(out, stream * out.stride + skip);
        if (unit == 0)
            product(&rise->rise, x, streams, length * in->rate, none, wide, out, w->scratch);
        else
            residual_unit(rise->unit + unit - 1, x, streams, columns, wide, unit < rise->units, out, w->scratch);
        x = offset_view(w->tracks[track + 1 + unit], stream * w->tracks[track + 1 + unit].stride + skip);
    }
}

static int64_t weights_of(const Product *p) { return outputs_of(p) * p->taps * p->inputs; }

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

static void run(const Decoder *d, const DecoderWork *w, const int64_t *codes, const int64_t *slots, int64_t streams,
                int64_t length, float *sound) {
    const View none = {0};
    const int64_t hidden = d->opening.outputs;
    int64_t track = 0;
    View new = past_of(d, w, track);
    for (int64_t s = 0; s < streams; s++)
        for (int64_t t = 0; t < length; t++) {
            const int64_t *own = codes + (s * length + t) * d->groups;
            float *row = new.x + s * new.stride + t * 2 * d->book;
            memcpy(row, d->books + own[0] * d->book, 4 * d->book);
            memset(row + d->book, 0, 4 * d->book);
            for (int64_t g = 1; g < d->groups; g++)
                add_scaled(row + d->book, d->books + (g * d->codes + own[g]) * d->book, 1.0f, d->book);
        }
    View x = {w->x, length * hidden};
    product(&d->opening, w->tracks[track++], streams, length, none, x, none, w->scratch);
    transformer(d, w, slots, streams, length);
    if (!d->stretches) product(&d->leaving, x, streams, length, none, none, past_of(d, w, track), w->scratch);
    int64_t rate = 1;
    for (int64_t i = 0; i < d->stretches; i++, track++) {
        const Stretch *s = d->stretch + i;
        const int64_t channels = d->track[track].channels, columns = length * d->track[track].rate;
        View wide = {w->wide, columns * channels}, mixed = {w->mixed, columns * channels};
        View inner = {w->hidden, columns * s->down.inputs};
        product(&s->rise, x, streams, length * rate, none, wide, past_of(d, w, track), w->scratch);
        rate = d->track[track].rate;
        for (int64_t b = 0; b < streams; b++)
            depthwise_norm(s, w->tracks[track].x + b * w->tracks[track].stride, columns, channels,
                           mixed.x + b * mixed.stride);
        product(&s->up, mixed, streams, columns, none, none, inner, w->scratch);
        x = i + 1 < d->stretches ? mixed : past_of(d, w, track + 1);
        product(&s->down, inner, streams, columns, wide, none, x, w->scratch);
    }
    product(&d->widen, w->tracks[track], streams, length * d->track[track].rate, none, none, past_of(d, w, track + 1),
            w->scratch);
    track++;
    int64_t cached = first_cached_rise(d);
    for (int64_t i = 0; i < cached; i++, track += 1 + d->rise[i - 1].units)
        run_rise(d, w, d->rise + i, track, 0, streams, 0, length);
    const View closing = w->tracks[d->tracks - 1];
    const int64_t channels = d->track[d->tracks - 1].channels;
    for (int64_t b = 0; b < streams; b++)
        for (int64_t t = 0; t < length; t++) {
            int64_t from = track;
            for (int64_t i = cached; i < d->rises; i++, from += 1 + d->rise[i - 1].units)
                run_rise(d, w, d->rise + i, from, b, 1, t, 1);
            const float *columns = closing.x + b * closing.stride + t * d->samples * channels;
            float *out = sound + (b * length + t) * d->samples;
            for (int64_t i = 0; i < d->samples; i++) {
                float y = dot(columns + i * channels, d->closing, d->closing_taps * channels) + d->closing_bias[0];
                out[i] = y < -1.0f ? -1.0f : y > 1.0f ? 1.0f : y;
            }
        }
}

// Copies each stream's history to the front of the tracks or, with `back`, the end of the tracks to the history.
static void move_history(const Decoder *d, const DecoderWork *w, const int64_t *slots, int64_t streams, int64_t length,
                         int back) {
    for (int64_t s = 0; s < streams; s++) {
        float *held = d->history + slots[s] * d->kept;
        for (int64_t i = 0; i < d->tracks; i++) {
            const Track *t = d->track + i;
            int64_t kept = t->past * t->channels;
            float *track = w->tracks[i].x + s * w->tracks[i].stride;
            if (back)
                memcpy(held, track + length * t->rate * t->channels, 4 * kept);
            else
                memcpy(track, held, 4 * kept);
            held += kept;
        }
    }
}

static int64_t max_scratch(const Decoder *d) {
    int64_t most = max_of(max_of(d->window, tile_scratch(&d->opening)),
                          max_of(tile_scratch(&d->leaving), tile_scratch(&d->widen)));
    for (int64_t i = 0; i < d->layers; i++) {
        const DecoderLayer *l = d->layer + i;
        most = max_of(most, max_of(max_of(tile_scratch(&l->qkv), tile_scratch(&l->out)),
                                   max_of(tile_scratch(&l->gate_up), tile_scratch(&l->down))));
    }
    for (int64_t i = 0; i < d->stretches; i++) {
        const Stretch *s = d->stretch + i;
        most = max_of(most, max_of(tile_scratch(&s->rise), max_of(tile_scratch(&s->up), tile_scratch(&s->down))));
    }
    for (int64_t i = 0; i < d->rises; i++) {
        most = max_of(most, tile_scratch(&d->rise[i].rise));
        for (int64_t u = 0; u < d->rise[i].units; u++)
            most = max_of(most, tile_scratch(&d->rise[i].unit[u].conv) + TILE * outputs_of(&d->rise[i].unit[u].point));
    }
    return most;
}

// Decodes codes [streams, length, groups] of `slots` to sound [streams, length * samples]. Returns 1 if memory ran out,
// otherwise 0.
EXPORT int FUNCTION(decode)(const Decoder *d, const int64_t *codes, const int64_t *slots, int64_t streams,
                            int64_t length, float *sound) {
    DecoderWork w;
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
    int64_t mixed = d->stretches ? wide : 0;
    int64_t sizes[] = {tracks,
                       frames * d->opening.outputs,
                       3 * frames * heads,
                       frames * heads,
                       frames * inner,
                       frames * wide,
                       frames * mixed,
                       max_scratch(d)};
    int64_t floats = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) floats += sizes[i];
    float *memory = malloc(4 * floats), *next = memory;
    if (!memory) return 1;
    for (int64_t i = 0; i < d->tracks; i++) {
        const Track *t = d->track + i;
        w.tracks[i] = (View){next, (t->past + t->rate * length) * t->channels};
        next += streams * w.tracks[i].stride;
    }
    float **parts[] = {&w.x, &w.qkv, &w.attended, &w.hidden, &w.wide, &w.mixed, &w.scratch};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) *parts[i] = next, next += sizes[i + 1];
    move_history(d, &w, slots, streams, length, 0);
    run(d, &w, codes, slots, streams, length, sound);
    move_history(d, &w, slots, streams, length, 1);
    for (int64_t s = 0; s < streams; s++) d->frames[slots[s]] += length;
    free(memory);
    return 0;
}

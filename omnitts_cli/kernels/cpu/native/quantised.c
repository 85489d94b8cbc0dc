// The language side with weights in 8 bits: the same layers as language.c, with threads of its own.
//
// Rows are rounded to 8 bits before each product (quantised.h). Norms, residuals, rotations, softmax and all sums are
// float32; keys and values are float16. Every sum has one order, which is that of 16 lanes on every instruction set, and
// nothing is contracted: results depend neither on the instruction set, nor on other rows, nor on the threads.
#include "quantised.h"
#include "team.h"

typedef struct {
    const float *input_norm, *qk_norm, *mlp_norm; // [hidden]; [heads + kv_heads, depth]; [hidden]
    const Matrix *qkv, *out, *gate_up, *down;     // gate_up: blocks of the gate and of up in turn
} Layer;

typedef uint16_t Number; // a float16

#include "stack.h"

typedef struct { // what a thread has for itself
    int number;
    Team *team;
    char *quantised;
    float *tile, *row, *scores; // [rows, 2, BLOCK]; the widest row; one score for each position
} Own;

INLINE int64_t filled(int64_t n) { return blocks_of(n) * BLOCK; }

static int64_t widest(const Stack *s) {
    return max_of(filled(s->hidden), max_of(filled(s->inner), filled(s->heads * s->depth)));
}

static int64_t own_bytes(const Stack *s, int64_t rows, int64_t positions) {
    return quantised_bytes(rows, widest(s)) + 4 * (rows * 2 * BLOCK + widest(s) + positions);
}

// The memory is used in one order for all stacks of a call; the rows, whose size differs, come last.
static Own own_of(Team *team, int number, char *memory) { return (Own){number, team, memory, NULL, NULL, NULL}; }

static void divide(Own *own, int64_t rows, int64_t width) {
    own->tile = (float *)own->quantised + quantised_bytes(rows, width) / 4;
    own->row = own->tile + rows * 2 * BLOCK;
    own->scores = own->row + width;
}

static int64_t stack_scratch(const Stack *s, int64_t rows) {
    int64_t heads = (s->heads + 2 * s->kv_heads) * s->depth;
    return rows * (filled(heads) + s->heads * s->depth + filled(s->inner));
}

// ---- sums in the order of 16 lanes

INLINE float sum_of_lanes(float *lanes) {
    for (int half = PANEL / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    return lanes[0];
}

static float sum_of_squares(const float *x, int64_t n) {
    vec sum[PARTS];
    float lanes[PANEL];
    int64_t i = 0;
    UNROLL for (int p = 0; p < PARTS; p++) sum[p] = broadcast(0);
    for (; i + PANEL <= n; i += PANEL)
        UNROLL for (int p = 0; p < PARTS; p++) sum[p] += load(x + i + p * LANES) * load(x + i + p * LANES);
    UNROLL for (int p = 0; p < PARTS; p++) store(lanes + p * LANES, sum[p]);
    for (; i < n; i++) lanes[i % PANEL] += x[i] * x[i];
    return sum_of_lanes(lanes);
}

static float dot_half(const float *x, const uint16_t *y, int64_t n) {
    vec sum[PARTS];
    float lanes[PANEL];
    int64_t i = 0;
    UNROLL for (int p = 0; p < PARTS; p++) sum[p] = broadcast(0);
    for (; i + PANEL <= n; i += PANEL)
        UNROLL for (int p = 0; p < PARTS; p++) sum[p] += load(x + i + p * LANES) * load_half(y + i + p * LANES);
    UNROLL for (int p = 0; p < PARTS; p++) store(lanes + p * LANES, sum[p]);
    for (; i < n; i++) lanes[i % PANEL] += x[i] * of_half(y[i]);
    return sum_of_lanes(lanes);
}

static float norm_factor(const float *x, int64_t n, float eps) {
    return (float)(1.0 / sqrt((double)sum_of_squares(x, n) / (double)n + (double)eps));
}

// ---- products

// This thread's 8 bits of x [rows, step], after an RMS norm if there is a `norm`. Each thread makes them for itself,
// which takes less time than a meeting.
static Quantised prepare(const float *x, int64_t step, int64_t rows, int64_t inputs, const float *norm, float eps,
                         Own *own) {
    Quantised made = quantised_in(own->quantised, rows, inputs);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * step;
        if (norm) {
            float factor = norm_factor(row, inputs, eps);
            for (int64_t i = 0; i < inputs; i++) own->row[i] = row[i] * factor * norm[i];
            row = own->row;
        }
        quantise_row(row, inputs, &made, r);
    }
    return made;
}

// The threads' shares of y [rows, y_step] = or += m x. Only `outputs` numbers of a row are written.
static void shares(const Matrix *m, const Quantised *in, int add, float *y, int64_t y_step, Own *own) {
    for (int64_t b; (b = take(own->team)) < blocks_of(m->outputs);) {
        const int64_t first = b * BLOCK, n = m->outputs - first < BLOCK ? m->outputs - first : BLOCK;
        multiply_block(block_at(m, b), in, own->tile, BLOCK);
        for (int64_t r = 0; r < in->rows; r++) {
            float *to = y + r * y_step + first, *from = own->tile + r * BLOCK;
            if (add)
                for (int64_t i = 0; i < n; i++) to[i] += from[i];
            else
                memcpy(to, from, 4 * n);
        }
    }
    meet(own->team);
}

// y [rows, filled inner] = silu(gate) * up; a gate and its up are neighbours in the matrix.
static void gated_shares(const Stack *s, const Matrix *m, const Quantised *in, float *y, Own *own) {
    float *gate = own->tile, *up = own->tile + in->rows * BLOCK;
    for (int64_t b; (b = take(own->team)) < blocks_of(s->inner);) {
        multiply_block(block_at(m, 2 * b), in, gate, BLOCK);
        multiply_block(block_at(m, 2 * b + 1), in, up, BLOCK);
        for (int64_t r = 0; r < in->rows; r++)
            for (int64_t i = 0; i < BLOCK; i += LANES)
                store(y + r * filled(s->inner) + b * BLOCK + i,
                      silu(load(gate + r * BLOCK + i)) * load(up + r * BLOCK + i));
    }
    meet(own->team);
}

static void project(const void *matrix, const float *x, int64_t x_step, int64_t rows, int64_t inputs, int64_t outputs,
                    float *y, int64_t y_step, Own *own) {
    (void)outputs;
    divide(own, rows, filled(inputs));
    Quantised in = prepare(x, x_step, rows, inputs, NULL, 0, own);
    shares(matrix, &in, 0, y, y_step, own);
}

// ---- attention

// RMS norm and rotary embedding of one head.
static void norm_and_rotate(float *x, const float *weight, int64_t depth, float eps, const float *cos,
                            const float *sin) {
    const int64_t half = depth / 2;
    const float factor = norm_factor(x, depth, eps);
    for (int64_t i = 0; i < half; i++) {
        float low = x[i] * factor * weight[i], high = x[i + half] * factor * weight[i + half];
        x[i] = low * cos[i] - high * sin[i];
        x[i + half] = high * cos[i] + low * sin[i];
    }
}

static void attend(const float *query, const uint16_t *keys, const uint16_t *values, int64_t length, int64_t depth,
                   float *scores, float *out) {
    const float root = 1.0f / sqrtf((float)depth);
    for (int64_t i = 0; i < length; i++) scores[i] = dot_half(query, keys + i * depth, depth) * root;
    const float inverse = softmax(scores, length);
    int64_t d = 0;
    for (; d + PANEL <= depth; d += PANEL) {
        vec sum[PARTS];
        UNROLL for (int p = 0; p < PARTS; p++) sum[p] = broadcast(0);
        for (int64_t i = 0; i < length; i++)
            UNROLL for (int p = 0; p < PARTS; p++)
                sum[p] += load_half(values + i * depth + d + p * LANES) * scores[i];
        UNROLL for (int p = 0; p < PARTS; p++) store(out + d + p * LANES, sum[p] * inverse);
    }
    for (; d < depth; d++) {
        float sum = 0;
        for (int64_t i = 0; i < length; i++) sum += of_half(values[i * depth + d]) * scores[i];
        out[d] = sum * inverse;
    }
}

typedef struct { // rows of one call
    const Stack *s;
    const Cache *cache;
    int64_t rows;
    const int64_t *slots, *positions;
    float *qkv, *attended;
} Attention;

// One head of keys and the queries that use it, for row `row` and all later rows of its slot, in their order.
static void attend_head(const Attention *a, int64_t layer, int64_t row, int64_t head, float *scores) {
    const Stack *s = a->s;
    const Cache *cache = a->cache;
    const int64_t depth = s->depth, share = s->heads / s->kv_heads, slot = a->slots[row];
    const int64_t wide = filled((s->heads + 2 * s->kv_heads) * depth);
    const int64_t place = ((layer * cache->slots + slot) * s->kv_heads + head) * cache->capacity * depth;
    const float *norm = s->layer[layer].qk_norm;
    for (int64_t before = 0; before < row; before++)
        if (a->slots[before] == slot) return; // done with the slot's first row
    for (int64_t r = row; r < a->rows; r++) {
        if (a->slots[r] != slot) continue;
        const int64_t position = a->positions[r], at = place + position * depth;
        const float *cos = a->cache->cos + position * (depth / 2), *sin = a->cache->sin + position * (depth / 2);
        float *own = a->qkv + r * wide, *key = own + (s->heads + head) * depth;
        const float *value = key + s->kv_heads * depth;
        norm_and_rotate(key, norm + (s->heads + head) * depth, depth, s->eps, cos, sin);
        for (int64_t i = 0; i < depth; i++) {
            cache->keys[at + i] = half_of(key[i]);
            cache->values[at + i] = half_of(value[i]);
        }
        for (int64_t h = head * share; h < (head + 1) * share; h++) {
            norm_and_rotate(own + h * depth, norm + h * depth, depth, s->eps, cos, sin);
            attend(own + h * depth, cache->keys + place, cache->values + place, position + 1, depth, scores,
                   a->attended + (r * s->heads + h) * depth);
        }
    }
}

// ---- the stack

// Runs x [rows, padded hidden] through all layers, in place; `normed` gets the results of the last `wanted` rows in their
// places. `scratch` has stack_scratch floats. Rows of the same slot must be in the order of their positions. All threads
// of the team call it.
static void run_stack(const Stack *s, const Cache *cache, float *x, int64_t rows, int64_t wanted, const int64_t *slots,
                      const int64_t *positions, float *normed, float *scratch, Own *own) {
    const int64_t heads = s->heads * s->depth, qkv = filled(heads + 2 * s->kv_heads * s->depth);
    const int64_t wide = padded(s->hidden), inner = filled(s->inner);
    float *attended = scratch + rows * qkv, *gated = attended + rows * heads;
    const Attention a = {s, cache, rows, slots, positions, scratch, attended};
    divide(own, rows, widest(s));
    for (int64_t layer = 0; layer < s->layers; layer++) {
        const Layer *l = s->layer + layer;
        Quantised in = prepare(x, wide, rows, s->hidden, l->input_norm, s->eps, own);
        shares(l->qkv, &in, 0, scratch, qkv, own);
        for (int64_t i; (i = take(own->team)) < rows * s->kv_heads;)
            attend_head(&a, layer, i / s->kv_heads, i % s->kv_heads, own->scores);
        meet(own->team);
        if (layer + 1 == s->layers) { // of the other rows, only keys and values are needed
            const int64_t passed = rows - wanted;
            x += passed * wide, normed += passed * wide, attended += passed * heads, rows = wanted;
            if (!rows) return;
        }
        in = prepare(attended, heads, rows, heads, NULL, 0, own);
        shares(l->out, &in, 1, x, wide, own);
        in = prepare(x, wide, rows, s->hidden, l->mlp_norm, s->eps, own);
        gated_shares(s, l->gate_up, &in, gated, own);
        in = prepare(gated, inner, rows, s->inner, NULL, 0, own);
        shares(l->down, &in, 1, x, wide, own);
    }
    for (int64_t r; (r = take(own->team)) < rows;) {
        const float factor = norm_factor(x + r * wide, s->hidden, s->eps);
        for (int64_t i = 0; i < s->hidden; i++) normed[r * wide + i] = x[r * wide + i] * factor * s->norm[i];
    }
    meet(own->team);
}

#include "frame.h"

EXPORT int FUNCTION(quantised_frame)(const Frame *f, const int64_t *slots, int64_t count, const Prompts *prompts,
                                     int threads) {
    return make_frame(f, slots, count, prompts, threads);
}

typedef struct {
    Team team;
    const Stack *s;
    const Cache *cache;
    const Matrix *matrix;
    float *x, *normed, *scratch;
    const int64_t *slots, *positions;
    int64_t rows, own_size;
    char *own;
} Call;

static void stack_work(void *call, int number) {
    Call *c = call;
    Own own = own_of(&c->team, number, c->own + number * c->own_size);
    run_stack(c->s, c->cache, c->x, c->rows, c->rows, c->slots, c->positions, c->normed, c->scratch, &own);
}

// Runs rows [count, hidden] at `positions` of `slots` through the stack; `out` may be `rows`. Returns 1 if memory ran
// out, otherwise 0.
EXPORT int FUNCTION(quantised_stack)(const Stack *s, const Cache *cache, const float *rows, int64_t count,
                                     const int64_t *slots, const int64_t *positions, float *out, int threads) {
    const int64_t wide = padded(s->hidden), copy = 4 * count * wide, scratch = 4 * stack_scratch(s, count);
    const int64_t own = aligned(own_bytes(s, count, cache->capacity));
    char *memory = calloc(1, 2 * copy + scratch + own * threads);
    if (!memory) return 1;
    Call c = {.s = s, .cache = cache, .slots = slots, .positions = positions, .rows = count, .own_size = own};
    c.own = memory, c.x = (float *)(memory + own * threads), c.normed = c.x + copy / 4, c.scratch = c.normed + copy / 4;
    for (int64_t r = 0; r < count; r++) memcpy(c.x + r * wide, rows + r * s->hidden, 4 * s->hidden);
    work_together(&c.team, threads, stack_work, &c);
    for (int64_t r = 0; r < count; r++) memcpy(out + r * s->hidden, c.normed + r * wide, 4 * s->hidden);
    free(memory);
    return 0;
}

static void multiply_work(void *call, int number) {
    Call *c = call;
    const Matrix *m = c->matrix;
    Own own = own_of(&c->team, number, c->own + number * c->own_size);
    project(m, c->x, m->inputs, c->rows, m->inputs, m->outputs, c->normed, m->outputs, &own);
}

// y [rows, outputs] = m x [rows, inputs]. Returns 1 if memory ran out, otherwise 0.
EXPORT int FUNCTION(quantised_multiply)(const Matrix *m, float *x, int64_t rows, float *y, int threads) {
    const int64_t width = filled(m->inputs), own = aligned(quantised_bytes(rows, width) + 4 * (rows * 2 * BLOCK + width));
    Call c = {.matrix = m, .x = x, .rows = rows, .normed = y, .own_size = own, .own = malloc(own * threads)};
    if (!c.own) return 1;
    work_together(&c.team, threads, multiply_work, &c);
    free(c.own);
    return 0;
}

// ---- rows of the text, whose weights are float32

typedef struct { // out(silu(inner x))
    const float *inner, *inner_bias, *out, *out_bias; // [middle, width], [middle], [outputs, middle], [outputs]
    int64_t width, middle, outputs;
} Text;

// y[r] = the sum of w x[r], for `rows` rows at a time.
INLINE void dot_tile(const int rows, const float *w, const float *x, int64_t step, int64_t n, float *y) {
    vec sum[4][PARTS];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int p = 0; p < PARTS; p++) sum[r][p] = broadcast(0);
    int64_t i = 0;
    for (; i + PANEL <= n; i += PANEL)
        UNROLL for (int p = 0; p < PARTS; p++) {
            vec own = load(w + i + p * LANES);
            UNROLL for (int r = 0; r < rows; r++) sum[r][p] += own * load(x + r * step + i + p * LANES);
        }
    for (int r = 0; r < rows; r++) {
        float lanes[PANEL];
        for (int p = 0; p < PARTS; p++) store(lanes + p * LANES, sum[r][p]);
        for (int64_t k = i; k < n; k++) lanes[k % PANEL] += w[k] * x[r * step + k];
        y[r] = sum_of_lanes(lanes);
    }
}

// The threads' shares of y [rows, y_step] = w x + bias.
static void dense(Team *team, const float *w, const float *bias, int64_t outputs, int64_t inputs, const float *x,
                  int64_t x_step, int64_t rows, float *y, int64_t y_step) {
    for (int64_t b; (b = take(team)) < blocks_of(outputs);) {
        for (int64_t o = b * BLOCK; o < min_of((b + 1) * BLOCK, outputs); o++) {
            float sums[4];
            for (int64_t r = 0, n; r < rows; r += n) {
                n = rows - r < 4 ? 1 : 4;
                if (n == 4) dot_tile(4, w + o * inputs, x + r * x_step, x_step, inputs, sums);
                else dot_tile(1, w + o * inputs, x + r * x_step, x_step, inputs, sums);
                for (int64_t k = 0; k < n; k++) y[(r + k) * y_step + o] = sums[k] + bias[o];
            }
        }
    }
    meet(team);
}

typedef struct {
    Team team;
    const Text *t;
    const float *x;
    int64_t rows;
    float *middle, *y;
} TextCall;

static void text_work(void *call, int number) {
    TextCall *c = call;
    const Text *t = c->t;
    const int64_t wide = padded(t->middle);
    (void)number;
    dense(&c->team, t->inner, t->inner_bias, t->middle, t->width, c->x, t->width, c->rows, c->middle, wide);
    for (int64_t r; (r = take(&c->team)) < c->rows;)
        for (int64_t i = 0; i < wide; i += LANES) store(c->middle + r * wide + i, silu(load(c->middle + r * wide + i)));
    meet(&c->team);
    dense(&c->team, t->out, t->out_bias, t->outputs, t->middle, c->middle, wide, c->rows, c->y, t->outputs);
}

// y [rows, outputs] for x [rows, width]. Returns 1 if memory ran out, otherwise 0.
EXPORT int FUNCTION(quantised_text)(const Text *t, const float *x, int64_t rows, float *y, int threads) {
    TextCall c = {.t = t, .x = x, .rows = rows, .y = y, .middle = calloc(rows * padded(t->middle), 4)};
    if (!c.middle) return 1;
    work_together(&c.team, threads, text_work, &c);
    free(c.middle);
    return 0;
}

// ---- making matrices

typedef struct {
    Team team;
    const float *w;
    int64_t outputs, inputs, paired;
    uint8_t *to;
    atomic_int status;
} Making;

static void make_work(void *call, int number) {
    Making *c = call;
    const int64_t half = c->outputs / 2, size = groups_of(c->inputs) * GROUP_BYTES;
    const int64_t blocks = c->paired ? 2 * blocks_of(half) : blocks_of(c->outputs);
    (void)number;
    for (int64_t b; (b = take(&c->team)) < blocks;) {
        const float *w = c->paired && b % 2 ? c->w + half * c->inputs : c->w;
        int status = quantise_block(w, c->paired ? half : c->outputs, c->inputs, c->paired ? b / 2 : b,
                                    c->to + HEADER_BYTES + b * size);
        if (status) atomic_store(&c->status, status);
    }
}

// Writes w [outputs, inputs] to `to` in 8 bits; `paired`: the blocks of its upper and its lower half in turn. Returns 0,
// NOT_FINITE or TOO_LARGE.
EXPORT int FUNCTION(quantised_make)(const float *w, int64_t outputs, int64_t inputs, int64_t paired, void *to,
                                    int threads) {
    Making c = {.w = w, .outputs = outputs, .inputs = inputs, .paired = paired, .to = to};
    memset(to, 0, HEADER_BYTES);
    ((Matrix *)to)->outputs = outputs, ((Matrix *)to)->inputs = inputs;
    atomic_init(&c.status, FINE);
    work_together(&c.team, threads, make_work, &c);
    return atomic_load(&c.status);
}

// A sum of bytes, as fast as they can be read, which finds damage. `bytes` is a multiple of 64.
EXPORT uint64_t FUNCTION(quantised_sum)(const uint64_t *x, int64_t bytes) {
    uint64_t sum[8], all = 0;
    for (int i = 0; i < 8; i++) sum[i] = 0x9E3779B97F4A7C15u * (uint64_t)(i + 1);
    for (int64_t at = 0; at + 8 <= bytes / 8; at += 8)
        for (int i = 0; i < 8; i++) {
            sum[i] = (sum[i] ^ x[at + i]) * 0x9FB21C651E98DF25u;
            sum[i] ^= sum[i] >> 29;
        }
    for (int i = 0; i < 8; i++) all = (all ^ sum[i]) * 0x9FB21C651E98DF25u + (all >> 31);
    return all;
}

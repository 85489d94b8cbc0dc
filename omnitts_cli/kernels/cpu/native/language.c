// The language side in float32: a stack of decoder layers, sampling of codes, and a whole frame for many slots.
//
// quantised.c is the same with weights in 8 bits. networks.py in the parent folder fills the structures below; stack.py,
// draw.py and frame.py there are the same operations in Python. Nothing here keeps state: buffers belong to the caller or
// are freed at the end of the call.
#include "panels.h"
#include "team.h"

enum { LANGUAGE_SUM = 16 }; // `sum_length` of products: with 16, logits are as accurate as torch's

typedef struct { // weights in panels
    const void *weight;
    int64_t form;
    const float *norm; // of the rows, for a NORMED matrix; a matrix of FLOATS has been multiplied by it
} Matrix;

typedef struct {
    const float *qk_norm;           // [heads + kv_heads, depth]
    Matrix qkv, out, gate_up, down; // gate_up: panels of the gate, then panels of up
} Layer;

typedef float Number;

#include "stack.h"

typedef struct { // what a thread has for itself
    Team *team;
    int number;
    float *scores; // one for each position
} Own;

static int64_t own_bytes(const Stack *s, int64_t rows, int64_t positions) {
    (void)s, (void)rows;
    return 4 * positions;
}

static Own own_of(Team *team, int number, char *memory) { return (Own){team, number, (float *)memory}; }

static int64_t stack_scratch(const Stack *s, int64_t rows) {
    int64_t heads = (s->heads + 2 * s->kv_heads) * s->depth;
    return rows * (padded(s->hidden) + padded(heads) + s->heads * s->depth + 2 * padded(s->inner));
}

typedef struct { // columns of a product: whole panels
    int64_t first, count;
} Columns;

// The columns of this thread. They are the same at every call, so that its core keeps their weights.
static Columns columns_of(int64_t outputs, const Own *own) {
    const int64_t panels = padded(outputs) / PANEL, threads = own->team->threads;
    const int64_t first = own->number * panels / threads;
    return (Columns){first * PANEL, ((own->number + 1) * panels / threads - first) * PANEL};
}

// Some columns of y [rows, y_step] = matrix x [rows, x_step]; the columns of y begin with panel `panel` of the matrix.
static void multiply_columns(Columns at, const Matrix *m, int64_t panel, const float *x, int64_t x_step, int64_t rows,
                             int64_t inputs, float *y, int64_t y_step) {
    const Rows in = {x, x_step, 1, 0, inputs, LANGUAGE_SUM, m->form, m->norm};
    multiply(in, rows, panel_at(in, m->weight, panel + at.first / PANEL), at.count, y + at.first, y_step);
}

// Some columns of y [rows, step] += matrix x [rows, x_step]; `made` is for the product. Then all threads meet.
static void add_product(Columns at, const Matrix *m, const float *x, int64_t x_step, int64_t rows, int64_t inputs,
                        float *made, float *y, int64_t step, Own *own) {
    multiply_columns(at, m, 0, x, x_step, rows, inputs, made, step);
    for (int64_t r = 0; r < rows; r++) add_to(y + r * step + at.first, made + r * step + at.first, at.count);
    meet(own->team);
}

// RMS norm of this thread's rows of x [rows, step].
static void norm_rows(const Stack *s, const float *x, int64_t step, int64_t rows, float *normed, const Own *own) {
    for (int64_t r = own->number; r < rows; r += own->team->threads)
        rms_norm(x + r * step, normed + r * step, s->hidden, s->eps);
}

// RMS norm and rotary embedding of one head of the queries and keys.
static void norm_and_rotate(const Stack *s, const float *weight, const float *cos, const float *sin, float *x) {
    int64_t half = s->depth / 2;
    rms_norm(x, x, s->depth, s->eps);
    for (int64_t i = 0; i < half; i++) {
        float low = x[i] * weight[i], high = x[i + half] * weight[i + half];
        x[i] = low * cos[i] - high * sin[i];
        x[i + half] = high * cos[i] + low * sin[i];
    }
}

static void attend(const float *query, const float *keys, const float *values, int64_t length, int64_t depth,
                   float *scores, float *out) {
    float root = 1.0f / sqrtf((float)depth);
    for (int64_t i = 0; i < length; i++) scores[i] = dot(query, keys + i * depth, depth) * root;
    float inverse = softmax(scores, length);
    memset(out, 0, 4 * depth);
    for (int64_t i = 0; i < length; i++) add_scaled(out, values + i * depth, scores[i], depth);
    for (int64_t i = 0; i < depth; i++) out[i] *= inverse;
}

typedef struct { // rows of one layer
    const Stack *s;
    const Cache *cache;
    int64_t layer, rows, passed; // the first `passed` rows need no attention
    const int64_t *slots, *positions;
    float *qkv, *attended;
} Attention;

// One head of keys, and the queries that use it.
static void attend_head(const Attention *a, int64_t head, float *scores) {
    const Stack *s = a->s;
    const Cache *cache = a->cache;
    const int64_t depth = s->depth, share = s->heads / s->kv_heads;
    const int64_t wide = padded((s->heads + 2 * s->kv_heads) * depth);
    const float *norm = s->layer[a->layer].qk_norm;
    for (int64_t r = 0; r < a->rows; r++) {
        float *own = a->qkv + r * wide, *key = own + (s->heads + head) * depth;
        const int64_t position = a->positions[r], angles = position * (depth / 2);
        const int64_t held = ((a->layer * cache->slots + a->slots[r]) * s->kv_heads + head) * cache->capacity * depth;
        const float *cos = cache->cos + angles, *sin = cache->sin + angles;
        norm_and_rotate(s, norm + (s->heads + head) * depth, cos, sin, key);
        memcpy(cache->keys + held + position * depth, key, 4 * depth);
        memcpy(cache->values + held + position * depth, key + s->kv_heads * depth, 4 * depth);
        for (int64_t h = head * share; h < (head + 1) * share && r >= a->passed; h++) {
            norm_and_rotate(s, norm + h * depth, cos, sin, own + h * depth);
            attend(own + h * depth, cache->keys + held, cache->values + held, position + 1, depth, scores,
                   a->attended + (r * s->heads + h) * depth);
        }
    }
}

// Runs x [rows, padded hidden] through all layers, in place; `normed` gets the results of the last `wanted` rows in their
// places. `scratch` has stack_scratch floats. Rows of the same slot must be in the order of their positions. All threads
// of the team call it.
static void run_stack(const Stack *s, const Cache *cache, float *x, int64_t rows, int64_t wanted, const int64_t *slots,
                      const int64_t *positions, float *normed, float *scratch, Own *own) {
    const int64_t heads = s->heads * s->depth, all = heads + 2 * s->kv_heads * s->depth;
    const int64_t wide = padded(s->hidden), qkv_wide = padded(all), inner = padded(s->inner);
    const Columns of_qkv = columns_of(all, own), of_x = columns_of(s->hidden, own), of_gate = columns_of(s->inner, own);
    float *qkv = scratch, *attended = qkv + rows * qkv_wide, *gate = attended + rows * heads, *up = gate + inner;
    for (int64_t layer = 0; layer < s->layers; layer++) {
        const Layer *l = s->layer + layer;
        const int64_t passed = layer + 1 == s->layers ? rows - wanted : 0;
        const Attention a = {s, cache, layer, rows, passed, slots, positions, qkv, attended};
        norm_rows(s, x, wide, rows, normed, own);
        meet(own->team);
        multiply_columns(of_qkv, &l->qkv, 0, normed, wide, rows, s->hidden, qkv, qkv_wide);
        meet(own->team);
        for (int64_t h = own->number; h < s->kv_heads; h += own->team->threads) attend_head(&a, h, own->scores);
        meet(own->team);
        x += passed * wide, normed += passed * wide, attended += passed * heads, rows -= passed;
        if (!rows) return; // of the other rows, only keys and values are needed
        add_product(of_x, &l->out, attended, heads, rows, heads, normed, x, wide, own);
        norm_rows(s, x, wide, rows, normed, own);
        meet(own->team);
        multiply_columns(of_gate, &l->gate_up, 0, normed, wide, rows, s->hidden, gate, 2 * inner);
        multiply_columns(of_gate, &l->gate_up, inner / PANEL, normed, wide, rows, s->hidden, up, 2 * inner);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = of_gate.first; i < of_gate.first + of_gate.count; i += LANES) {
                float *at = gate + r * 2 * inner + i;
                store(at, silu(load(at)) * load(at + inner));
            }
        meet(own->team);
        add_product(of_x, &l->down, gate, 2 * inner, rows, s->inner, normed, x, wide, own);
    }
    norm_rows(s, x, wide, rows, normed, own);
    for (int64_t r = own->number; r < rows; r += own->team->threads)
        for (int64_t i = 0; i < s->hidden; i++) normed[r * wide + i] *= s->norm[i];
    meet(own->team);
}

// y [rows, y_step] gets the products of x [rows, x_step] and a matrix in panels.
static void project(const void *matrix, const float *x, int64_t x_step, int64_t rows, int64_t inputs, int64_t outputs,
                    float *y, int64_t y_step, Own *own) {
    multiply_columns(columns_of(outputs, own), matrix, 0, x, x_step, rows, inputs, y, y_step);
    meet(own->team);
}

#include "frame.h"

// Runs rows [count, hidden] at `positions` of `slots` through the stack; `out` may be `rows`. Returns 1 if memory ran
// out, otherwise 0.
EXPORT int FUNCTION(stack)(const Stack *s, const Cache *cache, const float *rows, int64_t count, const int64_t *slots,
                           const int64_t *positions, float *out) {
    int64_t wide = padded(s->hidden), scratch = stack_scratch(s, count), copy = count * wide;
    float *memory = calloc(scratch + 2 * copy + cache->capacity, 4);
    if (!memory) return 1;
    float *x = memory + scratch, *normed = x + copy;
    for (int64_t r = 0; r < count; r++) memcpy(x + r * wide, rows + r * s->hidden, 4 * s->hidden);
    Team alone = {.threads = 1};
    Own own = {&alone, 0, normed + copy};
    run_stack(s, cache, x, count, count, slots, positions, normed, memory, &own);
    for (int64_t r = 0; r < count; r++) memcpy(out + r * s->hidden, normed + r * wide, 4 * s->hidden);
    free(memory);
    return 0;
}

// Draws a code for each row of logits [rows, size]. Returns 1 if memory ran out, otherwise 0.
EXPORT int FUNCTION(choose)(const float *logits, int64_t rows, int64_t size, int64_t group, const int64_t *seeds,
                            const int64_t *frames, const float *temperature, const int64_t *top_k, const float *top_p,
                            int64_t *codes) {
    char *scratch = malloc(draw_scratch(size) + 4 * size);
    if (!scratch) return 1;
    float *own = (float *)(scratch + draw_scratch(size));
    for (int64_t r = 0; r < rows; r++) {
        Sampling s = {seeds[r], frames[r], top_k[r], temperature[r], top_p[r]};
        memcpy(own, logits + r * size, 4 * size);
        codes[r] = draw(own, size, group, &s, scratch);
    }
    free(scratch);
    return 0;
}

EXPORT int FUNCTION(frame)(const Frame *f, const int64_t *slots, int64_t count, const Prompts *prompts, int threads) {
    return make_frame(f, slots, count, prompts, threads);
}

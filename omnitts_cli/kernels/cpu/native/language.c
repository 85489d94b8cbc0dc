// The language side in float32: a stack of decoder layers, sampling of codes, and a whole frame for many slots.
//
// quantised.c is the same with weights in 8 bits. networks.py in the parent folder fills the structures below; stack.py,
// draw.py and frame.py there are the same operations in Python. Nothing here keeps state: buffers belong to the caller or
// are freed at the end of the call.
#include "panels.h"
#include "team.h"

enum { LANGUAGE_SUM = 16 }; // `sum_length` of products: with 16, logits are as accurate as torch's

typedef struct { // weights in panels, multiplied by the weights of the norm before them
    const float *qkv;
    const float *qk_norm;              // [heads + kv_heads, depth]
    const float *out, *gate_up, *down; // gate_up: panels of the gate, then panels of up
} Layer;

typedef float Number;

#include "stack.h"

typedef struct { // what a thread has for itself; there is one thread
    int number;
    float *scores; // one for each position
} Own;

static int64_t own_bytes(const Stack *s, int64_t rows, int64_t positions) {
    (void)s, (void)rows;
    return 4 * positions;
}

static Own own_of(Team *team, int number, char *memory) {
    (void)team;
    return (Own){number, (float *)memory};
}

static int64_t stack_scratch(const Stack *s, int64_t rows) {
    int64_t heads = (s->heads + 2 * s->kv_heads) * s->depth;
    return rows * (padded(s->hidden) + padded(heads) + s->heads * s->depth + 2 * padded(s->inner));
}

// RMS norm and rotary embedding of each head of the queries and keys.
static void norm_and_rotate(const Stack *s, const Layer *l, const float *cos, const float *sin, float *qk) {
    int64_t half = s->depth / 2;
    for (int64_t head = 0; head < s->heads + s->kv_heads; head++, qk += s->depth) {
        rms_norm(qk, qk, s->depth, s->eps);
        const float *weight = l->qk_norm + head * s->depth;
        for (int64_t i = 0; i < half; i++) {
            float low = qk[i] * weight[i], high = qk[i + half] * weight[i + half];
            qk[i] = low * cos[i] - high * sin[i];
            qk[i + half] = high * cos[i] + low * sin[i];
        }
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

// Runs x [rows, padded hidden] through all layers, in place; `normed` gets the results of the last `wanted` rows in their
// places. `scratch` has stack_scratch floats. Rows of the same slot must be in the order of their positions.
static void run_stack(const Stack *s, const Cache *cache, float *x, int64_t rows, int64_t wanted, const int64_t *slots,
                      const int64_t *positions, float *normed, float *scratch, Own *mine) {
    const int64_t depth = s->depth, heads = s->heads * depth, kv = s->kv_heads * depth;
    const int64_t wide = padded(s->hidden), qkv_wide = padded(heads + 2 * kv), inner = padded(s->inner);
    float *qkv = scratch, *attended = qkv + rows * qkv_wide, *gate = attended + rows * heads;
    for (int64_t layer = 0; layer < s->layers; layer++) {
        const Layer *l = s->layer + layer;
        for (int64_t r = 0; r < rows; r++) rms_norm(x + r * wide, normed + r * wide, s->hidden, s->eps);
        multiply(plain_rows(normed, wide, s->hidden, LANGUAGE_SUM), rows, l->qkv, qkv_wide, qkv, qkv_wide);
        for (int64_t r = 0; r < rows; r++) {
            float *own = qkv + r * qkv_wide;
            const int64_t angles = positions[r] * (depth / 2);
            norm_and_rotate(s, l, cache->cos + angles, cache->sin + angles, own);
            for (int64_t h = 0; h < s->kv_heads; h++) {
                int64_t at =
                    (((layer * cache->slots + slots[r]) * s->kv_heads + h) * cache->capacity + positions[r]) * depth;
                memcpy(cache->keys + at, own + heads + h * depth, 4 * depth);
                memcpy(cache->values + at, own + heads + kv + h * depth, 4 * depth);
            }
        }
        if (layer + 1 == s->layers) { // of the other rows, only keys and values are needed
            const int64_t passed = rows - wanted;
            x += passed * wide, normed += passed * wide, qkv += passed * qkv_wide;
            slots += passed, positions += passed, rows = wanted;
            if (!rows) return;
        }
        for (int64_t r = 0; r < rows; r++)
            for (int64_t h = 0; h < s->heads; h++) {
                int64_t shared = h / (s->heads / s->kv_heads);
                int64_t at = ((layer * cache->slots + slots[r]) * s->kv_heads + shared) * cache->capacity * depth;
                attend(qkv + r * qkv_wide + h * depth, cache->keys + at, cache->values + at, positions[r] + 1, depth,
                       mine->scores, attended + r * heads + h * depth);
            }
        multiply(plain_rows(attended, heads, heads, LANGUAGE_SUM), rows, l->out, wide, normed, wide);
        add_to(x, normed, rows * wide);
        for (int64_t r = 0; r < rows; r++) rms_norm(x + r * wide, normed + r * wide, s->hidden, s->eps);
        multiply(plain_rows(normed, wide, s->hidden, LANGUAGE_SUM), rows, l->gate_up, 2 * inner, gate, 2 * inner);
        for (int64_t r = 0; r < rows; r++) {
            float *own = gate + r * 2 * inner;
            for (int64_t i = 0; i < inner; i += LANES) store(own + i, silu(load(own + i)) * load(own + inner + i));
        }
        multiply(plain_rows(gate, 2 * inner, s->inner, LANGUAGE_SUM), rows, l->down, wide, normed, wide);
        add_to(x, normed, rows * wide);
    }
    for (int64_t r = 0; r < rows; r++) {
        rms_norm(x + r * wide, normed + r * wide, s->hidden, s->eps);
        for (int64_t i = 0; i < s->hidden; i++) normed[r * wide + i] *= s->norm[i];
    }
}

// y [rows, y_step] gets the products of x [rows, x_step] and a matrix in panels.
static void project(const void *matrix, const float *x, int64_t x_step, int64_t rows, int64_t inputs, int64_t outputs,
                    float *y, int64_t y_step, Own *own) {
    (void)own;
    multiply(plain_rows(x, x_step, inputs, LANGUAGE_SUM), rows, matrix, padded(outputs), y, y_step);
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
    Own own = {0, normed + copy};
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

EXPORT int FUNCTION(frame)(const Frame *f, const int64_t *slots, int64_t count, const Prompts *prompts) {
    return make_frame(f, slots, count, prompts, 1);
}

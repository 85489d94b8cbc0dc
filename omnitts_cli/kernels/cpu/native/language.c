// The language side: a stack of decoder layers, sampling of codes, and a whole frame for many slots.
//
// language.py in the parent folder fills the structures below; stack.py, draw.py and frame.py there are the same
// operations in Python. Nothing here keeps state: buffers belong to the caller or are freed at the end of the call.
#include "vectors.h"

enum { LANGUAGE_SUM = 16 }; // `sum_length` of products: with 16, logits are as accurate as torch's

typedef struct { // weights in panels, multiplied by the weights of the norm before them
    const float *qkv;
    const float *qk_norm;              // [heads + kv_heads, depth]
    const float *out, *gate_up, *down; // gate_up: panels of the gate, then panels of up
} Layer;

typedef struct {
    int64_t hidden, inner, heads, kv_heads, depth, layers;
    float eps;
    const float *norm; // [hidden]
    const Layer *layer;
} Stack;

typedef struct { // keys and values [layers, slots, kv_heads, capacity, depth]; cos and sin [capacity, depth / 2]
    float *keys, *values;
    const float *cos, *sin;
    int64_t slots, capacity;
} Cache;

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

// Runs x [rows, padded hidden] through all layers, in place; `normed` gets the result. `scratch` has stack_scratch
// floats, `scores` one for each position. Rows of the same slot must be in the order of their positions.
static void run_stack(const Stack *s, const Cache *cache, float *x, int64_t rows, const int64_t *slots,
                      const int64_t *positions, float *normed, float *scratch, float *scores) {
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
        for (int64_t r = 0; r < rows; r++)
            for (int64_t h = 0; h < s->heads; h++) {
                int64_t shared = h / (s->heads / s->kv_heads);
                int64_t at = ((layer * cache->slots + slots[r]) * s->kv_heads + shared) * cache->capacity * depth;
                attend(qkv + r * qkv_wide + h * depth, cache->keys + at, cache->values + at, positions[r] + 1, depth,
                       scores, attended + r * heads + h * depth);
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

// Runs rows [count, hidden] at `positions` of `slots` through the stack; `out` may be `rows`. Returns 1 if memory ran
// out, otherwise 0.
EXPORT int FUNCTION(stack)(const Stack *s, const Cache *cache, const float *rows, int64_t count, const int64_t *slots,
                           const int64_t *positions, float *out) {
    int64_t wide = padded(s->hidden), scratch = stack_scratch(s, count), copy = count * wide;
    float *memory = calloc(scratch + 2 * copy + cache->capacity, 4);
    if (!memory) return 1;
    float *x = memory + scratch, *normed = x + copy;
    for (int64_t r = 0; r < count; r++) memcpy(x + r * wide, rows + r * s->hidden, 4 * s->hidden);
    run_stack(s, cache, x, count, slots, positions, normed, memory, normed + copy);
    for (int64_t r = 0; r < count; r++) memcpy(out + r * s->hidden, normed + r * wide, 4 * s->hidden);
    free(memory);
    return 0;
}

// ---- sampling

static uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x21F0AAADu;
    x = (x ^ x >> 15) * 0x735A2D97u;
    return x ^ x >> 15;
}

// A random number in [0, 1) that depends only on (seed, frame, group).
static double uniform(int64_t seed, int64_t frame, int64_t group) {
    uint32_t bits = mix(mix(mix((uint32_t)(frame * 64 + group)) ^ (uint32_t)seed) ^ (uint32_t)((uint64_t)seed >> 32));
    return (bits >> 8) * 0x1p-24;
}

// An integer that compares as the float does.
static int32_t sortable(float x) {
    int32_t bits;
    memcpy(&bits, &x, 4);
    return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
}

// The k-th largest of `size` floats. Finds its bits from the highest: a bit is set if at least k floats are as large.
static float kth_largest(const float *x, int64_t size, int64_t k, int32_t *keys) {
    for (int64_t i = 0; i < size; i++) keys[i] = sortable(x[i]);
    int32_t threshold = INT32_MIN;
    for (int bit = 31; bit >= 0; bit--) {
        int32_t higher = (int32_t)((uint32_t)threshold + (1u << bit)), count = 0;
        for (int64_t i = 0; i < size; i++) count += keys[i] >= higher;
        if (count >= k) threshold = higher;
    }
    int32_t bits = threshold < 0 ? threshold ^ 0x7FFFFFFF : threshold;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

typedef struct {
    double weight;
    float score;
} Candidate;

static int by_score_descending(const void *a, const void *b) {
    float x = ((const Candidate *)a)->score, y = ((const Candidate *)b)->score;
    return (x < y) - (x > y);
}

// The lowest score of the nucleus: the most likely candidates whose mass reaches `top_p`. Sorts `candidates`.
static float nucleus(Candidate *candidates, int64_t count, double top_p) {
    qsort(candidates, count, sizeof *candidates, by_score_descending);
    double sum = 0, above = 0;
    for (int64_t i = 0; i < count; i++) sum += candidates[i].weight;
    int64_t inside = 0;
    for (; inside < count && above < top_p * sum; inside++) above += candidates[inside].weight;
    return candidates[inside ? inside - 1 : 0].score;
}

typedef struct {
    int64_t seed, frame, top_k;
    float temperature, top_p;
} Sampling;

static int64_t draw_scratch(int64_t size) { return size * (4 + 4 + sizeof(Candidate)); } // bytes

static int64_t draw(float *scores, int64_t size, int64_t group, const Sampling *s, char *scratch) {
    int64_t best = 0;
    for (int64_t i = 0; i < size; i++) {
        if (isnan(scores[i])) return i;
        if (scores[i] > scores[best]) best = i;
    }
    if (!(s->temperature > 0)) return best;
    for (int64_t i = 0; i < size; i++) scores[i] /= s->temperature;
    float top = scores[best], threshold = -INFINITY;
    if (!isfinite(top)) return best; // infinite logits, or a temperature so low that scores overflow
    Candidate *candidates = (Candidate *)scratch;
    int32_t *keys = (int32_t *)(candidates + size), *codes = keys + size;
    if (0 < s->top_k && s->top_k < size) threshold = kth_largest(scores, size, s->top_k, keys);
    int64_t count = 0;
    for (int64_t i = 0; i < size; i++) {
        if (!(scores[i] >= threshold)) continue;
        codes[count] = (int32_t)i;
        candidates[count++] = (Candidate){exp((double)(scores[i] - top)), scores[i]};
    }
    if (s->top_p < 1) {
        int64_t before = count;
        threshold = nucleus(candidates, count, s->top_p);
        count = 0;
        for (int64_t k = 0; k < before; k++)
            if (scores[codes[k]] >= threshold) {
                candidates[count].weight = exp((double)(scores[codes[k]] - top));
                codes[count++] = codes[k];
            }
    }
    double mass = 0;
    for (int64_t k = 0; k < count; k++) candidates[k].weight = mass += candidates[k].weight;
    double target = uniform(s->seed, s->frame, group) * mass;
    int64_t drawn = 0;
    while (drawn < count - 1 && candidates[drawn].weight <= target) drawn++;
    return codes[drawn];
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

// ---- a frame

enum { RUNNING, END, LIMIT, STALL, BROKEN }; // why a slot stopped; the values are those of plain_frame.py

typedef struct { // all inputs and outputs of a frame; the arrays at the end have one entry per slot
    const Stack *talker, *predictor;
    Cache cache;                         // of the talker
    const float *rope_cos, *rope_sin;    // of the predictor's positions
    const float *head;                   // panels of [vocabulary] outputs
    const float *heads;                  // groups - 1 times panels of [codes] outputs
    const float *project, *project_bias; // from the talker's width to the predictor's; NULL if they are equal
    const float *const *inputs;          // groups - 1 tables: the predictor's input row for each code of a group
    const float *first, *rest;           // [vocabulary, hidden], [groups - 1, codes, hidden]: summed to the next row
    int64_t vocabulary, audio, end, groups, codes, least_frames, stall;
    int64_t text_rows, frames;
    float *row;
    const float *text, *pad;
    int64_t *position, *made, *stop, *limit, *made_codes, *reference, *last, *repeats, *written;
    uint8_t *live, *closed, *seen;
    const int64_t *seed, *top_k, *predictor_top_k;
    const float *temperature, *top_p, *penalty, *predictor_temperature, *predictor_top_p;
    const uint8_t *ignore_end;
} Frame;

// Returns whether a slot can make a frame now; if so, x gets the talker's input row.
static int input_row(const Frame *f, int64_t slot, float *x) {
    const int64_t hidden = f->talker->hidden, made = f->made[slot];
    int has_text = made <= f->written[slot];
    if (!f->live[slot] || !(made == 0 || has_text || f->closed[slot])) return 0;
    memcpy(x, f->row + slot * hidden, 4 * hidden);
    if (made == 0) return 1;
    const float *text =
        has_text ? f->text + (slot * f->text_rows + (made - 1) % f->text_rows) * hidden : f->pad + slot * hidden;
    for (int64_t i = 0; i < hidden; i++) x[i] += text[i];
    return 1;
}

// Scores of group 0 before temperature: applies the repetition penalty, allows only audio codes and the end code, and
// no end before the least length.
static void first_scores(const Frame *f, int64_t slot, const float *logits, float *scores) {
    const uint8_t *seen = f->seen + slot * f->audio;
    float penalty = f->penalty[slot];
    for (int64_t i = 0; i < f->vocabulary; i++) scores[i] = -INFINITY;
    for (int64_t i = 0; i < f->audio; i++)
        scores[i] = !seen[i] ? logits[i] : logits[i] < 0 ? logits[i] * penalty : logits[i] / penalty;
    int endless = f->made[slot] < f->least_frames || f->ignore_end[slot];
    scores[f->end] = endless ? -INFINITY : logits[f->end];
}

static void finish(const Frame *f, int64_t slot, const float *logits, const int64_t *codes) {
    const int64_t hidden = f->talker->hidden, made = f->made[slot], first = codes[0];
    memcpy(f->made_codes + (slot * f->frames + f->reference[slot] + made) * f->groups, codes, 8 * f->groups);
    int finite = 1;
    for (int64_t i = 0; i < f->vocabulary; i++) finite &= isfinite(logits[i]) != 0;
    if (!finite || first == f->end) {
        f->stop[slot] = finite ? END : BROKEN;
        f->live[slot] = 0;
        return;
    }
    f->seen[slot * f->audio + (first < f->audio ? first : f->audio - 1)] = 1;
    f->position[slot]++;
    f->made[slot] = made + 1;
    // with a fixed number of frames, repeated codes do not stop the slot
    f->repeats[slot] = f->ignore_end[slot] ? 0 : first == f->last[slot] ? f->repeats[slot] + 1 : 1;
    f->last[slot] = first;
    f->stop[slot] = made + 1 >= f->limit[slot] ? LIMIT : f->repeats[slot] >= f->stall ? STALL : RUNNING;
    f->live[slot] = f->stop[slot] == RUNNING;
    float *row = f->row + slot * hidden;
    memcpy(row, f->first + first * hidden, 4 * hidden);
    for (int64_t g = 1; g < f->groups; g++)
        add_scaled(row, f->rest + ((g - 1) * f->codes + codes[g]) * hidden, 1.0f, hidden);
}

typedef struct { // buffers of one call
    float *x, *hidden, *normed, *scratch, *logits, *scores, *keys, *values;
    int64_t *slots, *row_slots, *positions, *codes;
    char *draw;
} FrameWork;

// Draws codes[row][1..] after the given codes[row][0]. The first pass reads two rows per slot: the talker's hidden
// state and the row of code 0.
static void predict(const Frame *f, const int64_t *slots, int64_t count, FrameWork *w) {
    const Stack *s = f->predictor;
    const int64_t wide = padded(s->hidden), talker = padded(f->talker->hidden), outputs = padded(f->codes);
    Cache cache = {w->keys, w->values, f->rope_cos, f->rope_sin, count, f->groups};
    memset(w->x, 0, 4 * 2 * count * wide);
    for (int64_t r = 0; r < count; r++) {
        float *x = w->x + 2 * r * wide;
        if (f->project) {
            Rows hidden = plain_rows(w->hidden + r * talker, talker, f->talker->hidden, LANGUAGE_SUM);
            multiply(hidden, 1, f->project, wide, x, wide);
            add_scaled(x, f->project_bias, 1.0f, s->hidden);
        } else
            memcpy(x, w->hidden + r * talker, 4 * s->hidden);
    }
    for (int64_t g = 1; g < f->groups; g++) {
        const int64_t each = g == 1 ? 2 : 1; // rows per slot
        for (int64_t r = 0; r < count; r++) {
            int64_t code = w->codes[r * f->groups + g - 1], at = each * r + each - 1;
            if (code >= f->codes) code = f->codes - 1; // the end code has no row; codes drawn after it are not used
            memcpy(w->x + at * wide, f->inputs[g - 1] + code * s->hidden, 4 * s->hidden);
            for (int64_t k = 0; k < each; k++) {
                w->row_slots[each * r + k] = r;
                w->positions[each * r + k] = g == 1 ? k : g;
            }
        }
        run_stack(s, &cache, w->x, each * count, w->row_slots, w->positions, w->normed, w->scratch, w->scores);
        multiply(plain_rows(w->normed + (each - 1) * wide, each * wide, s->hidden, LANGUAGE_SUM), count,
                 f->heads + (g - 1) * outputs * s->hidden, outputs, w->logits, outputs);
        for (int64_t r = 0; r < count; r++) {
            int64_t slot = slots[r];
            Sampling sampling = {f->seed[slot], f->made[slot], f->predictor_top_k[slot], f->predictor_temperature[slot],
                                 f->predictor_top_p[slot]};
            w->codes[r * f->groups + g] = draw(w->logits + r * outputs, f->codes, g, &sampling, w->draw);
        }
    }
}

// Makes one frame for each of `slots` [count] that can make one: talker, group 0, predictor, next input row, reason to
// stop. A slot that is listed twice makes one frame. Returns 1 if memory ran out, otherwise 0.
EXPORT int FUNCTION(frame)(const Frame *f, const int64_t *slots, int64_t count) {
    const Stack *t = f->talker, *p = f->predictor;
    const int64_t wide = padded(t->hidden), vocabulary = padded(f->vocabulary), narrow = padded(p->hidden);
    const int64_t kv = p->layers * count * p->kv_heads * f->groups * p->depth, x = count * max_of(wide, 2 * narrow);
    const int64_t sizes[] = {x,
                             count * wide,
                             x,
                             max_of(stack_scratch(t, count), stack_scratch(p, 2 * count)),
                             count * vocabulary,
                             count * padded(f->codes),
                             max_of(f->cache.capacity, f->groups),
                             vocabulary,
                             kv,
                             kv};
    int64_t floats = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) floats += sizes[i];
    int64_t integers = count * (1 + 2 + 2 + f->groups);
    char *memory = calloc(1, 4 * floats + 8 * integers + draw_scratch(max_of(f->vocabulary, f->codes)));
    if (!memory) return 1;
    FrameWork w;
    w.slots = (int64_t *)memory, w.row_slots = w.slots + count, w.positions = w.row_slots + 2 * count,
    w.codes = w.positions + 2 * count;
    w.draw = (char *)(w.codes + count * f->groups);
    w.x = (float *)(w.draw + draw_scratch(max_of(f->vocabulary, f->codes)));
    w.hidden = w.x + sizes[0], w.normed = w.hidden + sizes[1], w.scratch = w.normed + sizes[2];
    float *first_logits = w.scratch + sizes[3];
    w.logits = first_logits + sizes[4], w.scores = w.logits + sizes[5];
    float *scores = w.scores + sizes[6];
    w.keys = scores + sizes[7], w.values = w.keys + sizes[8];

    int64_t rows = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t other = 0;
        while (other < rows && w.slots[other] != slots[i]) other++;
        if (other < rows || !input_row(f, slots[i], w.x + rows * wide)) continue;
        w.positions[rows] = f->position[slots[i]];
        w.slots[rows++] = slots[i];
    }
    run_stack(t, &f->cache, w.x, rows, w.slots, w.positions, w.hidden, w.scratch, w.scores);
    multiply(plain_rows(w.hidden, wide, t->hidden, LANGUAGE_SUM), rows, f->head, vocabulary, first_logits, vocabulary);
    for (int64_t r = 0; r < rows; r++) {
        int64_t slot = w.slots[r];
        first_scores(f, slot, first_logits + r * vocabulary, scores);
        Sampling sampling = {f->seed[slot], f->made[slot], f->top_k[slot], f->temperature[slot], f->top_p[slot]};
        w.codes[r * f->groups] = draw(scores, f->vocabulary, 0, &sampling, w.draw);
    }
    predict(f, w.slots, rows, &w);
    for (int64_t r = 0; r < rows; r++) finish(f, w.slots[r], first_logits + r * vocabulary, w.codes + r * f->groups);
    free(memory);
    return 0;
}

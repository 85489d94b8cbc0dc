// A frame for many slots: sampling of codes, and everything around the stacks of talker and predictor.
//
// language.c includes this for weights in float32, quantised.c for weights in 8 bits. Before that, each defines
//   Stack, Cache, Number     its weights, its keys and values, and the type of these
//   Own, own_bytes()         memory that each thread of a call has for itself
//   stack_scratch()          floats of memory that the threads of a stack share
//   run_stack(), project()   what all threads of a call do together; project() multiplies rows with one matrix.
//                            run_stack() calculates the results of the last `wanted` rows
#pragma once
#include "team.h"
#include "vectors.h"

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

// e^x for x <= 0, from sums and products alone, so that its bits do not depend on a system's library. Relative error: at most
// 3e-16. Below -700 it is 0.
static double exponential_of(double x) {
    if (!(x > -700)) return 0;
    const double magic = 6755399441055744.0; // 1.5 * 2^52: adding it rounds to an integer
    double n = x * 1.4426950408889634 + magic - magic, p = 1.0 / 6227020800;
    double r = x - n * 0.6931471803691238; // 33 bits of ln 2, so that the product is exact
    r -= n * 1.9082149292705877e-10;
    static const double below[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                                   1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
    for (int i = 0; i < 13; i++) p = p * r + below[i];
    int64_t bits = ((int64_t)n + 1023) << 52;
    double power;
    memcpy(&power, &bits, 8);
    return p * power;
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
        candidates[count++] = (Candidate){exponential_of((double)(scores[i] - top)), scores[i]};
    }
    if (s->top_p < 1) {
        int64_t before = count;
        threshold = nucleus(candidates, count, s->top_p);
        count = 0;
        for (int64_t k = 0; k < before; k++)
            if (scores[codes[k]] >= threshold) {
                candidates[count].weight = exponential_of((double)(scores[codes[k]] - top));
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

// ---- a frame

enum { RUNNING, END, LIMIT, STALL, BROKEN }; // why a slot stopped; the values are those of plain_frame.py

typedef struct { // all inputs and outputs of a frame; the arrays at the end have one entry per slot
    const Stack *talker, *predictor;
    Cache cache;                         // of the talker
    const float *rope_cos, *rope_sin;    // of the predictor's positions
    const void *head;                    // a matrix of [vocabulary] outputs
    const void *const *heads;            // groups - 1 matrices of [codes] outputs
    const void *project;                 // from the talker's width to the predictor's; NULL if they are equal
    const float *project_bias;
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

typedef struct { // rows of prompts; the talker reads its weights once for them and for the rows of the frame
    const float *rows;                 // [count, hidden]
    const int64_t *slots, *positions;  // [count]; those of a slot in the order of their positions
    int64_t count;
} Prompts;

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

typedef struct { // one call: its buffers, which all of its threads use
    Team team;
    const Frame *f;
    int64_t before; // rows of prompts before those of the frame
    float *x, *hidden, *normed, *scratch, *first_logits, *logits, *scores;
    Number *keys, *values; // of the predictor
    int64_t *slots, *row_slots, *positions, *codes;
    char *draw, *own; // own: own_bytes() for each thread
    int64_t rows, own_size;
} FrameCall;

// The input of the predictor's pass for group g, whose first pass has two rows for each slot.
static void next_rows(const FrameCall *c, int64_t g) {
    const Frame *f = c->f;
    const int64_t each = g == 1 ? 2 : 1, hidden = f->predictor->hidden;
    for (int64_t r = 0; r < c->rows; r++) {
        int64_t code = c->codes[r * f->groups + g - 1], at = each * r + each - 1;
        if (code >= f->codes) code = f->codes - 1; // the end code has no row; codes drawn after it are not used
        memcpy(c->x + at * padded(hidden), f->inputs[g - 1] + code * hidden, 4 * hidden);
        for (int64_t k = 0; k < each; k++) {
            c->row_slots[each * r + k] = r;
            c->positions[each * r + k] = g == 1 ? k : g;
        }
    }
}

// The predictor's first rows: the talker's hidden states, in every second place of `x`.
static void narrow(const FrameCall *c, const float *states, Own *own) {
    const Frame *f = c->f;
    const int64_t hidden = f->predictor->hidden, wide = padded(hidden), talker = padded(f->talker->hidden);
    if (f->project) project(f->project, states, talker, c->rows, f->talker->hidden, hidden, c->x, 2 * wide, own);
    if (own->number) return;
    for (int64_t r = 0; r < c->rows; r++) {
        float *x = c->x + 2 * r * wide;
        if (f->project)
            add_scaled(x, f->project_bias, 1.0f, hidden);
        else
            memcpy(x, states + r * talker, 4 * hidden);
    }
}

// Draws codes[row][1..] after the given codes[row][0]. `states`: the talker's.
static void predict(FrameCall *c, const float *states, Own *own) {
    const Frame *f = c->f;
    const Stack *s = f->predictor;
    const int64_t wide = padded(s->hidden), outputs = padded(f->codes);
    const Cache cache = {c->keys, c->values, f->rope_cos, f->rope_sin, c->rows, f->groups};
    if (!own->number) memset(c->x, 0, 4 * 2 * c->rows * wide);
    meet(&c->team);
    narrow(c, states, own);
    for (int64_t g = 1; g < f->groups; g++) {
        const int64_t each = g == 1 ? 2 : 1;
        if (!own->number) next_rows(c, g);
        meet(&c->team);
        run_stack(s, &cache, c->x, each * c->rows, each * c->rows, c->row_slots, c->positions, c->normed,
                  c->scratch, own);
        project(f->heads[g - 1], c->normed + (each - 1) * wide, each * wide, c->rows, s->hidden, f->codes, c->logits,
                outputs, own);
        for (int64_t r = 0; r < c->rows && !own->number; r++) {
            int64_t slot = c->slots[r];
            Sampling sampling = {f->seed[slot], f->made[slot], f->predictor_top_k[slot], f->predictor_temperature[slot],
                                 f->predictor_top_p[slot]};
            c->codes[r * f->groups + g] = draw(c->logits + r * outputs, f->codes, g, &sampling, c->draw);
        }
    }
}

static void frame_work(void *call, int number) {
    FrameCall *c = call;
    const Frame *f = c->f;
    const int64_t wide = padded(f->talker->hidden), vocabulary = padded(f->vocabulary);
    Own own = own_of(&c->team, number, c->own + number * c->own_size);
    run_stack(f->talker, &f->cache, c->x, c->before + c->rows, c->rows, c->row_slots, c->positions, c->hidden,
              c->scratch, &own);
    if (!c->rows) return;
    const float *states = c->hidden + c->before * wide;
    project(f->head, states, wide, c->rows, f->talker->hidden, f->vocabulary, c->first_logits, vocabulary, &own);
    for (int64_t r = 0; r < c->rows && !number; r++) {
        int64_t slot = c->slots[r];
        first_scores(f, slot, c->first_logits + r * vocabulary, c->scores);
        Sampling sampling = {f->seed[slot], f->made[slot], f->top_k[slot], f->temperature[slot], f->top_p[slot]};
        c->codes[r * f->groups] = draw(c->scores, f->vocabulary, 0, &sampling, c->draw);
    }
    predict(c, states, &own);
}

INLINE int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Makes one frame for each of `slots` [count] that can make one: talker, group 0, predictor, next input row, reason to
// stop. A slot that is listed twice makes one frame. The keys and values of `prompts` are written before. Returns 1 if
// memory ran out, otherwise 0.
static int make_frame(const Frame *f, const int64_t *slots, int64_t count, const Prompts *prompts, int threads) {
    const Stack *t = f->talker, *p = f->predictor;
    const int64_t wide = padded(t->hidden), vocabulary = padded(f->vocabulary), narrow_wide = padded(p->hidden);
    const int64_t kv = p->layers * count * p->kv_heads * f->groups * p->depth;
    const int64_t rows = prompts->count + count, x = 4 * max_of(rows * wide, 2 * count * narrow_wide);
    const int64_t positions = max_of(f->cache.capacity, f->groups);
    const int64_t own = aligned(max_of(own_bytes(t, rows, positions), own_bytes(p, 2 * count, positions)));
    const int64_t sizes[] = {x,
                             4 * rows * wide,
                             x,
                             4 * max_of(stack_scratch(t, rows), stack_scratch(p, 2 * count)),
                             4 * count * vocabulary,
                             4 * count * padded(f->codes),
                             4 * vocabulary,
                             (int64_t)sizeof(Number) * kv,
                             (int64_t)sizeof(Number) * kv,
                             8 * count,
                             8 * max_of(rows, 2 * count),
                             8 * max_of(rows, 2 * count),
                             8 * count * f->groups,
                             draw_scratch(max_of(f->vocabulary, f->codes)),
                             own * threads};
    FrameCall c = {.f = f, .before = prompts->count, .own_size = own};
    void *parts[] = {&c.x,     &c.hidden, &c.normed, &c.scratch,   &c.first_logits, &c.logits, &c.scores, &c.keys,
                     &c.values, &c.slots,  &c.row_slots, &c.positions, &c.codes,        &c.draw,   &c.own};
    int64_t bytes = 64;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) bytes += aligned(sizes[i]);
    char *memory = calloc(1, bytes), *next = memory + (64 - (uintptr_t)memory % 64);
    if (!memory) return 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++, next += aligned(sizes[i - 1]))
        memcpy(parts[i], &next, sizeof next);
    for (int64_t i = 0; i < c.before; i++) {
        memcpy(c.x + i * wide, prompts->rows + i * t->hidden, 4 * t->hidden);
        c.row_slots[i] = prompts->slots[i], c.positions[i] = prompts->positions[i];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t other = 0;
        while (other < c.rows && c.slots[other] != slots[i]) other++;
        const int64_t row = c.before + c.rows;
        if (other < c.rows || !input_row(f, slots[i], c.x + row * wide)) continue;
        c.row_slots[row] = slots[i], c.positions[row] = f->position[slots[i]];
        c.slots[c.rows++] = slots[i];
    }
    if (c.before + c.rows) work_together(&c.team, threads, frame_work, &c);
    for (int64_t r = 0; r < c.rows; r++)
        finish(f, c.slots[r], c.first_logits + r * vocabulary, c.codes + r * f->groups);
    free(memory);
    return 0;
}

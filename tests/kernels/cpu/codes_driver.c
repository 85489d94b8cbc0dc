// Speaks requests without Python, for instruction sets that only an emulator has here. test_quantised_codes.py writes the file
// that it reads: the model's matrices and tables, and the requests.
//
// Prints the codes of the first three requests, spoken alone in one thread. Returns 1 if they are others with 2 to 4
// threads, or with 4 or 8 requests together.
#include "quantised.c"
#include <stdio.h>

enum { MOST = 8, PRINTED = 3 };

static FILE *file;

static void *blob(void) { // its number of bytes, then the bytes
    int64_t bytes;
    if (fread(&bytes, 8, 1, file) != 1) exit(2);
    char *made = aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (!made || (bytes && fread(made, bytes, 1, file) != 1)) exit(2);
    return made;
}

static void *zeros(int64_t bytes) {
    void *made = calloc(bytes, 1);
    if (!made) exit(2);
    return made;
}

static Stack stack_of(void) {
    int64_t *n = blob();
    float *eps = blob(), *norm = blob();
    Layer *layer = zeros(n[5] * sizeof *layer);
    for (int64_t i = 0; i < n[5]; i++) {
        const float *input_norm = blob(), *qk_norm = blob(), *mlp_norm = blob();
        const Matrix *qkv = blob(), *out = blob(), *gate_up = blob(), *down = blob();
        layer[i] = (Layer){input_norm, qk_norm, mlp_norm, qkv, out, gate_up, down};
    }
    return (Stack){n[0], n[1], n[2], n[3], n[4], n[5], *eps, norm, layer};
}

typedef struct {
    int64_t rows, *ids, *controls; // of the text; -1 where a row has none
} Asked;

typedef struct {
    Stack talker, predictor;
    Frame frame; // without slots
    const float *texts; // [ids, hidden]
    int64_t pad, capacity;
    Asked asked[MOST];
    const int64_t *seeds, *top_k;
    const float *reals; // temperature, top_p, penalty, and two of the predictor
} Model;

// The predictor's input rows for the codes of each group.
static const float **narrowed(const Frame *f, int64_t wide, int64_t narrow) {
    const float **tables = zeros(8 * (f->groups - 1));
    for (int64_t g = 0; g < f->groups - 1; g++) {
        const float *table = g ? f->rest + (g - 1) * f->codes * wide : f->first;
        tables[g] = table;
        if (!f->project) continue;
        float *rows = zeros(4 * f->codes * narrow), *copy = zeros(4 * f->codes * wide);
        memcpy(copy, table, 4 * f->codes * wide);
        FUNCTION(quantised_multiply)(f->project, copy, f->codes, rows, 2);
        for (int64_t i = 0; i < f->codes * narrow; i++) rows[i] += f->project_bias[i % narrow];
        tables[g] = rows;
        free(copy);
    }
    return tables;
}

static void read_model(Model *m) {
    int64_t *n = blob();
    Frame *f = &m->frame;
    f->frames = n[0], f->groups = n[1], f->codes = n[2], f->vocabulary = n[3], f->audio = n[4], f->end = n[5];
    f->least_frames = n[6], f->stall = n[7], m->capacity = n[8], m->pad = n[9];
    m->talker = stack_of(), m->predictor = stack_of();
    f->talker = &m->talker, f->predictor = &m->predictor;
    f->cache.cos = blob(), f->cache.sin = blob(), f->rope_cos = blob(), f->rope_sin = blob();
    f->head = blob();
    const void **heads = zeros(8 * (f->groups - 1));
    for (int64_t g = 0; g < f->groups - 1; g++) heads[g] = blob();
    f->heads = heads;
    if (n[10]) f->project = blob(), f->project_bias = blob();
    f->first = blob(), f->rest = blob();
    f->inputs = narrowed(f, m->talker.hidden, m->predictor.hidden);
    int64_t *sizes = blob();
    const float *inner = blob(), *inner_bias = blob(), *out = blob(), *out_bias = blob();
    Text text = {inner, inner_bias, out, out_bias, sizes[1], sizes[2], m->talker.hidden};
    float *rows = blob(), *texts = zeros(4 * sizes[0] * m->talker.hidden);
    FUNCTION(quantised_text)(&text, rows, sizes[0], texts, 3);
    m->texts = texts, m->seeds = blob(), m->top_k = blob(), m->reals = blob();
    for (int i = 0; i < MOST; i++) {
        int64_t *count = blob();
        m->asked[i].rows = *count, m->asked[i].ids = blob(), m->asked[i].controls = blob();
    }
}

static float *prompt_of(const Model *m, const Asked *a) {
    const int64_t hidden = m->talker.hidden;
    float *rows = zeros(4 * a->rows * hidden);
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t i = 0; i < hidden; i++) {
            rows[r * hidden + i] = m->texts[a->ids[r] * hidden + i];
            if (a->controls[r] >= 0) rows[r * hidden + i] += m->frame.first[a->controls[r] * hidden + i];
        }
    return rows;
}

static float *filled_with(float value) {
    float *made = zeros(4 * MOST);
    for (int i = 0; i < MOST; i++) made[i] = value;
    return made;
}

static int64_t *numbers_of(int64_t value) {
    int64_t *made = zeros(8 * MOST);
    for (int i = 0; i < MOST; i++) made[i] = value;
    return made;
}

// Speaks requests first..first + count; codes [MOST, frames, groups] and the frames made [MOST].
static void speak(const Model *m, int64_t first, int64_t count, int threads, int64_t *codes, int64_t *made) {
    const Stack *s = &m->talker;
    const int64_t hidden = s->hidden, held = 2 * s->layers * MOST * s->kv_heads * m->capacity * s->depth;
    Frame f = m->frame;
    f.cache.keys = zeros(held), f.cache.values = zeros(held), f.cache.slots = MOST, f.cache.capacity = m->capacity;
    float *row = zeros(4 * MOST * hidden), *pad = zeros(4 * MOST * hidden);
    int64_t slots[MOST], where[2 * 1024];
    Prompts last = {0}; // its rows go with the first frame
    f.row = row, f.pad = pad, f.text = zeros(4 * MOST * hidden), f.text_rows = 1, f.written = numbers_of(0);
    f.position = numbers_of(0), f.made = made, f.stop = numbers_of(RUNNING), f.limit = numbers_of(f.frames);
    f.made_codes = codes, f.reference = numbers_of(0), f.last = numbers_of(-1), f.repeats = numbers_of(0);
    f.live = zeros(MOST), f.closed = zeros(MOST), f.seen = zeros(MOST * f.audio), f.ignore_end = zeros(MOST);
    int64_t *seeds = numbers_of(0);
    f.seed = seeds, f.top_k = numbers_of(m->top_k[0]), f.predictor_top_k = numbers_of(m->top_k[1]);
    f.temperature = filled_with(m->reals[0]), f.top_p = filled_with(m->reals[1]), f.penalty = filled_with(m->reals[2]);
    f.predictor_temperature = filled_with(m->reals[3]), f.predictor_top_p = filled_with(m->reals[4]);
    for (int64_t i = 0; i < count; i++) {
        const Asked *a = m->asked + first + i;
        float *rows = prompt_of(m, a), *out = zeros(4 * a->rows * hidden);
        for (int64_t r = 0; r < a->rows; r++) where[r] = i, where[1024 + r] = r;
        if (i + 1 < count)
            FUNCTION(quantised_stack)(s, &f.cache, rows, a->rows - 1, where, where + 1024, out, threads);
        else
            last = (Prompts){rows, where, where + 1024, a->rows - 1};
        memcpy(row + i * hidden, rows + (a->rows - 1) * hidden, 4 * hidden);
        memcpy(pad + i * hidden, m->texts + m->pad * hidden, 4 * hidden);
        f.position[i] = a->rows - 1, f.live[i] = f.closed[i] = 1, seeds[i] = m->seeds[first + i], slots[i] = i;
    }
    for (int64_t frame = 0; frame < f.frames; frame++, last.count = 0)
        FUNCTION(quantised_frame)(&f, slots, count, &last, threads);
}

static int same(const Model *m, const int64_t *one, int64_t made, const int64_t *other, int64_t others) {
    return made == others && !memcmp(one, other, 8 * made * m->frame.groups);
}

int main(int count, char **names) {
    static Model m;
    if (count < 2 || !(file = fopen(names[1], "rb"))) return 2;
    read_model(&m);
    const int64_t each = m.frame.frames * m.frame.groups;
    int64_t *truth = zeros(8 * PRINTED * each), made[PRINTED];
    for (int i = 0; i < PRINTED; i++)
        for (int threads = 1; threads < 5; threads++) {
            int64_t *codes = zeros(8 * MOST * each), *frames = numbers_of(0);
            speak(&m, i, 1, threads, codes, frames);
            if (threads == 1) memcpy(truth + i * each, codes, 8 * each), made[i] = *frames;
            else if (!same(&m, truth + i * each, made[i], codes, *frames)) return 1;
        }
    for (int together = 4; together <= MOST; together *= 2) {
        int64_t *codes = zeros(8 * MOST * each), *frames = numbers_of(0);
        speak(&m, 0, together, together / 2, codes, frames);
        for (int i = 0; i < PRINTED; i++)
            if (!same(&m, truth + i * each, made[i], codes + i * each, frames[i])) return 1;
    }
    for (int i = 0; i < PRINTED; i++)
        for (int64_t k = 0; k < made[i] * m.frame.groups; k++)
            printf("%lld%c", (long long)truth[i * each + k], k + 1 < made[i] * m.frame.groups ? ' ' : '\n');
    return 0;
}

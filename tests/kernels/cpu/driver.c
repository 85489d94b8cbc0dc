// Drives the CPU library without Python: for sanitizers, and for processors that only an emulator has here.
//
// Prints nothing and returns 0 when every row, frame and stream gives the same bits alone and among others, and when
// products agree with sums in double precision. Widths are odd on purpose.
#include "codec.c"
#include "language.c"

#include "driver.h"

static float *panels(int64_t outputs, int64_t inputs) {
    float *x = numbers(padded(outputs) * inputs, 1.0f / sqrtf((float)inputs), 0);
    for (int64_t o = outputs; o < padded(outputs); o++)
        for (int64_t i = 0; i < inputs; i++) x[(o / PANEL * inputs + i) * PANEL + o % PANEL] = 0;
    return x;
}

static int products(void) {
    enum { ROWS = 29, INPUTS = 37, OUTPUTS = 176 };
    float *x = numbers(ROWS * INPUTS, 1, 0), *weight = panels(OUTPUTS, INPUTS), y[ROWS * OUTPUTS], one[OUTPUTS];
    multiply(plain_rows(x, INPUTS, INPUTS, LANGUAGE_SUM), ROWS, weight, OUTPUTS, y, OUTPUTS);
    for (int r = 0; r < ROWS; r++) {
        multiply(plain_rows(x + r * INPUTS, INPUTS, INPUTS, LANGUAGE_SUM), 1, weight, OUTPUTS, one, OUTPUTS);
        if (memcmp(one, y + r * OUTPUTS, sizeof one)) return failed("a row of a product depends on others");
        for (int o = 0; o < OUTPUTS; o++) {
            double sum = 0;
            for (int i = 0; i < INPUTS; i++)
                sum += (double)x[r * INPUTS + i] * weight[(o / PANEL * INPUTS + i) * PANEL + o % PANEL];
            if (fabs(sum - one[o]) > 1e-5) return failed("a product is wrong");
        }
    }
    for (float v = -80; v < 80; v += 0.37f) {
        vec input = broadcast(v), scale = broadcast(1.0f);
        vec e = exponential(input), s = snake(input, scale, scale), g = gelu(input);
        float exact = v + sinf(v) * sinf(v), half = 0.5f * v * (1 + erff(v * 0.70710678f));
        if (fabsf(e[0] / expf(v) - 1) > 1e-6f) return failed("exponential");
        if (fabsf(s[0] - exact) > 2e-5f) return failed("snake");
        if (fabsf(g[0] - half) > 1e-6f * (1 + fabsf(v))) return failed("gelu");
    }
    return 0;
}

static Matrix *matrix(int64_t outputs, int64_t inputs) {
    Matrix *made = malloc(sizeof *made);
    *made = (Matrix){panels(outputs, inputs), FLOATS, NULL};
    return made;
}

// Words give the bits of the floats that they stand for, with each number of rows, and with more inputs than READY holds.
static int words(void) {
    enum { ROWS = 40, INPUTS = 300, OUTPUTS = 80, SIZE = OUTPUTS * INPUTS };
    float *x = numbers(ROWS * INPUTS, 1, 0), *norm = numbers(INPUTS, 0.1f, 1), *weight = panels(OUTPUTS, INPUTS);
    float *normed = malloc(4 * SIZE), y[ROWS * OUTPUTS], exact[ROWS * OUTPUTS];
    uint32_t *both = malloc(2 * SIZE);
    for (int64_t i = 0; i < SIZE; i++) {
        const int64_t k = i / PANEL % INPUTS, at = i / PANEL / INPUTS * INPUTS / 2 * PANEL + k / 2 * PANEL + i % PANEL;
        weight[i] = float_of(bits_of(weight[i]) & 0xFFFF0000), normed[i] = weight[i] * norm[k];
        both[at] = k % 2 ? both[at] | bits_of(weight[i]) : bits_of(weight[i]) >> 16;
    }
    for (int form = WORDS; form <= NORMED; form++)
        for (int64_t rows = 1; rows <= ROWS; rows++) {
            Rows in = plain_rows(x, INPUTS, INPUTS, LANGUAGE_SUM);
            multiply(in, rows, form == NORMED ? normed : weight, OUTPUTS, exact, OUTPUTS);
            in.form = form, in.norm = norm;
            multiply(in, rows, both, OUTPUTS, y, OUTPUTS);
            if (memcmp(y, exact, 4 * rows * OUTPUTS)) return failed("words are not the floats they stand for");
        }
    return 0;
}

static Stack stack_of(int64_t hidden, int64_t inner, int64_t heads, int64_t kv, int64_t depth, int64_t layers) {
    Layer *layer = malloc(layers * sizeof *layer);
    for (int64_t i = 0; i < layers; i++) {
        float *gate_up = malloc(8 * padded(inner) * hidden), *gate = panels(inner, hidden), *up = panels(inner, hidden);
        memcpy(gate_up, gate, 4 * padded(inner) * hidden);
        memcpy(gate_up + padded(inner) * hidden, up, 4 * padded(inner) * hidden);
        layer[i] = (Layer){numbers((heads + kv) * depth, 0.1f, 1),
                           {panels((heads + 2 * kv) * depth, hidden), FLOATS, NULL},
                           {panels(hidden, heads * depth), FLOATS, NULL},
                           {gate_up, FLOATS, NULL},
                           {panels(hidden, inner), FLOATS, NULL}};
    }
    return (Stack){hidden, inner, heads, kv, depth, layers, 1e-6f, numbers(hidden, 0.1f, 1), layer};
}

static Cache cache_of(const Stack *s, int64_t slots, int64_t capacity) {
    int64_t size = s->layers * slots * s->kv_heads * capacity * s->depth;
    return (Cache){calloc(size, 4),
                   calloc(size, 4),
                   numbers(capacity * s->depth / 2, 0.5f, 0),
                   numbers(capacity * s->depth / 2, 0.5f, 0),
                   slots,
                   capacity};
}

static int stacks(void) {
    enum { ROWS = 33 };
    Stack s = stack_of(37, 41, 6, 2, 8, 3);
    Cache whole = cache_of(&s, 2, ROWS), alone = whole;
    alone.keys = calloc(3 * 2 * 2 * ROWS * 8, 4), alone.values = calloc(3 * 2 * 2 * ROWS * 8, 4);
    float *rows = numbers(ROWS * 37, 1, 0), together[ROWS * 37], one[37];
    int64_t slots[ROWS], positions[ROWS];
    for (int i = 0; i < ROWS; i++) slots[i] = 1, positions[i] = i;
    if (FUNCTION(stack)(&s, &whole, rows, ROWS, slots, positions, together)) return failed("no memory");
    for (int i = 0; i < ROWS; i++) {
        FUNCTION(stack)(&s, &alone, rows + i * 37, 1, slots + i, positions + i, one);
        if (memcmp(one, together + i * 37, sizeof one)) return failed("a row of a stack depends on others");
    }
    return 0;
}

enum { SLOTS = 4, FRAMES = 40, GROUPS = 5, CODES = 24, VOCABULARY = 31, HIDDEN = 32, TEXT = 3 };

static int64_t *integers(int64_t n, int64_t value) {
    int64_t *x = malloc(8 * n);
    for (int64_t i = 0; i < n; i++) x[i] = value;
    return x;
}

static void *copy(const void *x, size_t bytes) { return memcpy(malloc(bytes), x, bytes); }

static int frames(void) {
    Stack talker = stack_of(HIDDEN, 48, 4, 2, 8, 2), predictor = stack_of(24, 48, 3, 1, 8, 2);
    Cache cache = cache_of(&talker, SLOTS, FRAMES + 5), turns = cache_of(&predictor, 1, GROUPS);
    const float *inputs[GROUPS - 1];
    for (int g = 0; g < GROUPS - 1; g++) inputs[g] = numbers(CODES * 24, 1, 0);
    const void *heads[GROUPS - 1];
    for (int g = 0; g < GROUPS - 1; g++) heads[g] = matrix(CODES, 24);
    Frame f = {&talker,
               &predictor,
               cache,
               turns.cos,
               turns.sin,
               matrix(VOCABULARY, HIDDEN),
               heads,
               matrix(24, HIDDEN),
               numbers(padded(24), 1, 0),
               inputs,
               numbers(VOCABULARY * HIDDEN, 1, 0),
               numbers((GROUPS - 1) * CODES * HIDDEN, 1, 0),
               VOCABULARY,
               CODES,
               25,
               GROUPS,
               CODES,
               2,
               30,
               TEXT,
               FRAMES,
               numbers(SLOTS * HIDDEN, 1, 0),
               numbers(SLOTS * TEXT * HIDDEN, 1, 0),
               numbers(SLOTS * HIDDEN, 1, 0),
               integers(SLOTS, 1),
               integers(SLOTS, 0),
               integers(SLOTS, 0),
               integers(SLOTS, FRAMES),
               integers(SLOTS * FRAMES * GROUPS, 0),
               integers(SLOTS, 0),
               integers(SLOTS, -1),
               integers(SLOTS, 0),
               integers(SLOTS, 2),
               malloc(SLOTS),
               malloc(SLOTS),
               calloc(SLOTS, CODES),
               integers(SLOTS, 7),
               integers(SLOTS, 9),
               integers(SLOTS, 0),
               numbers(SLOTS, 0, 0.9f),
               numbers(SLOTS, 0, 0.9f),
               numbers(SLOTS, 0, 1.1f),
               numbers(SLOTS, 0, 1),
               numbers(SLOTS, 0, 1),
               malloc(SLOTS)};
    memset(f.live, 1, SLOTS), memset(f.closed, 1, SLOTS);
    uint8_t endless[SLOTS] = {1, 0, 1, 1};
    f.ignore_end = endless;
    Frame alone = f;
    alone.cache = cache_of(&talker, SLOTS, FRAMES + 5), alone.cache.cos = cache.cos, alone.cache.sin = cache.sin;
    alone.row = copy(f.row, sizeof(float) * SLOTS * HIDDEN);
    for (int64_t **column = &alone.position; column <= &alone.written; column++)
        *column = copy(*column, 8 * (column == &alone.made_codes ? SLOTS * FRAMES * GROUPS : SLOTS));
    alone.live = copy(f.live, SLOTS), alone.closed = copy(f.closed, SLOTS), alone.seen = calloc(SLOTS, CODES);
    int64_t every[] = {2, 0, 3, 1, 3};
    const Prompts none = {0};
    for (int i = 0; i < FRAMES + 2; i++) {
        if (FUNCTION(frame)(&f, every, 5, &none, 1 + i % 3)) return failed("no memory");
        for (int64_t slot = 0; slot < SLOTS; slot++) FUNCTION(frame)(&alone, &slot, 1, &none, 1);
    }
    if (memcmp(f.made_codes, alone.made_codes, 8 * SLOTS * FRAMES * GROUPS))
        return failed("codes depend on neighbours or threads");
    if (memcmp(f.stop, alone.stop, 8 * SLOTS) || f.made[0] != FRAMES || f.stop[0] != LIMIT) return failed("stops");
    float strange[3][6] = {{0, 1, NAN, 3, 2, 1},
                           {INFINITY, 0, 1, 2, 3, 4},
                           {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}};
    int64_t zeros[3] = {0}, drawn[3], few[3] = {2, 2, 2};
    float warm[3] = {1, 1, 1}, most[3] = {0.5f, 0.5f, 0.5f};
    FUNCTION(choose)(strange[0], 3, 6, 0, zeros, zeros, warm, few, most, drawn);
    return drawn[0] == 2 && drawn[1] == 0 && drawn[2] == 0 ? 0 : failed("draws of what is not a number");
}

static Product product_of(int64_t outputs, int64_t inputs, int64_t taps, int64_t dilation, int64_t activation,
                          float eps) {
    float *weight = panels(outputs, taps * inputs);
    if (activation == SWIGLU) {
        float *gate = panels(outputs / 2, inputs), *up = panels(outputs / 2, inputs);
        int64_t half = padded(outputs / 2) * inputs;
        weight = malloc(8 * half);
        memcpy(weight, gate, 4 * half), memcpy(weight + half, up, 4 * half);
    }
    int64_t wide = 2 * padded(outputs);
    return (Product){weight,
                     numbers(wide, 0.1f, 0),
                     numbers(wide, 0.2f, 1),
                     numbers(wide, 0.2f, 1),
                     outputs,
                     inputs,
                     taps,
                     dilation,
                     activation,
                     0,
                     0,
                     eps};
}

enum {
    BOOK = 6,
    LATENT = 14,
    WIDE = 20,
    HEADS = 3,
    DEPTH = 4,
    WINDOW = 5,
    LONGEST = 8,
    LAST = 5,
    RATE = 2 * 3 * 2,
    STREAMS = 3,
    SAMPLES = STREAMS * LONGEST * RATE
};

// Decodes three streams together to `whole`, then each alone in pieces, which has to give the same bits.
static int decodes(Decoder *d, int64_t large, int threads, float *whole) {
    const int64_t ring = 2 * 4 * HEADS * (WINDOW - 1 + LONGEST) * DEPTH, slots[STREAMS] = {3, 0, 2};
    int64_t codes[STREAMS * LONGEST * GROUPS];
    float part[LONGEST * RATE];
    for (int i = 0; i < STREAMS * LONGEST * GROUPS; i++) codes[i] = (i * 7919) % CODES;
    d->large = large;
    float *room = malloc(FUNCTION(decode_bytes)(d, 1, LONGEST, threads)); // enough for fewer frames too
    for (int turn = 0; turn < 2; turn++) {
        d->history = calloc(4 * d->kept, 4), d->frames = calloc(4, 8);
        d->keys = numbers(ring, 0, NAN), d->values = numbers(ring, 0, NAN); // a young stream reads none of it
        if (turn == 0) {
            if (FUNCTION(decode)(d, codes, slots, STREAMS, LONGEST, whole, threads, NULL)) return failed("no memory");
            continue;
        }
        for (int s = 0; s < STREAMS; s++)
            for (int64_t at = 0, sizes[] = {1, 5, 2}, *size = sizes; at < LONGEST; at += *size++) {
                FUNCTION(decode)(d, codes + (s * LONGEST + at) * GROUPS, slots + s, 1, *size, part, threads, room);
                if (memcmp(part, whole + (s * LONGEST + at) * RATE, 4 * *size * RATE))
                    return failed("sound depends on chunks or neighbours");
            }
    }
    return 0;
}

// The same sound for any number of threads, and for products dealt by outputs or by columns.
static int decodes_alike(Decoder *d, int64_t large, float *whole) {
    float other[SAMPLES];
    if (decodes(d, large, 1, whole)) return 1;
    for (int threads = 1; threads <= 4; threads++) {
        if (decodes(d, 0, threads, other)) return 1;
        if (memcmp(whole, other, sizeof other)) return failed("sound depends on threads, or on how they share work");
    }
    return 0;
}

static void make_half(Product *p) {
    const int64_t n = weights_of(p);
    uint16_t *halves = malloc(2 * n);
    for (int64_t i = 0; i < n; i++) halves[i] = half_of(((const float *)p->weight)[i]);
    p->weight = halves, p->form = HALVES;
}

static int codecs(void) {
    DecoderLayer layers[2];
    for (int i = 0; i < 2; i++)
        layers[i] = (DecoderLayer){
            product_of(3 * HEADS * DEPTH, LATENT, 1, 1, NONE, 1e-5f), product_of(LATENT, HEADS * DEPTH, 1, 1, NONE, -1),
            product_of(2 * 22, LATENT, 1, 1, SWIGLU, 1e-5f), product_of(LATENT, 22, 1, 1, NONE, -1)};
    Stretch stretch = {product_of(2 * LATENT, LATENT, 1, 1, NONE, 1e-5f),
                       product_of(4 * LATENT, LATENT, 1, 1, GELU, -1),
                       product_of(LATENT, 4 * LATENT, 1, 1, NONE, -1),
                       numbers(7 * LATENT, 0.3f, 0),
                       numbers(LATENT, 0.1f, 0),
                       7,
                       1e-6f};
    Unit units[2][2];
    Rise rises[2];
    Track tracks[16] = {{2, 1, 2 * BOOK}, {6, 2, LATENT}, {6, 2, LATENT}};
    int64_t count = 3, rate = 2, channels = WIDE;
    for (int i = 0; i < 2; i++) {
        int64_t inputs = channels, up = i ? 2 : 3;
        channels /= 2;
        tracks[count++] = (Track){1, rate, inputs};
        rate *= up;
        rises[i] = (Rise){product_of(up * channels, inputs, 2, 1, SNAKE, -1), units[i], 2};
        for (int u = 0; u < 2; u++) {
            int64_t dilation = u ? 3 : 1;
            units[i][u] = (Unit){product_of(channels, channels, 7, dilation, SNAKE, -1),
                                 product_of(channels, channels, 1, 1, SNAKE, -1)};
            tracks[count++] = (Track){6 * dilation, rate, channels};
        }
    }
    tracks[count++] = (Track){6, rate, channels};
    Decoder d = {product_of(LATENT, 2 * BOOK, 3, 1, NONE, -1),
                 product_of(LATENT, LATENT, 1, 1, NONE, 1e-5f),
                 product_of(WIDE, LATENT, 7, 1, SNAKE, -1),
                 layers,
                 &stretch,
                 rises,
                 tracks,
                 numbers(GROUPS * CODES * BOOK, 1, 0),
                 numbers(7 * LAST, 0.1f, 0),
                 numbers(1, 0.1f, 0),
                 numbers(DEPTH / 2, 0.1f, 1),
                 2,
                 1,
                 2,
                 count,
                 GROUPS,
                 CODES,
                 BOOK,
                 7,
                 HEADS,
                 DEPTH,
                 WINDOW,
                 WINDOW - 1 + LONGEST,
                 4,
                 0,
                 RATE,
                 0,
                 0,
                 0,
                 0,
                 0};
    for (int64_t i = 0; i < count; i++) d.kept += tracks[i].past * tracks[i].channels;
    float whole[SAMPLES], rough[SAMPLES];
    double size = 0, apart = 0;
    if (decodes_alike(&d, 1 << 20, whole)) return 1;
    Product *all[] = {&d.opening,       &d.leaving,     &d.widen,          &stretch.rise,      &stretch.up,
                      &stretch.down,    &layers[0].qkv, &layers[0].out,    &layers[0].gate_up, &layers[0].down,
                      &units[0][0].conv, &rises[1].rise, &units[1][1].conv, &units[1][1].point};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) make_half(all[i]);
    if (decodes_alike(&d, 0, rough)) return 1;
    for (int i = 0; i < SAMPLES; i++) {
        if (!(fabsf(whole[i]) <= 1 && fabsf(rough[i]) <= 1)) return failed("sound is not finite");
        size += (double)whole[i] * whole[i];
        apart += (double)(whole[i] - rough[i]) * (whole[i] - rough[i]);
    }
    if (!(apart > 0 && apart < 1e-4 * size)) return failed("float16 changes the sound");
    return size > 1e-6 * SAMPLES ? 0 : failed("silence");
}

enum { WIDTH = 32, QUAD_STREAMS = 2, QUAD_FRAMES = 3 };

typedef struct {
    DecoderCall call; // its team comes first
    const Product *p;
    View in, out;
    int64_t rate;
} QuadCall;

static void quad_work(void *call, int number) {
    QuadCall *c = call;
    Hand me = {&c->call, NULL, &c->call.team, malloc(4 * QUAD_FLOATS)};
    (void)number;
    quad_convolution(c->p, c->in, QUAD_STREAMS, QUAD_FRAMES * c->rate, c->rate, c->out, &me);
    free(me.scratch);
}

// Convolutions in quads are those that a sum in double precision gives, for any number of threads.
static int quads(void) {
    const double points[TERMS] = {0, 1, -1, 1.25, -1.25, 0.5, -0.5, 2, -2};
    float *w = numbers(WIDTH * QUAD_TAPS * WIDTH, 0.07f, 0), *terms = calloc(TERMS * WIDTH * WIDTH, 4);
    for (int term = 0; term < TERMS; term++)
        for (int o = 0; o < WIDTH; o++)
            for (int i = 0; i < WIDTH; i++) {
                double sum = 0, power = 1;
                for (int k = 0; k < 9 && term < 9; k++) power /= k == term ? 1 : points[term] - points[k];
                for (int tap = 0; tap < QUAD_TAPS; tap++, power *= points[term])
                    sum += w[(o * QUAD_TAPS + tap) * WIDTH + i] * (term < 9 ? power : tap == QUAD_TAPS - 1);
                terms[((term * WIDTH / PANEL + o / PANEL) * WIDTH + i) * PANEL + o % PANEL] = (float)sum;
            }
    Product p = product_of(WIDTH, WIDTH, QUAD_TAPS, 1, NONE, -1);
    p.weight = terms, p.quads = 1;
    for (int64_t rate = 8; rate <= 40; rate += 11)
        for (p.dilation = 1; p.dilation <= 9; p.dilation *= 3) {
            const int64_t columns = QUAD_FRAMES * rate, past = 6 * p.dilation;
            float *x = numbers(QUAD_STREAMS * (past + columns) * WIDTH, 1, 0), *first = NULL;
            for (int threads = 1; threads <= 3; threads++) {
                float *y = calloc(QUAD_STREAMS * columns * WIDTH, 4);
                QuadCall c = {.p = &p, .in = {x, (past + columns) * WIDTH}, .out = {y, columns * WIDTH}, .rate = rate};
                const Quads q = quads_of(rate, p.dilation);
                c.call.ready = malloc(4 * TERMS * q.count * QUAD_STREAMS * QUAD_FRAMES * WIDTH);
                work_together(&c.call.team, threads, quad_work, &c);
                free(c.call.ready);
                if (first && memcmp(first, y, 4 * QUAD_STREAMS * columns * WIDTH)) return failed("quads, threads");
                first = first ? first : y;
            }
            for (int64_t n = 0; n < QUAD_STREAMS * columns * WIDTH; n++) {
                const int64_t o = n % WIDTH, row = n / WIDTH;
                const float *from = x + (row / columns * (past + columns) + row % columns) * WIDTH;
                double sum = p.bias[o];
                for (int tap = 0; tap < QUAD_TAPS; tap++)
                    for (int i = 0; i < WIDTH; i++)
                        sum += (double)from[tap * p.dilation * WIDTH + i] * w[(o * QUAD_TAPS + tap) * WIDTH + i];
                if (!(fabs(sum - first[n]) < 1e-4)) return failed("a convolution in quads is wrong");
            }
        }
    return 0;
}

#ifdef __linux__
static void look(void *cores, int number) {
    if (number) sched_getaffinity(0, sizeof(cpu_set_t), (cpu_set_t *)cores + number);
}

// Where every thread of a call has a core, none may use that of its caller, who keeps all cores.
static int apart(void) {
    cpu_set_t before, after, cores[2];
    Team team;
    CPU_ZERO(cores + 1);
    if (sched_getcpu() < 0 || sched_getaffinity(0, sizeof before, &before) || CPU_COUNT(&before) < 2) return 0;
    work_together(&team, 2, look, cores);
    if (team.threads == 2 && CPU_COUNT(cores + 1) != CPU_COUNT(&before) - 1) return failed("a thread has all cores");
    CPU_AND(&after, cores + 1, &before);
    if (!CPU_EQUAL(&after, cores + 1)) return failed("a thread has cores that its caller has not");
    sched_getaffinity(0, sizeof after, &after);
    return CPU_EQUAL(&after, &before) ? 0 : failed("the caller has lost a core");
}
#else
static int apart(void) { return 0; }
#endif

int main(void) { return apart() | products() | words() | stacks() | frames() | codecs() | quads(); }

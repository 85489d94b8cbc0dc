// Drives the layers of 8 bits without Python, for instruction sets that only an emulator has here.
//
// Prints digests of the bits of matrices, products and a stack. They are the same for every instruction set. Returns 1
// if a row depends on other rows or on the number of threads, or if a product is wrong. Widths are odd on purpose.
#include "quantised.c"

#include "driver.h"

static float *heavy(int64_t n, float scale) { // with long tails
    float *x = numbers(n, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        float y = x[i] * x[i] * x[i];
        x[i] = y * scale;
    }
    return x;
}

static uint64_t digest(uint64_t before, const void *bytes, int64_t n) {
    for (int64_t i = 0; i < n; i++) before = (before ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    return before;
}

static uint64_t digest_floats(uint64_t before, const float *x, int64_t n) { // whatever the order of bytes
    for (int64_t i = 0; i < n; i++) before = (before ^ bits_of(x[i])) * 1099511628211u;
    return before;
}

static Matrix *matrix(const float *w, int64_t outputs, int64_t inputs, int64_t paired) {
    int64_t bytes = matrix_bytes(outputs, inputs) + (paired ? GROUP_BYTES * groups_of(inputs) : 0);
    Matrix *m = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (FUNCTION(quantised_make)(w, outputs, inputs, paired, m, 2)) exit(2);
    return m;
}

static int products(void) {
    enum { ROWS = 13, OUTPUTS = 150, MOST = 200 };
    static const int64_t inputs[] = {1, 31, 32, 64, 75, MOST};
    uint64_t bytes = 0, bits = 0;
    for (int shape = 0; shape < 6; shape++) {
        const int64_t n = inputs[shape];
        float *w = shape % 2 ? heavy(OUTPUTS * n, 1) : numbers(OUTPUTS * n, 1, 0), *x = numbers(ROWS * n, 1, 0);
        float y[ROWS * OUTPUTS], other[ROWS * OUTPUTS];
        for (int r = 0; r < ROWS; r++) x[r * n + n / 2] *= 100; // an outlier channel
        Matrix *m = matrix(w, OUTPUTS, n, 0);
        bytes = digest(bytes, block_at(m, 0) + 2 * BLOCK, BLOCK * GROUP); // scales are in the machine's own order
        FUNCTION(quantised_multiply)(m, x, ROWS, y, 1);
        bits = digest_floats(bits, y, ROWS * OUTPUTS);
        for (int threads = 2; threads < 5; threads++) {
            memset(other, 0, sizeof other);
            FUNCTION(quantised_multiply)(m, x, ROWS, other, threads);
            if (memcmp(y, other, sizeof y)) return failed("a product depends on the number of threads");
        }
        for (int r = 0; r < ROWS; r++) {
            FUNCTION(quantised_multiply)(m, x + r * n, 1, other, 1);
            if (memcmp(y + r * OUTPUTS, other, 4 * OUTPUTS)) return failed("a product depends on other rows");
        }
        double wrong = 0, all = 0;
        for (int i = 0; i < ROWS * OUTPUTS; i++) {
            double exact = 0;
            for (int64_t k = 0; k < n; k++) exact += (double)w[i % OUTPUTS * n + k] * x[i / OUTPUTS * n + k];
            wrong += (exact - y[i]) * (exact - y[i]), all += exact * exact;
        }
        if (!(sqrt(wrong / all) < 0.03)) return failed("a product is wrong");
    }
    printf("matrices %016llx\nproducts %016llx\n", (unsigned long long)bytes, (unsigned long long)bits);
    return 0;
}

static int halves(void) {
    for (uint32_t half = 0; half < 0x10000; half++) {
        if ((half & 0x7FFF) > 0x7C00) continue; // NaN
        uint16_t back = half_of(of_half((uint16_t)half));
        if (back != ((half & 0x7FFF) == 0x7C00 ? half - 1 : half)) return failed("float16 is wrong");
        if ((half & 0x7FFF) >= 0x7BFF) continue;
        float low = of_half((uint16_t)half), high = of_half((uint16_t)(half + 1)), middle = (low + high) / 2;
        if (half_of(middle) != half + half % 2) return failed("a tie of float16 is not rounded to even");
    }
    if (half_of(1e9f) != 0x7BFF || half_of(-1e9f) != 0xFBFF || (half_of(NAN) & 0x7FFF) <= 0x7C00)
        return failed("float16 of a large number is wrong");
    return 0;
}

static int stacks(void) {
    enum { HIDDEN = 72, INNER = 100, HEADS = 6, KV = 2, DEPTH = 24, LAYERS = 2, SLOTS = 3, ROOM = 24, ROWS = 20 };
    Layer layer[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        layer[i].input_norm = numbers(HIDDEN, 0.2f, 1), layer[i].mlp_norm = numbers(HIDDEN, 0.2f, 1);
        layer[i].qk_norm = numbers((HEADS + KV) * DEPTH, 0.2f, 1);
        layer[i].qkv = matrix(numbers((HEADS + 2 * KV) * DEPTH * HIDDEN, 0.2f, 0), (HEADS + 2 * KV) * DEPTH, HIDDEN, 0);
        layer[i].out = matrix(numbers(HIDDEN * HEADS * DEPTH, 0.1f, 0), HIDDEN, HEADS * DEPTH, 0);
        layer[i].gate_up = matrix(numbers(2 * INNER * HIDDEN, 0.2f, 0), 2 * INNER, HIDDEN, 1);
        layer[i].down = matrix(numbers(HIDDEN * INNER, 0.2f, 0), HIDDEN, INNER, 0);
    }
    Stack s = {HIDDEN, INNER, HEADS, KV, DEPTH, LAYERS, 1e-6f, numbers(HIDDEN, 0.2f, 1), layer};
    enum { NUMBERS = LAYERS * SLOTS * KV * ROOM * DEPTH };
    static uint16_t keys[NUMBERS], values[NUMBERS];
    Cache cache = {keys, values, numbers(ROOM * DEPTH / 2, 0.5f, 0), numbers(ROOM * DEPTH / 2, 0.5f, 0), SLOTS, ROOM};
    float *x = numbers(SLOTS * ROWS * HIDDEN, 1, 0), together[SLOTS * ROWS * HIDDEN], alone[SLOTS * ROWS * HIDDEN];
    int64_t slots[SLOTS * ROWS], positions[SLOTS * ROWS];
    for (int i = 0; i < SLOTS * ROWS; i++) slots[i] = i / ROWS, positions[i] = i % ROWS;
    FUNCTION(quantised_stack)(&s, &cache, x, SLOTS * ROWS, slots, positions, together, 1);
    uint64_t bits = digest_floats(0, together, SLOTS * ROWS * HIDDEN);
    for (int i = 0; i < NUMBERS; i++) bits = (bits ^ keys[i]) * 1099511628211u, bits = (bits ^ values[i]) * 1099511628211u;
    for (int step = 1; step <= 7; step += 3) { // in pieces of 1, 4 and 7 rows
        memset(keys, 0, sizeof keys), memset(values, 0, sizeof values);
        for (int i = 0, n; i < SLOTS * ROWS; i += n) {
            n = SLOTS * ROWS - i < step ? SLOTS * ROWS - i : step;
            FUNCTION(quantised_stack)
            (&s, &cache, x + i * HIDDEN, n, slots + i, positions + i, alone + i * HIDDEN, step);
        }
        if (memcmp(alone, together, sizeof alone)) return failed("a row of a stack depends on others or on threads");
    }
    printf("stack %016llx\n", (unsigned long long)bits);
    return 0;
}

static int draws(void) {
    enum { CODES = 300, DRAWS = 200 };
    char *scratch = malloc(draw_scratch(CODES));
    uint64_t bits = 0;
    for (int i = -1; i > -8000; i--) {
        double x = i / 11.0, made = exponential_of(x), exact = exp(x);
        if (!(x <= -700 ? made == 0 : fabs(made - exact) <= 4e-16 * exact)) return failed("an exponential is wrong");
        uint64_t own;
        memcpy(&own, &made, 8);
        bits = (bits ^ own) * 1099511628211u;
    }
    if (exponential_of(0) != 1 || exponential_of(-INFINITY) != 0) return failed("an exponential is wrong");
    for (int i = 0; i < DRAWS; i++) {
        float *scores = numbers(CODES, 3, 0);
        Sampling s = {i, i, i % 3 * 20, 0.5f + i % 4, i % 2 ? 1.0f : 0.8f};
        bits = (bits ^ (uint64_t)draw(scores, CODES, i % 16, &s, scratch)) * 1099511628211u;
    }
    printf("draws %016llx\n", (unsigned long long)bits);
    return 0;
}

int main(void) { return halves() || products() || stacks() || draws(); }

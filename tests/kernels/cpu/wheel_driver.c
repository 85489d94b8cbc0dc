// Loads a compiled library, as ctypes does, and prints digests of what its functions for 8 bits compute: one line for each
// instruction set that it finds in the library and that this processor has.
//
// wheel_driver LIBRARY SET...   (the sets of quantised.c, fastest first)
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#define OPEN(path) ((void *)LoadLibraryA(path))
#define FIND(library, name) ((void *)GetProcAddress((HMODULE)(library), name))
#else
#include <dlfcn.h>
#define OPEN(path) dlopen(path, RTLD_NOW)
#define FIND(library, name) dlsym(library, name)
#endif

enum { OUTPUTS = 200, INPUTS = 100, ROWS = 13, BYTES = 1 << 20 };
typedef const char *(*Name)(void);
typedef int (*Make)(const float *, int64_t, int64_t, int64_t, void *, int);
typedef int (*Multiply)(const void *, float *, int64_t, float *, int);
typedef uint64_t (*Sum)(const void *, int64_t);

static void *library;

static void *function_of(const char *name, const char *set) {
    char whole[100];
    snprintf(whole, sizeof whole, "%s%s", name, set);
    return FIND(library, whole);
}

static float *numbers(int64_t count, uint32_t state) {
    float *x = malloc(4 * count);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state * 0x1p-31f;
    }
    return x;
}

static int digests(const char *set) {
    Make make = (Make)function_of("quantised_make_", set);
    Multiply multiply = (Multiply)function_of("quantised_multiply_", set);
    Sum sum = (Sum)function_of("quantised_sum_", set);
    if (!make || !multiply || !sum) return 0; // an older compiler
    char *memory = calloc(BYTES + 64, 1), *matrix = memory + (64 - (uintptr_t)memory % 64);
    float *weight = numbers(OUTPUTS * INPUTS, 1), *x = numbers(ROWS * INPUTS, 2);
    if (make(weight, OUTPUTS, INPUTS, 0, matrix, 2)) return 1;
    uint64_t bits = sum(matrix, BYTES);
    for (int64_t rows = 1; rows <= ROWS; rows += 3) {
        float *one = calloc(ROWS * OUTPUTS, 4), *more = calloc(ROWS * OUTPUTS, 4);
        if (multiply(matrix, x, rows, one, 1) || multiply(matrix, x, rows, more, 4)) return 1;
        if (memcmp(one, more, ROWS * OUTPUTS * 4)) return 1;
        bits = (bits ^ sum(one, ROWS * OUTPUTS * 4 / 64 * 64)) * 1099511628211u;
    }
    printf("%s %016llx\n", set, (unsigned long long)bits);
    return 0;
}

int main(int count, char **words) {
    if (count < 3 || !(library = OPEN(words[1]))) return 2;
    Name origin = (Name)FIND(library, "native_origin"), best = (Name)FIND(library, "native_quantised_variant");
    printf("%s\n", origin());
    int usable = 0;
    for (int i = 2; i < count; i++) {
        const int is_best = !strcmp(words[i], best());
        usable |= is_best;
        // a processor with AVX-512 need not have AVX-VNNI, which is below it in the table
        if (usable && (is_best || strcmp(words[i], "avxvnni")) && digests(words[i])) return 1;
    }
    return !usable;
}

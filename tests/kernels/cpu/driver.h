// What the two drivers share: random numbers, and how they fail.
#pragma once
#include <stdio.h>

static uint64_t state = 88172645463325252u;

static float number(void) { // about normal: a sum of four uniform ones
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        sum += (float)(state >> 40) * 0x1p-24f - 0.5f;
    }
    return sum * 1.7f;
}

static float *numbers(int64_t n, float scale, float offset) { // never freed: the driver ends soon
    float *x = malloc(4 * n);
    for (int64_t i = 0; i < n; i++) {
        x[i] = number();
        x[i] = x[i] * scale + offset;
    }
    return x;
}

static int failed(const char *what) {
    printf("%s\n", what);
    return 1;
}

// A stack of layers and its keys and values. language.c and quantised.c say what a Layer and a Number are.
#pragma once
#include <stdint.h>

typedef struct {
    int64_t hidden, inner, heads, kv_heads, depth, layers;
    float eps;
    const float *norm; // [hidden]
    const Layer *layer;
} Stack;

typedef struct { // keys and values [layers, slots, kv_heads, capacity, depth]; cos and sin [capacity, depth / 2]
    Number *keys, *values;
    const float *cos, *sin;
    int64_t slots, capacity;
} Cache;

// Names the best of the compiled instruction sets that this processor supports, and who compiled them.
#include "system.h"
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#ifndef ORIGIN
#define ORIGIN "here"
#endif
#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "GCC " __VERSION__
#endif

// Where it was compiled, "here" or for a "wheel", and by which compiler.
EXPORT const char *native_origin(void) { return ORIGIN " " COMPILER; }

#if defined(__x86_64__)
// CPUID is asked directly: __builtin_cpu_supports() always says no in a shared library that zig links.
enum { EAX, EBX, ECX };
static int has_bit(unsigned leaf, unsigned part, int place, int bit) {
    unsigned found[4] = {0};
    return __get_cpuid_count(leaf, part, found, found + 1, found + 2, found + 3) && found[place] >> bit & 1;
}

// Whether the system keeps these registers when it switches threads.
static int keeps(unsigned registers) {
    unsigned low = 0, high = 0;
    if (!has_bit(1, 0, ECX, 27)) return 0; // XGETBV is allowed
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & registers) == registers;
}

static int has_avx2(void) {
    const int avx = has_bit(1, 0, ECX, 28), fma = has_bit(1, 0, ECX, 12), f16c = has_bit(1, 0, ECX, 29);
    return keeps(0x06) && avx && fma && f16c && has_bit(7, 0, EBX, 5);
}

static int has_avx512(void) {
    const int f = has_bit(7, 0, EBX, 16), dq = has_bit(7, 0, EBX, 17);
    const int bw = has_bit(7, 0, EBX, 30), vl = has_bit(7, 0, EBX, 31);
    return has_avx2() && keeps(0xE6) && f && dq && bw && vl;
}
#endif

// For float32: language.c and codec.c.
EXPORT const char *native_variant(void) {
#if defined(__x86_64__)
    if (has_avx512()) return "avx512";
    if (has_avx2()) return "avx2";
#endif
    return "plain";
}

// For 8 bits: quantised.c.
EXPORT const char *native_quantised_variant(void) {
#if defined(__x86_64__)
    if (has_avx512() && has_bit(7, 0, ECX, 11)) return "avx512vnni";
    if (has_avx2() && has_bit(7, 1, EAX, 4)) return "avxvnni";
    if (has_avx2()) return "avx2";
#elif defined(__aarch64__) && defined(__linux__)
    if (getauxval(AT_HWCAP) >> 20 & 1) return "dotprod";
#elif defined(__aarch64__)
    return "dotprod"; // every processor of Apple's that is called arm64
#endif
    return "plain";
}

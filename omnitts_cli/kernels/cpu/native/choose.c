// Names the best of the compiled instruction sets that this processor supports.
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__)
// A bit of the register that CPUID gives for a leaf: 0 to 3 are EAX to EDX.
static int has_bit(unsigned leaf, unsigned part, int place, int bit) {
    unsigned found[4] = {0};
    return __get_cpuid_count(leaf, part, found, found + 1, found + 2, found + 3) && found[place] >> bit & 1;
}

static int has_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_bit(1, 0, 2, 29); // F16C
}

static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
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
    if (has_avx512() && has_bit(7, 0, 2, 11)) return "avx512vnni";
    if (has_avx2() && has_bit(7, 1, 0, 4)) return "avxvnni";
    if (has_avx2()) return "avx2";
#elif defined(__aarch64__) && defined(__linux__)
    if (getauxval(AT_HWCAP) >> 20 & 1) return "dotprod";
#elif defined(__aarch64__)
    return "dotprod"; // every processor of Apple's that is called arm64
#endif
    return "plain";
}

// Threads of one call: they take pieces of work as they become free, and meet between stages.
//
// A frame of a released model has about 600 meetings, so a meeting must take less than a microsecond where every thread
// has a core. Where it has not, because other programs run, a thread that waits must not keep the core from the one it
// waits for: it spins briefly, then yields, then sleeps.
//
// Linux starts a thread on the core of its caller if it takes the others for busy at that moment, and moves it away only
// after some ms, in which both spin in turn. So the threads of a call are kept from the core of its caller.
#pragma once
#include "system.h"
#include <stdatomic.h>
#include <stdint.h>

enum { MOST_THREADS = 64, SPINS = 2000, YIELDS = 16 };

typedef struct {
    int threads;
    _Alignas(64) atomic_int ready; // how many threads the team has; 0 until all have been started
    _Alignas(64) _Atomic int64_t next;
    _Alignas(64) atomic_int arrived, stage, asleep;
    Lock lock;
    Condition wake;
    void (*work)(void *, int);
    void *what;
} Team;

typedef struct {
    Team *team;
    int number;
} Member;

static inline void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Waits until `*value` is no longer `before`.
static void wait_for_change(Team *t, atomic_int *value, int before) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(value, memory_order_acquire) != before) return;
        pause_briefly();
    }
    for (int i = 0; i < YIELDS; i++) {
        yield_core();
        if (atomic_load_explicit(value, memory_order_acquire) != before) return;
    }
    lock(&t->lock);
    atomic_fetch_add(&t->asleep, 1);
    while (atomic_load(value) == before) wait_for(&t->wake, &t->lock);
    atomic_fetch_sub(&t->asleep, 1);
    unlock(&t->lock);
}

static void change(Team *t, atomic_int *value, int to) {
    atomic_store(value, to);
    if (!atomic_load(&t->asleep)) return;
    lock(&t->lock); // a thread that counted itself as asleep is now in wait_for
    wake_all(&t->wake);
    unlock(&t->lock);
}

// All threads of the team wait here for each other; then the pieces of the next stage can be taken.
static void meet(Team *t) {
    if (t->threads == 1) {
        atomic_store_explicit(&t->next, 0, memory_order_relaxed);
        return;
    }
    int stage = atomic_load_explicit(&t->stage, memory_order_relaxed);
    if (atomic_fetch_add(&t->arrived, 1) + 1 < t->threads) {
        wait_for_change(t, &t->stage, stage);
        return;
    }
    atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&t->next, 0, memory_order_relaxed);
    change(t, &t->stage, stage + 1);
}

// The next piece of the current stage; the caller stops at its own number of pieces.
static inline int64_t take(Team *t) {
    if (t->threads == 1) {
        int64_t piece = atomic_load_explicit(&t->next, memory_order_relaxed);
        atomic_store_explicit(&t->next, piece + 1, memory_order_relaxed);
        return piece;
    }
    return atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
}

static ENTRY join_in(void *arg) {
    Member *m = arg;
    wait_for_change(m->team, &m->team->ready, 0);
    m->team->work(m->team->what, m->number);
    return 0;
}

// Runs work(what, number) in up to `threads` threads, the caller's among them, which is number 0. If a thread cannot
// be started, there are fewer.
static void work_together(Team *t, int threads, void (*work)(void *, int), void *what) {
    Thread started[MOST_THREADS] = {0};
    Member member[MOST_THREADS];
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    t->work = work, t->what = what, t->threads = 1;
    atomic_init(&t->ready, 0), atomic_init(&t->next, 0);
    atomic_init(&t->arrived, 0), atomic_init(&t->stage, 0), atomic_init(&t->asleep, 0);
    if (threads > 1) {
        Cores others;
        const int known = other_cores(&others, threads);
        lock_init(&t->lock, &t->wake);
        while (t->threads < threads) {
            member[t->threads] = (Member){t, t->threads};
            if (!start_thread(started + t->threads, join_in, member + t->threads)) break;
            if (known) keep_to(started[t->threads], &others);
            t->threads++;
        }
        change(t, &t->ready, t->threads);
    }
    work(what, 0);
    for (int i = 1; i < t->threads; i++) join_thread(started[i]);
    if (threads > 1) lock_destroy(&t->lock, &t->wake);
}

// What differs between systems: exports, threads and their cores, locks and conditions.
#pragma once
#define _GNU_SOURCE // for sched_getcpu
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <process.h>
#include <windows.h>

#define EXPORT __declspec(dllexport)

typedef HANDLE Thread;
typedef SRWLOCK Lock;
typedef CONDITION_VARIABLE Condition;

#define ENTRY unsigned __stdcall
typedef ENTRY (*Entry)(void *);

static inline int start_thread(Thread *t, Entry entry, void *arg) {
    *t = (HANDLE)_beginthreadex(NULL, 0, entry, arg, 0, NULL);
    return *t != 0;
}
static inline void join_thread(Thread t) { WaitForSingleObject(t, INFINITE), CloseHandle(t); }
static inline void yield_core(void) { SwitchToThread(); }
static inline void lock_init(Lock *l, Condition *c) { InitializeSRWLock(l), InitializeConditionVariable(c); }
static inline void lock_destroy(Lock *l, Condition *c) { (void)l, (void)c; }
static inline void lock(Lock *l) { AcquireSRWLockExclusive(l); }
static inline void unlock(Lock *l) { ReleaseSRWLockExclusive(l); }
static inline void wait_for(Condition *c, Lock *l) { SleepConditionVariableSRW(c, l, INFINITE, 0); }
static inline void wake_all(Condition *c) { WakeAllConditionVariable(c); }
#else
#include <pthread.h>
#include <sched.h>

#define EXPORT __attribute__((visibility("default")))

typedef pthread_t Thread;
typedef pthread_mutex_t Lock;
typedef pthread_cond_t Condition;

#define ENTRY void *
typedef ENTRY (*Entry)(void *);

static inline int start_thread(Thread *t, Entry entry, void *arg) { return !pthread_create(t, NULL, entry, arg); }
static inline void join_thread(Thread t) { pthread_join(t, NULL); }
static inline void yield_core(void) { sched_yield(); }
static inline void lock_init(Lock *l, Condition *c) { pthread_mutex_init(l, NULL), pthread_cond_init(c, NULL); }
static inline void lock_destroy(Lock *l, Condition *c) { pthread_mutex_destroy(l), pthread_cond_destroy(c); }
static inline void lock(Lock *l) { pthread_mutex_lock(l); }
static inline void unlock(Lock *l) { pthread_mutex_unlock(l); }
static inline void wait_for(Condition *c, Lock *l) { pthread_cond_wait(c, l); }
static inline void wake_all(Condition *c) { pthread_cond_broadcast(c); }
#endif

#ifdef __linux__
typedef cpu_set_t Cores;

// The cores that this process may use, without the one that the caller is on. 0 if they are not known, or if so many
// threads would have to share them.
static inline int other_cores(Cores *others, int threads) {
    const int here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof *others, others) || CPU_COUNT(others) < threads) return 0;
    CPU_CLR(here, others);
    return CPU_COUNT(others) > 0;
}
static inline void keep_to(Thread t, const Cores *cores) { pthread_setaffinity_np(t, sizeof *cores, cores); }
#else
typedef int Cores;
static inline int other_cores(Cores *others, int threads) { return (void)others, (void)threads, 0; }
static inline void keep_to(Thread t, const Cores *cores) { (void)t, (void)cores; }
#endif

/* count.h - who allocates: malloc and its like, as the whole program calls
 * them, libraries included, counted by what runs.
 *
 * The definitions in count.c stand before those of libc; what they count goes
 * to the owner that the thread has set.  Threads that set none are
 * ALLOC_THREADS: engine, kernels, text.
 *
 * Threading: any.  Memory: none.  Not with sanitizers, which stand there
 * themselves. */
#ifndef TESTS_ALLOC_COUNT_H
#define TESTS_ALLOC_COUNT_H

#include <stdint.h>

enum alloc_owner {
    ALLOC_THREADS,
    ALLOC_TEST, /* the test's own work */
    ALLOC_ROUTER,
    ALLOC_WORKER,
    ALLOC_CLIENT,
    ALLOC_OWNERS
};

/* Of this thread from here on. */
void alloc_as(enum alloc_owner owner);

/* Since the last reset. */
uint64_t alloc_count(enum alloc_owner owner);
void alloc_reset(void);

#endif

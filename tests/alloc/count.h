/* count.h - Counts allocations by owner: malloc and related functions.
 *
 * The count covers the whole program, libraries included.  The definitions in
 * count.c replace those of libc.  Each call counts for the owner that its
 * thread has set.  Threads that set none count for ALLOC_THREADS: engine,
 * kernels, text.
 *
 * Threading: any.  Memory: none.  Not usable with sanitizers, which replace
 * the same functions. */
#ifndef TESTS_ALLOC_COUNT_H
#define TESTS_ALLOC_COUNT_H

#include <stdint.h>

enum alloc_owner {
    ALLOC_THREADS,
    ALLOC_TEST, /* work of the test itself */
    ALLOC_ROUTER,
    ALLOC_WORKER,
    ALLOC_CLIENT,
    ALLOC_OWNERS
};

/* Sets the owner of this thread's allocations from now on. */
void alloc_as(enum alloc_owner owner);

/* Returns the allocations of this owner since the last reset. */
uint64_t alloc_count(enum alloc_owner owner);
void alloc_reset(void);

#endif

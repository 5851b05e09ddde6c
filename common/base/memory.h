/* memory.h - Memory that peers, files and users may cause a program to hold.
 *
 * The rule of the house: what a peer, a file or a user can cause fails with
 * ST_RESOURCE_EXHAUSTED, and disturbs nobody.  What is sized when a program
 * starts may end the start, with a sentence.  An assertion never guards an
 * allocation.
 *
 * Libraries such as libzmq abort when their own malloc() fails.  What peers can
 * cause is therefore bounded beforehand: a budget is a share of the memory that
 * is left when the program has started.
 *
 * Threading: any thread; a budget is counted atomically.  Memory: none. */
#ifndef COMMON_BASE_MEMORY_H
#define COMMON_BASE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MEMORY_EXIT 2 /* exit code of memory_must() */

/* The word that begins the sentence of an ST_RESOURCE_EXHAUSTED that a lack of
 * memory caused: clients distinguish it from a quota or a full queue. */
#define MEMORY_WORD     "memory"
#define MEMORY_SENTENCE MEMORY_WORD ": "

/* Returns whether a lack of memory caused e. */
bool memory_is_short(const struct error *e);

struct memory_budget {
    atomic_size_t used; /* bytes */
    size_t max;
};

/* Counts bytes as used.  Returns false, and counts nothing, beyond max. */
MUST_CHECK bool memory_take(struct memory_budget *b, size_t bytes);

/* Counts bytes as free, which memory_take() counted as used. */
void memory_give(struct memory_budget *b, size_t bytes);

/* Returns p, the result of an allocation.  NULL ends the program with the
 * sentence "NAME: out of memory" and the code MEMORY_EXIT.  For the start of a
 * program and for tools with one user; never where a peer is served. */
void *memory_must(void *p);

/* Returns the bytes that this process may still allocate: MemAvailable, or less
 * if its cgroup (version 1 or 2) or a parent of it has a limit, or if
 * RLIMIT_AS or RLIMIT_DATA has.  The page cache does not count as used.  root:
 * "", or a directory with the /proc and /sys of another machine. */
uint64_t memory_left(const char *root);

#endif

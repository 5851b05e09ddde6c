/* malloc_bounds.h - Keeps the heap of a daemon from growing without need.
 *
 * glibc's malloc grows for hours where memory is allocated by one thread and
 * freed by another, although what is in use stays the same:
 *
 *   - Each thread has an arena of its own.  Results for the main thread, such
 *     as the ids of a prompt, stay between the thread's temporary buffers, so
 *     that the next buffer does not fit and the arena grows.  With one arena
 *     for all threads, each hole is used.
 *   - After a large piece is freed, pieces of its size come from the arena and
 *     no longer from the kernel.  A fixed threshold keeps them out of it.
 *   - An arena shrinks at its end only.  A trim returns the pages of all holes.
 *
 * The rest is each thread's cache of freed pieces (tcache): at most 7 of
 * each of 64 sizes, about 240 kB a thread, which fill as their sizes occur.
 *
 * Does nothing without glibc.
 *
 * Threading: any.  Memory: none.  Limits: none. */
#ifndef COMMON_DAEMON_MALLOC_BOUNDS_H
#define COMMON_DAEMON_MALLOC_BOUNDS_H

#include <stdbool.h>

/* Larger pieces come from the kernel, and go back when they are freed.  A piece
 * of a template's memory (text/template/heap.c) is one. */
#define MALLOC_MAPPED_BYTES (64 << 10)
#define MALLOC_TRIM_US      60000000 /* between two trims */

/* Sets the bounds.  Call it before the first other thread starts.  Returns
 * whether malloc takes them. */
bool malloc_bounds_set(void);

/* Returns the pages of freed memory to the kernel. */
void malloc_bounds_trim(void);

#endif

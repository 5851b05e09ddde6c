/* child.h - processes that end with the one that began them.
 *
 * Threading: one thread, which has made no other. */
#ifndef TESTS_BENCH_CHILD_H
#define TESTS_BENCH_CHILD_H

#include <sys/types.h>

/* fork(): 0 in the child, which a SIGTERM follows when its parent is gone.
 * Ends the program if the system refuses. */
pid_t child_new(void);

/* SIGTERM, and wait; the number of those that ended with another exit code
 * than 0 or by another signal. */
int children_end(const pid_t *children, int n);

#endif

/* child.h - child processes that end with their parent.
 *
 * Threading: one thread, which has created no other. */
#ifndef TESTS_BENCH_CHILD_H
#define TESTS_BENCH_CHILD_H

#include <sys/types.h>

/* Forks; returns 0 in the child, which gets a SIGTERM when its parent ends.
 * Ends the program if the system refuses. */
pid_t child_new(void);

/* Sends SIGTERM to the children and waits.  Returns how many ended with an exit
 * code other than 0, or by another signal. */
int children_end(const pid_t *children, int n);

#endif

/* process.h - A child process with pipes for its output.
 *
 * A child has a process group of its own, so Ctrl-C reaches it only through
 * its parent.  The kernel kills a child whose parent has died.  Standard input
 * is /dev/null.
 *
 * Threading: the thread that starts a child must outlive it.  Memory: the
 * caller's. */
#ifndef CLIENT_FRONT_PROCESS_H
#define CLIENT_FRONT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/status.h"

struct process {
    pid_t pid;    /* 0: none */
    int out, err; /* read ends, non-blocking; -1: closed */
};

/* Starts argv[0], which is searched in PATH if it has no slash.  If the
 * program cannot be executed, the child writes a sentence to err and exits
 * with code 2.  Returns ST_RESOURCE_EXHAUSTED if no process or pipe can be
 * made. */
MUST_CHECK enum status process_start(struct process *p, char *const argv[],
                                     struct error *e);

/* Starts a child as process_start() does, but without pipes: it drops its
 * standard output, and shares the standard error of its parent. */
MUST_CHECK enum status process_start_bare(struct process *p, char *const argv[],
                                          struct error *e);

/* Closes the pipes. */
void process_close(struct process *p);

/* Takes the exit of a child.  Returns false if the child still runs.  *code:
 * the exit code, or -1; *signal: the signal that ended the child, or 0. */
bool process_exited(struct process *p, int *code, int *signal);

/* Writes the path of a program of this project: beside the running executable,
 * otherwise the bare name, for PATH. */
void process_find(const char *name, char *path, size_t size);

#endif

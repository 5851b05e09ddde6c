/* group.h - Processes under a supervisor, in the foreground.
 *
 * Reports on standard output when a child starts, is ready, exits or cannot
 * start, and each line that it writes there.  A child is ready after a line
 * with " ready: ".  Lines of a child's standard error follow its name on
 * standard error, escaped, or go to LOG_DIR/NAME.log.
 *
 * SIGINT and SIGTERM stop the group in order; a second one kills it.  SIGHUP
 * opens the log files again and goes to the children that are ready; if the
 * terminal has closed, it stops the group.
 *
 * A group may have jobs: programs that run one after another when all children
 * are ready.  A job drops its standard output and shares standard error.  The
 * group stops after the last job.  The first SIGINT or SIGTERM goes to the job
 * that runs, as SIGINT, and the group stops when the job has ended.
 *
 * Threading: one thread, which blocks until the group has ended.  Memory: on
 * the heap, per child two lines. */
#ifndef CLIENT_FRONT_GROUP_H
#define CLIENT_FRONT_GROUP_H

#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"

struct group_child {
    const char *name;
    const char *doing; /* for people, during the start: "loading" */
    char **argv;       /* ended by NULL */
    uint32_t start_level, stop_level; /* as supervisor_add() takes them */
};

struct group_options {
    const struct group_child *children; /* [n], borrowed */
    uint32_t n;                         /* 0: jobs only */
    const char *log_dir;                /* NULL: standard error */
    FILE *progress; /* reports on children; NULL: standard output */
    /* Runs once when all children are ready.  line: the ready line of the
     * last child, "" without children. */
    void (*up)(void *arg, const char *line);
    /* Returns the command line of the next job, ended by NULL, or NULL after
     * the last one.  code: the exit code of the job before, -1 after a signal,
     * 0 at first.  Runs no more after a SIGINT or SIGTERM.  NULL: no jobs. */
    char *const *(*next_job)(void *arg, int code);
    void *arg;
};

/* Runs the group to its end.  Returns ST_FAILED_PRECONDITION if a child could
 * not start, with its last line, ST_UNAVAILABLE if the group cannot run, and
 * errors of process_start_bare() for a job. */
MUST_CHECK enum status group_run(const struct group_options *options,
                                 struct error *e);

#endif

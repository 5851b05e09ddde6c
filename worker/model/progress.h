/* progress.h - Progress of reading weights, for a person who waits.
 *
 * A load shorter than PROGRESS_QUIET_US prints nothing.  After that, a terminal
 * gets one line that is overwritten every PROGRESS_TERMINAL_US at most.  Any
 * other output, such as a log, gets a new line every PROGRESS_LOG_US.  The last
 * line has the total time:
 *
 *     reading weights: 41 % of 17102.3 MiB, 803 MiB/s, 12 s left
 *     reading weights: 100 % of 17102.3 MiB, 21 s
 *
 * Threading: one caller at a time.  Memory: the caller's storage. */
#ifndef WORKER_MODEL_PROGRESS_H
#define WORKER_MODEL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PROGRESS_QUIET_US    1000000
#define PROGRESS_TERMINAL_US 100000
#define PROGRESS_LOG_US      10000000

struct progress {
    FILE *out;
    bool terminal;
    int64_t began_us, shown_us;
    bool shown; /* something was printed */
    bool open;  /* the last line has no end yet */
};

/* Starts the clock.  terminal: `out` is one. */
void progress_init(struct progress *p, FILE *out, bool terminal,
                   int64_t now_us);

/* Prints that done of total bytes are read, if a line is due; done > 0. */
void progress_update(struct progress *p, int64_t now_us, uint64_t done,
                     uint64_t total);

/* Ends a line that is still open, after success or failure. */
void progress_end(struct progress *p);

#endif

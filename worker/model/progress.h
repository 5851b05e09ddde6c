/* progress.h - how far the reading of weights is, told to who waits for it.
 *
 * A load that takes under PROGRESS_QUIET_US says nothing.  From then on a
 * terminal has one line that is written over, every PROGRESS_TERMINAL_US at
 * most; anything else, a log, gets a line of its own every PROGRESS_LOG_US.
 * Either ends with a line that says how long it took:
 *
 *     reading weights: 41 % of 17102.3 MiB, 803 MiB/s, 12 s left
 *     reading weights: 100 % of 17102.3 MiB, 21 s
 *
 * Threading: the caller's, one at a time.  Memory: the caller's storage. */
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
    bool shown, open; /* anything; a line without its end */
};

void progress_init(struct progress *p, FILE *out, bool terminal,
                   int64_t now_us);

/* done of total bytes are read, some at least. */
void progress_tell(struct progress *p, int64_t now_us, uint64_t done,
                   uint64_t total);

/* Whatever became of it: end a line that is still open. */
void progress_end(struct progress *p);

#endif

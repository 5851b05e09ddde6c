/* tally.h - what the streams of the load have seen, in all, and the lines of
 * JSON that say it: load.c says which.
 *
 * Threading: every function may be called by every thread.  Memory: the
 * samples of cancels, 8 bytes each. */
#ifndef TESTS_FAULTS_TALLY_H
#define TESTS_FAULTS_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/client.h"
#include "tests/faults/reference.h"

int64_t tally_now_us(void); /* CLOCK_MONOTONIC */

/* An ended request of entry number `entry` in stream `stream`. */
struct tally_end {
    uint32_t stream, entry;
    enum status status;
    const struct client_result *result;
    const char *why;
    struct reading readings[CATALOGUE_CHOICES];
};

/* Counts it, and prints a line if it failed, or was not as recorded, or
 * `always`. */
void tally_ended(const struct tally_end *t, bool always);

/* A stream had no token between two moments.  first: it had none before,
 * from_us is the call's beginning. */
void tally_gap(uint32_t stream, int64_t from_us, int64_t to_us, bool first,
               bool print);

/* A line.  marks: how many there were; behind: streams that stand still since
 * the newest. */
void tally_progress(uint32_t marks, uint32_t behind);
/* unended: requests that were still open. */
void tally_summary(uint32_t unended);

/* Nothing failed, lost, doubled, wrong or unended. */
bool tally_is_well(void);

#endif

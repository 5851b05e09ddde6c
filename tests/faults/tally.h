/* tally.h - Counters of all streams of the load, and the lines of JSON that
 * report them (documented in load.c).
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

/* An ended request: entry number `entry` of the catalogue in stream `stream`.
 */
struct tally_end {
    uint32_t stream, entry;
    enum status status;
    const struct client_result *result;
    const char *why;
    struct reading readings[CATALOGUE_CHOICES];
};

/* Counts an ended request.  Prints a line if it failed or differed from the
 * recorded stream, or if `always`. */
void tally_ended(const struct tally_end *t, bool always);

/* Reports a time without tokens in a stream.  first: it had no token before,
 * and from_us is the start of the call. */
void tally_gap(uint32_t stream, int64_t from_us, int64_t to_us, bool first,
               bool print);

/* Prints the line of progress.  marks: number of marks; behind: streams without
 * a token since the newest mark. */
void tally_progress(uint32_t marks, uint32_t behind);
/* Prints the summary.  unended: requests that were still open. */
void tally_summary(uint32_t unended);

/* Returns whether no request failed or is unended, and no token was lost,
 * doubled or wrong. */
bool tally_is_well(void);

#endif

/* recent.h - The figures of the last seconds of a tally, for the live view.
 *
 * Keeps a copy of some figures each second; the difference to the oldest copy
 * is what came since.
 *
 * Threading: none.  Memory: owns copies of histograms.  Pure. */
#ifndef CLIENT_LOAD_REPORT_RECENT_H
#define CLIENT_LOAD_REPORT_RECENT_H

#include "client/load/figures/tally.h"

#define RECENT_S 5 /* seconds that figures cover */

enum recent_metric {
    RECENT_TTFT,
    RECENT_ITL,
    RECENT_E2E,
    RECENT_LAG,
    RECENT_METRICS
};

struct recent_copy {
    int64_t at_us;
    uint64_t n_ended, n_sent, n_output;
    struct histogram metrics[RECENT_METRICS];
};

/* All zeros is empty: figures are since time 0. */
struct recent {
    struct recent_copy copies[RECENT_S + 1]; /* [n_copies], oldest first */
    uint32_t n_copies;
};

struct recent_figures {
    double ended_per_s, sent_per_s, tokens_per_s;
    struct histogram metrics[RECENT_METRICS];
};

void recent_fini(struct recent *r);

/* Fills the figures of the last RECENT_S seconds, or of all time so far if that
 * is shorter, and takes a copy if a second has passed.  *out is for
 * recent_figures_fini(). */
void recent_take(struct recent *r, const struct tally *t, int64_t now_us,
                 struct recent_figures *out);
void recent_figures_fini(struct recent_figures *f);

/* Requests that ended, those of the warm-up too. */
uint64_t recent_ended(const struct tally *t);

#endif

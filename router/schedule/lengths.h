/* lengths.h - The learned distribution of output lengths of a model.
 *
 * A sequence may generate max_tokens tokens and usually ends earlier.  Each end
 * adds one observation of the share of max_tokens that was used:
 *
 *     bin of n tokens = ceil(LENGTHS_BINS * n / max_tokens) - 1, at least 0
 *
 *     weight  |                                        #
 *             |    # # .                               #  <- prior
 *             +----------------------------------------+
 *              0                                max_tokens
 *
 * Rules:
 *
 *   - Prior: an empty distribution has LENGTHS_PRIOR observations in the last
 *     bin.  Sequences are thus expected to use all of max_tokens until about
 *     four times as many have ended.
 *   - Decay by count: each observation first takes 1/LENGTHS_WINDOW off all
 *     weights, the prior's too.  About the newest LENGTHS_WINDOW ends count.
 *   - A sequence that was cut off after n tokens (cancelled, removed, failed)
 *     would have generated n or more.  Its weight is divided among the bins
 *     from that of n on, in proportion to their weights ("redistribution to the
 *     right", Efron 1967, with the weights so far); all of it goes to the last
 *     bin if these have none.
 *   - A move to another worker is no end: the sequence counts when it ends.
 *   - Expected length of a sequence that has n tokens: the LENGTHS_PERCENT
 *     quantile of the distribution, given that its length exceeds n.  It is the
 *     upper edge of a bin, more than n, and at most max_tokens.
 *
 * Weights are whole numbers, so that equal events give equal results on every
 * machine.
 *
 * Threading: none.  Memory: the caller's; no call allocates.  Limits: 1 <= n <=
 * max_tokens < 2^31. */
#ifndef ROUTER_SCHEDULE_LENGTHS_H
#define ROUTER_SCHEDULE_LENGTHS_H

#include <stdint.h>

#define LENGTHS_BINS    64
#define LENGTHS_PRIOR   8
#define LENGTHS_WINDOW  256
#define LENGTHS_PERCENT 80

struct lengths {
    uint64_t weight[LENGTHS_BINS]; /* LENGTHS_UNIT for one observation */
    uint64_t n_ends, n_cut;        /* observations so far */
};

/* Initialises l with the prior. */
void lengths_init(struct lengths *l);

/* Adds a sequence that ended by itself after n of max_tokens tokens. */
void lengths_ended(struct lengths *l, uint32_t n, uint32_t max_tokens);

/* Adds a sequence that was cut off after n of max_tokens tokens.  A no-op if n
 * is 0: such a sequence shows nothing. */
void lengths_cut(struct lengths *l, uint32_t n, uint32_t max_tokens);

/* Returns the expected length of a sequence that has n of max_tokens tokens: n
 * + 1 .. max_tokens, or max_tokens if n is max_tokens.  l = NULL: nothing is
 * learned, so max_tokens. */
uint32_t lengths_expect(const struct lengths *l, uint32_t n,
                        uint32_t max_tokens);

/* Returns the LENGTHS_PERCENT quantile as a share of max_tokens, in thousandths
 * (1..1000). l = NULL: 1000. */
uint32_t lengths_permille(const struct lengths *l);

/* Returns the number of observations so far. l = NULL: 0. */
uint64_t lengths_count(const struct lengths *l);

#endif

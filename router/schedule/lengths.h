/* lengths.h - The learned distribution of the output lengths of a model, or of
 * some of its sequences (length_groups.h).
 *
 * Lengths are kept in bins: one for each length up to 16, then eight for each
 * doubling.  A sequence that is longer than the bins before b reaches b, and
 * may end in it, which gives the hazard of a bin and the share of sequences
 * that outlive it (the product-limit estimate of Kaplan and Meier, 1958):
 *
 *     h(b) = (ended(b) + prior) / (reached(b) + LENGTHS_PRIOR)
 *     S(b) = product of 1 - h(i) over i <= b
 *
 *     S | ---.
 *       |     `--.__
 *       |           `----....____
 *       +---------------------------> tokens
 *
 * Rules:
 *
 *   - Only an end of its own (an end token, a stop string) counts as ended.
 *     Sequences that max_tokens, a client or a failure cut off have reached
 *     their bins, and show nothing of the rest.
 *   - A sequence counts in a bin as soon as it reaches it, so that longer
 *     outputs than before are seen while they run.
 *   - Of each bin about the newest LENGTHS_WINDOW sequences count: both counts
 *     are halved when so many have reached it.  What is known of rare long
 *     ones is thus not pushed out by many short ones.
 *   - Prior: each bin has LENGTHS_PRIOR sequences of a long-tailed distribution
 *     in which one of twenty exceeds 1,000 tokens.
 *   - A move to another worker is no end, and reaches no bin twice.
 *   - A distribution may stand on another one, its base, as that of a tenant
 *     does on that of its model.  What is counted in it counts in the base too,
 *     and its prior is LENGTHS_BASE sequences of the base:
 *
 *         h(b) = (ended(b) + LENGTHS_BASE * h of the base(b))
 *                / (reached(b) + LENGTHS_BASE)
 *
 *     One without history is thus like its base, and leaves it bin by bin,
 * while sequences run.  A change of the base shows after LENGTHS_LAG events.
 *
 * Counts and shares are whole numbers, so that equal events give equal results
 * on every machine.
 *
 * Threading: none.  Memory: the caller's; no call allocates.  Limits: lengths
 * up to 2^31 - 1; those past LENGTHS_MOST share the last bin. */
#ifndef ROUTER_SCHEDULE_LENGTHS_H
#define ROUTER_SCHEDULE_LENGTHS_H

#include <stdint.h>

#define LENGTHS_FINE    16 /* lengths with a bin of their own */
#define LENGTHS_OCTAVE  8  /* bins of a doubling, from there on */
#define LENGTHS_MOST    (1 << 20)
#define LENGTHS_BINS    (LENGTHS_FINE + 16 * LENGTHS_OCTAVE)
#define LENGTHS_PRIOR   2
#define LENGTHS_BASE    8
#define LENGTHS_LAG     32
#define LENGTHS_WINDOW  128
#define LENGTHS_PERCENT 80
#define LENGTHS_ONE     ((uint32_t)1 << 20) /* the share 1 */

struct lengths {
    uint32_t reached[LENGTHS_BINS], ended[LENGTHS_BINS];
    uint32_t share[LENGTHS_BINS + 1]; /* S before bin b; of LENGTHS_ONE */
    uint32_t stale;                   /* shares past this bin's are old */
    uint64_t version;     /* changes whenever a share may; 0: not begun */
    struct lengths *base; /* borrowed; NULL: the prior */
    uint64_t base_seen;   /* the version of base in the shares */
    struct {
        uint64_t version;
        uint32_t n, max_tokens, length;
    } expected;             /* the newest result of lengths_expect() */
    uint64_t n_ends, n_cut; /* sequences so far */
};

/* Initialises l without history, on base; NULL: on the prior. */
void lengths_init(struct lengths *l, struct lengths *base);

/* Counts the bins that a sequence has reached with n tokens, and had not with
 * n_had. */
void lengths_reached(struct lengths *l, uint32_t n_had, uint32_t n);

/* Counts the bin of n, the first token of a sequence that is counted. */
void lengths_begun(struct lengths *l, uint32_t n);

/* Adds the end of a sequence of n tokens, which has reached its bin; one by
 * itself, or one that was cut off. */
void lengths_ended(struct lengths *l, uint32_t n);
void lengths_cut(struct lengths *l);

/* Returns the share of sequences that are longer than n, of LENGTHS_ONE.  l =
 * NULL: all are. */
uint32_t lengths_share(struct lengths *l, uint32_t n);

/* Returns the length that LENGTHS_PERCENT of the sequences with n of max_tokens
 * tokens do not exceed: n + 1 .. max_tokens, or max_tokens if n is max_tokens.
 * l = NULL: max_tokens. */
uint32_t lengths_expect(struct lengths *l, uint32_t n, uint32_t max_tokens);

/* Returns the tokens that a sequence with n of max_tokens tokens will still
 * generate, on average: at least 1 if n is less than max_tokens. */
uint32_t lengths_mean(struct lengths *l, uint32_t n, uint32_t max_tokens);

/* Returns the number of ended sequences so far. l = NULL: 0. */
uint64_t lengths_count(const struct lengths *l);

#endif

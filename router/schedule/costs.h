/* costs.h - The learned cost of a step of a place.
 *
 *     time of a step = base + row * rows + token * prompt tokens
 *
 *     rows     sequences that got a token in the step
 *     base     time of a step without rows: weights are read, kernels launched
 *     row      time that each row adds
 *     token    time that each prompt token adds
 *
 * Plain steps, those without prompt tokens, give base and row by least squares
 * over n of them, of time t with r rows:
 *
 *     row  = cov(t, r) / (var(r) + 1/4)    at least 0
 *     base = mean(t) - row * mean(r)       at least 0
 *
 * The 1/4 keeps `row` small while all steps have the same rows, since they show
 * nothing of other steps.  token is the time of the mixed steps, those with
 * prompt tokens, past base and row, over their prompt tokens.
 *
 * Rules:
 *
 *   - About the newest COSTS_WINDOW steps of a kind count: the sums are halved
 *     when so many have come.
 *   - A step counts for COSTS_PEAK times the mean at most.  A pause of a
 * machine thus passes.
 *   - A place like its siblings, the places of its model, has their cost: a
 *     difference below an eighth is noise, and must not draw all sequences to
 *     one place.  A place with less than COSTS_LEAST steps has their cost too.
 *
 * Whole numbers and single operations of doubles, so that equal events give
 * equal results on every machine.
 *
 * Threading: none.  Memory: the caller's; a zeroed record has seen nothing.
 * Cost of a step and of a question: O(1). */
#ifndef ROUTER_SCHEDULE_COSTS_H
#define ROUTER_SCHEDULE_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#define COSTS_WINDOW   256
#define COSTS_PEAK     4
#define COSTS_LEAST    8
#define COSTS_US_CAP   60000000 /* the longest step; longer ones count so */
#define COSTS_ROWS_CAP 8192     /* the most rows; more count so */
#define COSTS_CHUNK    512      /* while nothing is known, and */
#define COSTS_STEP_US  20000u
#define COSTS_TOKEN_NS 20000u

/* A step, as its worker reports it. */
struct step_seen {
    uint32_t us, n_rows, n_prompt_tokens;
    bool more; /* prompt tokens wait for later steps */
};

/* Sums over steps of a kind. */
struct step_sums {
    uint64_t n, us, rows, us_rows, rows_square, tokens;
};

struct costs {
    struct step_sums plain, mixed;
    uint32_t chunk; /* prompt tokens of a step while more wait; 0: not seen */
};

struct step_cost {
    uint64_t base_ns, row_ns, token_ns;
    uint32_t chunk;
};

/* Adds a step. */
void costs_add(struct costs *c, const struct step_seen *x);

/* Returns the cost of a place that has shown c, where the places of its model
 * have shown `all`. */
struct step_cost costs_among(const struct costs *c, const struct costs *all);

/* Returns the time in which each of n_rows sequences gets a token, in ns, where
 * a step has at most max_rows of them; 0: no limit. */
uint64_t costs_step_ns(const struct step_cost *c, uint32_t n_rows,
                       uint32_t max_rows);

/* Returns the time of n_tokens prompt tokens beside n_rows rows, in ns, in
 * steps of a chunk. */
uint64_t costs_prompt_ns(const struct step_cost *c, uint64_t n_tokens,
                         uint32_t n_rows, uint32_t max_rows);

#endif

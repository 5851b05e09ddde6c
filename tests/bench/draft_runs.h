/* draft_runs.h - decoding without and with drafts, from the same states.
 *
 * A run records what plain decoding gives, then decodes the same tokens with
 * drafts.  Forced drafts are the recorded token with a given probability each,
 * else another one; the MTP layer runs as always and its proposals are
 * replaced.  Otherwise the drafts are the MTP layer's own.  With a choice each
 * step has as many drafts as `--drafts auto` chooses.
 *
 * Threading, memory, errors: as tests/golden/runner.h. */
#ifndef TESTS_BENCH_DRAFT_RUNS_H
#define TESTS_BENCH_DRAFT_RUNS_H

#include "tests/golden/runner_drafts.h"
#include "tests/kernels/random_model.h"
#include "worker/plan/drafts.h"

#define DRAFT_RUNS_BATCH  128
#define DRAFT_RUNS_TOKENS 256    /* most tokens of a sequence in a run */
#define DRAFT_RUNS_STEPS  4096   /* steps of all runs that are kept */
#define DRAFTS_OWN        (-1.0) /* instead of a probability */

/* Sums and times of all runs so far. */
struct draft_runs {
    struct runner *r;
    uint32_t batch, k; /* sequences of a step; drafts of a row */
    double accept;     /* probability that a draft is right, or DRAFTS_OWN */
    struct drafts *choice;     /* chooses up to k drafts; NULL: always k */
    float accepts[DRAFTS_MAX]; /* learned shares; not 0 at the beginning */
    struct dice dice;
    double plain_s, drafts_s; /* seconds without and with drafts */
    uint32_t n_plain, n_tokens, n_rows;
    uint32_t n_differ; /* tokens with drafts that differ from plain ones */
    uint32_t proposed[DRAFTS_MAX], accepted[DRAFTS_MAX];
    /* Single steps: plain, with drafts less the MTP layer, and the MTP
     * layer by draft. */
    double plain[DRAFT_RUNS_STEPS], verify[DRAFT_RUNS_STEPS],
        draft[DRAFT_RUNS_STEPS];
    uint32_t n_plain_steps, n_verify_steps;
};

/* Runs n_tokens tokens, at most DRAFT_RUNS_TOKENS, of each of the sequences at
 * `of`, each of which has one id that is not computed; with drafts, until one
 * of them has too few left for a row.  They stay as they are; their blocks are
 * shared, and as many slots are needed again. */
void draft_runs_add(struct draft_runs *d, struct run_seq *of,
                    uint32_t n_tokens);

/* Returns the median of n values, and orders them. */
double draft_runs_median(double *of, uint32_t n);

/* Prints the figures in fields of a JSON object; bytes: what a draft of all
 * sequences must move. */
void draft_runs_json(struct draft_runs *d, double bytes);

/* Prints the same as text; bandwidth: of reading, 0: not measured. */
void draft_runs_text(struct draft_runs *d, double bytes, double bandwidth);

#endif

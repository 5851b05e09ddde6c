/* kernels_bench_drafts.h - the part of kernels_bench that drafts.
 *
 * Threading: one thread.  Memory: none is kept.  Errors end the program, as in
 * tests/golden/runner.h. */
#ifndef TESTS_BENCH_KERNELS_BENCH_DRAFTS_H
#define TESTS_BENCH_KERNELS_BENCH_DRAFTS_H

#include "tests/bench/draft_runs.h"

#define BENCH_DRAFTS_TOKENS 64 /* a sequence in a run */

struct bench_drafts {
    uint32_t k;    /* drafts of a row; 0: no such measurement */
    double accept; /* as struct draft_runs */
    const char
        *dir; /* its golden.json has the prompts of own drafts; or NULL */
    uint32_t batch, prompt; /* sequences; tokens of their prompts */
    uint32_t rounds;
    bool json;
};

/* Sets what drafts need of the options, and returns the blocks. */
uint32_t bench_drafts_options(const struct bench_drafts *b,
                              struct kernels_options *o);

/* Measures with a runner that has those blocks and 2 * batch slots. */
void bench_drafts_run(const struct bench_drafts *b, struct runner *r);

#endif

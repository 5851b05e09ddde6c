/* sampler.h - a backend to sample with, and a reference sampler.
 *
 * The reference implements the eight steps of common/sampling/sampling.h for
 * readability: in double precision, by sorting.  It shares only the random
 * generator with the kernels.
 *
 * Threading: one thread.
 * Memory: sampler_open() allocates, and ends the program on failure, as this is
 * for tests. */
#ifndef TESTS_KERNELS_SAMPLER_H
#define TESTS_KERNELS_SAMPLER_H

#include "kernels/kernels.h"
#include "tests/kernels/random_model.h"

#define SAMPLER_ROWS 64

struct sampler {
    struct random_model model;
    struct kernels *k;
    uint32_t vocab;
    float *logits; /* [V] of every row */
};

/* Opens a sampler; isa NULL: the best.  Returns NULL if this processor lacks
 * the isa.  The logits are uniform in [-2, 2). */
struct sampler *sampler_open(uint32_t vocab, uint32_t n_threads,
                             const char *isa);
void sampler_close(struct sampler *s);

/* Samples n <= SAMPLER_ROWS rows from the sampler's logits. */
enum status sampler_try(struct sampler *s, const struct sample_row *rows,
                        uint32_t n, struct sample_result *out, struct error *e);
/* The same, and must succeed. */
void sampler_choose(struct sampler *s, const struct sample_row *rows,
                    uint32_t n, struct sample_result *out);
uint32_t sampler_token(struct sampler *s, const struct sample_row *row);

/* Computes weight [V]: p after step 7, 0 for ids not kept; greedy: 1 for the
 * best id.  Returns whether an edge between kept and not kept is so near that
 * float rounding may move it.  For logits, where bias or penalties round them:
 * within slack = 4e-6 of the greatest.  For p: within 1e-5 + slack /
 * temperature. */
bool sampler_weights(const float *l, uint32_t vocab,
                     const struct sample_row *row, double *weight);

/* Runs step 8 on these weights; *near is set if the draw is within 1e-5 of a
 * border. */
uint32_t sampler_draw(const double *weight, uint32_t vocab,
                      const struct sample_row *row, bool *near);

/* Computes out [V] := log softmax of l. */
void sampler_logprobs(const float *l, uint32_t vocab, double *out);

#endif

/* sampler.h - a backend to sample with, and the eight steps of
 * common/sampling/sampling.h written for reading: in double precision, by
 * sorting; with the kernels they share the generator alone.
 *
 * Threading: one.  Memory: sampler_open() allocates and ends the program if it
 * cannot: this is for tests. */
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

/* isa NULL: the best.  NULL if this processor lacks it.  The logits are
 * uniform in [-2, 2). */
struct sampler *sampler_open(uint32_t vocab, uint32_t n_threads,
                             const char *isa);
void sampler_close(struct sampler *s);

/* Choose for n <= SAMPLER_ROWS rows from the sampler's logits. */
enum status sampler_try(struct sampler *s, const struct sample_row *rows,
                        uint32_t n, struct sample_result *out, struct error *e);
/* ... which succeeds. */
void sampler_choose(struct sampler *s, const struct sample_row *rows,
                    uint32_t n, struct sample_result *out);
uint32_t sampler_token(struct sampler *s, const struct sample_row *row);

/* weight [V] := p after step 7, 0 of what is not kept; greedy: the best's 1.
 * Is an edge between kept and not so near that rounding to float may move it?
 * Of logits, where bias or penalties round them: within slack = 4e-6 of the
 * greatest; of p: within 1e-5 + slack / temperature. */
bool sampler_weights(const float *l, uint32_t vocab,
                     const struct sample_row *row, double *weight);

/* Step 8 from those weights; *near if the draw is within 1e-5 of a border. */
uint32_t sampler_draw(const double *weight, uint32_t vocab,
                      const struct sample_row *row, bool *near);

/* out [V] := log softmax of l. */
void sampler_logprobs(const float *l, uint32_t vocab, double *out);

#endif

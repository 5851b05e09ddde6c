/* golden_file.h - golden.json and golden.safetensors of a model directory.
 *
 * Memory: a golden owns what it points to; golden_free() releases it.  Values
 * that a file lacks are NULL or 0. */
#ifndef TESTS_GOLDEN_GOLDEN_FILE_H
#define TESTS_GOLDEN_GOLDEN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define GOLDEN_PROMPTS_MAX 64
#define GOLDEN_STEPS_MAX   256
#define GOLDEN_TOPS_MAX    8
#define GOLDEN_TOP         10

/* The best logits after the token at a position of prompt + continuation. */
struct golden_top {
    uint32_t position, n;
    uint32_t ids[GOLDEN_TOP];
    float logits[GOLDEN_TOP];
};

struct golden_prompt {
    char name[32];
    uint32_t *ids, n_ids; /* [n_ids] the prompt */
    uint32_t steps;       /* greedy steps */
    uint32_t expect[GOLDEN_STEPS_MAX];
    double margin[GOLDEN_STEPS_MAX]; /* best logit minus the second */
    struct golden_top tops[GOLDEN_TOPS_MAX];
    uint32_t n_tops;
    const float *last;   /* [V] logits after the prompt */
    const float *all;    /* [n_ids, V] logits after each prompt token */
    const float *hidden; /* [n_hidden, H] of the last prompt token: embedding,
                          * after each layer, final norm */
    uint32_t n_hidden;
    /* Drafts of the MTP layer: number i follows expect[i]; 0: none in the
     * file. */
    uint32_t drafts[GOLDEN_STEPS_MAX], n_drafts;
    double noise; /* float32 noise of logits that the file states; 0: none */
};

struct golden {
    struct golden_prompt prompts[GOLDEN_PROMPTS_MAX];
    uint32_t n;
    void *tensors; /* golden.safetensors, mapped as floats */
};

/* Loads both files.  Returns ST_NOT_FOUND if dir has no golden.json,
 * ST_DATA_LOSS if it is broken. */
MUST_CHECK enum status golden_load(struct golden *g, const char *dir,
                                   struct error *e);
void golden_free(struct golden *g);

/* Returns the largest difference of two vectors; NaN if a value is. */
double golden_largest(const float *a, const float *b, size_t n);

/* Returns the largest difference of logits [vocab] after the token at a
 * position from those that the files have of it; 0 if they have none. */
double golden_distance(const struct golden_prompt *p, uint32_t position,
                       const float *logits, size_t vocab);

#endif

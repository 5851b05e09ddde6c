/* step_cost.h - The time of a step by what it computes, learnt from the steps
 * that ran.
 *
 *     us(rows, prompts) = base + row * rows + prompt * prompts
 *
 *     rows     generated tokens of the step, drafts included
 *     prompts  its other tokens
 *
 * The three coefficients x are the least squares over all steps k.  Errors are
 * relative, so that short steps count as much as long ones, and each step
 * counts STEP_COST_FADE times as much as the step after it:
 *
 *     sum over k of fade ^ age[k] * (us(rows[k], prompts[k]) / us[k] - 1) ^ 2
 *         + pull * |x - x_before| ^ 2
 *
 * The pull keeps what the newest steps do not show: if all have the same sizes,
 * they show one sum of the three only.  No coefficient is below 0.
 *
 * A time above STEP_COST_OUTLIER times the estimate counts as that, so a step
 * that took a thousand times as long moves the estimate by a few percent.  A
 * device that has become slower is followed within two hundred steps.
 *
 * Threading: none.  Memory: the caller's; no call allocates. */
#ifndef WORKER_PLAN_STEP_COST_H
#define WORKER_PLAN_STEP_COST_H

#include <stdbool.h>
#include <stdint.h>

#define STEP_COST_FADE    0.95
#define STEP_COST_OUTLIER 2.0
#define STEP_COST_LEAST   8 /* steps before which nothing is estimated */
#define STEP_COST_TERMS   3

struct step_cost {
    double squares[STEP_COST_TERMS][STEP_COST_TERMS];
    double right[STEP_COST_TERMS];
    double x[STEP_COST_TERMS]; /* in scaled units */
    uint32_t n;                /* steps, at most STEP_COST_LEAST are counted */
};

/* The coefficients, in microseconds. */
struct step_cost_terms {
    double base, row, prompt;
};

void step_cost_init(struct step_cost *c);

/* Learns that a step took `us`; 0 is ignored. */
void step_cost_note(struct step_cost *c, uint32_t rows, uint32_t prompts,
                    uint32_t us);

/* Returns whether enough steps were seen for an estimate. */
bool step_cost_known(const struct step_cost *c);

struct step_cost_terms step_cost_terms(const struct step_cost *c);

/* Returns the estimate in microseconds. */
double step_cost_us(const struct step_cost *c, uint32_t rows, uint32_t prompts);

#endif

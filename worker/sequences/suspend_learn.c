/* suspend_learn.c - the cost of copies and prompts, from the plans that ran. */
#include "worker/sequences/sequences.h"
#include "worker/sequences/suspend.h"

/* The share of a new measurement in the average. */
#define LEARN_SHARE 0.125

/* Prompt tokens from which a step measures the rate of prefill. */
#define LEARN_TOKENS 64

static void learn(double *rate, double value)
{
    *rate += LEARN_SHARE * (value - *rate);
}

/* Steps without prompt rows take about as long as each other, so what a step
 * with copies takes longer is the copies'. */
void suspend_learn(struct sequences *q, const struct batch *t)
{
    struct suspend *x = &q->suspend;
    uint32_t us = q->result.device_us, pages = t->n_swapped;

    if (q->table.n_growing == 0 || q->result.status != ST_OK || us == 0) {
        return;
    }
    if (pages > 0 && t->n_prompt_tokens == 0 && x->step_us > 0 &&
        us > x->step_us) {
        learn(&x->page_us, (us - x->step_us) / pages);
    } else if (pages == 0 && t->n_prompt_tokens >= LEARN_TOKENS) {
        learn(&x->token_us, (double)us / t->plan.n_tokens);
    } else if (pages == 0 && t->n_prompt_tokens == 0) {
        learn(&x->step_us, us);
    }
}

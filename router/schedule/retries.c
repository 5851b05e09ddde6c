#include "router/schedule/retries.h"

#include <inttypes.h>

#include "common/base/minmax.h"

#define CREDIT_ONE 100 /* a retry, in percent */

/* Tenants begin with all of their credit, so that a few retries are free. */
static struct retry_state *state_of(const struct arrival *a)
{
    struct retry_state *x = &scheduling_of(a->demand.model)->retries[a->tenant];

    if (!x->begun) {
        x->begun = true;
        x->credit = RETRY_CREDIT_MAX * CREDIT_ONE;
    }
    return x;
}

static uint64_t tokens_of(const struct arrival *a)
{
    return (uint64_t)a->demand.n_prompt + overload_most_tokens(&a->demand);
}

/* A deadline moves with the clock, so the time that is left is compared. */
static int64_t limit_of(const struct schedule *s, const struct arrival *a)
{
    return a->deadline_us == NODE_IDLE ? NODE_IDLE
                                       : a->deadline_us - s->base->now_us;
}

/* Returns whether a asks for no less than the one that was refused: the router
 * would answer the same. */
static bool is_retry(const struct schedule *s, const struct retry_state *x,
                     const struct arrival *a)
{
    return s->base->now_us < x->until_us && tokens_of(a) >= x->n_tokens &&
           a->tier >= x->tier && limit_of(s, a) <= x->limit_us &&
           scheduling_of(a->demand.model)->blocked;
}

/* Takes the credit or the turn of a retry.  Returns false if there is neither.
 */
static bool may_try(const struct schedule *s, struct retry_state *x)
{
    if (x->credit >= CREDIT_ONE) {
        x->credit -= CREDIT_ONE;
        return true;
    }
    if (s->base->now_us < x->probe_us) {
        return false;
    }
    x->probe_us = s->base->now_us + x->interval_us;
    return true;
}

enum status retries_check(struct schedule *s, const struct arrival *a,
                          uint32_t *retry_ms, struct error *e)
{
    struct retry_state *x = state_of(a);
    int64_t left_us = x->until_us - s->base->now_us;

    if (s->base->options.retry_budget == 0 || !is_retry(s, x, a) ||
        may_try(s, x)) {
        return ST_OK;
    }
    s->base->metrics.retries_refused++;
    *retry_ms = (uint32_t)max_i64(left_us / 1000, RETRY_MS_MIN);
    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "%s has refused a request of tenant %s that asks for no more, to be "
        "retried in %.1f s, and the retries before that time exceed %" PRIu32
        " %% of the tenant's admitted requests (--retry-budget); retry in "
        "%" PRIu32 " ms",
        a->demand.model->name,
        metric_slot_name(&s->base->tenant_names, a->tenant),
        (double)left_us / 1e6, s->base->options.retry_budget, *retry_ms);
}

/* A retry that was judged and refused names a new time, but its probes go on
 * as they were. */
void retries_refused(struct schedule *s, const struct arrival *a,
                     uint32_t retry_ms)
{
    struct retry_state *x = state_of(a);
    int64_t now_us = s->base->now_us, us = (int64_t)retry_ms * 1000;

    if (now_us >= x->until_us) {
        x->probe_us = now_us + us / RETRY_PROBES;
    }
    x->until_us = now_us + us;
    x->interval_us = us / RETRY_PROBES;
    x->n_tokens = tokens_of(a);
    x->tier = a->tier;
    x->limit_us = limit_of(s, a);
}

void retries_joined(struct schedule *s, const struct arrival *a)
{
    struct retry_state *x = state_of(a);

    x->until_us = 0;
    x->credit = min_u32(x->credit + s->base->options.retry_budget,
                        RETRY_CREDIT_MAX * CREDIT_ONE);
}

#include "router/schedule/overload.h"

#include <inttypes.h>

#include "common/base/minmax.h"
#include "router/replicas/place.h"
#include "router/schedule/predict.h"

#define TEXT_BYTES  4       /* of a token, until texts have come */
#define TEXT_WINDOW 1000000 /* tokens whose texts count */
#define ENDS_LEAST  16      /* ends of a model that a judgement needs */
#define SPREAD      3       /* standard deviations of a wait */

/* Returns the square root of n, rounded down. */
static uint64_t root(uint64_t n)
{
    uint64_t x = 0;

    for (uint64_t bit = (uint64_t)1 << 31; bit > 0; bit >>= 1) {
        if ((x | bit) * (x | bit) <= n) {
            x |= bit;
        }
    }
    return x;
}

static int64_t spread_us(const struct model *m, int64_t wait_us)
{
    uint64_t wait = (uint64_t)min_i64(wait_us, UINT32_MAX);
    uint64_t each = (uint64_t)min_i64(m->end_interval_us, UINT32_MAX);

    return (int64_t)(SPREAD * root(wait * each));
}

/* Returns the time that a may wait; 0: it has no limit. */
static int64_t limit_us(const struct schedule *s, const struct arrival *a)
{
    if (a->deadline_us == NODE_IDLE) {
        return s->base->options.queue_timeout_us;
    }
    return max_i64(a->deadline_us - s->base->now_us, 1);
}

uint32_t overload_most_tokens(const struct demand *d)
{
    uint32_t left = d->model->context - min_u32(d->model->context, d->n_prompt);

    return d->max_tokens > 0 ? d->max_tokens
                             : max_u32(min_u32(left, GENERATE_MAX_TOKENS), 1);
}

static struct prediction predict(struct schedule *s, const struct arrival *a)
{
    const struct newcomer x = {.model =
                                   (struct model *)(uintptr_t)a->demand.model,
                               .n_prompt = max_u32(a->demand.n_prompt, 1),
                               .max_tokens = overload_most_tokens(&a->demand),
                               .tenant = a->tenant,
                               .route = a->route,
                               .tier = a->tier};

    return predict_arrival(s, &x);
}

static uint32_t ms_of(int64_t us)
{
    int64_t ms = us / 1000;

    return ms < RETRY_MS_MIN   ? RETRY_MS_MIN
           : ms > RETRY_MS_MAX ? RETRY_MS_MAX
                               : (uint32_t)ms;
}

uint32_t overload_retry_ms(struct schedule *s, const struct arrival *a)
{
    struct prediction p = predict(s, a);

    return p.first_us == PREDICT_NEVER ? RETRY_MS_ABSENT : ms_of(p.first_us);
}

static enum status set_error(const struct arrival *a,
                             const struct prediction *p, int64_t limit,
                             uint32_t retry_ms, struct error *e)
{
    const struct model *m = a->demand.model;

    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "%s is overloaded: the first token is expected in %.1f s, after %.1f s "
        "in the queue behind %" PRIu32 " sequences, but %s %.1f s; retry in "
        "%" PRIu32 " ms",
        m->name, (double)p->first_us / 1e6, (double)p->wait_us / 1e6,
        m->n_waiting,
        a->deadline_us == NODE_IDLE ? "a request may wait for"
                                    : "its deadline is in",
        (double)limit / 1e6, retry_ms);
}

/* Returns whether a place of m is open and idle.  What costs were learned may
 * be old or wrong, so that somebody must be served for newer ones. */
static bool is_idle(const struct schedule *s, const struct model *m)
{
    for (uint32_t i = 0; m->n_waiting == 0 && i < s->fleet->n_workers; i++) {
        const struct worker *w = s->fleet->workers[i];

        if (w->model == m && worker_can_serve(w) && w->n_running == 0 &&
            place_refuses(w) == NULL) {
            return true;
        }
    }
    return false;
}

enum status overload_check(struct schedule *s, const struct arrival *a,
                           uint32_t *retry_ms, struct error *e)
{
    int64_t limit = limit_us(s, a);
    struct prediction p;

    if (limit == 0 || lengths_count(lengths_of(a->demand.model)) < ENDS_LEAST) {
        return ST_OK;
    }
    p = predict(s, a);
    if (p.first_us == PREDICT_NEVER ||
        p.first_us + spread_us(a->demand.model, p.wait_us) <= limit ||
        is_idle(s, a->demand.model)) {
        return ST_OK;
    }
    *retry_ms = ms_of(p.first_us);
    return set_error(a, &p, limit, *retry_ms, e);
}

uint32_t overload_tokens(const struct model *m, size_t n)
{
    const struct text_ratio *t = &scheduling_of(m)->text;
    uint64_t tokens =
        t->bytes > 0
            ? (uint64_t)((double)n * (double)t->tokens / (double)t->bytes)
            : n / TEXT_BYTES;

    return (uint32_t)min_u64(tokens, m->context);
}

void overload_learn(const struct model *m, size_t n, uint32_t n_tokens)
{
    struct text_ratio *t = &scheduling_of(m)->text;

    t->bytes += n;
    t->tokens += n_tokens;
    if (t->tokens >= TEXT_WINDOW) {
        t->bytes /= 2;
        t->tokens /= 2;
    }
}

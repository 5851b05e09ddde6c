#include "tests/unit/client/load/drive/virtual_target.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/list.h"
#include "common/base/timer.h"
#include "tests/unit/client/load/drive/tiny_plan.h"

struct call {
    struct timer timer;
    struct call_request request;
    size_t bytes;
    int64_t began_us; /* on the clock of the work */
    uint32_t n_chunks;
    bool given_up;
};

struct target {
    struct virtual_rules r;
    struct virtual_counts counts;
    struct timers timers;
};

static bool happens(const struct target *t, uint64_t number, uint64_t what,
                    double share)
{
    return tiny_draw(t->r.seed, number, 1000 + what) < share;
}

int64_t virtual_first_us(const struct virtual_rules *r, uint64_t number)
{
    double u = tiny_draw(r->seed, number, 999);

    return r->first_min_us +
           (int64_t)(u * (double)(r->first_max_us - r->first_min_us));
}

/* ---- the clock of the work, which stands in a stall ---- */

static int64_t work_time(const struct virtual_rules *r, int64_t at_us)
{
    if (r->stall_us == 0 || at_us <= r->stall_from_us) {
        return at_us;
    }
    return at_us < r->stall_from_us + r->stall_us ? r->stall_from_us
                                                  : at_us - r->stall_us;
}

static int64_t real_time(const struct virtual_rules *r, int64_t work_us)
{
    return r->stall_us == 0 || work_us <= r->stall_from_us
               ? work_us
               : work_us + r->stall_us;
}

/* ---- the life of a call ---- */

static struct call *prepare(struct target *t, const struct call_request *r,
                            size_t *bytes, struct error *e)
{
    struct call *c;

    if (happens(t, r->number, 1, t->r.unmakeable)) {
        error_set(e, ST_INVALID_ARGUMENT, "cannot be made");
        return NULL;
    }
    c = calloc(1, sizeof *c);
    assert(c != NULL);
    c->request = *r;
    c->bytes = t->r.call_bytes * r->prompt->n_tokens;
    if (t->r.uneven) {
        c->bytes += (size_t)(tiny_draw(t->r.seed, r->number, 998) * 9 *
                             (double)c->bytes);
    }
    *bytes = c->bytes;
    t->counts.n_prepared++;
    t->counts.bytes += c->bytes;
    if (t->counts.bytes > t->counts.bytes_peak) {
        t->counts.bytes_peak = t->counts.bytes;
    }
    return c;
}

static void drop(struct target *t, struct call *c)
{
    t->counts.n_dropped++;
    t->counts.bytes -= c->bytes;
    free(c);
}

static void end(struct target *t, struct call *c, int64_t now_us,
                enum outcome outcome)
{
    const struct call_end end = {
        .outcome = (uint8_t)outcome,
        .code = outcome == OUTCOME_REFUSED ? 503 : 0,
        .why = "as drawn",
        .queue_us = SAMPLE_NEVER,
    };

    timer_clear(&t->timers, &c->timer);
    t->counts.n_ended++;
    c->request.ops->on_end(c->request.arg, now_us, &end);
    free(c);
}

static void plan_chunk(struct target *t, struct call *c)
{
    int64_t work_us = c->began_us + virtual_first_us(&t->r, c->request.number) +
                      c->n_chunks * t->r.chunk_us;

    timer_set(&t->timers, &c->timer, real_time(&t->r, work_us));
}

static void start(struct target *t, struct call *c, int64_t now_us)
{
    t->counts.n_started++;
    t->counts.bytes -= c->bytes;
    if (happens(t, c->request.number, 2, t->r.refused)) {
        end(t, c, now_us, OUTCOME_REFUSED);
        return;
    }
    c->request.ops->on_sent(c->request.arg, now_us);
    c->began_us = work_time(&t->r, now_us);
    plan_chunk(t, c);
}

static void output(struct target *t, struct call *c, int64_t now_us)
{
    uint32_t id = (uint32_t)(c->request.number * 31 + c->n_chunks);
    char text[2] = {(char)('a' + id % 26), ' '};

    c->n_chunks++;
    c->request.ops->on_output(c->request.arg, now_us, 1, &id,
                              t->r.sends_ids ? 1 : 0, text, 2);
    if (happens(t, c->request.number, 3, t->r.broken)) {
        end(t, c, now_us, OUTCOME_FAILED);
    } else if (c->n_chunks >= t->r.n_chunks) {
        end(t, c, now_us, OUTCOME_OK);
    } else {
        plan_chunk(t, c);
    }
}

static void give_up(struct target *t, struct call *c, enum give_up how,
                    int64_t now_us)
{
    static const enum outcome outcomes[] = {
        [GIVE_UP_CANCEL] = OUTCOME_CANCELLED,
        [GIVE_UP_DISCONNECT] = OUTCOME_DISCONNECTED,
        [GIVE_UP_TIMEOUT] = OUTCOME_TIMEOUT,
    };

    assert(!c->given_up);
    c->given_up = true;
    t->counts.n_given_up++;
    if (!happens(t, c->request.number, 4, t->r.deaf)) {
        end(t, c, now_us, outcomes[how]);
    }
}

/* ---- the test's side ---- */

struct target *virtual_new(const struct virtual_rules *r)
{
    struct target *t = calloc(1, sizeof *t);

    assert(t != NULL);
    t->r = *r;
    timers_init(&t->timers);
    return t;
}

void virtual_free(struct target **self)
{
    struct timer *t;

    while ((t = timers_pop(&(*self)->timers, INT64_MAX - 1)) != NULL) {
        free(LIST_OF(t, struct call, timer));
    }
    timers_fini(&(*self)->timers);
    free(*self);
    *self = NULL;
}

struct virtual_counts virtual_counts(const struct target *t)
{
    return t->counts;
}

int64_t virtual_due(const struct target *t)
{
    return timers_due(&t->timers);
}

void virtual_run(struct target *t, int64_t now_us)
{
    struct timer *timer;

    while ((timer = timers_pop(&t->timers, now_us)) != NULL) {
        output(t, LIST_OF(timer, struct call, timer), now_us);
    }
}

const struct target_ops virtual_target = {
    .prepare = prepare,
    .start = start,
    .drop = drop,
    .give_up = give_up,
};

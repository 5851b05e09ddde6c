/* The forecast of a place: limits, and whole workloads in virtual time, where
 * a worker that runs out of pages suspends the newest sequence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/splitmix.h"
#include "router/replicas/replica.h"
#include "router/schedule/claims.h"
#include "router/schedule/forecast.h"

#define BLOCK   32
#define POOL    500 /* pages, of a block each */
#define ROWS    64
#define PROMPT  128
#define ASKED   3900 /* max_tokens */
#define AT_ONCE 48
#define MOST    8000 /* requests of a workload */

struct world {
    struct router_base base;
    struct fleet fleet;
    struct schedule s;
    struct model model;
    struct model_scheduling scheduling;
    struct worker w;
    struct router_peer peer;
    struct membership membership;
    struct place_charges charges;
};

static void set_free(struct world *x, uint32_t n)
{
    x->w.ledger.classes[PAGES].free = n;
    x->w.ledger.classes[BLOCKS].held = POOL - n;
}

static void begin(struct world *x, uint32_t suspensions)
{
    memset(x, 0, sizeof *x);
    x->base.options.admission = ADMISSION_EXPECTED;
    x->base.options.suspensions = suspensions;
    x->s.base = &x->base;
    x->s.fleet = &x->fleet;
    x->model.parts[PART_SCHEDULE] = &x->scheduling;
    x->peer.minor = GROWS_MINOR;
    x->w.peer = &x->peer;
    x->w.model = &x->model;
    x->w.parts[PART_REPLICAS] = &x->membership;
    x->w.parts[PART_SCHEDULE] = &x->charges;
    x->w.shard.block_tokens = BLOCK;
    x->w.shard.pages_per_block = 1;
    x->w.ledger.classes[PAGES].total = POOL;
    x->w.ledger.classes[BLOCKS].total = POOL;
    set_free(x, POOL);
    claims_open(&x->w);
}

/* A request of a workload. */
struct one {
    struct queue_entry e;
    uint32_t length, n, pages;
    bool runs;
};

struct outcome {
    uint32_t n_steps, n_tokens, n_suspended, n_again;
};

/* PREEMPTING: what fits now is granted, whatever follows. */
enum rule { STRICT, EXPECTED, PREEMPTING };

static uint32_t pages_of(uint32_t tokens)
{
    return (tokens + BLOCK - 1) / BLOCK;
}

/* Workload of requests; those that run, in the order of their grants. */
struct load {
    struct world x;
    struct one *all;
    uint32_t n, next, n_ended, used;
    struct one *running[ROWS], *waiting[AT_ONCE];
    uint32_t n_running, n_waiting;
    struct outcome out;
};

static void leave(struct load *l, uint32_t i)
{
    struct one *o = l->running[i];

    l->used -= o->pages;
    o->pages = 0;
    claim_release(&o->e);
    memmove(&l->running[i], &l->running[i + 1],
            (--l->n_running - i) * sizeof l->running[0]);
}

static void suspend_newest(struct load *l)
{
    struct one *o = l->running[l->n_running - 1];

    l->out.n_suspended += !o->e.was_suspended;
    l->out.n_again += PROMPT + o->n;
    claim_suspended(&o->e);
    leave(l, l->n_running - 1);
    memmove(&l->waiting[1], l->waiting, l->n_waiting * sizeof l->waiting[0]);
    l->waiting[0] = o;
    l->n_waiting++;
}

/* Gives each sequence the page of its next token. */
static void grow(struct load *l)
{
    for (uint32_t i = 0; i < l->n_running; i++) {
        struct one *o = l->running[i];
        uint32_t need = pages_of(PROMPT + o->n + 1);

        while (o->pages < need && i < l->n_running) {
            if (l->used < POOL) {
                o->pages++;
                l->used++;
            } else {
                suspend_newest(l);
            }
        }
    }
}

static void grant(struct load *l, enum rule rule)
{
    while (l->n_waiting > 0 && l->n_running < ROWS) {
        struct one *o = l->waiting[0];
        struct claim c;

        o->e.n_generated = o->n;
        set_free(&l->x, POOL - l->used);
        c = claim_at(&l->x.s, &o->e, &l->x.w);
        if (l->used + c.need.of[PAGES] > POOL ||
            (rule != PREEMPTING &&
             claim_refused(&l->x.s, &o->e, &l->x.w, &c) != NULL)) {
            return;
        }
        o->e.claim = c;
        o->pages = (uint32_t)c.need.of[PAGES];
        l->used += o->pages;
        claim_charge(&o->e, &l->x.w);
        l->running[l->n_running++] = o;
        memmove(l->waiting, &l->waiting[1],
                --l->n_waiting * sizeof l->waiting[0]);
    }
}

static void step(struct load *l)
{
    l->out.n_steps++;
    for (uint32_t i = 0; i < l->n_running;) {
        struct one *o = l->running[i];
        bool ends = ++o->n == o->length;

        l->out.n_tokens++;
        claim_made(&l->x.s, &o->e, o->n);
        if (ends) {
            claim_learn(&l->x.s, &o->e, o->n, o->length < ASKED);
            leave(l, i);
            l->n_ended++;
        } else {
            i++;
        }
    }
}

/* Runs n requests, AT_ONCE of them open, to the end.  length_of: the length of
 * request i. */
static struct outcome run(struct load *l, uint32_t n, enum rule rule,
                          uint32_t (*length_of)(uint64_t *random, uint32_t i))
{
    uint64_t random = 7;

    memset(l, 0, sizeof *l);
    begin(&l->x, 1000);
    if (rule == STRICT) {
        l->x.base.options.admission = ADMISSION_STRICT;
    }
    l->all = calloc(n, sizeof *l->all);
    assert_non_null(l->all);
    l->n = n;
    while (l->n_ended < n) {
        while (l->n_waiting + l->n_running < AT_ONCE && l->next < n) {
            struct one *o = &l->all[l->next];

            o->length = length_of(&random, l->next++);
            o->e.model = &l->x.model;
            o->e.n_prompt = PROMPT;
            o->e.n_tokens = PROMPT + ASKED;
            l->waiting[l->n_waiting++] = o;
        }
        grow(l);
        grant(l, rule);
        assert_true(l->used <= POOL && l->n_running > 0);
        step(l);
    }
    free(l->all);
    return l->out;
}

/* 75 to 225 tokens, and one of fifty ten times as long. */
static uint32_t mostly_short(uint64_t *random, uint32_t i)
{
    uint32_t length = 75 + (uint32_t)(splitmix_next(random) % 150);

    (void)i;
    return splitmix_next(random) % 50 == 0 ? length * 10 : length;
}

static uint32_t all_of_it(uint64_t *random, uint32_t i)
{
    (void)random;
    (void)i;
    return ASKED;
}

/* A batch job arrives after half of the requests. */
static uint32_t longer_later(uint64_t *random, uint32_t i)
{
    uint32_t length = mostly_short(random, i) * (i > 2000 ? 6 : 1);

    return length < ASKED ? length : ASKED;
}

static struct load load; /* large */

static double tokens_per_step(const struct outcome *o)
{
    return (double)o->n_tokens / o->n_steps;
}

/* A scheduler that preempts computes a fifth of the tokens again. */
static void memory_that_nobody_uses_is_granted(void **state)
{
    struct outcome o, strict, preempting;

    (void)state;
    o = run(&load, 4000, EXPECTED, mostly_short);
    strict = run(&load, 400, STRICT, mostly_short);
    preempting = run(&load, 4000, PREEMPTING, mostly_short);
    assert_true(tokens_per_step(&o) > 0.85 * tokens_per_step(&preempting));
    assert_true(tokens_per_step(&o) > 10 * tokens_per_step(&strict));
    assert_true(o.n_suspended <= 20); /* 0.5 % */
    assert_true(o.n_again <= (o.n_tokens + 4000 * PROMPT) / 100);
    assert_true(preempting.n_suspended > 400);
    assert_int_equal(strict.n_suspended, 0);
}

static void the_share_of_suspended_ones_has_its_target(void **state)
{
    struct outcome o = run(&load, MOST, EXPECTED, mostly_short);

    (void)state;
    assert_true(o.n_suspended <= MOST * 3 / 1000);
}

/* The first ones are granted by the prior, and some of these are suspended. */
static void when_all_is_used_it_is_as_good_as_strict(void **state)
{
    struct outcome o, strict;

    (void)state;
    o = run(&load, 300, EXPECTED, all_of_it);
    strict = run(&load, 300, STRICT, all_of_it);
    assert_true(tokens_per_step(&o) >= 0.97 * tokens_per_step(&strict));
    assert_true(o.n_suspended <= AT_ONCE);
}

static void longer_outputs_are_learned_as_they_come(void **state)
{
    struct outcome o = run(&load, 4000, EXPECTED, longer_later);

    (void)state;
    assert_true(o.n_suspended <= 80);
}

/* Sequences that come and go change it as if it were made anew. */
static void a_forecast_is_kept_up(void **state)
{
    static struct queue_entry all[8];
    struct queue_entry asks = {.n_prompt = PROMPT, .n_tokens = PROMPT + ASKED};
    struct world *x = &load.x;
    struct forecast kept;
    struct claim c;

    (void)state;
    memset(&load, 0, sizeof load);
    begin(x, 1000);
    asks.model = &x->model;
    c = claim_at(&x->s, &asks, &x->w);
    (void)!claim_refused(&x->s, &asks, &x->w, &c);
    for (uint32_t i = 0; i < 8; i++) {
        all[i] = (struct queue_entry){.model = &x->model,
                                      .n_prompt = PROMPT + 40 * i,
                                      .n_tokens = PROMPT + 40 * i + ASKED};
        all[i].claim = claim_at(&x->s, &all[i], &x->w);
        claim_charge(&all[i], &x->w);
    }
    for (uint32_t i = 0; i < 8; i += 3) {
        claim_release(&all[i]);
    }
    kept = x->charges.forecast;
    assert_true(kept.made);
    x->charges.forecast.made = false;
    (void)!claim_refused(&x->s, &asks, &x->w, &c);
    assert_memory_equal(kept.mean, x->charges.forecast.mean, sizeof kept.mean);
    assert_memory_equal(kept.variance, x->charges.forecast.variance,
                        sizeof kept.variance);
    assert_memory_equal(&kept.growth, &x->charges.forecast.growth,
                        sizeof kept.growth);
    assert_int_equal(kept.greatest, x->charges.forecast.greatest);
}

/* FORECAST_STALE tokens of each sequence past its first one; one more has it
 * made anew. */
static void a_forecast_is_made_anew_in_time(void **state)
{
    struct queue_entry one = {.n_prompt = PROMPT, .n_tokens = PROMPT + ASKED};
    struct queue_entry asks = one;
    struct world *x = &load.x;
    struct claim c;

    (void)state;
    memset(&load, 0, sizeof load);
    begin(x, 1000);
    one.model = asks.model = &x->model;
    one.claim = c = claim_at(&x->s, &one, &x->w);
    claim_charge(&one, &x->w);
    (void)!claim_refused(&x->s, &asks, &x->w, &c);
    claim_made(&x->s, &one, 1 + FORECAST_STALE);
    (void)!claim_refused(&x->s, &asks, &x->w, &c);
    assert_int_equal(one.n_seen, 0);
    claim_made(&x->s, &one, 2 + FORECAST_STALE);
    (void)!claim_refused(&x->s, &asks, &x->w, &c);
    assert_int_equal(one.n_seen, 2 + FORECAST_STALE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_nobody_uses_is_granted),
        cmocka_unit_test(the_share_of_suspended_ones_has_its_target),
        cmocka_unit_test(when_all_is_used_it_is_as_good_as_strict),
        cmocka_unit_test(longer_outputs_are_learned_as_they_come),
        cmocka_unit_test(a_forecast_is_kept_up),
        cmocka_unit_test(a_forecast_is_made_anew_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

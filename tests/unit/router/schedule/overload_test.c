/* More requests than a worker can serve, in virtual time: what is served has
 * its first token in time, the rest is refused at once, with a true time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/splitmix.h"
#include "tests/unit/router/rig.h"

#define IDS       250
#define CHUNK     512
#define BASE_US   8000
#define ROW_US    200
#define TOKEN_US  20
#define SLOTS     24
#define PROMPT    1024 /* the longest, */
#define OUTPUT    240  /* and of outputs */
#define REPORT_US 100000
#define WARM_US   20000000
#define TEST_US   60000000
#define SAMPLES   20000

/* A request that is open. */
struct one {
    struct record *x; /* NULL: this id is free */
    uint32_t n_prompt, n_output, n_done;
    int64_t came_us, first_us, expected_us;
};

struct scene {
    struct rig *rig;
    struct fake *w, *c;
    struct one all[IDS];
    uint64_t random;
    bool busy;
    int64_t due_us, reported_us;
    uint32_t n_prompt_tokens, order[IDS], n_order; /* order of arrival there */
    /* Figures, of requests that came after from_us. */
    int64_t from_us, slo_us;
    uint32_t n_came, n_good, n_late, n_refused;
    uint64_t good_tokens;
    int64_t refused_us[SAMPLES];
    uint32_t n_samples, n_true;
};

static uint32_t draw(struct scene *s, uint32_t least, uint32_t most)
{
    return least + (uint32_t)(splitmix_next(&s->random) % (most - least + 1));
}

static void bring(struct scene *s, int64_t limit_us)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 4096,
                                  .max_waiting = 4096,
                                  .queue_timeout_us = limit_us,
                                  .retry_budget = 10, /* the default */
                                  .worker_wait_us = 1000000};

    memset(s, 0, sizeof *s);
    s->random = 7;
    s->rig = rig_new(&o);
    s->c = rig_client(s->rig, "c1");
    s->w = rig_worker(s->rig, "w1", 4000, SLOTS);
}

static uint8_t id_of(uint32_t i)
{
    return (uint8_t)(i + 1);
}

static bool counts(const struct scene *s, const struct one *o)
{
    return s->from_us != 0 && o->came_us >= s->from_us;
}

static void forget(struct scene *s, struct record **x)
{
    for (uint32_t k = 0; k < RIG_RECORDS; k++) {
        if (s->c->records[k] == *x) {
            s->c->records[k] = NULL;
        }
    }
    record_free(*x);
    *x = NULL;
}

/* ---- the worker ---- */

/* Visits the sequences that run, in order of their arrival. */
static void each(struct scene *s, void (*f)(struct scene *s, uint32_t i))
{
    for (uint32_t k = 0; k < s->n_order; k++) {
        f(s, s->order[k]);
    }
}

static void seat(struct scene *s)
{
    for (uint32_t i = 0; i < IDS; i++) {
        bool known =
            s->all[i].x == NULL || worker_sequence_of(s->w, id_of(i)) == NULL;

        for (uint32_t k = 0; !known && k < s->n_order; k++) {
            known = s->order[k] == i;
        }
        if (!known) {
            s->order[s->n_order++] = i;
        }
    }
}

static uint32_t step_rows, step_tokens;

static void count(struct scene *s, uint32_t i)
{
    uint32_t left = s->all[i].n_prompt - s->all[i].n_done;

    step_rows += left == 0;
    step_tokens += min_u32(left, CHUNK - step_tokens);
}

static void begin_step(struct scene *s)
{
    seat(s);
    step_rows = step_tokens = 0;
    each(s, count);
    s->busy = step_rows + step_tokens > 0;
    s->w->device_us = BASE_US + ROW_US * step_rows + TOKEN_US * step_tokens;
    s->w->n_prompt_tokens = step_tokens;
    s->due_us = s->rig->now + s->w->device_us;
}

static void judge_first(struct scene *s, struct one *o)
{
    int64_t us = s->rig->now - o->came_us;

    o->first_us = us;
    if (o->expected_us > 0 && counts(s, o)) {
        int64_t off =
            us > o->expected_us ? us - o->expected_us : o->expected_us - us;

        s->n_samples++;
        s->n_true += off <= 1000000 ||
                     (us <= 2 * o->expected_us && o->expected_us <= 2 * us);
    }
}

static void token(struct scene *s, uint32_t i)
{
    struct sequence *q = worker_sequence_of(s->w, id_of(i));
    struct one *o = &s->all[i];
    bool ends = q->n_tokens + 1 == o->n_output;

    if (o->first_us == 0) {
        judge_first(s, o);
    }
    worker_make(s->w, q, 1, ends ? SLUICE__V1__FINISH__FINISH_LENGTH : 0);
}

static void advance(struct scene *s, uint32_t i)
{
    struct one *o = &s->all[i];
    uint32_t left = o->n_prompt - o->n_done, n = min_u32(left, step_tokens);

    o->n_done += n;
    step_tokens -= n;
    if (o->n_done == o->n_prompt && (left == 0 || n > 0)) {
        token(s, i);
    }
}

/* Takes what has ended off the books. */
static void settle(struct scene *s)
{
    for (uint32_t i = 0; i < IDS; i++) {
        struct one *o = &s->all[i];

        if (o->x == NULL || !o->x->ended) {
            continue;
        }
        if (counts(s, o) && o->x->status == ST_OK) {
            bool good = o->first_us <= s->slo_us;

            *(good ? &s->n_good : &s->n_late) += 1;
            s->good_tokens += good ? o->n_prompt + o->n_output : 0;
        } else if (counts(s, o) && s->n_refused < SAMPLES) {
            assert_int_equal(o->x->status, ST_RESOURCE_EXHAUSTED);
            s->refused_us[s->n_refused++] = s->rig->now - o->came_us;
        }
        forget(s, &o->x);
        for (uint32_t k = 0; k < s->n_order; k++) {
            if (s->order[k] == i) {
                memmove(&s->order[k], &s->order[k + 1],
                        (--s->n_order - k) * sizeof s->order[0]);
            }
        }
    }
}

static void end_step(struct scene *s)
{
    s->busy = false;
    step_tokens = s->w->n_prompt_tokens;
    each(s, advance);
    worker_step(s->w);
    s->reported_us = s->rig->now;
    rig_run(s->rig);
    settle(s);
}

/* Moves the time to until_us. */
static void work(struct scene *s, int64_t until_us)
{
    while (s->rig->now < until_us) {
        int64_t next_us = min_i64(until_us, s->reported_us + REPORT_US);

        if (!s->busy) {
            begin_step(s);
        }
        next_us = s->busy ? min_i64(next_us, s->due_us) : next_us;
        rig_advance(s->rig, max_i64(next_us - s->rig->now, 1));
        if (s->busy && s->due_us <= s->rig->now) {
            end_step(s);
        } else if (s->rig->now - s->reported_us >= REPORT_US) {
            s->reported_us = s->rig->now;
            worker_report(s->w);
            rig_run(s->rig);
        }
        settle(s);
    }
}

/* ---- clients ---- */

static struct record *ask(struct scene *s, uint8_t id, const struct one *o,
                          uint32_t deadline_ms)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x = client_generate_with(s->c, id, o->n_prompt, o->n_output,
                                            &m, deadline_ms);

    rig_run(s->rig);
    return x;
}

static uint32_t free_id(const struct scene *s)
{
    uint32_t i = 0;

    while (i < IDS && s->all[i].x != NULL) {
        i++;
    }
    return i;
}

/* Asks for a time that no request can have, and returns what is expected of
 * another. */
static int64_t probe(struct scene *s, const struct one *o)
{
    struct record *x = ask(s, id_of(IDS), o, 1);
    int64_t us;

    if (!x->ended) { /* the worker is idle, or too little is known */
        client_give_up(s->c, x);
        rig_run(s->rig);
        us = 0;
    } else {
        assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
        assert_non_null(strstr(x->error, "but its deadline is in 0.0 s"));
        us = (int64_t)x->retry_ms * 1000;
    }
    forget(s, &x);
    return us;
}

/* A request comes.  Returns false if no id is free. */
static bool come(struct scene *s, bool probed)
{
    uint32_t i = free_id(s);
    struct one *o = &s->all[i];

    if (i == IDS) {
        return false;
    }
    *o = (struct one){.n_prompt = draw(s, 16, PROMPT),
                      .n_output = draw(s, 16, OUTPUT),
                      .came_us = s->rig->now};
    o->expected_us = probed ? probe(s, o) : 0;
    s->n_came += counts(s, o);
    o->x = ask(s, id_of(i), o, 0);
    settle(s);
    return true;
}

struct served {
    uint32_t n;
    uint64_t tokens;
};

/* Returns what the worker serves while some always wait, in requests of
 * TEST_US; and *alone_us, the mean time to the first token without load. */
static struct served capacity(int64_t *alone_us)
{
    static struct scene s;
    struct served all;
    uint32_t n;

    bring(&s, 0);
    *alone_us = 0;
    for (uint32_t i = 0; i < 20; i++) {
        (void)come(&s, false);
        work(&s, s.rig->now + 5000000);
        *alone_us += s.all[0].first_us / 20;
    }
    s.slo_us = INT64_MAX;
    for (int64_t end = s.rig->now + WARM_US + TEST_US; s.rig->now < end;) {
        for (n = 0; s.all[IDS / 2].x == NULL; n++) {
            (void)come(&s, false);
        }
        if (s.from_us == 0 && s.rig->now >= end - TEST_US) {
            s.from_us = 1;
        }
        work(&s, s.rig->now + 50000);
    }
    all = (struct served){s.n_good, s.good_tokens};
    rig_free(&s.rig);
    return all;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Offers `times` of what can be served.  Returns the share that was served in
 * time, in percent, and *p99_us of the refusals. */
static uint32_t offer(uint32_t times, const struct served *most, int64_t slo_us,
                      int64_t *p99_us)
{
    struct router_metrics k;
    static struct scene s;
    int64_t gap_us = TEST_US / (most->n * times), next_us;
    uint32_t good, tokens;

    bring(&s, slo_us);
    s.slo_us = slo_us;
    next_us = s.rig->now;
    for (int64_t end = s.rig->now + WARM_US + TEST_US; s.rig->now < end;) {
        if (s.from_us == 0 && s.rig->now >= end - TEST_US) {
            s.from_us = s.rig->now;
        }
        assert_true(come(&s, false));
        next_us += draw(&s, 0, (uint32_t)(2 * gap_us));
        work(&s, next_us);
    }
    qsort(s.refused_us, s.n_refused, sizeof s.refused_us[0], by_size);
    assert_true(s.n_refused > 100);
    *p99_us = s.refused_us[s.n_refused * 99 / 100];
    good = s.n_good * 100 / most->n;
    tokens = (uint32_t)(s.good_tokens * 100 / most->tokens);
    router_counts(s.rig->router, &k);
    print_message(
        "%ux: %u came, %u in time (%u %%, of tokens %u %%), %u late, "
        "%u refused, p99 of refusals %.1f ms; %llu as early retries\n",
        times, s.n_came, s.n_good, good, tokens, s.n_late, s.n_refused,
        (double)*p99_us / 1000, (unsigned long long)k.retries_refused);
    assert_true(k.retries_refused > 0);
    rig_free(&s.rig);
    return min_u32(good, tokens);
}

static void what_is_served_is_served_in_time(void **state)
{
    int64_t alone_us, p99_us;
    struct served most = capacity(&alone_us);

    (void)state;
    print_message("alone %.1f ms, capacity %.2f/s\n", (double)alone_us / 1000,
                  (double)most.n * 1e6 / TEST_US);
    assert_in_range(offer(3, &most, 10 * alone_us, &p99_us), 95, 200);
    assert_in_range(p99_us, 0, 50000);
    assert_in_range(offer(10, &most, 10 * alone_us, &p99_us), 90, 200);
    assert_in_range(p99_us, 0, 50000);
}

/* Nothing is refused: each request waits as long as was expected. */
static void what_is_expected_comes_true(void **state)
{
    static struct scene s;
    int64_t next_us;

    (void)state;
    bring(&s, 0);
    next_us = s.rig->now;
    for (uint32_t burst = 0; burst < 12; burst++) {
        s.from_us = burst == 2 ? s.rig->now : s.from_us;
        for (uint32_t i = 0; i < 20 + 10 * burst; i++) {
            (void)come(&s, true);
            next_us += draw(&s, 0, 40000);
            work(&s, next_us);
        }
        next_us += 4000000;
        work(&s, next_us);
    }
    print_message("%u of %u were as expected\n", s.n_true, s.n_samples);
    assert_true(s.n_samples > 500);
    assert_true(s.n_true * 10 >= s.n_samples * 9);
    rig_free(&s.rig);
}

/* Requests come together, before the queue has given room to any.  Returns how
 * many were refused. */
static uint32_t burst(uint32_t n, int64_t limit_us)
{
    static struct scene s;
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    bring(&s, limit_us);
    s.slo_us = INT64_MAX;
    for (uint32_t i = 0; i < SLOTS; i++) { /* lengths and costs are learned */
        (void)come(&s, false);
        work(&s, s.rig->now + 2000000);
    }
    s.from_us = s.rig->now;
    for (uint32_t i = 0; i < n; i++) {
        struct one *o = &s.all[i];

        *o = (struct one){.n_prompt = draw(&s, 16, PROMPT),
                          .n_output = draw(&s, 16, OUTPUT),
                          .came_us = s.rig->now};
        o->x = client_generate_with(s.c, id_of(i), o->n_prompt, o->n_output, &m,
                                    0);
    }
    rig_run(s.rig);
    settle(&s);
    work(&s, s.rig->now + 60000000);
    assert_int_equal(s.n_good + s.n_refused, n);
    rig_free(&s.rig);
    return s.n_refused;
}

static void a_burst_takes_the_room_that_is_free(void **state)
{
    (void)state;
    assert_int_equal(burst(SLOTS, 3000000), 0);
    assert_int_equal(burst(4 * SLOTS, 20000000), 0);
    assert_in_range(burst(10 * SLOTS, 10000000), SLOTS, 9 * SLOTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_takes_the_room_that_is_free),
        cmocka_unit_test(what_is_served_is_served_in_time),
        cmocka_unit_test(what_is_expected_comes_true),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

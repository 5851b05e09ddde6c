/* A run of the rig is recorded and replayed: with the same options it is the
 * same run, and with other pools or policies it differs as it should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/replay/replay_figures.h"
#include "tests/unit/router/rig_engine.h"

static const struct engine_load hot = {.n_prefix = 2048,
                                       .n_own = 96,
                                       .length = 80,
                                       .max_tokens = 320,
                                       .reuse = true,
                                       .slots = 64,
                                       .base_us = 8000,
                                       .row_us = 1000,
                                       .token_us = 40,
                                       .chunk = 512};

/* A sink that is a file in memory. */
struct memory_sink {
    struct record_sink sink;
    FILE *to;
    char *text;
    size_t n;
};

static bool put(struct record_sink *s, const char *text, size_t n)
{
    struct memory_sink *m = (struct memory_sink *)(void *)s;

    return fwrite(text, 1, n, m->to) == n;
}

static struct recording *read_back(struct memory_sink *m)
{
    struct recording *r;
    struct error e = {.text = ""};
    FILE *f;

    fclose(m->to);
    f = fmemopen(m->text, m->n, "r");
    assert_non_null(f);
    if (recording_read(&r, f, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    fclose(f);
    free(m->text);
    return r;
}

static struct recorder *begin(struct memory_sink *m)
{
    struct recorder *r;

    *m = (struct memory_sink){.sink = {put}};
    m->to = open_memstream(&m->text, &m->n);
    assert_non_null(m->to);
    r = recorder_new(&m->sink);
    assert_non_null(r);
    return r;
}

static struct engines scene; /* large */

static struct recording *record(const struct engine_load *load, uint32_t n,
                                uint32_t rate)
{
    struct memory_sink m;
    struct engine_load l = *load;

    l.recorder = begin(&m);
    engines_bring(&scene, &l, n);
    engines_load(&scene, rate, 20);
    engines_finish(&scene);
    recorder_free(&l.recorder);
    return read_back(&m);
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

struct figures {
    uint32_t n_granted, n_places;
    int64_t queue_p50, queue_p99, first_p50, first_p99, end_p50;
    uint64_t n_restored;
};

static int64_t at(int64_t *of, uint32_t n, uint32_t percent)
{
    qsort(of, n, sizeof *of, ascending);
    return of[n * percent / 100];
}

static struct figures figures_of(const struct recording *r,
                                 const struct replay_run *run)
{
    static int64_t queue[RIG_RECORDS], first[RIG_RECORDS], end[RIG_RECORDS];
    struct figures f = {.n_granted = 0};
    bool seen[64] = {false};

    for (uint32_t i = 0; i < r->n_requests; i++) {
        const struct recorded_choice *c = &run->choices[r->requests[i].choices];
        int64_t came = r->requests[i].at_us;

        assert_false(run->fates[i].refused);
        assert_true(c->end_us >= c->first_us && c->first_us > c->granted_us);
        queue[i] = c->granted_us - came;
        first[i] = c->first_us - came;
        end[i] = c->end_us - came;
        f.n_granted++;
        f.n_places += !seen[c->place];
        seen[c->place] = true;
        f.n_restored += c->n_restored;
    }
    f.queue_p50 = at(queue, r->n_requests, 50);
    f.queue_p99 = at(queue, r->n_requests, 99);
    f.first_p50 = at(first, r->n_requests, 50);
    f.first_p99 = at(first, r->n_requests, 99);
    f.end_p50 = at(end, r->n_requests, 50);
    print_message("%u granted at %u, queue p50 %.3f p99 %.3f, first p50 %.3f "
                  "p99 %.3f, end p50 %.3f, restored %llu\n",
                  f.n_granted, f.n_places, (double)f.queue_p50 / 1e6,
                  (double)f.queue_p99 / 1e6, (double)f.first_p50 / 1e6,
                  (double)f.first_p99 / 1e6, (double)f.end_p50 / 1e6,
                  (unsigned long long)f.n_restored);
    return f;
}

static struct figures replay(const struct recording *r,
                             const struct replay_options *o)
{
    struct replay_run run;
    struct figures f;
    struct error e;

    assert_int_equal(replay_run(&run, r, o, &e), ST_OK);
    f = figures_of(r, &run);
    replay_run_fini(&run);
    return f;
}

static struct figures recorded(const struct recording *r)
{
    struct replay_run run;
    struct figures f;

    replay_recorded(&run, r);
    f = figures_of(r, &run);
    replay_run_fini(&run);
    return f;
}

/* The costs of steps are those that the router had measured, with an error of a
 * few percent. */
static void near(int64_t a, int64_t b, int64_t percent)
{
    int64_t off = a > b ? a - b : b - a;

    assert_true(off * 100 <= b * percent);
}

static void same_options_give_the_same_run(void **state)
{
    struct recording *r = record(&hot, ENGINES_MAX, 8);
    struct replay_options o = replay_as_recorded(r);
    struct figures was = recorded(r), is = replay(r, &o);

    (void)state;
    assert_int_equal(r->n_lost, 0);
    assert_int_equal(was.n_granted, is.n_granted);
    near(is.first_p50, was.first_p50, 10);
    near(is.end_p50, was.end_p50, 10);
    recording_free(&r);
}

/* ---- recordings that are written here ---- */

struct script {
    uint32_t n_places, pages, n_requests, gap_us, n_prompt, max_tokens;
    uint32_t length;    /* mean; outputs have half to one and a half */
    bool heavy;         /* four of five requests are of tenant "heavy" */
    bool strict;        /* --admission */
    bool turns;         /* each begins with prompt and output of the last */
    bool leaves;        /* the first place, in the middle */
    int64_t timeout_us; /* --queue-timeout */
    const char *fifth;  /* newer fields of each fifth request, and of others; */
    const char *others; /* NULL: none */
};

/* The output of the last request comes after its prompt.  Its newest token is
 * not computed. */
static uint32_t prompt_of(const struct script *s, uint32_t i)
{
    return s->turns ? s->n_prompt + i * (s->length + 64) : s->n_prompt;
}

static void write_requests(FILE *f, const struct script *s, uint32_t from,
                           uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const char *tenant = !s->heavy ? "-" : i % 5 == 0 ? "light" : "heavy";
        uint32_t shared = s->turns && i > 0 ? (prompt_of(s, i) - 65) /
                                                  PREFIX_UNIT * PREFIX_UNIT
                                            : 0;

        fprintf(f, "a %u %u tiny %s %u %u 1 0 1 %u %u%s\n", i * s->gap_us,
                i + 1, tenant, prompt_of(s, i), s->max_tokens,
                shared > 0 ? i : 0, shared,
                s->fifth == NULL ? ""
                : i % 5 == 0     ? s->fifth
                                 : s->others);
    }
}

static struct recording *scripted(const struct script *s)
{
    struct memory_sink m = {.text = NULL};
    FILE *f = m.to = open_memstream(&m.text, &m.n);
    uint32_t end = s->n_requests * s->gap_us, half = s->n_requests / 2;

    assert_non_null(f);
    fprintf(f, RECORD_FIRST_LINE "\no 0 %s 1000 %lld 10000000 4096 4096 0 0\n",
            s->strict ? "strict" : "expected", (long long)s->timeout_us);
    for (uint32_t i = 1; i <= s->n_places; i++) {
        fprintf(f, "p 0 %u w%u tiny 1 32 1 1 %u 64 20000 64 0 0 0\n", i, i,
                s->pages);
        fprintf(f, "c 0 %u 8000000 200000 20000 512\n", i);
    }
    write_requests(f, s, 0, half);
    if (s->leaves) {
        fprintf(f, "x %u 1\n", half * s->gap_us);
    }
    write_requests(f, s, half, s->n_requests);
    for (uint32_t i = 0; i < s->n_requests; i++) {
        uint32_t n =
            s->turns ? s->length : s->length / 2 + i * 37 % (s->length + 1);

        fprintf(f, "e %u %u 0 %u stop\n", end, i + 1, n);
    }
    return read_back(&m);
}

static struct replay_figures all_of(const struct recording *r,
                                    const struct replay_options *o,
                                    struct replay_figures *tenants)
{
    static struct replay_figures f[1 + REPLAY_TENANTS_MAX];
    struct replay_run run;
    struct error e;
    uint32_t n;

    assert_int_equal(replay_run(&run, r, o, &e), ST_OK);
    n = replay_figures(f, r, &run, 1000000);
    replay_run_fini(&run);
    for (uint32_t i = 0; tenants != NULL && i < n; i++) {
        tenants[i] = f[i];
    }
    print_message(
        "%u requests, %u refused, %u finished, %u cancelled, %u "
        "failed, %llu suspensions, queue p50 %.3f p99 %.3f, first "
        "p50 %.3f p99 %.3f, restored %llu, %.1f tokens/s\n",
        f[0].n_requests, f[0].n_refused, f[0].n_finished, f[0].n_cancelled,
        f[0].n_failed, (unsigned long long)f[0].n_suspensions,
        (double)f[0].queue.p50_us / 1e6, (double)f[0].queue.p99_us / 1e6,
        (double)f[0].first.p50_us / 1e6, (double)f[0].first.p99_us / 1e6,
        (unsigned long long)f[0].n_restored,
        (double)f[0].n_tokens * 1e6 / (double)f[0].us);
    return f[0];
}

static const struct script busy = {.n_places = 1,
                                   .pages = 160,
                                   .n_requests = 300,
                                   .gap_us = 60000,
                                   .n_prompt = 128,
                                   .max_tokens = 512,
                                   .length = 100,
                                   .strict = true};

static void twice_the_pages_or_workers_wait_less(void **state)
{
    struct recording *r = scripted(&busy);
    struct replay_options o = replay_as_recorded(r);
    struct replay_figures was = all_of(r, &o, NULL), more;

    (void)state;
    assert_int_equal(was.n_finished, busy.n_requests);
    o.pages = 2 * busy.pages;
    more = all_of(r, &o, NULL);
    assert_true(more.queue.p50_us * 2 < was.queue.p50_us);
    assert_true(more.first.p99_us < was.first.p99_us);
    assert_int_equal(more.n_tokens, was.n_tokens);
    o.pages = 0;
    o.n_workers = 2;
    more = all_of(r, &o, NULL);
    assert_true(more.queue.p50_us * 2 < was.queue.p50_us);
    recording_free(&r);
}

static void expected_lengths_wait_less_than_strict_ones(void **state)
{
    struct recording *r = scripted(&busy);
    struct replay_options o = replay_as_recorded(r);
    struct replay_figures strict = all_of(r, &o, NULL), expected;

    (void)state;
    assert_int_equal(strict.n_suspensions, 0);
    o.router.strict = false;
    expected = all_of(r, &o, NULL);
    assert_int_equal(expected.n_finished, busy.n_requests);
    assert_true(expected.queue.p50_us * 2 < strict.queue.p50_us);
    assert_int_equal(expected.n_tokens, strict.n_tokens);
    recording_free(&r);
}

/* All outputs become longer than those that were learned. */
static void sequences_are_suspended_and_come_back(void **state)
{
    struct script s = busy;
    struct recording *r;
    struct replay_options o;
    struct replay_figures f;

    (void)state;
    s.strict = false;
    s.pages = 64;
    s.gap_us = 20000;
    s.n_requests = 60;
    s.length = 600;
    s.max_tokens = 1200;
    r = scripted(&s);
    o = replay_as_recorded(r);
    o.router.suspensions = 500000;
    f = all_of(r, &o, NULL);
    assert_int_equal(f.n_finished, s.n_requests);
    assert_true(f.n_suspensions > 0 && f.n_suspended > 0);
    recording_free(&r);
}

/* The same, each with its whole need. */
static void guaranteed_ones_are_never_suspended(void **state)
{
    struct script s = busy;
    struct recording *r;
    struct replay_options o;
    struct replay_figures f;

    (void)state;
    s.strict = false;
    s.pages = 64;
    s.gap_us = 20000;
    s.n_requests = 60;
    s.length = 600;
    s.max_tokens = 1200;
    s.fifth = s.others = " default 1 -";
    r = scripted(&s);
    o = replay_as_recorded(r);
    o.router.suspensions = 500000;
    f = all_of(r, &o, NULL);
    assert_int_equal(f.n_finished, s.n_requests);
    assert_int_equal(f.n_suspensions, 0);
    recording_free(&r);
}

/* Returns the mean wait of each fifth request, or of the others. */
static int64_t mean_wait(const struct recording *r,
                         const struct replay_options *o, bool fifth)
{
    struct replay_run run;
    struct error e;
    int64_t sum = 0;
    uint32_t n = 0;

    assert_int_equal(replay_run(&run, r, o, &e), ST_OK);
    for (uint32_t i = 0; i < r->n_requests; i++) {
        if ((i % 5 == 0) == fifth) {
            sum += run.choices[i].granted_us - r->requests[i].at_us;
            n++;
        }
    }
    replay_run_fini(&run);
    return sum / n;
}

static void urgent_ones_go_first_but_for_fifo(void **state)
{
    struct script s = busy;
    struct recording *r;
    struct replay_options o;

    (void)state;
    s.fifth = " priority 0 chat";
    s.others = " flex 0 batch";
    r = scripted(&s);
    o = replay_as_recorded(r);
    assert_true(mean_wait(r, &o, true) * 5 < mean_wait(r, &o, false));
    o.policy = REPLAY_FIFO;
    assert_true(mean_wait(r, &o, true) * 5 > mean_wait(r, &o, false) * 4);
    recording_free(&r);
}

static void a_light_tenant_waits_less_if_tenants_take_turns(void **state)
{
    struct replay_figures fair[1 + REPLAY_TENANTS_MAX];
    struct replay_figures fifo[1 + REPLAY_TENANTS_MAX];
    const struct named_number weights[] = {{"heavy", 50}};
    struct replay_figures heavy[1 + REPLAY_TENANTS_MAX];
    struct script s = busy;
    struct recording *r;
    struct replay_options o;

    (void)state;
    s.heavy = true;
    r = scripted(&s);
    o = replay_as_recorded(r);
    (void)all_of(r, &o, fair);
    o.policy = REPLAY_FIFO;
    (void)all_of(r, &o, fifo);
    o.policy = REPLAY_FAIR;
    o.weights = weights;
    o.n_weights = 1;
    (void)all_of(r, &o, heavy);
    assert_string_equal(fair[1].tenant, "light");
    assert_string_equal(fair[2].tenant, "heavy");
    assert_true(fair[1].queue.p50_us * 2 < fifo[1].queue.p50_us);
    assert_true(fair[1].queue.p50_us < heavy[1].queue.p50_us);
    assert_int_equal(fair[1].n_requests + fair[2].n_requests, s.n_requests);
    recording_free(&r);
}

static void a_time_limit_refuses(void **state)
{
    struct script s = busy;
    struct recording *r;
    struct replay_options o;
    struct replay_figures f;

    (void)state;
    r = scripted(&s);
    o = replay_as_recorded(r);
    o.router.queue_timeout_us = 1000000;
    f = all_of(r, &o, NULL);
    assert_true(f.n_refused > 0);
    assert_int_equal(f.n_refused + f.n_finished, s.n_requests);
    assert_true(f.queue.p99_us <= 1000000);
    recording_free(&r);
}

/* The next turn of a conversation begins with the output of the last. */
static void outputs_are_restored(void **state)
{
    const struct script s = {.n_places = 1,
                             .pages = 2000,
                             .n_requests = 20,
                             .gap_us = 5000000,
                             .n_prompt = 128,
                             .max_tokens = 512,
                             .length = 128,
                             .turns = true};
    struct recording *r = scripted(&s);
    struct replay_options o = replay_as_recorded(r);
    struct replay_figures f = all_of(r, &o, NULL);
    uint64_t shared = 0;

    (void)state;
    for (uint32_t i = 0; i < r->n_requests; i++) {
        shared += r->requests[i].shared;
    }
    assert_true(shared > 0);
    assert_int_equal(f.n_finished, s.n_requests);
    assert_int_equal(f.n_restored, shared);
    o.pages = 90; /* the prefixes do not stay */
    assert_true(all_of(r, &o, NULL).n_restored < shared);
    recording_free(&r);
}

static void a_place_that_leaves_loses_nothing(void **state)
{
    struct script s = busy;
    struct recording *r;
    struct replay_options o;
    struct replay_figures f;

    (void)state;
    s.n_places = 2;
    s.leaves = true;
    r = scripted(&s);
    o = replay_as_recorded(r);
    f = all_of(r, &o, NULL);
    assert_int_equal(f.n_finished, s.n_requests);
    recording_free(&r);
}

/* A replay can be recorded and replayed, and replays are all alike. */
static void a_replay_is_recorded_and_replayed(void **state)
{
    struct script s = busy;
    struct memory_sink m;
    struct recording *r, *again;
    struct replay_options o;
    struct replay_figures first, second, third, said;
    struct replay_run run;
    static struct replay_figures f[1 + REPLAY_TENANTS_MAX];

    (void)state;
    s.strict = false;
    r = scripted(&s);
    o = replay_as_recorded(r);
    first = all_of(r, &o, NULL);
    o.recorder = begin(&m);
    second = all_of(r, &o, NULL);
    recorder_free(&o.recorder);
    assert_memory_equal(&first, &second, sizeof first);
    again = read_back(&m);
    replay_recorded(&run, again);
    (void)replay_figures(f, again, &run, 1000000);
    replay_run_fini(&run);
    said = f[0];
    assert_int_equal(said.queue.p50_us, first.queue.p50_us);
    assert_int_equal(said.queue.p99_us, first.queue.p99_us);
    assert_int_equal(said.first.p99_us, first.first.p99_us);
    assert_int_equal(said.n_tokens, first.n_tokens);
    assert_int_equal(said.n_suspensions, first.n_suspensions);
    third = all_of(again, &o, NULL);
    assert_int_equal(third.n_tokens, first.n_tokens);
    near(third.first.p50_us, first.first.p50_us, 10);
    recording_free(&again);
    recording_free(&r);
}

static void nothing_to_replay_is_refused(void **state)
{
    struct script s = busy;
    struct recording *r;
    struct replay_options o;
    struct replay_run run;
    struct error e;

    (void)state;
    s.n_requests = 0;
    r = scripted(&s);
    o = replay_as_recorded(r);
    assert_int_equal(replay_run(&run, r, &o, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "no request"));
    recording_free(&r);
    s = busy;
    s.n_places = 0;
    r = scripted(&s);
    assert_int_equal(replay_run(&run, r, &o, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "no place"));
    recording_free(&r);
    r = scripted(&busy);
    o = replay_as_recorded(r);
    o.n_workers = REPLAY_WORKERS_MAX + 1;
    assert_int_equal(replay_run(&run, r, &o, &e), ST_INVALID_ARGUMENT);
    recording_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_options_give_the_same_run),
        cmocka_unit_test(twice_the_pages_or_workers_wait_less),
        cmocka_unit_test(expected_lengths_wait_less_than_strict_ones),
        cmocka_unit_test(sequences_are_suspended_and_come_back),
        cmocka_unit_test(guaranteed_ones_are_never_suspended),
        cmocka_unit_test(urgent_ones_go_first_but_for_fifo),
        cmocka_unit_test(a_light_tenant_waits_less_if_tenants_take_turns),
        cmocka_unit_test(a_time_limit_refuses),
        cmocka_unit_test(outputs_are_restored),
        cmocka_unit_test(a_place_that_leaves_loses_nothing),
        cmocka_unit_test(a_replay_is_recorded_and_replayed),
        cmocka_unit_test(nothing_to_replay_is_refused),
    };

    log_setup(getenv("REPLAY_LOG") != NULL ? LOG_WARN : LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

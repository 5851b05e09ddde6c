/* Plans: shares, loads, traces and datasets, profiles, and refusals. */
#include "client/load/plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/load/plan/dataset.h"
#include "client/load/plan/trace.h"
#include "plan_fixture.h"
#include "tests/unit/cmocka.h"

#define SECOND INT64_C(1000000)

static const char csv[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                          "10,100,10\n11,200,20\n11.5,400,40\n14,800,80\n";
static const char mooncake[] =
    "{\"timestamp\":0,\"input_length\":1100,\"output_length\":10,"
    "\"hash_ids\":[1,2,3]}\n"
    "{\"timestamp\":1000,\"input_length\":1500,\"output_length\":10,"
    "\"hash_ids\":[1,2,4]}\n"
    "{\"timestamp\":2000,\"input_length\":600,\"output_length\":10,"
    "\"hash_ids\":[9]}\n";
static const char rows[] = "{\"prompt\":\"one\",\"max_tokens\":5}\n"
                           "{\"token_ids\":[1,2,3,4]}\n"
                           "{\"conversations\":["
                           "{\"from\":\"human\",\"value\":\"a\"},"
                           "{\"from\":\"human\",\"value\":\"b\"},"
                           "{\"from\":\"human\",\"value\":\"c\"}]}\n";

static int remove_files(void **state)
{
    (void)state;
    fixture_fini();
    return 0;
}

/* ---- shares ---- */

struct seen {
    uint64_t sum;
    int64_t due_us;
};

/* Fills seen[] by number, and returns the sessions of all shares. */
static uint64_t see(const struct plan_options *all, uint32_t n_shares,
                    struct seen *seen, uint64_t n)
{
    uint64_t total = 0;

    for (uint32_t share = 0; share < n_shares; share++) {
        struct plan_options o = *all;
        struct plan_session *s;
        struct plan *p;
        int64_t last = INT64_MIN;

        o.share = share;
        o.n_shares = n_shares;
        p = fixture_plan(&o);
        while (total < n && (s = fixture_next(p)) != NULL) {
            assert_true(s->number < n);
            assert_int_equal(s->number % n_shares, share);
            assert_int_equal(seen[s->number].sum, 0);
            assert_true(s->due_us >= last);
            last = s->due_us;
            seen[s->number] = (struct seen){fixture_sum(s), s->due_us};
            total++;
        }
        plan_free(&p);
    }
    return total;
}

/* Expects that the union of shares is the whole, in order of due time. */
static void shares_agree(const struct plan_options *o, uint64_t n)
{
    struct seen *whole = calloc(n + 1, sizeof *whole);

    assert_non_null(whole);
    assert_int_equal(see(o, 1, whole, n + 1), n);
    for (uint64_t i = 1; i < n; i++) {
        assert_true(whole[i].due_us >= whole[i - 1].due_us);
    }
    for (uint32_t n_shares = 2; n_shares <= 64; n_shares = 3 * n_shares + 1) {
        struct seen *parts = calloc(n + 1, sizeof *parts);

        assert_non_null(parts);
        assert_int_equal(see(o, n_shares, parts, n + 1), n);
        assert_memory_equal(parts, whole, n * sizeof *whole);
        free(parts);
    }
    free(whole);
}

static void the_union_of_shares_is_the_whole(void **state)
{
    struct plan_options o = {.rate = "5..500/5s",
                             .arrivals = "gamma:2",
                             .bursts = "100x1s/3s",
                             .n_requests = 1000,
                             .prompt = "lognormal:500,1",
                             .output = "exp:50",
                             .prefix = "100x7",
                             .turns = "1..6",
                             .turn_think = "exp:1s",
                             .branches = "0.3x2",
                             .n_variants = 77,
                             .seed = 5};

    (void)state;
    shares_agree(&o, 1000);
    o = (struct plan_options){
        .concurrency = 10, .think = "exp:1s", .n_requests = 500, .seed = 1};
    shares_agree(&o, 500);
    o = (struct plan_options){.trace = fixture_file(mooncake)};
    shares_agree(&o, 3);
    o = (struct plan_options){
        .dataset = fixture_file(rows), .rate = "7", .n_requests = 50};
    shares_agree(&o, 50);
}

static uint64_t sum_of(const struct plan_options *o)
{
    struct plan *p = fixture_plan(o);
    struct plan_session *s;
    uint64_t sum = 0;

    while ((s = fixture_next(p)) != NULL) {
        sum = sum * 31 + fixture_sum(s);
    }
    plan_free(&p);
    return sum;
}

static void a_plan_is_a_function_of_options_and_seed(void **state)
{
    struct plan_options o = {
        .rate = "10", .n_requests = 100, .prompt = "1..99", .seed = 1};
    uint64_t first = sum_of(&o);

    (void)state;
    assert_true(sum_of(&o) == first);
    o.seed = 2;
    assert_true(sum_of(&o) != first);
}

static void a_restart_equals_a_new_plan(void **state)
{
    struct plan_options o = {.rate = "10", .n_requests = 100, .seed = 3};
    struct plan_options other = {.concurrency = 5, .seed = 9};
    uint64_t want = sum_of(&o), got = 0;
    struct plan *p = fixture_plan(&other);
    struct plan_session *s;
    struct error e = {0};

    (void)state;
    assert_non_null(fixture_next(p));
    assert_int_equal(plan_restart(p, &o, &e), ST_OK);
    while ((s = fixture_next(p)) != NULL) {
        got = got * 31 + fixture_sum(s);
    }
    assert_true(got == want);
    o.trace = "/nowhere";
    assert_int_equal(plan_restart(p, &o, &e), ST_INVALID_ARGUMENT);
    o = (struct plan_options){0};
    assert_int_equal(plan_restart(p, &o, &e), ST_INVALID_ARGUMENT);
    plan_free(&p);
}

static void what_is_not_used_is_not_written(void **state)
{
    struct plan_options o = {.rate = "10"};
    struct plan *p = fixture_plan(&o);
    struct plan_session *s = malloc(sizeof *s);

    (void)state;
    assert_non_null(s);
    memset(s, 0xa5, sizeof *s);
    assert_true(plan_next(p, s));
    assert_int_equal(s->n_turns, 1);
    assert_int_equal(s->n_pieces, 1);
    for (const uint8_t *b = (const uint8_t *)&s->pieces[1];
         b < (const uint8_t *)(s + 1); b++) {
        assert_int_equal(*b, 0xa5);
    }
    free(s);
    plan_free(&p);
}

/* ---- loads ---- */

static uint64_t length(const struct plan_options *o, int64_t *last_us)
{
    struct plan *p = fixture_plan(o);
    struct plan_session *s;
    uint64_t n = 0;

    while ((s = fixture_next(p)) != NULL) {
        *last_us = s->due_us;
        n++;
    }
    plan_free(&p);
    return n;
}

static void a_plan_ends_at_its_requests_or_duration(void **state)
{
    struct plan_options o = {
        .rate = "10", .arrivals = "constant", .duration_us = 30 * SECOND};
    int64_t last;

    (void)state;
    assert_int_equal(length(&o, &last), 300);
    assert_int_equal(last, 29900000);
    o.n_requests = 299;
    assert_int_equal(length(&o, &last), 299);
    o.n_requests = 301;
    assert_int_equal(length(&o, &last), 300);
}

static void a_search_sets_the_rate(void **state)
{
    struct plan_options o = {.rate = "10",
                             .arrivals = "constant",
                             .duration_us = 30 * SECOND,
                             .rate_factor = 1.5};
    int64_t last;

    (void)state;
    assert_int_equal(length(&o, &last), 450);
    o.rate_factor = 0;
    o.rate_fixed = 3;
    assert_int_equal(length(&o, &last), 90);
    o.rate = NULL;
    assert_int_equal(length(&o, &last), 90);
}

static void a_closed_loop_has_slots_and_pauses(void **state)
{
    struct plan_options o = {.concurrency = 10, .think = "5s", .n_shares = 4};
    uint32_t total = 0;

    (void)state;
    for (o.share = 0; o.share < 4; o.share++) {
        struct plan *p = fixture_plan(&o);
        uint32_t n_slots;

        assert_true(plan_is_closed(p, &n_slots));
        total += n_slots;
        for (int i = 0; i < 10; i++) {
            const struct plan_session *s = fixture_next(p);

            assert_int_equal(s->due_us, PLAN_CLOSED);
            assert_int_equal(s->think_us, s->number < 10 ? 0 : 5 * SECOND);
        }
        plan_free(&p);
    }
    assert_int_equal(total, 10);
}

static void an_open_loop_is_not_closed(void **state)
{
    struct plan_options o = {.rate = "1"};
    struct plan *p = fixture_plan(&o);
    uint32_t n_slots;

    (void)state;
    assert_false(plan_is_closed(p, &n_slots));
    plan_free(&p);
}

static void contents_repeat_after_n_variants(void **state)
{
    struct plan_options o = {
        .rate = "10", .prompt = "1..9999", .n_variants = 3};
    struct plan *p = fixture_plan(&o);
    struct plan_piece first[3];

    (void)state;
    for (uint32_t i = 0; i < 30; i++) {
        const struct plan_session *s = fixture_next(p);

        assert_int_equal(s->content, i % 3);
        if (i < 3) {
            first[i] = s->pieces[0];
        }
        assert_memory_equal(&first[i % 3], &s->pieces[0], sizeof first[0]);
    }
    assert_true(first[0].seed != first[1].seed);
    plan_free(&p);
}

/* ---- traces ---- */

static void a_trace_is_replayed_at_its_speed(void **state)
{
    static const int64_t due[] = {0, 500000, 750000, 2000000};
    struct plan_options o = {.trace = fixture_file(csv), .trace_speed = 2};
    struct plan *p = fixture_plan(&o);
    struct plan_session *s;

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        s = fixture_next(p);
        assert_int_equal(s->due_us, due[i]);
        assert_int_equal(s->turns[0].n_new, 100u << i);
        assert_int_equal(s->turns[0].max_tokens, 10u << i);
        assert_int_equal(s->n_pieces, 1);
        assert_int_equal(s->pieces[0].n, 100u << i);
    }
    assert_null(fixture_next(p));
    plan_free(&p);
}

static void equal_blocks_are_equal_pieces(void **state)
{
    struct plan_options o = {.trace = fixture_file(mooncake)};
    struct plan *p = fixture_plan(&o);
    struct plan_piece a[3];
    struct plan_session *s = fixture_next(p);

    (void)state;
    assert_int_equal(s->n_pieces, 3);
    memcpy(a, s->pieces, sizeof a);
    assert_int_equal(a[0].n + a[1].n + a[2].n, 1100);
    assert_int_equal(a[2].n, 76);
    s = fixture_next(p);
    assert_memory_equal(s->pieces, a, 2 * sizeof a[0]);
    assert_true(s->pieces[2].seed != a[2].seed);
    assert_int_equal(s->pieces[2].n, 476);
    s = fixture_next(p); /* 512 tokens of block 9, and 88 of its own */
    assert_int_equal(s->n_pieces, 2);
    assert_int_equal(s->pieces[0].n, 512);
    assert_int_equal(s->pieces[1].n, 88);
    plan_free(&p);
}

static void shared_blocks_stay_shared_when_scaled(void **state)
{
    static const double scales[] = {0.5, 0.1, 0.01, 0.0031, 3.7};

    (void)state;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        struct plan_options o = {.trace = fixture_file(mooncake),
                                 .trace_scale = scales[i]};
        struct plan *p = fixture_plan(&o);
        struct plan_session *s = fixture_next(p);
        uint32_t sum = 0;
        struct plan_piece first = s->pieces[0];

        for (uint32_t k = 0; k < s->n_pieces; k++) {
            assert_true(s->pieces[k].n > 0);
            sum += s->pieces[k].n;
        }
        assert_int_equal(sum, (uint32_t)(1100 * scales[i]));
        assert_int_equal(sum, s->turns[0].n_new);
        s = fixture_next(p);
        assert_memory_equal(&first, &s->pieces[0], sizeof first);
        plan_free(&p);
    }
    fixture_fini();
}

static void a_trace_fits_the_context(void **state)
{
    struct plan_options o = {.trace = fixture_file(csv), .context_max = 220};
    struct plan *p = fixture_plan(&o);

    (void)state;
    assert_non_null(
        strstr(plan_text(p), "scaled to 0.25 to fit a context of 220 tokens"));
    assert_int_equal(fixture_next(p)->turns[0].n_new, 25);
    plan_free(&p);
    for (o.context_max = 2; o.context_max < 1000; o.context_max++) {
        const struct plan_session *s;

        p = fixture_plan(&o);
        while ((s = fixture_next(p)) != NULL) {
            assert_true(s->turns[0].n_new >= 1 && s->turns[0].max_tokens >= 1);
            assert_true(s->turns[0].n_new + s->turns[0].max_tokens <=
                        o.context_max);
            assert_int_equal(s->pieces[0].n, s->turns[0].n_new);
        }
        plan_free(&p);
    }
}

static void a_trace_with_a_rate_gives_lengths_again_and_again(void **state)
{
    struct plan_options o = {.trace = fixture_file(csv),
                             .rate = "10",
                             .arrivals = "constant",
                             .n_requests = 10};
    struct plan *p = fixture_plan(&o);
    uint64_t seeds[10];

    (void)state;
    for (uint32_t i = 0; i < 10; i++) {
        const struct plan_session *s = fixture_next(p);

        assert_int_equal(s->due_us, i * 100000);
        assert_int_equal(s->turns[0].n_new, 100u << i % 4);
        seeds[i] = s->pieces[0].seed;
    }
    assert_true(seeds[0] != seeds[4]); /* tokens of its own each time */
    plan_free(&p);
}

/* ---- datasets ---- */

static void a_dataset_gives_its_rows_in_turn(void **state)
{
    struct plan_options o = {
        .dataset = fixture_file(rows), .rate = "10", .output = "77"};
    struct plan *p = fixture_plan(&o);
    const struct plan_session *s = fixture_next(p);

    (void)state;
    assert_string_equal(s->turns[0].entry->text, "one");
    assert_int_equal(s->turns[0].max_tokens, 5);
    s = fixture_next(p);
    assert_int_equal(s->turns[0].entry->n_ids, 4);
    assert_int_equal(s->turns[0].n_new, 0);
    assert_int_equal(s->turns[0].max_tokens, 77);
    s = fixture_next(p);
    assert_int_equal(s->n_turns, 3);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(s->turns[i].parent, i - 1);
        assert_int_equal(s->turns[i].n_pieces, 0);
    }
    assert_string_equal(s->turns[2].entry->text, "c");
    assert_string_equal(fixture_next(p)->turns[0].entry->text, "one");
    plan_free(&p);
}

static void turns_bound_those_of_a_dataset(void **state)
{
    struct plan_options o = {
        .dataset = fixture_file(rows), .rate = "10", .turns = "2"};
    struct plan *p = fixture_plan(&o);

    (void)state;
    assert_int_equal(fixture_next(p)->n_turns, 1);
    assert_int_equal(fixture_next(p)->n_turns, 1);
    assert_int_equal(fixture_next(p)->n_turns, 2);
    plan_free(&p);
}

static void rows_that_exceed_the_context_are_left_out(void **state)
{
    const char *ids = fixture_file("{\"token_ids\":[1,2,3,4]}\n"
                                   "{\"token_ids\":[1,2,3,4,5]}\n");
    struct plan_options o = {.dataset = ids, .rate = "1", .context_max = 5};
    struct plan *p = fixture_plan(&o);

    (void)state;
    assert_non_null(strstr(plan_text(p), "1 of them exceed the context of 5"));
    for (int i = 0; i < 3; i++) {
        const struct plan_session *s = fixture_next(p);

        assert_int_equal(s->turns[0].entry->n_ids, 4);
        assert_int_equal(s->turns[0].max_tokens, 1);
    }
    plan_free(&p);
    o.context_max = 4;
    fixture_refused(&o, "no row of the dataset fits a context of 4 tokens");
}

/* ---- profiles ---- */

static void every_profile_makes_a_plan(void **state)
{
    (void)state;
    for (const struct plan_profile *f = plan_profiles; f->name != NULL; f++) {
        struct plan_options o = {.profile = f->name, .context_max = 4096};
        struct plan *p = fixture_plan(&o);

        assert_non_null(fixture_next(p));
        assert_non_null(f->summary);
        plan_free(&p);
    }
}

static void a_long_prompt_is_scaled_to_the_context_and_says_so(void **state)
{
    struct plan_options o = {.profile = "long", .context_max = 4096};
    struct plan *p = fixture_plan(&o);
    const struct plan_session *s = fixture_next(p);

    (void)state;
    assert_non_null(strstr(plan_text(p), "scaled to 0.246 to fit a context of "
                                         "4096 tokens"));
    assert_int_equal(s->turns[0].n_new, 16384u * 4096 / 16640);
    plan_free(&p);
}

static void options_override_a_profile(void **state)
{
    struct plan_options o = {.profile = "burst", .output = "5", .rate = "77"};
    struct error e;

    (void)state;
    assert_int_equal(plan_profile_apply(&o, &e), ST_OK);
    assert_null(o.profile);
    assert_string_equal(o.output, "5");
    assert_string_equal(o.rate, "77");
    assert_string_equal(o.prompt, "512");
    assert_null(o.bursts); /* of the profile's rate */

    o = (struct plan_options){.profile = "burst", .rate_fixed = 2};
    assert_int_equal(plan_profile_apply(&o, &e), ST_OK);
    assert_non_null(o.rate);
    assert_non_null(o.bursts);

    o = (struct plan_options){.profile = "burst", .concurrency = 4};
    assert_int_equal(plan_profile_apply(&o, &e), ST_OK);
    assert_null(o.rate);
    assert_null(o.bursts);

    o = (struct plan_options){.profile = "agent", .dataset = "x"};
    assert_int_equal(plan_profile_apply(&o, &e), ST_OK);
    assert_null(o.turns);
    assert_null(o.prefix);
    assert_null(o.branches);
    assert_non_null(o.rate);
}

static void an_unknown_profile_is_refused_with_the_nearest(void **state)
{
    struct plan_options o = {.profile = "chatt"};

    (void)state;
    fixture_refused(&o, "--profile \"chatt\" is unknown; give chat");
    o.profile = "zzzzzz";
    fixture_refused(&o, "give chat, long, burst, agent or trace:FILE");
}

/* ---- refusals ---- */

static void a_plan_needs_one_load(void **state)
{
    (void)state;
    fixture_refused(&(struct plan_options){0}, "no load is given");
    fixture_refused(&(struct plan_options){.rate = "1", .concurrency = 1},
                    "exclude each other");
    fixture_refused(
        &(struct plan_options){.concurrency = 1, .bursts = "1x1s/2s"},
        "--bursts needs --rate");
    fixture_refused(&(struct plan_options){.rate = "1", .rate_factor = NAN},
                    "rate");
    fixture_refused(&(struct plan_options){.rate = "1", .rate_fixed = -1},
                    "rate");
    fixture_refused(
        &(struct plan_options){.rate = "1", .share = 2, .n_shares = 2},
        "share");
    fixture_refused(&(struct plan_options){.rate = "x"}, "--rate");
    fixture_refused(&(struct plan_options){.rate = "1", .arrivals = "x"},
                    "--arrivals");
    fixture_refused(&(struct plan_options){.rate = "1", .duration_us = -1},
                    "--duration");
}

static void contents_exclude_each_other(void **state)
{
    const char *trace = fixture_file(csv), *data = fixture_file(rows);

    (void)state;
    fixture_refused(&(struct plan_options){.trace = trace, .dataset = data},
                    "exclude each other");
    fixture_refused(&(struct plan_options){.trace = trace, .turns = "2"},
                    "omit --turns");
    fixture_refused(
        &(struct plan_options){.dataset = data, .rate = "1", .prefix = "2"},
        "omit --branches and --prefix");
    fixture_refused(&(struct plan_options){.trace = trace, .trace_scale = -1},
                    "--trace-scale");
}

static void files_that_cannot_be_read_are_named(void **state)
{
    struct plan_options o = {.trace = "/nowhere/x.csv"};
    struct plan *p;
    struct error e = {0};

    (void)state;
    assert_int_equal(plan_new(&p, &o, &e), ST_NOT_FOUND);
    assert_null(p);
    assert_non_null(strstr(e.text, "trace \"/nowhere/x.csv\""));
    o = (struct plan_options){.dataset = "/nowhere/y", .rate = "1"};
    assert_int_equal(plan_new(&p, &o, &e), ST_NOT_FOUND);
    assert_non_null(strstr(e.text, "dataset \"/nowhere/y\""));
    o.dataset = fixture_file("{\"prompt\":\"a\"}\n{}\n");
    fixture_refused(&o, "line 2");
}

static void a_prompt_of_a_trace_has_the_most_pieces(void **state)
{
    char *text = malloc(4 * PLAN_PIECES_MAX + 100);
    struct plan_options o = {0};
    const struct plan_session *s;
    struct plan *p;

    (void)state;
    assert_non_null(text);
    strcpy(text, "{\"timestamp\":1,\"input_length\":2097152,"
                 "\"output_length\":1,\"hash_ids\":[0");
    for (char *at = text + strlen(text), *end = at + 2 * PLAN_PIECES_MAX;
         at < end; at += 2) {
        memcpy(at, ",1", 3); /* one more than the prompt has */
    }
    strcat(text, "]}");
    o.trace = fixture_file(text);
    free(text);
    p = fixture_plan(&o);
    s = fixture_next(p);
    assert_int_equal(s->n_pieces, PLAN_PIECES_MAX);
    assert_int_equal(s->pieces[PLAN_PIECES_MAX - 1].n, TRACE_BLOCK);
    plan_free(&p);
}

static void files_have_limits(void **state)
{
    const char *path = fixture_file("");
    struct plan_options o = {.trace = path};

    (void)state;
    assert_int_equal(truncate(path, (off_t)TRACE_BYTES_MAX + 1), 0);
    fixture_refused(&o, "1073741825 bytes long, at most 1073741824");
    assert_int_equal(truncate(path, (off_t)DATASET_BYTES_MAX + 1), 0);
    o = (struct plan_options){.dataset = path, .rate = "1"};
    fixture_refused(&o, "1073741825 bytes long, at most 1073741824");
}

static void a_scaled_trace_has_a_limit(void **state)
{
    struct plan_options o = {.trace = fixture_file("1,10000,6384\n"),
                             .trace_scale = 1024};
    struct plan *p = fixture_plan(&o);

    (void)state;
    plan_free(&p);
    o.trace_scale = 1024.1;
    fixture_refused(&o, "at most 16777216");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_union_of_shares_is_the_whole,
                                  remove_files),
        cmocka_unit_test(a_plan_is_a_function_of_options_and_seed),
        cmocka_unit_test(a_restart_equals_a_new_plan),
        cmocka_unit_test(what_is_not_used_is_not_written),
        cmocka_unit_test(a_plan_ends_at_its_requests_or_duration),
        cmocka_unit_test(a_search_sets_the_rate),
        cmocka_unit_test(a_closed_loop_has_slots_and_pauses),
        cmocka_unit_test(an_open_loop_is_not_closed),
        cmocka_unit_test(contents_repeat_after_n_variants),
        cmocka_unit_test_teardown(a_trace_is_replayed_at_its_speed,
                                  remove_files),
        cmocka_unit_test_teardown(equal_blocks_are_equal_pieces, remove_files),
        cmocka_unit_test_teardown(shared_blocks_stay_shared_when_scaled,
                                  remove_files),
        cmocka_unit_test_teardown(a_trace_fits_the_context, remove_files),
        cmocka_unit_test_teardown(
            a_trace_with_a_rate_gives_lengths_again_and_again, remove_files),
        cmocka_unit_test_teardown(a_dataset_gives_its_rows_in_turn,
                                  remove_files),
        cmocka_unit_test_teardown(turns_bound_those_of_a_dataset, remove_files),
        cmocka_unit_test_teardown(rows_that_exceed_the_context_are_left_out,
                                  remove_files),
        cmocka_unit_test(every_profile_makes_a_plan),
        cmocka_unit_test(a_long_prompt_is_scaled_to_the_context_and_says_so),
        cmocka_unit_test(options_override_a_profile),
        cmocka_unit_test(an_unknown_profile_is_refused_with_the_nearest),
        cmocka_unit_test(a_plan_needs_one_load),
        cmocka_unit_test_teardown(contents_exclude_each_other, remove_files),
        cmocka_unit_test_teardown(files_that_cannot_be_read_are_named,
                                  remove_files),
        cmocka_unit_test_teardown(a_prompt_of_a_trace_has_the_most_pieces,
                                  remove_files),
        cmocka_unit_test_teardown(files_have_limits, remove_files),
        cmocka_unit_test_teardown(a_scaled_trace_has_a_limit, remove_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Limits of a tenant over time, through keys_parse(). */
#include "gateway/keys/keys.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define SECOND INT64_C(1000000)
#define ZEROS  "0000000000000000"
#define HASH   ZEROS ZEROS ZEROS ZEROS
#define BEGIN  (1000 * SECOND)

/* Makes keys with one tenant that has the given limits. */
static struct keys *made(const char *limits)
{
    char text[KEYS_LINE_BYTES];
    struct keys *k;
    struct error e;

    snprintf(text, sizeof text, HASH " a %s", limits);
    assert_int_equal(keys_parse(&k, text, strlen(text), &e), ST_OK);
    return k;
}

static void first(void *arg, struct tenant *t)
{
    *(struct tenant **)arg = t;
}

static struct tenant *only(struct keys *k)
{
    struct tenant *t = NULL;

    keys_each_tenant(k, first, &t);
    assert_non_null(t);
    return t;
}

static void admits(struct tenant *t, int64_t now_us, uint64_t n_tokens)
{
    struct tenant_refusal r;

    assert_true(tenant_begin(t, now_us, n_tokens, &r));
}

static struct tenant_refusal refuses(struct tenant *t, int64_t now_us,
                                     uint64_t n_tokens)
{
    struct tenant_refusal r;

    assert_false(tenant_begin(t, now_us, n_tokens, &r));
    return r;
}

static void requests_are_admitted_up_to_the_limit(void **state)
{
    struct keys *k = made("requests=3/min");
    struct tenant *t = only(k);
    struct tenant_refusal r;

    (void)state;
    for (int i = 0; i < 3; i++) {
        admits(t, BEGIN, 10);
    }
    r = refuses(t, BEGIN, 10);
    assert_int_equal(r.limit, TENANT_REQUESTS);
    assert_int_equal(r.max, 3);
    assert_int_equal(r.used, 3);
    assert_int_equal(r.retry_after_ms, 20000);
    keys_free(&k);
}

static void a_request_fits_exactly_after_its_retry_time(void **state)
{
    struct keys *k = made("requests=7/min tokens=1001/min");
    struct tenant *t = only(k);
    int64_t now = BEGIN;

    (void)state;
    for (int i = 0; i < 100; i++) {
        struct tenant_refusal r;

        while (tenant_begin(t, now, 333, &r)) {
        }
        assert_true(r.retry_after_ms >= 1);
        refuses(t, now + ((int64_t)r.retry_after_ms - 1) * 1000, 333);
        now += (int64_t)r.retry_after_ms * 1000;
        admits(t, now, 333);
    }
    keys_free(&k);
}

static void an_hour_admits_the_bucket_and_sixty_refills(void **state)
{
    struct keys *k = made("requests=600/min");
    struct tenant *t = only(k);
    struct tenant_refusal r;
    int n = 0;

    (void)state;
    for (int64_t now = BEGIN; now <= BEGIN + 3600 * SECOND; now += 7919) {
        n += tenant_begin(t, now, 1, &r) ? 1 : 0;
    }
    assert_in_range(n, 600 + 60 * 600 - 1, 600 + 60 * 600);
    keys_free(&k);
}

static void a_long_pause_refills_one_bucket_only(void **state)
{
    struct keys *k = made("requests=2/min");
    struct tenant *t = only(k);

    (void)state;
    admits(t, BEGIN, 1);
    admits(t, INT64_MAX / 2, 1);
    admits(t, INT64_MAX / 2, 1);
    refuses(t, INT64_MAX / 2, 1);
    keys_free(&k);
}

static void
tokens_are_charged_at_the_begin_and_refunded_at_the_end(void **state)
{
    struct keys *k = made("tokens=1000/min");
    struct tenant *t = only(k);
    struct tenant_refusal r;

    (void)state;
    admits(t, BEGIN, 600);
    r = refuses(t, BEGIN, 401);
    assert_int_equal(r.limit, TENANT_TOKENS);
    assert_int_equal(r.used, 600);
    assert_int_equal(r.retry_after_ms, 60); /* one token of 1000 a minute */
    admits(t, BEGIN, 400);
    tenant_end(t, BEGIN, 600, 100);
    refuses(t, BEGIN, 501);
    admits(t, BEGIN, 500);
    keys_free(&k);
}

static void use_past_what_was_asked_is_charged(void **state)
{
    struct keys *k = made("tokens=1000/min");
    struct tenant *t = only(k);

    (void)state;
    admits(t, BEGIN, 100);
    tenant_end(t, BEGIN, 100, 300);
    refuses(t, BEGIN, 701);
    admits(t, BEGIN, 700);
    keys_free(&k);
}

static void a_request_past_the_bucket_waits_for_a_full_one(void **state)
{
    struct keys *k = made("tokens=1000/min");
    struct tenant *t = only(k);

    (void)state;
    admits(t, BEGIN, 1);
    assert_int_equal(refuses(t, BEGIN, 5000).retry_after_ms, 60);
    admits(t, BEGIN + 60000, 5000);
    /* In debt of 4000: four minutes until nothing is owed past the limit. */
    assert_int_equal(refuses(t, BEGIN + 60000, 1).used, 5000);
    refuses(t, BEGIN + 240 * SECOND + 60000, 1);
    admits(t, BEGIN + 240 * SECOND + 120000, 1);
    keys_free(&k);
}

static void huge_counts_saturate(void **state)
{
    struct keys *k = made("tokens=1000000000/min");
    struct tenant *t = only(k);
    struct tenant_refusal r;

    (void)state;
    admits(t, BEGIN, UINT64_MAX);
    r = refuses(t, BEGIN, 1);
    assert_true(r.retry_after_ms > 60000);
    tenant_end(t, BEGIN, 0, UINT64_MAX);
    assert_true(refuses(t, BEGIN, 1).used >= r.used);
    keys_free(&k);
}

static void streams_are_admitted_up_to_the_limit(void **state)
{
    struct keys *k = made("streams=2");
    struct tenant *t = only(k);
    struct tenant_refusal r;

    (void)state;
    admits(t, BEGIN, 1);
    admits(t, BEGIN, 1);
    r = refuses(t, BEGIN + 3600 * SECOND, 1);
    assert_int_equal(r.limit, TENANT_STREAMS);
    assert_int_equal(r.max, 2);
    assert_int_equal(r.used, 2);
    assert_int_equal(r.retry_after_ms, TENANT_STREAMS_RETRY_MS);
    tenant_end(t, BEGIN, 1, 1);
    admits(t, BEGIN, 1);
    assert_int_equal(tenant_streams(t), 2);
    keys_free(&k);
}

static void a_refusal_charges_nothing(void **state)
{
    struct keys *k = made("requests=10/min tokens=100/min streams=1");
    struct tenant *t = only(k);
    struct tenant_refusal use;

    (void)state;
    admits(t, BEGIN, 100);
    refuses(t, BEGIN, 1);
    tenant_end(t, BEGIN, 100, 100);
    refuses(t, BEGIN, 1);
    assert_true(tenant_use(t, BEGIN, TENANT_REQUESTS, &use));
    assert_int_equal(use.used, 1);
    keys_free(&k);
}

static void use_has_figures_for_headers(void **state)
{
    struct keys *k = made("requests=60/min streams=5");
    struct tenant *t = only(k);
    struct tenant_refusal use;

    (void)state;
    assert_false(tenant_use(t, BEGIN, TENANT_TOKENS, &use));
    assert_true(tenant_use(t, BEGIN, TENANT_REQUESTS, &use));
    assert_int_equal(use.used, 0);
    assert_int_equal(use.retry_after_ms, 0);
    admits(t, BEGIN, 9);
    admits(t, BEGIN, 9);
    assert_true(tenant_use(t, BEGIN + SECOND / 2, TENANT_REQUESTS, &use));
    assert_int_equal(use.max, 60);
    assert_int_equal(use.used, 2); /* 1.5, rounded up */
    assert_int_equal(use.retry_after_ms, 1500);
    assert_true(tenant_use(t, BEGIN, TENANT_STREAMS, &use));
    assert_int_equal(use.used, 2);
    assert_int_equal(use.retry_after_ms, TENANT_STREAMS_RETRY_MS);
    keys_free(&k);
}

static void time_that_steps_back_changes_nothing(void **state)
{
    struct keys *k = made("requests=1/min");
    struct tenant *t = only(k);

    (void)state;
    admits(t, BEGIN, 1);
    refuses(t, BEGIN - 3600 * SECOND, 1);
    refuses(t, BEGIN + 60 * SECOND - 1, 1);
    admits(t, BEGIN + 60 * SECOND, 1);
    keys_free(&k);
}

static void a_refusal_has_a_sentence(void **state)
{
    struct tenant_refusal r = {TENANT_TOKENS, 1000, 990, 4210};
    char text[200];

    (void)state;
    tenant_refusal_text(&r, text, sizeof text);
    assert_string_equal(text,
                        "990 of 1000 tokens a minute are used, and prompt plus "
                        "max_tokens do not fit; retry in 4.3 s");
    r = (struct tenant_refusal){TENANT_REQUESTS, 3, 3, 20000};
    tenant_refusal_text(&r, text, sizeof text);
    assert_string_equal(text,
                        "3 of 3 requests a minute are used; retry in 20.0 s");
    r = (struct tenant_refusal){TENANT_STREAMS, 2, 2, 1000};
    tenant_refusal_text(&r, text, sizeof text);
    assert_string_equal(text, "2 requests run, and this key allows 2 at once; "
                              "retry after one has ended");
}

static void guarantees_are_taken_up_to_their_number(void **state)
{
    struct keys *k = made("guaranteed=3");
    struct tenant *t = only(k);
    struct tenant_refusal r;
    char text[256];

    (void)state;
    admits(t, BEGIN, 1);
    assert_true(tenant_guarantee(t, 2, &r));
    assert_false(tenant_guarantee(t, 2, &r));
    assert_int_equal(r.limit, TENANT_GUARANTEED);
    assert_int_equal(r.used, 2);
    tenant_refusal_text(&r, text, sizeof text);
    assert_non_null(strstr(text, "2 guaranteed choices run"));
    assert_true(tenant_guarantee(t, 1, &r));
    assert_false(tenant_guarantee(t, 1, &r));
    assert_false(tenant_guarantee(t, UINT32_MAX, &r));
    assert_true(tenant_guarantee(t, 0, &r));
    tenant_release(t, 2);
    assert_true(tenant_guarantee(t, 2, &r));
    tenant_release(t, 3);
    tenant_end(t, BEGIN, 1, 1);
    keys_free(&k);
}

static void a_tenant_without_guarantees_has_none(void **state)
{
    struct keys *k = made("streams=5");
    struct tenant *t = only(k);
    struct tenant_refusal r;
    char text[256];

    (void)state;
    assert_true(tenant_guarantee(t, 0, &r));
    assert_false(tenant_guarantee(t, 1, &r));
    assert_int_equal(r.max, 0);
    tenant_refusal_text(&r, text, sizeof text);
    assert_non_null(strstr(text, "guaranteed=N"));
    keys_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guarantees_are_taken_up_to_their_number),
        cmocka_unit_test(a_tenant_without_guarantees_has_none),
        cmocka_unit_test(requests_are_admitted_up_to_the_limit),
        cmocka_unit_test(a_request_fits_exactly_after_its_retry_time),
        cmocka_unit_test(an_hour_admits_the_bucket_and_sixty_refills),
        cmocka_unit_test(a_long_pause_refills_one_bucket_only),
        cmocka_unit_test(
            tokens_are_charged_at_the_begin_and_refunded_at_the_end),
        cmocka_unit_test(use_past_what_was_asked_is_charged),
        cmocka_unit_test(a_request_past_the_bucket_waits_for_a_full_one),
        cmocka_unit_test(huge_counts_saturate),
        cmocka_unit_test(streams_are_admitted_up_to_the_limit),
        cmocka_unit_test(a_refusal_charges_nothing),
        cmocka_unit_test(use_has_figures_for_headers),
        cmocka_unit_test(time_that_steps_back_changes_nothing),
        cmocka_unit_test(a_refusal_has_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The figures of 20,000 requests are those of a server with known delays, also
 * when the server or the generator stalls.  In virtual time, with the real
 * plan, samples and histograms. */
#include <stdlib.h>
#include <string.h>

#include "client/load/figures/histogram.h"
#include "tests/unit/client/load/drive/drive_rig.h"
#include "tests/unit/cmocka.h"

#define REQUESTS 20000
#define SHARES   4
#define STALL_US 2000000

static const double quantiles[] = {0, 0.5, 0.9, 0.99, 0.999, 1};

#define QUANTILES (sizeof quantiles / sizeof quantiles[0])

static const struct virtual_rules known = {
    .seed = 17,
    .first_min_us = 200000,
    .first_max_us = 2000000,
    .n_chunks = 3,
    .chunk_us = 20000,
    .call_bytes = 10,
};

static struct plan *plan_of_share(uint32_t share, uint32_t n_shares)
{
    const struct plan_options o = {
        .rate = "400",
        .arrivals = "poisson",
        .prompt = "64",
        .output = "8",
        .seed = 23,
        .n_requests = REQUESTS,
        .share = share,
        .n_shares = n_shares,
    };
    struct plan *p;
    struct error e;

    if (plan_new(&p, &o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return p;
}

/* The known first token of a sample, from the server's rules alone. */
static int64_t known_ttft(const struct rig *r, const struct sample *s)
{
    return virtual_first_us(&r->rules, s->session * PLAN_TURNS_MAX + s->turn);
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* The exact quantile of sorted values, as histogram_quantile() defines it. */
static int64_t exact(const int64_t *v, size_t n, double q)
{
    size_t i = 0;

    while (i < n - 1 && (double)(i + 1) < q * (double)n) {
        i++;
    }
    return v[i];
}

static void check_quantiles(const struct histogram *h, int64_t *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0; i < QUANTILES; i++) {
        double want = (double)exact(v, n, quantiles[i]);
        double got = (double)histogram_quantile(h, quantiles[i]);

        assert_true(got >= want * 0.999 && got <= want * 1.001);
    }
}

static void quantiles_equal_the_known_delays(void **state)
{
    struct rig r = {.rules = known};
    struct histogram ttft = {0}, e2e = {0};
    int64_t *first = calloc(REQUESTS, sizeof *first);
    int64_t *end = calloc(REQUESTS, sizeof *end);

    (void)state;
    assert_true(first != NULL && end != NULL);
    rig_begin(&r, plan_of_share(0, 1));
    rig_run(&r);
    assert_int_equal(r.n, REQUESTS);
    for (size_t i = 0; i < r.n; i++) {
        const struct sample *s = &r.samples[i];

        first[i] = known_ttft(&r, s);
        end[i] = first[i] + 40000;
        histogram_add(&ttft, s->first_us - s->due_us, 1);
        histogram_add(&e2e, s->end_us - s->due_us, 1);
    }
    check_quantiles(&ttft, first, r.n);
    check_quantiles(&e2e, end, r.n);
    free(first);
    free(end);
    histogram_fini(&ttft);
    histogram_fini(&e2e);
    rig_end(&r);
}

static void requests_due_in_a_stall_see_the_rest_of_it(void **state)
{
    const int64_t from_us = 20000000;
    struct rig r = {.rules = known};
    struct histogram ttft = {0};
    int64_t *want = calloc(REQUESTS, sizeof *want);
    size_t n_due = 0;

    (void)state;
    assert_non_null(want);
    r.rules.stall_from_us = RIG_START_US + from_us;
    r.rules.stall_us = STALL_US;
    rig_begin(&r, plan_of_share(0, 1));
    rig_run(&r);
    assert_int_equal(r.n, REQUESTS);
    for (size_t i = 0; i < r.n; i++) {
        const struct sample *s = &r.samples[i];
        int64_t due = s->due_us, first = known_ttft(&r, s);

        want[i] = first;
        if (due >= from_us && due < from_us + STALL_US) {
            n_due++;
            want[i] += from_us + STALL_US - due;
        } else if (due < from_us && due + first > from_us) {
            want[i] += STALL_US;
        }
        assert_int_equal(s->sent_us, due); /* a slow server moves no start */
        assert_int_equal(s->first_us - due, want[i]);
        histogram_add(&ttft, s->first_us - due, 1);
    }
    assert_in_range(n_due, 700, 900); /* 400 a second for 2 s */
    check_quantiles(&ttft, want, r.n);
    free(want);
    histogram_fini(&ttft);
    rig_end(&r);
}

static void pause_of_the_generator_is_in_latency_and_lag(void **state)
{
    const int64_t from_us = 20000000;
    struct rig undisturbed = {.rules = known}, r = {.rules = known};
    int64_t *due = calloc(REQUESTS, sizeof *due);
    int64_t lag_us = 0;
    size_t n_late = 0;

    (void)state;
    assert_non_null(due);
    rig_begin(&undisturbed, plan_of_share(0, 1));
    rig_run(&undisturbed);
    for (size_t i = 0; i < undisturbed.n; i++) {
        due[undisturbed.samples[i].session] = undisturbed.samples[i].due_us;
    }
    r.pause_at_us = from_us;
    r.pause_us = STALL_US;
    rig_begin(&r, plan_of_share(0, 1));
    rig_run(&r);
    assert_int_equal(r.n, REQUESTS);
    for (size_t i = 0; i < r.n; i++) {
        const struct sample *s = &r.samples[i];
        int64_t lag = s->sent_us - s->due_us;

        assert_int_equal(s->due_us, due[s->session]);
        if (s->due_us > from_us && s->due_us <= from_us + STALL_US) {
            n_late++;
            assert_int_equal(lag, from_us + STALL_US - s->due_us);
            assert_int_equal(s->first_us - s->due_us, lag + known_ttft(&r, s));
        }
        lag_us = lag > lag_us ? lag : lag_us;
    }
    assert_in_range(n_late, 700, 900);
    assert_int_equal(r.lag_max_us, lag_us);
    assert_in_range(lag_us, STALL_US - 50000, STALL_US);
    free(due);
    rig_end(&undisturbed);
    rig_end(&r);
}

static void merged_shares_equal_all_samples_together(void **state)
{
    struct histogram all = {0}, merged = {0};
    uint64_t n = 0;

    (void)state;
    for (uint32_t share = 0; share < SHARES; share++) {
        struct rig r = {.rules = known};
        struct histogram own = {0};

        rig_begin(&r, plan_of_share(share, SHARES));
        rig_run(&r);
        for (size_t i = 0; i < r.n; i++) {
            int64_t us = r.samples[i].first_us - r.samples[i].due_us;

            assert_int_equal(r.samples[i].session % SHARES, share);
            histogram_add(&own, us, 1);
            histogram_add(&all, us, 1);
        }
        histogram_merge(&merged, &own);
        n += r.n;
        histogram_fini(&own);
        rig_end(&r);
    }
    assert_int_equal(n, REQUESTS);
    assert_int_equal(merged.n, all.n);
    assert_int_equal(merged.min, all.min);
    assert_int_equal(merged.max, all.max);
    assert_int_equal(merged.size, all.size);
    assert_memory_equal(merged.counts, all.counts,
                        all.size * sizeof *all.counts);
    histogram_fini(&all);
    histogram_fini(&merged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_equal_the_known_delays),
        cmocka_unit_test(requests_due_in_a_stall_see_the_rest_of_it),
        cmocka_unit_test(pause_of_the_generator_is_in_latency_and_lag),
        cmocka_unit_test(merged_shares_equal_all_samples_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

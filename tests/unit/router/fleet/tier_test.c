/* Reports of workers about host memory: in the rows of Admin, in the sums of a
 * model, and those that cannot be. */
#include <stdlib.h>
#include <string.h>

#include "router/calls/router_state.h"
#include "router/fleet/ledgers.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig.h"

/* w reports it in a ledger with `used` of 100 host pages. */
static void report(struct fake *w, Sluice__V1__HostTier *host, uint32_t used)
{
    w->ledger.has_host_total = w->ledger.has_host_used = true;
    w->ledger.host_total = 100;
    w->ledger.host_used = used;
    w->ledger.host = host;
    worker_report(w);
    rig_run(w->rig);
}

/* Counts of a life: n times the number of each. */
static Sluice__V1__HostTier counts(uint64_t n)
{
    Sluice__V1__HostTier h = SLUICE__V1__HOST_TIER__INIT;

    h.waiting = 10;
    h.kept = 20;
    h.cached = 30;
    h.bytes_out = n;
    h.bytes_in = 2 * n;
    h.restored_tokens = 3 * n;
    h.n_suspended = 4 * n;
    h.n_swapped = 5 * n;
    h.n_recomputed = 6 * n;
    h.wasted_suspended = 7 * n;
    h.wasted_failed = 8 * n;
    h.wasted_moved = 9 * n;
    return h;
}

static void report_counts(struct fake *w, uint64_t n)
{
    Sluice__V1__HostTier h = counts(n);

    report(w, &h, 60);
}

static void on_page(struct rig *rig, const char *sample)
{
    struct metric_page p = {.text = NULL};
    char *text;

    router_page(rig->router, &p);
    text = realloc(p.text, p.n + 1);
    assert_non_null(text);
    text[p.n] = '\0';
    if (strstr(text, sample) == NULL) {
        fail_msg("%s is not in %s", sample, text);
    }
    free(text);
}

/* The model's sums, each of which is n times its number. */
static void sums(struct rig *rig, unsigned n)
{
    static const char *const names[] = {
        "host_bytes_out",          "host_bytes_in",
        "host_restored_tokens",    "sequences_suspended",
        "sequences_swapped",       "sequences_recomputed",
        "wasted_suspended_tokens", "wasted_failed_tokens",
        "wasted_moved_tokens"};

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        char sample[160];

        snprintf(sample, sizeof sample,
                 "\nsluice_router_%s_total{model=\"tiny\"} %u\n", names[i],
                 (i + 1) * n);
        on_page(rig, sample);
    }
}

/* A worker reports nothing while all is 0, so what its first report in a
 * session counts was new, unless its first ledger has it. */
static void a_model_sums_what_its_workers_count(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *v = rig_worker(rig, "w2", 64, 8);

    (void)state;
    report_counts(w, 1000);
    sums(rig, 0);
    report_counts(w, 1003);
    sums(rig, 3);
    report(v, NULL, 0);
    report_counts(v, 2);
    sums(rig, 5);
    report(v, NULL, 0);
    report_counts(v, 3);
    sums(rig, 6);
    fake_lost(w);
    rig_advance(rig, 100000);
    w = rig_worker(rig, "w1", 64, 8);
    report_counts(w, 2000);
    sums(rig, 6);
    assert_false(v->gone);
    rig_free(&rig);
}

static void pages_are_of_each_worker(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);

    (void)state;
    report_counts(w, 1);
    on_page(rig, "\nsluice_router_worker_host_pages{worker=\"w1\"} 100\n");
    on_page(rig, "\nsluice_router_worker_host_used{worker=\"w1\"} 60\n");
    on_page(rig, "\nsluice_router_worker_host_waiting{worker=\"w1\"} 10\n");
    on_page(rig, "\nsluice_router_worker_host_kept{worker=\"w1\"} 20\n");
    on_page(rig, "\nsluice_router_worker_host_cached{worker=\"w1\"} 30\n");
    rig_free(&rig);
}

/* As in the answer to an audit. */
static void what_a_ledger_lacks_stays(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    const struct fleet_ledger *l;

    (void)state;
    w->ledger.has_n_kept = w->ledger.has_violations = true;
    w->ledger.n_kept = 3;
    report_counts(w, 7);
    l = &rig->router->fleet.workers[0]->ledger;
    w->ledger.has_n_kept = w->ledger.has_violations = false;
    w->ledger.has_host_total = w->ledger.has_host_used = false;
    w->ledger.host = NULL;
    worker_report(w);
    rig_run(rig);
    assert_int_equal(l->n_kept, 3);
    assert_int_equal(l->host_total, 100);
    assert_int_equal(l->host_used, 60);
    assert_true(l->tier.reported);
    assert_int_equal(l->tier.waiting, 10);
    assert_int_equal(l->tier.counts.host_bytes_out, 7);
    report(w, NULL, 61); /* its parts are not there: it stays, too */
    assert_int_equal(l->host_used, 60);
    report_counts(w, 8);
    sums(rig, 1);
    rig_free(&rig);
}

static void admin_lists_what_was_reported(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct ledger_parts parts;
    Sluice__V1__Ledger l;

    (void)state;
    report(w, NULL, 0);
    ledger_message(&rig->router->fleet.workers[0]->ledger, &parts, &l);
    assert_null(l.host);
    report_counts(w, 7);
    ledger_message(&rig->router->fleet.workers[0]->ledger, &parts, &l);
    assert_non_null(l.host);
    assert_int_equal(l.host->waiting, 10);
    assert_int_equal(l.host->cached, 30);
    assert_int_equal(l.host->bytes_out, 7);
    assert_int_equal(l.host->wasted_moved, 63);
    rig_free(&rig);
}

static void pages_that_do_not_add_up_end_the_session(void **state)
{
    (void)state;
    for (uint32_t used = 59; used <= 61; used++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w = rig_worker(rig, "w1", 64, 8);
        Sluice__V1__HostTier h = counts(1);

        report(w, &h, used);
        assert_int_equal(w->gone, used != 60);
        rig_free(&rig);
    }
}

static void pages_are_added_without_overflow(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    Sluice__V1__HostTier h = counts(1);

    (void)state;
    h.waiting = UINT32_MAX;
    h.kept = 1;
    h.cached = 60;
    report(w, &h, 60);
    assert_true(w->gone);
    rig_free(&rig);
}

/* Each count in turn is one below that of the ledger before. */
static void counts_that_fall_end_the_session(void **state)
{
    (void)state;
    for (int i = 0; i <= 9; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w = rig_worker(rig, "w1", 64, 8);
        Sluice__V1__HostTier h = counts(5);
        uint64_t *const each[] = {
            &h.bytes_out,     &h.bytes_in,         &h.restored_tokens,
            &h.n_suspended,   &h.n_swapped,        &h.n_recomputed,
            &h.wasted_failed, &h.wasted_suspended, &h.wasted_moved};

        report(w, &h, 60);
        if (i < 9) {
            --*each[i];
        }
        report(w, &h, 60);
        assert_int_equal(w->gone, i < 9);
        rig_free(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_sums_what_its_workers_count),
        cmocka_unit_test(pages_are_of_each_worker),
        cmocka_unit_test(what_a_ledger_lacks_stays),
        cmocka_unit_test(admin_lists_what_was_reported),
        cmocka_unit_test(pages_that_do_not_add_up_end_the_session),
        cmocka_unit_test(pages_are_added_without_overflow),
        cmocka_unit_test(counts_that_fall_end_the_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

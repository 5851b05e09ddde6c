/* Host memory in sluicectl workers and sluicectl status. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/tier.h"
#include "tests/unit/cmocka.h"

static Sluice__V1__Ledger ledger(Sluice__V1__HostTier *host)
{
    Sluice__V1__Ledger l = SLUICE__V1__LEDGER__INIT;

    l.host_total = 64;
    l.host_used = 16;
    l.n_suspended = 2;
    l.host = host;
    return l;
}

static Sluice__V1__HostTier tier(void)
{
    Sluice__V1__HostTier h = SLUICE__V1__HOST_TIER__INIT;

    h.waiting = 8;
    h.kept = 5;
    h.cached = 3;
    h.bytes_out = 3u << 20;
    h.bytes_in = 1u << 20;
    h.restored_tokens = 77;
    h.n_suspended = 12;
    h.n_swapped = 9;
    h.n_recomputed = 1;
    h.wasted_suspended = 120;
    h.wasted_moved = 4;
    return h;
}

/* Returns what print() wrote, owned by the caller. */
static char *printed(void (*print)(const void *, FILE *), const void *arg)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);

    assert_non_null(to);
    print(arg, to);
    fclose(to);
    return text;
}

static void print_sum(const void *arg, FILE *to)
{
    tier_print(arg, to);
}

static void print_table(const void *arg, FILE *to)
{
    columns_print(arg, to);
}

static void status_has_the_sums_of_the_workers(void **state)
{
    Sluice__V1__HostTier h = tier();
    Sluice__V1__Ledger l = ledger(&h), other = ledger(&h);
    struct tier_sum sum = {0};
    char *text;

    (void)state;
    tier_add(&sum, &l);
    tier_add(&sum, &other);
    text = printed(print_sum, &sum);
    assert_string_equal(
        text,
        "host      [#####...............] 32 of 128 used: 16 waiting, 10 kept, "
        "6 cached\n"
        "copied    6.0 MiB out, 2.0 MiB in; 154 prompt tokens restored\n"
        "suspended 4 now, 24 in all; 18 swapped in, 2 computed again\n"
        "wasted    248: 240 suspended, 0 failed, 8 moved\n");
    free(text);
}

static void status_without_reports_has_no_line(void **state)
{
    Sluice__V1__Ledger l = ledger(NULL);
    struct tier_sum sum = {0};
    char *text;

    (void)state;
    tier_add(&sum, &l);
    text = printed(print_sum, &sum);
    assert_string_equal(text, "");
    free(text);
}

/* Optimistic admission without host memory computes tokens again too. */
static void status_without_host_memory_has_what_was_wasted(void **state)
{
    Sluice__V1__HostTier h = SLUICE__V1__HOST_TIER__INIT;
    Sluice__V1__Ledger l = SLUICE__V1__LEDGER__INIT;
    struct tier_sum sum = {0};
    char *text;

    (void)state;
    h.n_suspended = h.n_recomputed = 1;
    h.wasted_suspended = 30;
    l.host = &h;
    tier_add(&sum, &l);
    text = printed(print_sum, &sum);
    assert_string_equal(text,
                        "suspended 0 now, 1 in all; 0 swapped in, 1 computed "
                        "again\nwasted    30: 30 suspended, 0 failed, 0 "
                        "moved\n");
    free(text);
}

static void a_worker_that_reports_has_a_row(void **state)
{
    Sluice__V1__HostTier h = tier();
    Sluice__V1__Ledger l = ledger(&h), none = ledger(NULL);
    struct columns t;
    char *text;

    (void)state;
    tier_columns(&t);
    tier_row(&t, "w1", &none);
    tier_row(&t, "w2", &l);
    text = printed(print_table, &t);
    assert_null(strstr(text, "w1"));
    assert_non_null(strstr(text, "w2        64    48        8     5       3  "
                                 "3.0 MiB  1.0 MiB        77         12"
                                 "        9           1  124: 120 suspended, "
                                 "0 failed, 4 moved"));
    free(text);
    columns_fini(&t);
}

static void json_has_every_sum(void **state)
{
    Sluice__V1__HostTier h = tier();
    Sluice__V1__Ledger l = ledger(&h);
    struct tier_sum sum = {0};
    json_t *j;
    char *text;

    (void)state;
    tier_add(&sum, &l);
    j = tier_json(&sum);
    text = json_dumps(j, JSON_COMPACT);
    assert_string_equal(
        text, "{\"total\":64,\"free\":48,\"waiting\":8,\"kept\":5,\"cached\":3,"
              "\"bytes_out\":3145728,\"bytes_in\":1048576,"
              "\"restored_tokens\":77,\"n_suspended\":12,\"n_swapped\":9,"
              "\"n_recomputed\":1,\"wasted_suspended\":120,"
              "\"wasted_failed\":0,\"wasted_moved\":4}");
    free(text);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_has_the_sums_of_the_workers),
        cmocka_unit_test(status_without_reports_has_no_line),
        cmocka_unit_test(status_without_host_memory_has_what_was_wasted),
        cmocka_unit_test(a_worker_that_reports_has_a_row),
        cmocka_unit_test(json_has_every_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

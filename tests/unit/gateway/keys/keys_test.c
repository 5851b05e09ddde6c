/* Key files: what is refused and where, lookups, reloads. */
#include "gateway/keys/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

/* SHA-256 of "alpha" and of "beta". */
#define ALPHA "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8"
#define BETA  "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753"

static struct keys *parsed(const char *text)
{
    struct keys *k;
    struct error e = {0};

    if (keys_parse(&k, text, strlen(text), &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return k;
}

static struct tenant *find(struct keys *k, const char *key)
{
    return keys_find(k, key, strlen(key));
}

/* Expects that text is refused with a sentence that contains `has`. */
static void refused(const char *text, enum status code, const char *has)
{
    struct keys *k;
    struct error e = {0};

    assert_int_equal(keys_parse(&k, text, strlen(text), &e), code);
    assert_null(k);
    if (strstr(e.text, has) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", e.text, has);
    }
}

static void a_file_gives_each_key_its_tenant(void **state)
{
    struct keys *k = parsed("# keys of the week\n"
                            "\n" ALPHA " web requests=5/min # note\r\n"
                            "   \t\n"
                            "\t" BETA "\tnight_ly-2 streams=3 tokens=9/min#x");

    (void)state;
    assert_int_equal(keys_n(k), 2);
    assert_false(keys_are_open(k));
    assert_string_equal(tenant_name(find(k, "alpha")), "web");
    assert_string_equal(tenant_name(find(k, "beta")), "night_ly-2");
    assert_null(find(k, "gamma"));
    assert_null(find(k, ""));
    assert_null(keys_find(k, NULL, 0));
    assert_null(find(k, ALPHA)); /* the hash is not the key */
    keys_free(&k);
}

static bool is_operator(struct keys *k, const char *key)
{
    return keys_is_operator(k, key, strlen(key));
}

/* The role is the key's, not its tenant's. */
static void a_key_may_be_an_operators(void **state)
{
    struct keys *k = parsed(ALPHA " a role=operator\n" BETA " a\n");
    struct error e;

    (void)state;
    assert_true(is_operator(k, "alpha"));
    assert_false(is_operator(k, "beta"));
    assert_false(is_operator(k, "gamma"));
    assert_false(is_operator(k, ""));
    assert_ptr_equal(find(k, "alpha"), find(k, "beta"));
    keys_free(&k);
    refused(ALPHA " a role=admin\n", ST_INVALID_ARGUMENT, "role=operator");
    refused(ALPHA " a role=operators\n", ST_INVALID_ARGUMENT, "role=operator");
    assert_int_equal(keys_open(&k, &e), ST_OK);
    assert_true(is_operator(k, "alpha"));
    keys_free(&k);
}

static void a_tenant_may_have_several_keys(void **state)
{
    struct keys *k = parsed(ALPHA " a streams=1\n" BETA " a streams=1\n");

    (void)state;
    assert_non_null(find(k, "alpha"));
    assert_ptr_equal(find(k, "alpha"), find(k, "beta"));
    keys_free(&k);
    refused(ALPHA " a streams=1\n" BETA " a streams=2\n", ST_INVALID_ARGUMENT,
            "line 2: tenant a has other limits");
}

static void upper_case_digits_are_a_hash(void **state)
{
    struct keys *k;
    char text[] = ALPHA " a";

    (void)state;
    for (char *c = text; *c != ' '; c++) {
        *c = *c >= 'a' ? (char)(*c - 'a' + 'A') : *c;
    }
    k = parsed(text);
    assert_non_null(find(k, "alpha"));
    keys_free(&k);
}

static void wrong_lines_are_refused_with_their_number(void **state)
{
    (void)state;
    refused("", ST_INVALID_ARGUMENT, "no key");
    refused("# nothing\n\n", ST_INVALID_ARGUMENT, "no key");
    refused("\n\nzz a\n", ST_INVALID_ARGUMENT, "line 3: the first word has 2");
    refused(ALPHA "0 a\n", ST_INVALID_ARGUMENT,
            "line 1: the first word has 65");
    refused("g" BETA " a", ST_INVALID_ARGUMENT, "65 characters");
    refused(ALPHA "\n", ST_INVALID_ARGUMENT, "line 1: tenant \"\"");
    refused(ALPHA " Web\n", ST_INVALID_ARGUMENT, "tenant \"Web\"");
    refused(ALPHA " w\x1b\n", ST_INVALID_ARGUMENT, "tenant \"w\\x1b\"");
    refused(ALPHA " a\n# c\n" ALPHA " b\n", ST_INVALID_ARGUMENT,
            "line 3: an earlier line has the same hash");
    refused(ALPHA " a speed=3\n", ST_INVALID_ARGUMENT,
            "\"speed=3\": requests=");
    refused(ALPHA " a streams=1 streams=1\n", ST_INVALID_ARGUMENT,
            "streams= occurs twice");
}

static void a_key_in_place_of_its_hash_is_not_printed(void **state)
{
    struct keys *k;
    struct error e;
    const char *text = "sk-sluice-secret a\n";

    (void)state;
    assert_int_equal(keys_parse(&k, text, strlen(text), &e),
                     ST_INVALID_ARGUMENT);
    assert_null(strstr(e.text, "secret"));
}

static void wrong_limits_are_refused(void **state)
{
    static const char *const wrong[] = {
        "requests=0/min",
        "requests=1000000001/min",
        "requests=1",
        "requests=/min",
        "requests=1/minute",
        "requests=-1/min",
        "requests=1/hour",
        "tokens=99999999999999999999999999/min",
        "tokens=1000000001/min",
        "tokens= 1/min",
        "streams=0",
        "streams=1000001",
        "streams=1/min",
        "streams=",
        "streams=0x1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[KEYS_LINE_BYTES];

        snprintf(line, sizeof line, ALPHA " a %s", wrong[i]);
        refused(line, ST_INVALID_ARGUMENT, "is required");
    }
}

static void limits_at_their_bounds_are_taken(void **state)
{
    struct keys *k =
        parsed(ALPHA " a requests=1/min tokens=1/min streams=1\n" BETA
                     " b requests=1000000000/min "
                     "tokens=1000000000/min streams=1000000\n");
    struct tenant_refusal use;

    (void)state;
    for (int i = 0; i < TENANT_LIMITS_NR; i++) {
        uint64_t max =
            i == TENANT_STREAMS ? TENANT_STREAMS_MAX : TENANT_RATE_MAX;

        assert_true(
            tenant_use(find(k, "alpha"), 0, (enum tenant_limit)i, &use));
        assert_int_equal(use.max, 1);
        assert_true(tenant_use(find(k, "beta"), 0, (enum tenant_limit)i, &use));
        assert_int_equal(use.max, max);
    }
    keys_free(&k);
}

static void a_name_has_up_to_64_characters(void **state)
{
    char text[200];
    struct keys *k;

    (void)state;
    snprintf(text, sizeof text, "%s %064d", ALPHA, 1);
    k = parsed(text);
    assert_int_equal(strlen(tenant_name(find(k, "alpha"))), TENANT_NAME_MAX);
    keys_free(&k);
    snprintf(text, sizeof text, "%s %065d", ALPHA, 1);
    refused(text, ST_INVALID_ARGUMENT, "1 to 64 characters");
}

static void a_line_has_up_to_512_bytes(void **state)
{
    char text[KEYS_LINE_BYTES + 2];
    struct keys *k;

    (void)state;
    snprintf(text, sizeof text, "%-*s", KEYS_LINE_BYTES, ALPHA " a");
    k = parsed(text);
    keys_free(&k);
    snprintf(text, sizeof text, "%-*s", KEYS_LINE_BYTES + 1, ALPHA " a");
    refused(text, ST_OUT_OF_RANGE, "line 1: 513 bytes long, at most 512");
}

static void a_file_has_up_to_1_mib(void **state)
{
    size_t n = KEYS_FILE_BYTES;
    char *text = malloc(n + 1);
    struct keys *k;
    struct error e;

    (void)state;
    assert_non_null(text);
    memset(text, '\n', n + 1);
    memcpy(text, ALPHA " a", strlen(ALPHA " a"));
    assert_int_equal(keys_parse(&k, text, n, &e), ST_OK);
    keys_free(&k);
    assert_int_equal(keys_parse(&k, text, n + 1, &e), ST_OUT_OF_RANGE);
    assert_non_null(strstr(e.text, "at most 1048576"));
    free(text);
}

static void a_file_has_up_to_4096_keys(void **state)
{
    size_t n = 0, size = (KEYS_MAX + 1) * 80;
    char *text = malloc(size);
    struct keys *k;
    struct error e;
    size_t n_max = 0;

    (void)state;
    assert_non_null(text);
    for (int i = 0; i <= KEYS_MAX; i++) {
        n_max = n;
        n += (size_t)snprintf(text + n, size - n, "%064x t%d\n", i, i);
    }
    assert_int_equal(keys_parse(&k, text, n_max, &e), ST_OK);
    assert_int_equal(keys_n(k), KEYS_MAX);
    /* A reload compares all tenants with all. */
    assert_int_equal(keys_replace(k, text, n_max, &e), ST_OK);
    assert_int_equal(keys_replace(k, text, n, &e), ST_OUT_OF_RANGE);
    assert_string_equal(e.text, "line 4097: more than 4096 keys");
    assert_int_equal(keys_n(k), KEYS_MAX);
    keys_free(&k);
    free(text);
}

static void bytes_of_any_value_are_refused_or_taken(void **state)
{
    char text[] = ALPHA " a streams=12\n" BETA " b";
    size_t n = sizeof text - 1;

    (void)state;
    for (size_t at = 0; at < n; at++) {
        for (int byte = 0; byte < 256; byte++) {
            struct keys *k;
            struct error e = {0};
            char old = text[at];

            text[at] = (char)byte;
            if (keys_parse(&k, text, n, &e) != ST_OK) {
                assert_non_null(strstr(e.text, "line "));
            }
            keys_free(&k);
            text[at] = old;
        }
    }
}

static void without_keys_everyone_is_default(void **state)
{
    struct keys *k;
    struct error e;
    struct tenant_refusal r;
    struct tenant *t;

    (void)state;
    assert_int_equal(keys_open(&k, &e), ST_OK);
    assert_true(keys_are_open(k));
    assert_int_equal(keys_n(k), 0);
    t = keys_find(k, NULL, 0);
    assert_string_equal(tenant_name(t), "default");
    assert_ptr_equal(find(k, "alpha"), t);
    for (int i = 0; i < 1000; i++) {
        assert_true(tenant_begin(t, 0, UINT64_MAX, &r));
    }
    keys_free(&k);
    keys_free(&k); /* NULL */
}

/* ---- reloads ---- */

static void replace(struct keys *k, const char *text)
{
    struct error e = {0};

    if (keys_replace(k, text, strlen(text), &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

static void count(void *arg, struct tenant *t)
{
    (void)t;
    ++*(int *)arg;
}

static int n_tenants(struct keys *k)
{
    int n = 0;

    keys_each_tenant(k, count, &n);
    return n;
}

static void a_reload_keeps_the_use_of_a_tenant(void **state)
{
    struct keys *k = parsed(ALPHA " a requests=2/min streams=9\n");
    struct tenant *t = find(k, "alpha");
    struct tenant_refusal r;

    (void)state;
    assert_true(tenant_begin(t, 0, 1, &r));
    assert_true(tenant_begin(t, 0, 1, &r));
    replace(k, BETA " a requests=3/min streams=9\n" ALPHA " b\n");
    assert_ptr_equal(find(k, "beta"), t);
    assert_string_equal(tenant_name(find(k, "alpha")), "b");
    assert_int_equal(tenant_streams(t), 2);
    assert_true(tenant_begin(t, 0, 1, &r));
    assert_false(tenant_begin(t, 0, 1, &r));
    assert_int_equal(r.used, 3);
    replace(k, BETA " a streams=3\n");
    assert_false(tenant_begin(t, 0, 1, &r));
    assert_int_equal(r.limit, TENANT_STREAMS);
    keys_free(&k);
}

static void a_tenant_that_vanished_ends_with_its_last_request(void **state)
{
    struct keys *k = parsed(ALPHA " a\n" BETA " b\n");
    struct tenant *t = find(k, "alpha");
    struct tenant_refusal r;

    (void)state;
    assert_true(tenant_begin(t, 0, 1, &r));
    assert_true(tenant_begin(t, 0, 1, &r));
    replace(k, BETA " b\n");
    assert_null(find(k, "alpha"));
    assert_int_equal(n_tenants(k), 2);
    tenant_end(t, 0, 1, 1);
    assert_int_equal(n_tenants(k), 2);
    tenant_end(t, 0, 1, 1);
    assert_int_equal(n_tenants(k), 1);
    keys_free(&k);
}

static void a_tenant_that_returns_has_its_running_requests(void **state)
{
    struct keys *k = parsed(ALPHA " a streams=1\n" BETA " b\n");
    struct tenant *t = find(k, "alpha");
    struct tenant_refusal r;

    (void)state;
    assert_true(tenant_begin(t, 0, 1, &r));
    replace(k, BETA " b\n");
    replace(k, ALPHA " a streams=1\n" BETA " b\n");
    assert_ptr_equal(find(k, "alpha"), t);
    assert_false(tenant_begin(t, 0, 1, &r));
    tenant_end(t, 0, 1, 1);
    assert_int_equal(n_tenants(k), 2);
    assert_true(tenant_begin(t, 0, 1, &r));
    keys_free(&k);
}

static void a_broken_file_keeps_the_keys(void **state)
{
    struct keys *k = parsed(ALPHA " a streams=1\n");
    struct tenant *t = find(k, "alpha");
    const char *text = BETA " a streams=2\nnonsense\n";
    struct error e;

    (void)state;
    assert_int_equal(keys_replace(k, text, strlen(text), &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "line 2"));
    assert_ptr_equal(find(k, "alpha"), t);
    assert_null(find(k, "beta"));
    keys_free(&k);
}

static void limits_are_rows_of_a_table(void **state)
{
    (void)state;
    assert_int_equal(keys_limits_n, 5);
    assert_string_equal(keys_limits[2].name, "KEYS_MAX");
    assert_int_equal(keys_limits[2].value, KEYS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gives_each_key_its_tenant),
        cmocka_unit_test(a_key_may_be_an_operators),
        cmocka_unit_test(a_tenant_may_have_several_keys),
        cmocka_unit_test(upper_case_digits_are_a_hash),
        cmocka_unit_test(wrong_lines_are_refused_with_their_number),
        cmocka_unit_test(a_key_in_place_of_its_hash_is_not_printed),
        cmocka_unit_test(wrong_limits_are_refused),
        cmocka_unit_test(limits_at_their_bounds_are_taken),
        cmocka_unit_test(a_name_has_up_to_64_characters),
        cmocka_unit_test(a_line_has_up_to_512_bytes),
        cmocka_unit_test(a_file_has_up_to_1_mib),
        cmocka_unit_test(a_file_has_up_to_4096_keys),
        cmocka_unit_test(bytes_of_any_value_are_refused_or_taken),
        cmocka_unit_test(without_keys_everyone_is_default),
        cmocka_unit_test(a_reload_keeps_the_use_of_a_tenant),
        cmocka_unit_test(a_tenant_that_vanished_ends_with_its_last_request),
        cmocka_unit_test(a_tenant_that_returns_has_its_running_requests),
        cmocka_unit_test(a_broken_file_keeps_the_keys),
        cmocka_unit_test(limits_are_rows_of_a_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

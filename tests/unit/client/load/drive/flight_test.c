/* The sample of one request. */
#include "client/load/drive/flight.h"

#include <string.h>

#include "tests/unit/cmocka.h"

static const struct call_end ok = {.outcome = OUTCOME_OK,
                                   .queue_us = SAMPLE_NEVER};

static uint64_t hash_of_ids(const uint32_t *ids, size_t n, size_t chunk)
{
    struct flight f = {0};
    uint64_t hash;

    flight_begin(&f, 0);
    for (size_t i = 0; i < n; i += chunk) {
        size_t part = n - i < chunk ? n - i : chunk;

        flight_output(&f, (int64_t)i, (uint32_t)part);
        flight_hash(&f, ids + i, part, "text", 4);
    }
    flight_end(&f, 100, &ok);
    hash = f.sample.output_hash;
    flight_fini(&f);
    return hash;
}

static void hash_does_not_depend_on_chunks(void **state)
{
    uint32_t ids[100];
    uint64_t want;

    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        ids[i] = i * i;
    }
    want = hash_of_ids(ids, 100, 100);
    assert_true(want != 0);
    for (size_t chunk = 1; chunk < 100; chunk++) {
        assert_true(hash_of_ids(ids, 100, chunk) == want);
    }
    ids[50]++;
    assert_true(hash_of_ids(ids, 100, 7) != want);
}

static uint64_t hash_of_text(const char *a, const char *b)
{
    struct flight f = {0};

    flight_begin(&f, 0);
    flight_hash(&f, NULL, 0, a, strlen(a));
    flight_hash(&f, NULL, 0, b, strlen(b));
    flight_end(&f, 1, &ok);
    return f.sample.output_hash;
}

static void text_is_hashed_without_ids(void **state)
{
    (void)state;
    assert_true(hash_of_text("he", "llo") == hash_of_text("hell", "o"));
    assert_true(hash_of_text("he", "llo") != hash_of_text("he", "lla"));
    assert_true(hash_of_text("", "") == 0);
}

static void gaps_beyond_the_limit_keep_the_longest(void **state)
{
    struct flight f = {0};
    int64_t at = 1000;

    (void)state;
    flight_begin(&f, 0);
    flight_output(&f, at, 1);
    for (int i = 0; i < FLIGHT_GAPS_MAX; i++) {
        at += 10;
        flight_output(&f, at, 1);
    }
    assert_int_equal(f.sample.n_gaps, FLIGHT_GAPS_MAX);
    at += 777;
    flight_output(&f, at, 1); /* one past the limit */
    at += 5;
    flight_output(&f, at, 1);
    flight_end(&f, at, &ok);
    assert_int_equal(f.sample.n_gaps, FLIGHT_GAPS_MAX);
    assert_int_equal(f.gaps[FLIGHT_GAPS_MAX - 2], 10);
    assert_int_equal(f.gaps[FLIGHT_GAPS_MAX - 1], 777);
    assert_int_equal(f.sample.n_events, FLIGHT_GAPS_MAX + 3);
    assert_int_equal(f.sample.first_us, 1000);
    assert_int_equal(f.sample.last_us, at);
    flight_clear(&f);
    assert_null(f.gaps);
}

static void chunks_count_unless_tokens_are_counted(void **state)
{
    struct call_end end = {.outcome = OUTCOME_OK, .chunks = true};
    struct flight f = {0};
    char text[1000];

    (void)state;
    memset(text, 'x', sizeof text);
    flight_begin(&f, 5);
    flight_output(&f, 20, 1);
    flight_keep(&f, text, 700);
    flight_keep(&f, text, 1000);
    assert_int_equal(f.n_output, 1700);
    flight_end(&f, 30, &end);
    assert_int_equal(f.sample.n_output, 1);
    assert_int_equal(f.sample.flags, SAMPLE_CHUNKS);
    flight_begin(&f, 5);
    assert_int_equal(f.n_output, 0);
    flight_output(&f, 20, 1);
    end.n_output = 4;
    flight_end(&f, 30, &end);
    assert_int_equal(f.sample.n_output, 4);
    assert_int_equal(f.sample.flags, 0);
    for (int i = 0; i < FLIGHT_OUTPUT_MAX / 1000 + 2; i++) {
        flight_keep(&f, text, sizeof text);
    }
    assert_int_equal(f.n_output, FLIGHT_OUTPUT_MAX);
    flight_clear(&f);
    assert_null(f.output);
}

static void servers_counts_replace_ours(void **state)
{
    struct call_end end = {
        .outcome = OUTCOME_FAILED,
        .code = 500,
        .why = "broke",
        .n_output = 9,
        .queue_us = 12,
        .has_receipt = true,
        .leaked = true,
        .n_resumes = 1,
        .bad_stream = true,
    };
    struct flight f = {0};

    (void)state;
    flight_begin(&f, 5);
    f.sample.n_prompt = 7;
    flight_output(&f, 20, 3);
    flight_end(&f, 30, &end);
    assert_int_equal(f.sample.n_output, 9);
    assert_int_equal(f.sample.n_prompt, 7);
    assert_int_equal(f.sample.queue_us, 12);
    assert_int_equal(f.sample.flags, SAMPLE_RECEIPT | SAMPLE_LEAKED |
                                         SAMPLE_RESUMED | SAMPLE_BAD_STREAM);
    assert_string_equal(f.sample.why, "broke");
    assert_true(f.sample.sent_us == SAMPLE_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_does_not_depend_on_chunks),
        cmocka_unit_test(text_is_hashed_without_ids),
        cmocka_unit_test(gaps_beyond_the_limit_keep_the_longest),
        cmocka_unit_test(chunks_count_unless_tokens_are_counted),
        cmocka_unit_test(servers_counts_replace_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

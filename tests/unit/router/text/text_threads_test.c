#include "router/text/text_threads.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tests/patience.h"
#include "tests/unit/cmocka.h"
#include "text/tokenizer.h"

#define TEXT "Once upon a time, there was a little caf\xc3\xa9."

static struct tokenizer *tokenizer;
static struct text_model model;
static struct text_threads *threads;
static struct text_seam *seam;

static int load(void **state)
{
    struct error e;

    (void)state;
    if (tokenizer_load(&tokenizer, "models/tiny-hybrid/tokenizer.json", &e) !=
        ST_OK) {
        print_error("%s\n", e.text);
        return -1;
    }
    model = (struct text_model){"tiny", tokenizer};
    return 0;
}

static int unload(void **state)
{
    (void)state;
    tokenizer_free(&tokenizer);
    return 0;
}

static int start(void **state)
{
    struct error e;

    (void)state;
    if (text_threads_new(&threads, &model, 1, 3, &e) != ST_OK) {
        return -1;
    }
    seam = text_threads_seam(threads);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    text_threads_free(&threads);
    return 0;
}

static struct text_job *encode_job(uint64_t tag, const char *text, size_t n)
{
    struct text_job *j = text_job_new(TEXT_ENCODE, tag);

    j->text = malloc(n + 1);
    memcpy(j->text, text, n);
    j->n_text = n;
    return j;
}

static struct text_job *wait_job(void)
{
    struct pollfd p = {.fd = text_threads_fd(threads), .events = POLLIN};
    struct text_job *j = seam->ops->poll(seam);

    while (j == NULL) {
        assert_int_equal(poll(&p, 1, patience_ms()), 1);
        text_threads_quiet(threads);
        j = seam->ops->poll(seam);
    }
    return j;
}

static void encodes_and_decodes(void **state)
{
    struct text_job *j = encode_job(5, TEXT, strlen(TEXT)), *back;

    (void)state;
    assert_int_equal(seam->ops->submit(seam, &j), ST_OK);
    assert_null(j);
    j = wait_job();
    assert_int_equal(j->tag, 5);
    assert_int_equal(j->status, ST_OK);
    assert_in_range(j->n_ids, 5, 40);
    back = text_job_new(TEXT_DECODE, 6);
    back->ids = j->ids;
    back->n_ids = j->n_ids;
    j->ids = NULL;
    text_job_free(&j);
    assert_int_equal(seam->ops->submit(seam, &back), ST_OK);
    back = wait_job();
    assert_int_equal(back->status, ST_OK);
    assert_int_equal(back->n_text, strlen(TEXT));
    assert_memory_equal(back->text, TEXT, back->n_text);
    text_job_free(&back);
}

static void says_what_is_wrong(void **state)
{
    struct text_job *j = encode_job(1, "ab\xff", 3);

    (void)state;
    assert_int_equal(seam->ops->submit(seam, &j), ST_OK);
    j = wait_job();
    assert_int_equal(j->status, ST_INVALID_ARGUMENT);
    assert_true(strlen(j->error.text) > 0);
    text_job_free(&j);
    j = text_job_new(TEXT_DECODE, 2);
    j->ids = malloc(sizeof *j->ids);
    j->ids[0] = 4096; /* one past the vocabulary */
    j->n_ids = 1;
    assert_int_equal(seam->ops->submit(seam, &j), ST_OK);
    j = wait_job();
    assert_int_equal(j->status, ST_INVALID_ARGUMENT);
    assert_non_null(strstr(j->error.text, "ids[0] is 4096"));
    text_job_free(&j);
}

static void refuses_one_past_its_queue(void **state)
{
    uint32_t seen = 0;

    (void)state;
    for (uint64_t i = 0; i < TEXT_QUEUE_MAX; i++) {
        struct text_job *j = encode_job(i, TEXT, strlen(TEXT));

        assert_int_equal(seam->ops->submit(seam, &j), ST_OK);
    }
    {
        struct text_job *j = encode_job(0, TEXT, strlen(TEXT));

        assert_int_equal(seam->ops->submit(seam, &j), ST_RESOURCE_EXHAUSTED);
        assert_non_null(j);
        text_job_free(&j);
    }
    while (seen < TEXT_QUEUE_MAX) {
        struct text_job *j = wait_job();

        assert_int_equal(j->status, ST_OK);
        text_job_free(&j);
        seen++;
    }
    assert_null(seam->ops->poll(seam));
}

static void ends_past_its_ids(void **state)
{
    struct text_job *j = encode_job(1, "a a a a a a a a", 15);

    (void)state;
    j->max_ids = 3;
    assert_int_equal(seam->ops->submit(seam, &j), ST_OK);
    j = wait_job();
    assert_int_equal(j->status, ST_RESOURCE_EXHAUSTED);
    assert_true(j->over);
    assert_null(j->ids);
    text_job_free(&j);
}

/* Texts of many slices give the ids of an encode at once. */
static void encodes_long_texts_in_slices(void **state)
{
    const size_t n = (sizeof TEXT - 1) * 4000;
    size_t cap = tokenizer_bound(tokenizer, n), n_ids;
    uint32_t *ids = malloc(cap * sizeof *ids);
    char *text = malloc(n);

    (void)state;
    assert_true(ids != NULL && text != NULL);
    for (size_t i = 0; i < n; i++) {
        text[i] = TEXT[i % (sizeof TEXT - 1)];
    }
    assert_int_equal(
        tokenizer_encode(tokenizer, text, n, 0, ids, cap, &n_ids, NULL), ST_OK);
    for (uint64_t i = 0; i < 8; i++) {
        struct text_job *j = encode_job(i, text, n);

        j->job.turn.client = i % 3;
        assert_int_equal(seam->ops->submit(seam, &j), ST_OK);
    }
    for (uint64_t i = 0; i < 8; i++) {
        struct text_job *j = wait_job();

        assert_int_equal(j->status, ST_OK);
        assert_int_equal(j->n_ids, n_ids);
        assert_memory_equal(j->ids, ids, n_ids * sizeof *ids);
        text_job_free(&j);
    }
    free(ids);
    free(text);
}

static void stops_with_work_to_do(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        struct text_job *j = encode_job(i, TEXT, strlen(TEXT));

        assert_int_equal(seam->ops->submit(seam, &j), ST_OK);
    }
    /* stop() frees the remaining jobs; sanitizers would find a leak or a race.
     */
}

static void finds_models_by_their_whole_name(void **state)
{
    uint32_t at = 9;

    (void)state;
    assert_true(seam->ops->find(seam, "tiny", 4, &at));
    assert_int_equal(at, 0);
    assert_false(seam->ops->find(seam, "tin", 3, &at));
    assert_false(seam->ops->find(seam, "tinyx", 5, &at));
    assert_false(seam->ops->find(seam, "", 0, &at));
    assert_ptr_equal(seam->ops->tokenizer(seam, 0), tokenizer);
    assert_memory_equal(seam->ops->hash(seam, 0), tokenizer_hash(tokenizer),
                        TOKENIZER_HASH_BYTES);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(encodes_and_decodes),
        WITH(says_what_is_wrong),
        WITH(refuses_one_past_its_queue),
        WITH(ends_past_its_ids),
        WITH(encodes_long_texts_in_slices),
        WITH(stops_with_work_to_do),
        WITH(finds_models_by_their_whole_name),
    };

    return cmocka_run_group_tests(tests, load, unload);
}

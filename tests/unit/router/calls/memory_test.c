/* The memory that open requests may hold: at the limit, and one byte past it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define PROMPT 4000
#define TOKENS 10

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

static struct scene with_memory(size_t bytes)
{
    const struct rig_options o = {.max_peers = 16,
                                  .max_requests = 64,
                                  .max_waiting = 64,
                                  .memory_bytes = bytes};
    struct scene s = {.rig = rig_new(&o)};

    s.w = rig_worker(s.rig, "w1", 4096, 64);
    s.c = rig_client(s.rig, "c1");
    return s;
}

static size_t held(const struct scene *s)
{
    struct router_metrics k;

    router_counts(s->rig->router, &k);
    return k.request_bytes;
}

static struct record *generate(struct scene *s, uint8_t id)
{
    struct record *x = client_generate(s->c, id, PROMPT, TOKENS);

    rig_run(s->rig);
    return x;
}

static void finish(struct scene *s, uint8_t id)
{
    worker_give(s->w, id, 0, TOKENS, LENGTH);
    rig_advance(s->rig, 10000);
}

/* Returns what one request holds. */
static size_t bytes_of_one(void)
{
    struct scene s = with_memory(0);
    size_t bytes;

    (void)generate(&s, 1);
    bytes = held(&s);
    assert_in_range(bytes, PROMPT * 4, PROMPT * 8);
    finish(&s, 1);
    assert_int_equal(held(&s), 0);
    rig_end(&s.rig);
    return bytes;
}

static void requests_share_the_memory(void **state)
{
    size_t one = bytes_of_one();
    struct scene s = with_memory(2 * one);
    struct record *x;

    (void)state;
    (void)generate(&s, 1);
    (void)generate(&s, 2);
    assert_int_equal(s.w->n_submits, 2);
    x = generate(&s, 3);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(x->retry_ms, RETRY_MS_MIN);
    assert_non_null(strstr(x->error, "open requests hold 0."));
    assert_ptr_equal(strstr(x->error, "memory: "), x->error);
    assert_int_equal(held(&s), 2 * one);
    finish(&s, 1);
    (void)generate(&s, 4);
    assert_int_equal(s.w->n_submits, 3);
    finish(&s, 2);
    finish(&s, 4);
    rig_end(&s.rig);
}

static void one_byte_less_is_refused(void **state)
{
    size_t one = bytes_of_one();
    struct scene s = with_memory(2 * one - 1);
    struct record *x;

    (void)state;
    (void)generate(&s, 1);
    x = generate(&s, 2);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    finish(&s, 1);
    rig_end(&s.rig);
}

static void what_never_fits_need_not_be_repeated(void **state)
{
    size_t one = bytes_of_one();
    struct scene s = with_memory(one - 1);
    struct record *x = generate(&s, 1);

    (void)state;
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(x->retry_ms, 0);
    assert_non_null(strstr(x->error, "for all requests"));
    assert_int_equal(held(&s), 0);
    rig_end(&s.rig);
}

/* No answer is refused tokens that were promised to it. */
static void max_tokens_count_from_the_start(void **state)
{
    struct scene s = with_memory(60000);
    struct record *x = client_generate(s.c, 1, 40, 8000), *y;

    (void)state;
    rig_run(s.rig);
    assert_in_range(held(&s), 8192 * 4, 8192 * 4 + 4000);
    y = client_generate(s.c, 2, 40, 8000);
    rig_run(s.rig);
    assert_int_equal(y->status, ST_RESOURCE_EXHAUSTED);
    worker_give(s.w, 1, 0, 8000, LENGTH);
    rig_advance(s.rig, 10000);
    assert_int_equal(x->n_tokens, 8000);
    rig_end(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_share_the_memory),
        cmocka_unit_test(one_byte_less_is_refused),
        cmocka_unit_test(what_never_fits_need_not_be_repeated),
        cmocka_unit_test(max_tokens_count_from_the_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A sequence's life from Submit to its acknowledged end. */
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

static void check_tokens(const struct rig *r, uint64_t grant, uint32_t id,
                         uint32_t n_prompt, uint32_t n)
{
    uint32_t expect[RIG_CONTEXT];

    rig_expect(id, n_prompt, n, expect);
    assert_int_equal(r->heard[grant].n, n);
    assert_memory_equal(r->heard[grant].tokens, expect, n * sizeof *expect);
}

static void generates_to_the_length(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 10};
    uint64_t tag = rig_submit(r, &s);

    (void)state;
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_OK);
    assert_true(r->ends[tag].ended);
    rig_run(r);
    check_tokens(r, 1, 1, 20, 10);
    assert_int_equal(r->heard[1].finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    /* The first token comes from the prefill's own logits. */
    assert_int_equal(r->n_steps, 10);
    rig_advance(r, 20000);
    rig_check_empty(r);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generates_to_the_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

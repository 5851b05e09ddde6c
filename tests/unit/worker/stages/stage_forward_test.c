/* A stage: Forward, its results, and every way in which it can be wrong;
 * OpenPart. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"

#define NONE UINT32_MAX /* the row samples nothing */

static struct bench *stand(bool last)
{
    struct bench *b = bench_new(last);

    bench_assemble(b);
    return b;
}

static void forward_computes_and_goes_on(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = bench_open_plain(b, 8, 8), two = bench_open_plain(b, 12, 8);
    const struct bench_said *s;
    struct bench_forward f;

    (void)state;
    bench_begin(b, &f);
    bench_row(&f, one, false, 0, 8, 0);
    bench_row(&f, two, false, 0, 7, NONE);
    bench_send(b, &f);
    assert_non_null(b->plan);
    assert_int_equal(b->plan->n_rows, 2);
    assert_int_equal(b->plan->n_tokens, 15);
    assert_int_equal(b->plan->n_zero, 2);
    assert_int_equal(bench_account(b).blocks.held, 2);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_FORWARD);
    assert_int_equal(s->step, 1);
    assert_int_equal(s->n, 2);
    assert_memory_equal(s->grants, f.grant, 2 * sizeof *f.grant);
    assert_memory_equal(s->position, f.position, 2 * sizeof *f.position);
    assert_memory_equal(s->count, f.count, 2 * sizeof *f.count);
    assert_memory_equal(s->kind, f.kind, 2 * sizeof *f.kind);
    assert_memory_equal(s->index, f.index, 2 * sizeof *f.index);
    assert_int_equal(s->n_device_us, 2);
    assert_int_equal(s->device_us[0], 5);
    assert_int_equal(s->device_us[1], 11);
    assert_int_equal(s->n_x, 15 * BENCH_HIDDEN * sizeof(float));
    for (uint32_t i = 0; i < 15; i++) {
        assert_true(s->x[i] == bench_x(1, i) + 1);
    }
    bench_begin(b, &f);
    bench_row(&f, two, false, 7, 5, 0);
    bench_row(&f, one, true, 8, 1, 1);
    bench_send(b, &f);
    assert_int_equal(b->plan->n_zero, 0);
    bench_run(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_FORWARD)->kind[1], 3);
    assert_int_equal(bench_account(b).blocks.held, 4);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

static void the_last_stage_answers(void **state)
{
    struct bench *b = stand(true);
    uint64_t one = bench_open_plain(b, 8, 8), two;
    const struct bench_said *s;
    struct bench_forward f;
    struct bench_open o;

    (void)state;
    bench_open(b, &o, 4, 8);
    o.sampling.has_top_logprobs = true;
    o.sampling.top_logprobs = 2;
    bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
    two = b->grant;
    bench_begin(b, &f);
    bench_row(&f, one, false, 0, 8, 0);
    bench_row(&f, two, false, 0, 2, NONE);
    bench_send(b, &f);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_RESULT);
    assert_int_equal(s->step, 1);
    assert_int_equal(s->n, 1); /* row two does not sample */
    assert_int_equal(s->tokens[0], (uint32_t)bench_x(1, 7));
    assert_int_equal(s->n_width, 0);
    assert_int_equal(s->n_logprobs, 0);
    assert_int_equal(s->n_device_us, 2);
    assert_int_equal(s->device_us[1], 11);
    bench_begin(b, &f);
    bench_row(&f, one, true, 8, 1, 1);
    bench_row(&f, two, false, 2, 2, 0);
    bench_send(b, &f);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_RESULT);
    assert_int_equal(s->n, 2);
    assert_int_equal(s->tokens[1], (uint32_t)bench_x(2, 2));
    assert_int_equal(s->n_width, 2);
    assert_int_equal(s->width[0], 0);
    assert_int_equal(s->width[1], 3);
    assert_int_equal(s->n_logprobs, 3);
    assert_true(s->logprobs[0] == -0.5f && s->logprobs[2] == -1.0f);
    assert_int_equal(s->n_top, 2);
    assert_int_equal(s->top[1], 1);
    bench_free(&b);
}

/* The sampled token is in the history of the next one. */
static void the_last_stage_keeps_ids_of_penalties(void **state)
{
    struct bench *b = stand(true);
    Sluice__V1__StageOpenPart part = SLUICE__V1__STAGE_OPEN_PART__INIT;
    uint32_t ids[3] = {30, 31, 32}, first;
    struct bench_open o;

    (void)state;
    bench_open(b, &o, 6, 8);
    o.m.n_generated = 1;
    o.sampling.has_frequency_penalty = true;
    o.sampling.frequency_penalty = 1;
    o.m.n_tokens = 4;
    bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
    bench_forward(b, b->grant, false, 0, 6, NONE); /* ids have not all come */
    bench_run(b);
    part.grant = b->grant;
    part.offset = 4;
    part.n_tokens = 3;
    part.tokens = ids;
    bench_say(b, METHOD_STAGE_OPEN_PART, &part.base);
    bench_forward(b, b->grant, true, 6, 1, 1);
    bench_run(b);
    first = (32 * 7 + 7) % BENCH_VOCAB; /* of seven ids, the last is 32 */
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->tokens[0], first);
    bench_forward(b, b->grant, true, 7, 1, 2);
    bench_run(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->tokens[0],
                     (first * 7 + 8) % BENCH_VOCAB);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

/* One microbatch computes, the others wait in order; as many as there are
 * stages. */
static void microbatches_wait_in_line(void **state)
{
    struct bench *b = stand(false);
    uint64_t grants[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        grants[i] = bench_open_plain(b, 8, 8);
    }
    for (int i = 0; i < 3; i++) {
        bench_forward(b, grants[i], false, 0, 8, 0);
    }
    assert_int_equal(b->n_plans, 1);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(b->plan->step, i);
        bench_run(b);
        assert_int_equal(bench_last(b, METHOD_STAGE_FORWARD)->step, i);
        assert_true(bench_last(b, METHOD_STAGE_FORWARD)->x[0] ==
                    bench_x(i, 0) + 1);
    }
    assert_null(b->plan);
    for (int i = 0; i < 3; i++) {
        bench_forward(b, grants[i], true, 8, 1, 1);
    }
    assert_int_equal(b->n_broken, 0);
    bench_forward(b, grants[3], false, 0, 8, 0);
    bench_check_broken(b, "3 steps are here already, at most 3 may be");
    bench_run(b);
    bench_free(&b);
}

struct wrong {
    uint64_t grant;
    bool generated;
    uint32_t position, count, index;
    const char *text;
};

/* Grant 101 has 8 prompt ids, 5 of them computed; 102 has all 8 computed and
 * the first token sampled; 103 is removed, and 104 waits for its removal. */
static struct bench *with_some(void)
{
    struct bench *b = stand(false);
    struct bench_forward f;

    for (int i = 0; i < 4; i++) {
        bench_open_plain(b, 8, 8);
    }
    bench_begin(b, &f);
    bench_row(&f, 101, false, 0, 5, NONE);
    bench_row(&f, 102, false, 0, 8, 0);
    bench_send(b, &f);
    bench_run(b);
    bench_remove(b, 103);
    bench_forward(b, 104, false, 0, 8, 0);
    bench_remove(b, 104);
    return b;
}

static void a_wrong_row_breaks_it(void **state)
{
    static const struct wrong rows[] = {
        {109, false, 0, 8, 0, "grant 109: the sequence is not open here"},
        {0, false, 0, 8, 0, "grant 0: the sequence is not open here"},
        {103, false, 0, 8, 0, "grant 103: the sequence is not open here"},
        {104, true, 8, 1, 1, "grant 104: the sequence is removed"},
        {101, false, 5, 0, NONE, "1 rows without tokens, but 0 sources"},
        {101, false, 4, 4, 0, "position 4, but the next one is 5"},
        {101, false, 6, 2, 0, "position 6, but the next one is 5"},
        {101, false, 5, 4, 0, "prompt positions 5 to 9, but the prompt has 8"},
        {101, true, 5, 4, 0,
         "generated positions 5 to 9, but the prompt has 8"},
        {101, false, 5, 3, NONE, "positions to 8 without a token, but 8 ids"},
        {101, false, 5, 2, 0,
         "positions to 7 with a token, but 8 ids are known"},
        {101, false, 5, 3, 1,
         "index 1, but 0 of at most 8 tokens are generated"},
        {102, true, 8, 2, 2,
         "positions to 10 with a token, but 9 ids are known"},
        {102, true, 8, 9, 2, "9 tokens at 8, but there are 16 positions"},
        {102, true, 4294967295u, 2, 2, "2 tokens at 4294967295"},
        {102, true, 8, 1, 2,
         "index 2, but 1 of at most 8 tokens are generated"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench *b = with_some();
        const struct wrong *r = &rows[i];
        uint32_t steps = b->n_plans;

        bench_forward(b, r->grant, r->generated, r->position, r->count,
                      r->index);
        bench_check_broken(b, r->text);
        assert_int_equal(b->n_plans, steps);
        bench_free(&b);
    }
}

static void a_right_row_does_not(void **state)
{
    struct bench *b = with_some();
    struct bench_forward f;

    (void)state;
    bench_begin(b, &f);
    bench_row(&f, 101, false, 5, 3, 0);
    bench_row(&f, 102, true, 8, 1, 1);
    bench_send(b, &f);
    while (bench_run(b)) {
    }
    assert_int_equal(b->n_broken, 0);
    assert_int_equal(bench_last(b, METHOD_STAGE_FORWARD)->n, 2);
    bench_free(&b);
}

static void wrong_forward(const struct bench *b, struct bench_forward *f,
                          int how)
{
    switch (how) {
    case 0:
        f->m.step = 1;
        break;
    case 1:
        f->m.n_position--;
        break;
    case 2:
        f->m.n_kind--;
        break;
    case 3:
        f->kind[0] = 16;
        break;
    case 4:
        f->m.n_device_us = 0;
        break;
    case 5:
        f->n_tokens++;
        break;
    case 6:
        f->n_tokens = 0; /* no tensor */
        break;
    case 7:
        bench_row(f, 101, false, 8, 1, NONE);
        break;
    case 8:
        f->m.has_failure = true;
        f->m.failure = wire_text("");
        break;
    case 9:
        f->m.n_grant = f->m.n_position = f->m.n_count = 0;
        f->m.n_kind = f->m.n_index = 0;
        f->n_tokens = 0;
        break;
    default:
        for (uint32_t i = 1; i <= b->o.max_rows; i++) {
            bench_row(f, 101 + i, false, 0, 1, NONE);
        }
    }
}

static void a_wrong_forward_breaks_it(void **state)
{
    static const char *const says[] = {
        "step 1: the previous step was 2",
        "columns of 1 grants, 0 positions",
        "1 counts, 0 kinds",
        "kind 16",
        "times of 0 stages, but it passed 1",
        "a tensor of 64 bytes, but 3 tokens of 4 float32 have 48",
        "a tensor of 0 bytes, but 3 tokens of 4 float32 have 48",
        "row 1, grant 101: the sequence has a row already",
        "a failure of 0 bytes",
        "0 rows, but a step has 1 to 8",
        "9 rows, but a step has 1 to 8",
    };

    (void)state;
    for (int how = 0; how < (int)(sizeof says / sizeof *says); how++) {
        struct bench *b = with_some();
        struct bench_forward f;

        bench_begin(b, &f);
        bench_row(&f, 101, false, 5, 3, 0);
        wrong_forward(b, &f, how);
        bench_send(b, &f);
        bench_check_broken(b, says[how]);
        bench_free(&b);
    }
}

/* As many tokens and rows as a step of the assembly allows, and one more. */
static void steps_are_as_the_assembly_says(void **state)
{
    struct bench *b = bench_new(false);
    Sluice__V1__AssembleRequest m;
    struct bench_forward f;

    (void)state;
    for (uint32_t over = 0; over < 3; over++) {
        b->assembly++;
        b->grant = BENCH_GRANT;
        b->step = 0;
        bench_message(b, &m);
        m.has_max_rows = m.has_step_tokens = true;
        m.max_rows = 2;
        m.step_tokens = 20;
        bench_send_assemble(b, &m);
        bench_connect(b, b->assembly, 0);
        for (int i = 0; i < 3; i++) {
            bench_open_plain(b, 30, 8);
        }
        bench_begin(b, &f);
        bench_row(&f, 101, false, 0, 10, NONE);
        bench_row(&f, 102, false, 0, 10 + (over == 1), NONE);
        if (over == 2) {
            bench_row(&f, 103, false, 0, 1, NONE);
        }
        bench_send(b, &f);
        if (over == 0) {
            bench_run(b);
            assert_int_equal(b->n_broken, 0);
        } else {
            bench_check_broken(b, over == 1
                                      ? "21 tokens, but a step has at most 20"
                                      : "3 rows, but a step has 1 to 2");
        }
    }
    bench_free(&b);
}

static void a_token_needs_its_ids(void **state)
{
    struct bench *b = stand(true);
    Sluice__V1__StageOpenPart part = SLUICE__V1__STAGE_OPEN_PART__INIT;
    uint32_t ids[5] = {1, 2, 3, 4, BENCH_VOCAB};
    static const struct {
        uint64_t grant;
        uint32_t offset, n, from;
        const char *text;
    } wrong[] = {
        {109, 4, 4, 0, "OpenPart of grant 109: the sequence is not open here"},
        {101, 3, 4, 0, "4 ids at 3, but 4 of 8 have come"},
        {101, 5, 3, 0, "3 ids at 5, but 4 of 8 have come"},
        {101, 4, 0, 0, "0 ids at 4, but 4 of 8 have come"},
        {101, 4, 5, 0, "5 ids at 4, but 4 of 8 have come"},
        {101, 4, 4, 1, "id 1000 at position 7"},
        {0, 0, 0, 0, "it samples, but only 4 of 8 ids have come"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct bench_open o;

        if (i > 0) {
            bench_assemble(b);
        }
        bench_open(b, &o, 8, 8);
        o.sampling.has_presence_penalty = true;
        o.sampling.presence_penalty = 1;
        o.m.n_tokens = 4;
        bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
        part.grant = wrong[i].grant;
        part.offset = wrong[i].offset;
        part.n_tokens = wrong[i].n;
        part.tokens = ids + wrong[i].from;
        if (part.grant != 0) {
            bench_say(b, METHOD_STAGE_OPEN_PART, &part.base);
        } else {
            bench_forward(b, b->grant, false, 0, 8, 0);
        }
        bench_check_broken(b, wrong[i].text);
    }
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_computes_and_goes_on),
        cmocka_unit_test(the_last_stage_answers),
        cmocka_unit_test(the_last_stage_keeps_ids_of_penalties),
        cmocka_unit_test(microbatches_wait_in_line),
        cmocka_unit_test(a_wrong_row_breaks_it),
        cmocka_unit_test(a_right_row_does_not),
        cmocka_unit_test(a_wrong_forward_breaks_it),
        cmocka_unit_test(steps_are_as_the_assembly_says),
        cmocka_unit_test(a_token_needs_its_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A stage: Open and Remove, failures, and what it refuses. Forward is in
 * stage_forward_test.c. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"
#include "worker/base/watch.h"

#define NONE UINT32_MAX /* the row samples nothing */

static struct bench *stand(bool last)
{
    struct bench *b = bench_new(last);

    bench_assemble(b);
    return b;
}

/* ---- Open ---- */

static void open_reserves(void **state)
{
    struct bench *b = stand(false);
    struct worker_account a;
    uint64_t grant = bench_open_plain(b, 9, 8);

    (void)state;
    a = bench_account(b);
    assert_int_equal(a.grant, 1);
    assert_int_equal(a.blocks.granted, 3);
    assert_int_equal(a.slots.granted, 1);
    assert_int_equal(a.n_sequences, 1);
    assert_int_equal(bench_last(b, METHOD_STAGE_OPEN)->grant, grant);
    bench_advance(b, 20000);
    assert_int_equal(b->ledger_grant, 1); /* the report has it as settled */
    assert_int_equal(b->n_outputs, 0);
    bench_free(&b);
}

static void void_settles_alone(void **state)
{
    struct bench *b = stand(false);
    Sluice__V1__StageOpen m = SLUICE__V1__STAGE_OPEN__INIT;
    struct bench_open o;

    (void)state;
    bench_open(b, &o, 8, 8);
    o.stages.n_blocks = o.stages.n_slots = o.stages.n_checkpoints = 0;
    m.grant = b->grant;
    m.stages = &o.stages;
    m.has_void_ = m.void_ = true;
    bench_say(b, METHOD_STAGE_OPEN, &m.base);
    assert_int_equal(bench_account(b).grant, 1);
    assert_int_equal(bench_account(b).n_sequences, 0);
    assert_int_equal(bench_account(b).pages.free, BENCH_PAGES);
    assert_int_equal(bench_last(b, METHOD_STAGE_OPEN)->grant, b->grant);
    /* Its Remove finds no sequence, and adds zeros. */
    bench_remove(b, b->grant);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->n, 1);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->blocks[0], 0);
    bench_open_plain(b, 8, 8);
    assert_int_equal(bench_account(b).grant, 2);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

static void the_last_stage_keeps_opens(void **state)
{
    struct bench *b = stand(true);

    (void)state;
    bench_open_plain(b, 8, 8);
    assert_int_equal(b->n_said, 0);
    assert_int_equal(bench_account(b).n_sequences, 1);
    bench_free(&b);
}

/* Ways in which an Open is wrong. */
static void wrong_open(struct bench_open *o, int how)
{
    switch (how) {
    case 0:
        o->m.grant++;
        break;
    case 1:
        o->grants[0]++;
        break;
    case 2:
        o->grants[0]--;
        break;
    case 3:
        o->stages.n_grant--;
        break;
    case 4:
        o->stages.n_slots--;
        break;
    case 5:
        o->m.sampling = NULL;
        break;
    case 6:
        o->m.sequence = NULL;
        break;
    case 7:
        o->m.n_prompt = 0;
        break;
    case 8:
        o->m.max_tokens = 0;
        break;
    case 9:
        o->m.max_tokens = 249; /* one more than the context, with 8 */
        break;
    case 10:
        o->m.n_generated = o->m.max_tokens + 1;
        break;
    case 11:
        o->blocks[0]--;
        break;
    case 12:
        o->slots[0] = 2;
        break;
    case 13:
        o->ref.request_id.len = 15;
        break;
    case 14:
        o->sampling.has_temperature = true;
        o->sampling.temperature = -1;
        break;
    case 15:
        o->m.n_tokens = 9;
        break;
    case 16:
        o->m.n_tokens = 2;
        o->ids[1] = BENCH_VOCAB;
        break;
    default:
        o->checkpoints[0] = 1;
        break;
    }
}

static void a_wrong_open_breaks_it(void **state)
{
    static const char *const says[] = {
        "the previous Open had grant 101",
        "this stage's grant 3 came after 1",
        "this stage's grant 1 came after 1",
        "grants of 1 stages past the first",
        "slots of 1, checkpoints of 2, windows of 0; there are 2",
        "sequence and sampling are required",
        "sequence and sampling are required",
        "n_prompt 0 and max_tokens 8",
        "n_prompt 8 and max_tokens 0",
        "together at most the context, 256",
        "n_generated 9 of max_tokens 8",
        "need has 1 blocks, 16 ids need 2 to 33",
        "need has 2 slots, a sequence needs 1",
        "request_id has 15 bytes",
        "temperature is -1",
        "9 ids came with it, n_prompt is 8",
        "id 1000 at position 1",
        "need has 1 checkpoints, a sequence has none",
    };

    (void)state;
    for (int how = 0; how < (int)(sizeof says / sizeof *says); how++) {
        struct bench *b = stand(false);
        struct bench_open o;

        bench_open_plain(b, 8, 8);
        bench_open(b, &o, 8, 8);
        wrong_open(&o, how);
        bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
        bench_check_broken(b, says[how]);
        assert_int_equal(bench_account(b).pages.free, BENCH_PAGES);
        bench_free(&b);
    }
}

/* There are eight slots: a ninth sequence does not fit. */
static void what_does_not_fit_breaks_it(void **state)
{
    struct bench *b = stand(false);

    (void)state;
    for (uint32_t i = 0; i < b->o.pool.slot_cap; i++) {
        bench_open_plain(b, 8, 8);
    }
    assert_int_equal(b->n_broken, 0);
    assert_int_equal(bench_account(b).slots.free, 0);
    bench_open_plain(b, 8, 8);
    bench_check_broken(b, "Open of grant 109: ");
    assert_int_equal(bench_account(b).slots.free, b->o.pool.slot_cap);
    bench_free(&b);
}

/* The longest sequence, which fills its memory. */
static void takes_the_longest(void **state)
{
    struct bench *b = stand(false);
    uint64_t grant = bench_open_plain(b, 248, 8);

    (void)state;
    for (uint32_t at = 0; at < 192; at += 64) {
        bench_forward(b, grant, false, at, 64, NONE);
        bench_run(b);
    }
    bench_forward(b, grant, false, 192, 56, 0);
    bench_run(b);
    for (uint32_t i = 0; i < 7; i++) {
        bench_forward(b, grant, true, 248 + i, 1, i + 1);
        bench_run(b);
    }
    assert_int_equal(b->n_broken, 0);
    assert_int_equal(bench_account(b).blocks.held, 32);
    bench_forward(b, grant, true, 255, 1, 8); /* eight have been sampled */
    bench_check_broken(b, "index 8, but 8 of at most 8 tokens are generated");
    bench_free(&b);
}

/* ---- Remove ---- */

/* The memory is free at once, because plans run in order; the message keeps its
 * place behind the Forwards. */
static void remove_frees_at_once(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = bench_open_plain(b, 8, 8), two = bench_open_plain(b, 8, 8);
    const struct bench_said *s;
    uint32_t said;

    (void)state;
    bench_forward(b, one, false, 0, 8, 0);
    bench_forward(b, two, false, 0, 8, 0);
    said = b->n_said;
    bench_remove(b, one);
    assert_int_equal(b->n_said, said); /* its plan is on its way */
    assert_int_equal(bench_account(b).pages.free, BENCH_PAGES - 5);
    bench_open_plain(b, 8, 8);
    assert_int_equal(bench_account(b).pages.free, BENCH_PAGES - 10);
    assert_int_equal(bench_account(b).n_sequences, 3);
    bench_run(b);
    assert_int_equal(bench_account(b).n_sequences, 2);
    assert_int_equal(b->said[b->n_said - 1].method, METHOD_STAGE_FORWARD);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_REMOVE);
    assert_int_equal(b->said[b->n_said - 3].method, METHOD_STAGE_FORWARD);
    assert_int_equal(b->said[b->n_said - 2].method, METHOD_STAGE_REMOVE);
    assert_int_equal(b->said[b->n_said - 1].method, METHOD_STAGE_OPEN);
    assert_int_equal(s->grant, one);
    assert_int_equal(s->n, 1);
    assert_int_equal(s->blocks[0], 2);
    assert_int_equal(s->slots[0], 1);
    bench_remove(b, two); /* at once, because no plan is in line */
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->grant, two);
    assert_int_equal(bench_account(b).n_sequences, 1);
    bench_remove(b, two); /* no sequence is here any more */
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->blocks[0], 0);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

/* The receipts of the previous stages are passed on. */
static void receipts_add_up(void **state)
{
    struct bench *b = stand(true);
    Sluice__V1__StageRemove m = SLUICE__V1__STAGE_REMOVE__INIT;
    uint32_t freed[2] = {7, 8};

    (void)state;
    m.grant = bench_open_plain(b, 8, 8);
    bench_say(b, METHOD_STAGE_REMOVE, &m.base);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->blocks[0], 2);
    m.n_blocks = m.n_slots = m.n_checkpoints = 1;
    m.blocks = m.slots = m.checkpoints = freed;
    bench_say(b, METHOD_STAGE_REMOVE, &m.base);
    bench_check_broken(b, "receipts of 1, 1, 1 and 0 stages, but it passed 0");
    bench_free(&b);
    b = bench_new(true);
    b->stage = 2;
    b->n_stages = 3;
    bench_assemble(b);
    m.grant = bench_open_plain(b, 8, 8);
    bench_forward(b, m.grant, false, 0, 8, 0);
    bench_say(b, METHOD_STAGE_REMOVE, &m.base);
    bench_run(b);
    assert_int_equal(bench_last(b, METHOD_STAGE_RESULT)->n_device_us, 3);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->n, 2);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->blocks[0], 7);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->slots[0], 7);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->blocks[1], 2);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->slots[1], 1);
    m.n_slots = 0;
    bench_say(b, METHOD_STAGE_REMOVE, &m.base);
    bench_check_broken(b, "receipts of 1, 0, 1 and 0 stages, but it passed 1");
    bench_free(&b);
}

static void a_second_remove_breaks_it(void **state)
{
    struct bench *b = stand(false);
    uint64_t grant = bench_open_plain(b, 8, 8);

    (void)state;
    bench_forward(b, grant, false, 0, 8, 0);
    bench_remove(b, grant);
    bench_remove(b, grant);
    bench_check_broken(b, "Remove of grant 101: it came before");
    bench_run(b);
    bench_assemble(b);
    bench_remove(b, 0);
    bench_check_broken(b, "Remove of grant 0: it names none");
    bench_free(&b);
}

/* ---- failures ---- */

static void a_failed_step_goes_on(void **state)
{
    struct bench *b = stand(false);
    uint64_t one = bench_open_plain(b, 16, 8), two = bench_open_plain(b, 8, 8);
    const struct bench_said *s;
    struct bench_forward f;

    (void)state;
    b->fail_next = "the device burns";
    b->astray = true;
    bench_forward(b, one, false, 0, 8, NONE);
    bench_begin(b, &f); /* was on its way already */
    bench_row(&f, one, false, 8, 8, 0);
    bench_row(&f, two, false, 0, 8, 0);
    bench_send(b, &f);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_FORWARD);
    assert_string_equal(s->failure, "stage 1: the device burns");
    assert_int_equal(s->n_x, 0);
    assert_int_equal(s->n, 1);
    assert_int_equal(s->grants[0], one);
    assert_int_equal(s->n_device_us, 2);
    assert_int_equal(b->plan->n_rows, 2);
    assert_false(b->plan->rows[0].sample); /* not needed any more */
    assert_true(b->plan->rows[1].sample);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_FORWARD);
    assert_string_equal(s->failure, "");
    assert_int_equal(s->n_x, 16 * BENCH_HIDDEN * sizeof(float));
    assert_int_equal(s->kind[0], 2);
    bench_remove(b, one);
    bench_forward(b, two, true, 8, 1, 1);
    bench_run(b);
    assert_int_equal(bench_account(b).n_sequences, 1);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

/* A failure at an earlier stage: nothing is computed here, and the order is
 * kept. */
static void a_failure_keeps_its_place(void **state)
{
    struct bench *b = stand(true);
    uint64_t one = bench_open_plain(b, 16, 8), two = bench_open_plain(b, 8, 8);
    const struct bench_said *s;
    struct bench_forward f;

    (void)state;
    b->n_stages = 2;
    b->astray = true;
    bench_forward(b, two, false, 0, 8, 0);
    bench_begin(b, &f);
    bench_row(&f, one, false, 0, 8, NONE);
    f.m.has_failure = true;
    f.m.failure = wire_text("stage 0: it is hot");
    bench_send(b, &f);
    assert_int_equal(b->n_said, 0); /* after the one before it */
    bench_run(b);
    assert_int_equal(b->n_said, 2);
    assert_int_equal(b->said[0].step, 1);
    s = &b->said[1];
    assert_int_equal(s->method, METHOD_STAGE_RESULT);
    assert_int_equal(s->step, 2);
    assert_int_equal(s->n, 0);
    assert_string_equal(s->failure, "stage 0: it is hot");
    assert_int_equal(s->n_device_us, 2);
    assert_int_equal(s->device_us[1], 0);
    assert_int_equal(b->n_plans, 1);
    /* Later rows were on their way: they count as sampled, without a token. */
    bench_begin(b, &f);
    bench_row(&f, one, false, 8, 8, 0);
    bench_row(&f, two, true, 8, 1, 1);
    bench_send(b, &f);
    bench_run(b);
    s = bench_last(b, METHOD_STAGE_RESULT);
    assert_int_equal(s->n, 2);
    assert_int_equal(s->tokens[0], 0);
    assert_int_equal(s->tokens[1], (uint32_t)bench_x(3, 8));
    bench_remove(b, one);
    assert_int_equal(bench_last(b, METHOD_STAGE_REMOVE)->blocks[0], 3);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

static void an_engine_that_refuses_fails_the_step(void **state)
{
    struct bench *b = stand(false);
    uint64_t grant = bench_open_plain(b, 8, 8);

    (void)state;
    b->refuse_plans = true;
    bench_forward(b, grant, false, 0, 8, 0);
    assert_string_equal(bench_last(b, METHOD_STAGE_FORWARD)->failure,
                        "stage 1: the engine refused a plan");
    b->refuse_plans = false;
    bench_remove(b, grant);
    grant = bench_open_plain(b, 8, 8);
    b->no_hidden = true;
    bench_forward(b, grant, false, 0, 8, 0);
    bench_run(b);
    assert_string_equal(
        bench_last(b, METHOD_STAGE_FORWARD)->failure,
        "stage 1: the engine returned no hidden states for layers "
        "2-3 of 4");
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

/* A failure must not have a tensor. */
static void a_failure_has_no_tensor(void **state)
{
    struct bench *b = stand(false);
    uint64_t grant = bench_open_plain(b, 8, 8);
    float x[8 * BENCH_HIDDEN] = {0};
    struct bench_forward f;

    (void)state;
    bench_begin(b, &f);
    bench_row(&f, grant, false, 0, 8, 0);
    f.m.has_failure = true;
    f.m.failure = wire_text("no");
    assert_int_equal(peer_oneway_tensor(b->out, METHOD_STAGE_FORWARD, &f.m.base,
                                        x, sizeof x),
                     ST_OK);
    bench_check_broken(b, "a failure with a tensor of 128 bytes");
    bench_free(&b);
}

/* ---- a new assembly, while the engine has a plan of the last one ---- */

static void a_plan_of_the_last_assembly_is_nobodys(void **state)
{
    struct bench *b = stand(false);
    uint64_t grant = bench_open_plain(b, 8, 8);
    uint32_t said;

    (void)state;
    bench_forward(b, grant, false, 0, 8, 0);
    bench_assemble(b);
    assert_int_equal(bench_account(b).pages.free, BENCH_PAGES);
    for (int i = 0; i < 3; i++) {
        grant = bench_open_plain(b, 8, 8);
        bench_forward(b, grant, false, 0, 8, 0);
    }
    assert_int_equal(b->n_plans, 1);
    assert_int_equal(b->n_broken, 0);
    said = b->n_said;
    bench_run(b);
    assert_int_equal(b->n_said, said);
    assert_int_equal(bench_account(b).n_sequences, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(bench_run(b));
    }
    assert_int_equal(bench_last(b, METHOD_STAGE_FORWARD)->step, 3);
    bench_free(&b);
}

/* ---- an engine that dies ---- */

static void a_dead_engine_ends_the_stage(void **state)
{
    struct bench *b = stand(false);
    uint64_t grant = bench_open_plain(b, 8, 8);

    (void)state;
    bench_forward(b, grant, false, 0, 8, 0);
    bench_forward(b, bench_open_plain(b, 8, 8), false, 0, 8, 0);
    b->stands = true;
    bench_advance(b, ENGINE_DEAD_US + WATCH_LOOK_US);
    assert_true(b->due_us == NODE_STOP);
    assert_true(worker_failed(b->worker));
    assert_null(b->in); /* the neighbour stages were notified */
    assert_null(b->out);
    bench_free(&b);
}

/* The step that was under way is not passed on. */
static void a_lost_device_ends_the_stage(void **state)
{
    struct bench *b = stand(true);
    uint64_t grant = bench_open_plain(b, 8, 8);

    (void)state;
    bench_forward(b, grant, false, 0, 8, 0);
    bench_forward(b, bench_open_plain(b, 8, 8), false, 0, 8, 0);
    b->lost = true;
    bench_run(b);
    assert_true(b->due_us == NODE_STOP);
    assert_true(worker_lost(b->worker));
    assert_int_equal(b->n_said, 0);
    assert_null(b->in);
    bench_free(&b);
}

/* ---- back-pressure ---- */

/* The next stage accepts nothing for a while: the link has room for
 * everything that may be under way, three tensors of 3.75 MiB and what fills
 * the pool. */
static void all_that_may_be_under_way_has_room(void **state)
{
    struct bench *b = bench_new_wide(false, 16384);
    struct bench_open o;
    uint64_t grants[8];

    (void)state;
    bench_assemble(b);
    b->deaf = true;
    for (uint32_t i = 0; i < 8; i++) {
        bench_open(b, &o, 60, 4);
        o.m.n_tokens = 60;
        bench_say(b, METHOD_STAGE_OPEN, &o.m.base);
        grants[i] = b->grant;
    }
    for (uint32_t i = 0; i < 3; i++) {
        bench_forward(b, grants[i], false, 0, 60, 0);
    }
    while (bench_run(b)) {
    }
    for (uint32_t i = 0; i < 8; i++) {
        bench_remove(b, grants[i]);
    }
    assert_int_equal(b->n_broken, 0);
    assert_int_equal(b->n_said, 0);
    b->deaf = false;
    bench_advance(b, 600000);
    assert_int_equal(b->n_said, 8 + 3 + 8);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_reserves),
        cmocka_unit_test(void_settles_alone),
        cmocka_unit_test(the_last_stage_keeps_opens),
        cmocka_unit_test(a_wrong_open_breaks_it),
        cmocka_unit_test(what_does_not_fit_breaks_it),
        cmocka_unit_test(takes_the_longest),
        cmocka_unit_test(remove_frees_at_once),
        cmocka_unit_test(receipts_add_up),
        cmocka_unit_test(a_second_remove_breaks_it),
        cmocka_unit_test(a_failed_step_goes_on),
        cmocka_unit_test(a_failure_keeps_its_place),
        cmocka_unit_test(an_engine_that_refuses_fails_the_step),
        cmocka_unit_test(a_failure_has_no_tensor),
        cmocka_unit_test(a_plan_of_the_last_assembly_is_nobodys),
        cmocka_unit_test(a_dead_engine_ends_the_stage),
        cmocka_unit_test(a_lost_device_ends_the_stage),
        cmocka_unit_test(all_that_may_be_under_way_has_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Window layers: what a sequence is charged for them, at workers with all
 * layers and at stages, and what the router refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

/* A window of 64 tokens and chunks of 32 are at most 4 blocks of 32 at once,
 * each of 2 pages. */
#define WINDOW 64
#define CHUNK  32
#define PER    2
#define MOST   (4 * PER)

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

static struct fake *windowed(struct rig *rig, const char *name, uint32_t total)
{
    struct fake *w = fake_worker_new(rig, name, 64, 8);

    fake_windows(w, WINDOW, CHUNK, PER, total);
    fake_hello(w);
    if (!w->up) {
        fail_msg("%s was refused: %s", name, w->why);
    }
    return w;
}

static void bring(struct scene *s, uint32_t total)
{
    s->rig = rig_new(NULL);
    s->w = windowed(s->rig, "w1", total);
    s->c = rig_client(s->rig, "c1");
}

static void report(struct fake *w)
{
    worker_report(w);
    rig_run(w->rig);
}

static void is_lie(struct scene *s, const char *why)
{
    assert_true(s->w->gone);
    if (strstr(s->w->goodbye, why) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", why, s->w->goodbye);
    }
    rig_free(&s->rig);
}

static void a_need_ends_with_the_window(void **state)
{
    static const struct {
        uint32_t n_tokens, blocks;
    } rows[] = {{32, 1},  {33, 2},  {96, 3},  {97, 4},
                {128, 4}, {129, 4}, {1000, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene s;
        const struct sequence *x;

        bring(&s, 64);
        client_generate(s.c, 1, 16, rows[i].n_tokens - 16);
        rig_run(s.rig);
        x = worker_sequence_of(s.w, 1);
        assert_int_equal(x->windows, rows[i].blocks * PER);
        assert_int_equal(x->blocks, (rows[i].n_tokens + 31) / 32);
        assert_int_equal(fake_view(s.w).granted_pages,
                         x->windows + x->blocks + x->slots);
        assert_int_equal(fake_view(s.w).granted_windows, x->windows);
        rig_free(&s.rig);
    }
}

static void a_model_without_windows_needs_none(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8), *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 16, 1000);

    (void)state;
    rig_run(rig);
    assert_int_equal(worker_sequence_of(w, 1)->windows, 0);
    worker_give(w, 1, 0, 1000, LENGTH);
    assert_false(x->figures.has_windows);
    rig_free(&rig);
}

/* Blocks and slots are left, but no pages for a window. */
static void a_sequence_waits_for_window_pages(void **state)
{
    struct scene s;
    struct record *x;

    (void)state;
    bring(&s, 3 * MOST);
    x = client_generate(s.c, 1, 40, 200);
    for (uint8_t id = 2; id <= 4; id++) {
        client_generate(s.c, id, 40, 200);
    }
    rig_run(s.rig);
    assert_int_equal(s.w->n_submits, 3);
    assert_int_equal(rig_state(s.rig, 4), CHOICE_WAITING);
    worker_make(s.w, worker_sequence_of(s.w, 1), 200, LENGTH);
    worker_release(s.w, worker_sequence_of(s.w, 1));
    worker_step(s.w);
    rig_run(s.rig);
    assert_int_equal(s.w->n_submits, 4);
    assert_true(x->figures.has_windows);
    assert_int_equal(x->figures.windows, MOST);
    rig_free(&s.rig);
}

/* At the limit, and one past it. */
static void what_never_fits_is_refused_with_its_windows(void **state)
{
    struct scene s;
    struct record *x;

    (void)state;
    bring(&s, MOST);
    x = client_generate(s.c, 1, 40, 1000);
    rig_run(s.rig);
    assert_false(x->ended);
    rig_free(&s.rig);
    bring(&s, MOST - 1);
    x = client_generate(s.c, 1, 40, 1000);
    rig_run(s.rig);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(
        x->error, "need 33 blocks, 8 window pages and 1 slots, 42 pages"));
    rig_free(&s.rig);
}

/* ---- what a worker reports ---- */

static void windows_of_a_running_sequence_are_not_free(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 64);
    client_generate(s.c, 1, 40, 200);
    rig_run(s.rig);
    worker_give(s.w, 1, 0, 2, 0);
    report(s.w);
    assert_false(s.w->gone);
    s.w->classes[4].free++;
    s.w->classes[4].granted--;
    report(s.w);
    is_lie(&s, "7 window pages held or granted, but 1 sequences that run there "
               "need 8");
}

/* Blocks behind the window return to the grant. */
static void a_window_that_moves_is_no_violation(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 64);
    client_generate(s.c, 1, 40, 200);
    rig_run(s.rig);
    s.w->classes[4].held = 6;
    s.w->classes[4].granted -= 6;
    report(s.w);
    s.w->classes[4].held = 4;
    s.w->classes[4].granted += 2;
    report(s.w);
    assert_false(s.w->gone);
    rig_free(&s.rig);
}

static void pages_that_are_not_those_of_the_windows(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 64);
    s.w->own_pages = true;
    s.w->classes[4].free--;
    s.w->classes[4].held++;
    report(s.w);
    is_lie(&s,
           "0 are held, but the blocks, slots, window pages and checkpoints "
           "that are held take 1");
}

static void a_ledger_without_its_windows(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 64);
    s.w->ledger.windows = NULL;
    report(s.w);
    is_lie(&s, "0 window pages in total, but its Hello reported 64");
}

static void a_page_more(Sluice__V1__Receipt *r)
{
    r->windows++;
}

static void a_receipt_has_the_windows_that_were_freed(void **state)
{
    struct scene s;
    struct record *k;

    (void)state;
    bring(&s, 64);
    client_generate_n(s.c, 1, 2, 40, 200);
    rig_run(s.rig);
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(k->status, ST_OK);
    assert_int_equal(k->receipt.windows, 2 * MOST);
    assert_int_equal(k->n_windows, 0);
    s.w->spoil_receipt = a_page_more;
    client_generate(s.c, 2, 40, 200);
    rig_run(s.rig);
    client_cancel(s.c, 2);
    rig_run(s.rig);
    is_lie(&s, "reports windows 9, must be 0..8");
}

/* ---- stages ---- */

/* The first stage has no window layers, the others have window blocks of 1 and
 * of 2 pages. */
static void bring_stages(struct rig *rig, struct fake *w[3])
{
    for (uint32_t i = 0; i < 3; i++) {
        char name[16];

        snprintf(name, sizeof name, "w%u", i);
        w[i] = fake_stage_new(rig, name, i, i < 2 ? i + 1 : 4);
        if (i == 0) {
            w[i]->shard.has_chunk_tokens = true;
            w[i]->shard.chunk_tokens = CHUNK;
        } else {
            fake_windows(w[i], WINDOW, CHUNK, i, 16);
        }
        fake_hello(w[i]);
        assert_true(w[i]->up);
    }
}

static void each_stage_holds_the_windows_of_its_layers(void **state)
{
    static const uint32_t windows[] = {0, 4, 8};
    struct rig *rig = rig_new(NULL);
    struct fake *w[3], *c = rig_client(rig, "c1");
    struct record *x, *k;

    (void)state;
    bring_stages(rig, w);
    assert_int_equal(w[0]->n_stages, 3);
    x = client_generate(c, 1, 40, 200);
    rig_run(rig);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(worker_sequence_of(w[i], 1)->windows, windows[i]);
        assert_int_equal(fake_view(w[i]).granted_windows, windows[i]);
    }
    k = client_cancel(c, 1);
    rig_run(rig);
    assert_int_equal(k->receipt.windows, 12);
    assert_int_equal(k->n_windows, 3);
    assert_memory_equal(k->stage_windows, windows, sizeof windows);
    assert_int_equal(x->figures.windows, 12);
    /* 16 pages: two sequences at a time, by the last stage. */
    for (uint8_t id = 2; id <= 4; id++) {
        client_generate(c, id, 40, 200);
    }
    for (int i = 0; i < 3; i++) {
        report(w[i]);
    }
    assert_int_equal(rig_state(rig, 3), CHOICE_PREFILL);
    assert_int_equal(rig_state(rig, 4), CHOICE_WAITING);
    rig_free(&rig);
}

static void one_page_more(Sluice__V1__Receipt *r)
{
    r->stage_windows[1]++;
}

static void stages_that_do_not_add_up(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[3], *c = rig_client(rig, "c1");

    (void)state;
    bring_stages(rig, w);
    client_generate(c, 1, 40, 200);
    rig_run(rig);
    w[0]->spoil_receipt = one_page_more;
    client_cancel(c, 1);
    rig_run(rig);
    assert_true(w[0]->gone);
    assert_non_null(strstr(
        w[0]->goodbye, "reports 12 window pages, but its stages add up to 13"));
    rig_free(&rig);
}

/* The leader's chunks bound the window blocks at every stage. */
static void the_chunks_of_the_leader_count(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[2], *c = rig_client(rig, "c1");

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        w[i] = fake_stage_new(rig, i == 0 ? "a" : "b", 2 * i, 2 * i + 2);
        fake_windows(w[i], WINDOW, i == 0 ? 2 * CHUNK : CHUNK, PER, 64);
        fake_hello(w[i]);
        assert_true(w[i]->up);
    }
    client_generate(c, 1, 40, 400);
    rig_run(rig);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(worker_sequence_of(w[i], 1)->windows, 5 * PER);
    }
    rig_free(&rig);
}

/* Such a leader does not bound its steps. */
static void a_leader_without_chunks_leads_no_windows(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_stage(rig, "a", 0, 2);
    struct fake *b = fake_stage_new(rig, "b", 2, 4);

    (void)state;
    fake_windows(b, WINDOW, CHUNK, 1, 16);
    fake_hello(b);
    assert_true(b->up);
    assert_int_equal(a->n_assembles + b->n_assembles, 0);
    rig_free(&rig);
}

/* ---- headroom ---- */

/* 24 pages each: three sequences in all, so that either could take the others'.
 */
static void headroom_counts_window_pages(void **state)
{
    const struct rig_options o = {.max_peers = 16,
                                  .max_requests = 64,
                                  .max_waiting = 64,
                                  .headroom = true};
    struct rig *rig = rig_new(&o);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    windowed(rig, "a", 3 * MOST);
    windowed(rig, "b", 3 * MOST);
    for (uint8_t id = 1; id <= 4; id++) {
        client_generate(c, id, 40, 200);
        rig_run(rig);
    }
    assert_int_equal(rig_state(rig, 3), CHOICE_PREFILL);
    assert_int_equal(rig_state(rig, 4), CHOICE_WAITING);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_need_ends_with_the_window),
        cmocka_unit_test(a_model_without_windows_needs_none),
        cmocka_unit_test(a_sequence_waits_for_window_pages),
        cmocka_unit_test(what_never_fits_is_refused_with_its_windows),
        cmocka_unit_test(windows_of_a_running_sequence_are_not_free),
        cmocka_unit_test(a_window_that_moves_is_no_violation),
        cmocka_unit_test(pages_that_are_not_those_of_the_windows),
        cmocka_unit_test(a_ledger_without_its_windows),
        cmocka_unit_test(a_receipt_has_the_windows_that_were_freed),
        cmocka_unit_test(each_stage_holds_the_windows_of_its_layers),
        cmocka_unit_test(stages_that_do_not_add_up),
        cmocka_unit_test(the_chunks_of_the_leader_count),
        cmocka_unit_test(a_leader_without_chunks_leads_no_windows),
        cmocka_unit_test(headroom_counts_window_pages),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

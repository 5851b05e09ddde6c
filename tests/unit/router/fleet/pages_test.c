/* Pools whose classes share their pages: what is granted, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

/* Units that the pool has cached, beside what sequences were granted. */
struct cached {
    uint32_t blocks, checkpoints;
};

/* Fills in the ledger as a pool of pages publishes it: a block is a page, a
 * slot or checkpoint `per` pages.  Slots have a cap, their total. */
static void settle(struct fake *w, uint32_t per, struct cached cached)
{
    Sluice__V1__ClassLedger *k = w->classes;
    Sluice__V1__ClassLedger *p = &k[3];

    k[0].granted = k[1].granted = 0;
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        k[0].granted += w->sequences[i].used ? w->sequences[i].blocks : 0;
        k[1].granted += w->sequences[i].used ? w->sequences[i].slots : 0;
    }
    k[0].cached = cached.blocks;
    k[2].cached = cached.checkpoints;
    p->granted = k[0].granted + per * k[1].granted;
    p->cached = cached.blocks + per * cached.checkpoints;
    p->free = p->total - p->granted - p->cached;
    k[0].free = p->free;
    k[1].free = min_u32(p->free / per, k[1].total - k[1].granted);
    k[2].free = p->free / per;
}

static struct fake *pool(struct rig *rig, const char *name, uint32_t n_pages,
                         uint32_t per, uint32_t cap, struct cached cached)
{
    struct fake *w =
        fake_worker_new(rig, name, n_pages, min_u32(cap, n_pages / per));

    w->own_pages = true;
    w->shard.pages_per_slot = w->shard.pages_per_checkpoint = per;
    w->classes[2].total = n_pages / per;
    w->classes[3].total = n_pages;
    settle(w, per, cached);
    fake_hello(w);
    if (!w->up) {
        fail_msg("%s was refused: %s", name, w->why);
    }
    return w;
}

static void report(struct fake *w, uint32_t per, struct cached cached)
{
    settle(w, per, cached);
    worker_report(w);
    rig_run(w->rig);
}

/* Long sequences take many blocks, short ones many slots: no border divides
 * the pages. */
static void blocks_and_slots_share_the_pages(void **state)
{
    (void)state;
    for (int many = 0; many < 2; many++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w =
            pool(rig, "w1", 60, 5, 64, (struct cached){.blocks = 0});
        struct fake *c = rig_client(rig, "c1");
        uint32_t n_tokens = many ? 32 : 25 * 32; /* 1 + 5, or 25 + 5 pages */

        for (uint8_t id = 1; id <= 12; id++) {
            client_generate(c, id, 16, n_tokens - 16);
            rig_run(rig);
        }
        assert_int_equal(w->n_submits, many ? 10 : 2);
        assert_int_equal(fake_view(w).granted_pages, 60);
        rig_free(&rig);
    }
}

static void cached_pages_are_room(void **state)
{
    const struct cached some = {.blocks = 30, .checkpoints = 5};
    struct rig *rig = rig_new(NULL);
    struct fake *w = pool(rig, "w1", 60, 5, 64, some);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    assert_int_equal(w->classes[3].free, 5);
    w->classes[0].free = 60; /* the rig's own check: cached counts */
    w->classes[1].free = 12;
    client_generate(c, 1, 16, 25 * 32 - 16);
    client_generate(c, 2, 16, 25 * 32 - 16);
    client_generate(c, 3, 1, 1);
    rig_run(rig);
    assert_int_equal(w->n_submits, 2);
    assert_int_equal(rig_state(rig, 3), CHOICE_WAITING);
    assert_int_equal(fake_view(w).free_pages, 60);
    rig_free(&rig);
}

/* Pages are left, but no slot below the cap. */
static void the_cap_on_slots_counts(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = pool(rig, "w1", 60, 5, 3, (struct cached){.blocks = 0});
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    for (uint8_t id = 1; id <= 4; id++) {
        client_generate(c, id, 16, 16);
    }
    rig_run(rig);
    assert_int_equal(w->n_submits, 3);
    report(w, 5, (struct cached){.blocks = 0});
    assert_false(w->gone);
    assert_int_equal(w->n_submits, 3);
    assert_int_equal(fake_view(w).free_pages, 60 - 3 * 6);
    worker_make(w, worker_sequence_of(w, 1), 16, LENGTH);
    settle(w, 5, (struct cached){.blocks = 0});
    worker_step(w);
    rig_run(rig);
    assert_int_equal(w->n_submits, 4);
    rig_free(&rig);
}

/* Sequences that share a prefix hold fewer pages than they were granted: the
 * rest is room again. */
static void shared_blocks_are_room_again(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = pool(rig, "w1", 60, 5, 64, (struct cached){.blocks = 0});
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    client_generate(c, 1, 640, 128); /* 24 + 5 pages */
    client_generate(c, 2, 640, 128);
    client_generate(c, 3, 10, 100); /* 4 + 5 */
    rig_run(rig);
    assert_int_equal(w->n_submits, 2);
    worker_sequence_of(w, 2)->blocks -= 20; /* the prompt of the first */
    report(w, 5, (struct cached){.blocks = 0});
    assert_false(w->gone);
    assert_int_equal(w->n_submits, 3);
    rig_free(&rig);
}

/* A ledger with fewer pages than are promised is counted. */
static void pages_that_do_not_cover_the_grants_are_a_violation(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = pool(rig, "w1", 60, 5, 64, (struct cached){.blocks = 0});
    struct fake *c = rig_client(rig, "c1");
    struct router_metrics k;

    (void)state;
    client_generate(c, 1, 16, 25 * 32 - 16);
    rig_run(rig);
    report(w, 5, (struct cached){.blocks = 0});
    router_counts(rig->router, &k);
    assert_int_equal(k.ledger_violations, 0);
    client_generate(c, 2, 16, 20 * 32 - 16); /* 25 pages are promised */
    rig_run(rig);
    w->ledger.grant = 1;
    worker_sequence_of(w, 2)->used = false;
    settle(w, 5, (struct cached){.blocks = 0});
    w->classes[0].free -= 10;
    w->classes[0].held = 10;
    w->classes[3].free -= 10;
    w->classes[3].held = 10;
    w->classes[1].free = w->classes[3].free / 5;
    w->classes[2].free = w->classes[3].free / 5;
    worker_report(w);
    rig_run(rig);
    router_counts(rig->router, &k);
    assert_int_equal(k.ledger_violations, 1);
    rig_free(&rig);
}

static void an_error_has_tokens_and_pages(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    struct record *x;

    (void)state;
    pool(rig, "w1", 60, 5, 64, (struct cached){.blocks = 0});
    x = client_generate(c, 1, 16, 56 * 32 - 16);
    rig_run(rig);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(x->error, "1792 tokens (prompt 16, max_tokens 1776) "
                                     "need 56 blocks and 1 slots, 61 pages"));
    assert_non_null(strstr(x->error, "has 60 pages"));
    x = client_generate(c, 2, 16, 55 * 32 - 16);
    rig_run(rig);
    assert_false(x->ended);
    rig_free(&rig);
}

/* Headroom counts memory: each worker could take the other's blocks, or its
 * slots, but not both. */
static void headroom_counts_memory(void **state)
{
    const struct rig_options o = {.max_peers = 16,
                                  .max_requests = 64,
                                  .max_waiting = 64,
                                  .headroom = true};
    struct rig *rig = rig_new(&o);
    struct fake *a = pool(rig, "a", 60, 20, 64, (struct cached){.blocks = 0});
    struct fake *b = pool(rig, "b", 60, 20, 64, (struct cached){.blocks = 0});
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    for (uint8_t id = 1; id <= 3; id++) { /* 10 + 20 pages each */
        client_generate(c, id, 16, 10 * 32 - 16);
        rig_run(rig);
    }
    assert_int_equal(a->n_submits + b->n_submits, 2);
    assert_int_equal(rig_state(rig, 3), CHOICE_WAITING);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_and_slots_share_the_pages),
        cmocka_unit_test(cached_pages_are_room),
        cmocka_unit_test(the_cap_on_slots_counts),
        cmocka_unit_test(shared_blocks_are_room_again),
        cmocka_unit_test(pages_that_do_not_cover_the_grants_are_a_violation),
        cmocka_unit_test(an_error_has_tokens_and_pages),
        cmocka_unit_test(headroom_counts_memory),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

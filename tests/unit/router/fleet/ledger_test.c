/* Grants never exceed the pool, whatever happens to the ledgers.  A worker's
 * snapshots are stored and reach the router late, in any order, twice or never.
 * Frames with Submits are lost and resent, and the worker is lost and comes
 * back.  The rig's worker asserts at every Submit that it fits.  At the end the
 * newest ledger arrives, and the router's account must equal the worker's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

#define RUNS  400
#define STEPS 250
#define BAG   16

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

struct snapshot {
    Sluice__V1__Ledger ledger;
    Sluice__V1__ClassLedger classes[4];
};

struct world {
    struct rig *rig;
    struct fake *w[2], *c;
    struct snapshot bag[2][BAG];
    uint32_t n_bag[2];
    struct record *x[200];
    uint8_t n;
    uint64_t dice;
};

static uint32_t roll(struct world *d, uint32_t sides)
{
    d->dice = d->dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->dice >> 33) % sides;
}

/* Takes a snapshot and puts it in flight. */
static void snapshot(struct world *d, int i)
{
    struct fake *w = d->w[i];
    uint32_t at = d->n_bag[i] < BAG ? d->n_bag[i]++ : roll(d, BAG);
    struct snapshot *s = &d->bag[i][at];

    w->ledger.snapshot++;
    fake_pages(w);
    s->ledger = w->ledger;
    memcpy(s->classes, w->classes, sizeof s->classes);
    s->ledger.blocks = &s->classes[0];
    s->ledger.slots = &s->classes[1];
    s->ledger.checkpoints = &s->classes[2];
    s->ledger.pages = &s->classes[3];
}

/* Delivers one snapshot; it may arrive again. */
static void arrive(struct world *d, int i)
{
    struct snapshot *s;
    uint32_t at;

    if (d->n_bag[i] == 0) {
        return;
    }
    at = roll(d, d->n_bag[i]);
    s = &d->bag[i][at];
    s->ledger.blocks = &s->classes[0];
    s->ledger.slots = &s->classes[1];
    s->ledger.checkpoints = &s->classes[2];
    s->ledger.pages = &s->classes[3];
    worker_step_with(d->w[i], &s->ledger);
    if (roll(d, 3) > 0) {
        *s = d->bag[i][--d->n_bag[i]];
    }
}

static void generate_some(struct world *d, int i)
{
    struct fake *w = d->w[i];
    struct sequence *s = &w->sequences[roll(d, RIG_SEQUENCES)];
    uint32_t left;

    for (int k = 0; k < RIG_SEQUENCES && (!s->used || s->finish != 0); k++) {
        s = &w->sequences[k];
    }
    if (s->used && s->finish == 0) {
        left = s->max_tokens - s->n_tokens;
        if (left > 1 && roll(d, 3) > 0) {
            worker_make(w, s, 1 + roll(d, left - 1), 0);
        } else {
            worker_make(w, s, left, LENGTH);
        }
        snapshot(d, i);
    }
}

static void lose(struct world *d, int i)
{
    fake_lost(d->w[i]);
    rig_run(d->rig);
    d->n_bag[i] = 0;
    fake_reconnect(d->w[i]);
    assert_true(d->w[i]->up);
}

static void act(struct world *d)
{
    int i = (int)roll(d, 2);

    switch (roll(d, 12)) {
    case 0:
    case 1:
        if (d->n < 190) {
            uint8_t id = ++d->n;
            d->x[id] =
                client_generate(d->c, id, 1 + roll(d, 200), 1 + roll(d, 100));
        }
        break;
    case 2:
    case 3:
    case 4:
        generate_some(d, i);
        break;
    case 5:
        snapshot(d, i);
        break;
    case 6:
    case 7:
        arrive(d, i);
        break;
    case 8:
        d->w[i]->deaf = !d->w[i]->deaf;
        break;
    case 9:
        if (d->n > 0) {
            client_cancel(d->c, (uint8_t)(1 + roll(d, d->n)));
            snapshot(d, i);
        }
        break;
    case 10:
        if (roll(d, 20) == 0) {
            lose(d, i);
        }
        break;
    default:
        rig_advance(d->rig, roll(d, 50000));
    }
    rig_run(d->rig);
}

static void settle(struct world *d)
{
    bool open = true;

    for (int k = 0; open && k < 2000; k++) {
        open = false;
        for (int i = 0; i < 2; i++) {
            d->w[i]->deaf = false;
            generate_some(d, i);
            worker_step(d->w[i]);
        }
        rig_advance(d->rig, 100000);
        for (uint8_t id = 1; id <= d->n; id++) {
            open = open || !d->x[id]->ended;
        }
    }
    assert_false(open);
}

static void check(const struct world *d)
{
    struct router_worker_view v;
    struct router_metrics k;

    for (uint8_t id = 1; id <= d->n; id++) {
        const struct record *x = d->x[id];
        uint8_t full[16];

        memset(full, id, 16);
        assert_int_equal(x->status, ST_OK);
        assert_true(x->in_order);
        for (uint32_t t = 0; t < x->n_tokens; t++) {
            assert_int_equal(x->tokens[t], fake_token(full, t));
        }
    }
    router_counts(d->rig->router, &k);
    assert_int_equal(k.choices_open, 0);
    assert_int_equal(k.failed, 0);
    assert_int_equal(k.ledger_violations, 0);
    assert_int_equal(k.strikes, 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(router_worker_view(d->rig->router, i, &v));
        assert_int_equal(v.granted_blocks + v.granted_slots, 0);
        assert_int_equal(v.grant, v.last_grant);
        assert_int_equal(v.n_sequences, 0);
        assert_true(d->w[i]->grants_in_order);
    }
}

static void one_run(uint64_t seed)
{
    struct world *d = calloc(1, sizeof *d);

    d->dice = seed;
    d->rig = rig_new(NULL);
    d->w[0] = rig_worker(d->rig, "w1", 12 + roll(d, 20), 3);
    d->w[1] = rig_worker(d->rig, "w2", 12 + roll(d, 20), 0);
    d->c = rig_client(d->rig, "c1");
    for (int i = 0; i < STEPS; i++) {
        act(d);
    }
    settle(d);
    check(d);
    rig_free(&d->rig);
    free(d);
}

static void grants_always_fit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        one_run(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_always_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A Hello with the name of a quiet worker: admitted, it takes over the name;
 * refused, it changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

/* w1 and w2 are up with two sequences each; w1 has been quiet for NAME_BUSY_US,
 * so its name may be taken over. */
struct quiet {
    struct rig *rig;
    struct fake *w1, *w2, *c;
    struct record *x[4];
};

static void be_quiet(struct quiet *q, struct fake_text *text)
{
    const struct rig_options o = {.max_peers = 16,
                                  .max_requests = 16,
                                  .max_waiting = 16,
                                  .text = &text->seam,
                                  .worker_wait_us = 1000000};

    q->rig = rig_new(&o);
    q->w1 = fake_worker_new(q->rig, "w1", 64, 8);
    q->w2 = fake_worker_new(q->rig, "w2", 64, 8);
    for (int i = 0; i < 2; i++) {
        struct fake *w = i == 0 ? q->w1 : q->w2;

        w->shard.tokenizer.len = 16;
        memcpy(w->tokenizer, text->hash, 16);
        fake_hello(w);
    }
    q->c = rig_client(q->rig, "c1");
    for (uint8_t i = 0; i < 4; i++) {
        q->x[i] = client_generate(q->c, i + 1, 40, 10);
    }
    rig_run(q->rig);
    rig_advance(q->rig, NAME_BUSY_US);
}

static void other_weights(struct fake *f)
{
    f->fingerprint[0] ^= 1;
}

static void other_vocabulary(struct fake *f)
{
    f->shard.vocab--;
}

static void other_tokenizer(struct fake *f)
{
    f->tokenizer[0] ^= 1;
}

/* A refused Hello does not take over a quiet name: the worker's session goes
 * on, with its sequences. */
static void who_is_refused_takes_no_name(void **state)
{
    static const struct {
        void (*spoil)(struct fake *f);
        bool offers;
    } cases[] = {{other_weights, false},
                 {other_vocabulary, false},
                 {other_tokenizer, false},
                 {other_weights, true}};
    static const uint8_t hash[16] = {1, 2, 3};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fake_text text;
        struct router_metrics n;
        struct quiet q;
        struct fake *other;

        fake_text_init(&text, NULL);
        text.hash = hash;
        be_quiet(&q, &text);
        other = cases[i].offers ? fake_offer_new(q.rig, "w1", 2, 12)
                                : fake_worker_new(q.rig, "w1", 64, 8);
        other->shard.tokenizer.len = 16;
        memcpy(other->tokenizer, hash, 16);
        cases[i].spoil(other);
        fake_hello(other);
        assert_int_equal(other->refusal, ST_FAILED_PRECONDITION);
        assert_false(q.w1->gone);
        worker_report(q.w1);
        rig_run(q.rig);
        assert_int_equal(fake_view(q.w1).n_sequences, 2);
        for (uint8_t id = 1; id <= 4; id++) {
            struct fake *w = worker_sequence_of(q.w1, id) != NULL ? q.w1 : q.w2;

            worker_give(w, id, 0, 10, SLUICE__V1__FINISH__FINISH_LENGTH);
            record_check(q.x[id - 1], id, 0, 10);
        }
        router_counts(q.rig->router, &n);
        assert_int_equal(n.moved, 0);
        rig_end(&q.rig);
    }
}

/* If no other worker has the model, it may come back with any weights. */
static void a_name_comes_back_with_other_weights(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_worker(rig, "w1", 8, 2);
    struct fake *b = fake_worker_new(rig, "w1", 8, 2);

    (void)state;
    b->fingerprint[0] ^= 1;
    b->shard.vocab--;
    rig_advance(rig, NAME_BUSY_US);
    fake_hello(b);
    assert_true(b->up);
    assert_true(a->gone);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_refused_takes_no_name),
        cmocka_unit_test(a_name_comes_back_with_other_weights),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

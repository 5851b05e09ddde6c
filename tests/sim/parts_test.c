/* Tests of the simulator's own parts: events, randomness, network, texts.  A
 * simulator that cannot detect a fault proves nothing. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/cmocka.h"
#include "text/detokenizer.h"

/* ---- options ---- */

/* Offers are drawn from an independent stream: seeds without them do not
 * change. */
static void test_offers_leave_other_seeds_alone(void **state)
{
    const struct seeds_with drawn = {0}, none = {.offers = SEEDS_NONE},
                            all = {.offers = SEEDS_ALL};
    struct sim_options a, b;
    uint32_t n = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        options_draw(&a, seed, drawn);
        options_draw(&b, seed, a.offers.n ? all : none);
        assert_memory_equal(&a, &b, sizeof(a));
        assert_int_equal(options_hash(&a), options_hash(&b));
        n += a.offers.n != 0;
    }
    assert_in_range(n, 70, 130);
}

static uint32_t n_offering(const struct sim_options *o)
{
    uint32_t n = 0;

    for (uint32_t w = 0; w < o->n_workers; w++) {
        struct fake_shard shard = options_shard(o, w);

        n += options_offers(o, w);
        assert_int_equal(options_offers(o, w), shard.begin == shard.end);
    }
    return n;
}

/* All offers are of one model; every number is within its limits. */
static void test_offers_are_drawn_within_limits(void **state)
{
    const struct seeds_with all = {.offers = SEEDS_ALL};
    struct sim_options o;

    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        options_draw(&o, seed, all);
        assert_in_range(o.offers.n, 1, o.n_workers);
        assert_in_range(o.n_workers, o.offers.n, SIM_WORKERS);
        assert_int_equal(n_offering(&o), o.offers.n);
        for (uint32_t w = 0; w < o.offers.n; w++) {
            assert_int_equal(o.workers[w].model, o.workers[0].model);
            assert_in_range(o.offers.workers[w].n_stages, 2,
                            o.stages.n_layers[o.workers[w].model]);
            assert_true(o.offers.workers[w].budget_bytes > 0);
            assert_true(o.offers.workers[w].lineage < o.offers.n);
        }
        assert_true(o.faulty || !(o.offers.refuse_of || o.offers.fail_of ||
                                  o.offers.late_of));
    }
}

/* ---- events ---- */

static void nothing(struct sim *s, uint32_t a, uint64_t b)
{
    (void)s;
    (void)a;
    (void)b;
}

static void test_events_in_order(void **state)
{
    struct clock c;
    struct rng r;
    struct event e;
    int64_t last_us = 0;
    uint64_t last_b = 0;
    uint32_t n = 0;

    (void)state;
    clock_init(&c, 1000);
    rng_init(&r, 1, 1);
    for (uint64_t i = 0; i < 5000; i++) {
        clock_add(&c, 1000 + (int64_t)rng_below(&r, 500), nothing, 0, i);
    }
    for (; clock_next(&c, &e); n++) {
        assert_true(e.at_us >= last_us);
        assert_true(e.at_us > last_us || e.b > last_b); /* ties: as added */
        assert_int_equal(c.now_us, e.at_us);
        last_us = e.at_us;
        last_b = e.b;
    }
    assert_int_equal(n, 5000);
    clock_add(&c, 0, nothing, 0, 0); /* the past means now */
    assert_true(clock_next(&c, &e));
    assert_int_equal(e.at_us, last_us);
    clock_fini(&c);
}

/* An alarm is one event, however often it is set; ties run in the order of
 * setting. */
static void test_alarms_are_moved(void **state)
{
    struct clock c;
    struct event e;

    (void)state;
    clock_init(&c, 1000);
    clock_alarm(&c, 1500, nothing, 3, 1);
    clock_alarm(&c, 1200, nothing, CLOCK_ALARMS - 1, 2);
    clock_add(&c, 1200, nothing, 0, 3);
    clock_alarm(&c, 1200, nothing, 3, 4); /* moved, behind the others */
    for (uint64_t b = 2; b <= 4; b++) {
        assert_true(clock_next(&c, &e));
        assert_int_equal(e.b, b);
        assert_int_equal(c.now_us, 1200);
    }
    clock_alarm(&c, 2000, nothing, 0, 5);
    clock_alarm_off(&c, 0);
    clock_alarm_off(&c, 1);
    assert_false(clock_next(&c, &e));
    assert_int_equal(c.now_us, 1200);
    clock_fini(&c);
}

static void test_chance_is_bounded_and_repeats(void **state)
{
    struct rng a, b, c;
    uint32_t hits = 0, same = 0;

    (void)state;
    rng_init(&a, 7, 1);
    rng_init(&b, 7, 1);
    rng_init(&c, 7, 2);
    for (int i = 0; i < 10000; i++) {
        int64_t x = rng_range(&a, -3, 3), o = rng_octave(&a, 5, 1000);

        assert_int_equal(x, rng_range(&b, -3, 3));
        assert_int_equal(o, rng_octave(&b, 5, 1000));
        assert_true(x >= -3 && x <= 3 && o >= 5 && o <= 1000);
        same += rng_u64(&a) == rng_u64(&c);
        (void)rng_u64(&b);
        hits += rng_chance(&a, 2500);
        (void)rng_u64(&b);
    }
    assert_int_equal(same, 0);
    assert_true(hits > 2200 && hits < 2800);
    assert_int_equal(rng_octave(&a, 9, 9), 9);
    assert_false(rng_chance(&a, 0));
    assert_true(rng_chance(&a, 10000));
}

/* ---- the network, from the router to one client that records ---- */

#define CLIENT   SIM_FIRST_CLIENT
#define RECEIVED 256

static struct {
    uint64_t sessions[RECEIVED]; /* sessions of whole frames */
    int64_t at_us[RECEIVED];
    uint32_t n, damaged, lost;
    uint32_t n_at_lost;
    struct sim *sim;
} received;

static void take_opened(void *node, struct peer_id who)
{
    (void)node;
    (void)who;
}

static void take_frame(void *node, struct peer_id from, struct frame **f)
{
    struct frame_header h;

    (void)node;
    (void)from;
    if (frame_check((*f)->data, (*f)->bytes, &h, NULL) != ST_OK) {
        received.damaged++;
    } else {
        received.at_us[received.n] = sim_now(received.sim);
        received.sessions[received.n++] = h.session;
    }
    frame_free(f);
}

static void take_lost(void *node, struct peer_id who)
{
    (void)node;
    (void)who;
    received.lost++;
    received.n_at_lost = received.n;
}

static int64_t take_tick(void *node, int64_t now_us)
{
    (void)node;
    (void)now_us;
    return NODE_IDLE;
}

static const struct node_ops scribe = {take_opened, take_frame, take_lost,
                                       take_tick};

static void run(struct sim *s)
{
    struct event e;

    while (clock_next(&s->clock, &e)) {
        e.fn(s, e.a, e.b);
    }
}

/* Opens a connection. */
static uint32_t begin_network(struct sim *s)
{
    struct peer_id id;

    memset(&received, 0, sizeof(received));
    received.sim = s;
    clock_init(&s->clock, SIM_START_US);
    network_init(&s->network);
    rng_init(&s->chance, 1, 1);
    s->options.delay_us = 100;
    s->options.jitter_us = 50;
    s->options.send_limit = RECEIVED;
    for (uint32_t i = 0; i < SIM_NODES; i++) {
        s->nodes[i] = (struct sim_node){.sim = s,
                                        .number = i,
                                        .ops = &scribe,
                                        .core = &received,
                                        .tick_us = NODE_IDLE};
    }
    id = network_open(s, CLIENT, SIM_ROUTER);
    run(s);
    assert_true(network_conn(&s->network, id.v)->standing);
    return id.v;
}

static void end_network(struct sim *s)
{
    run(s);
    network_fini(&s->network);
    clock_fini(&s->clock);
    free(s);
}

static enum status send_one(struct sim *s, uint32_t conn, uint64_t session)
{
    struct frame_header h = {.session = session, .ack = 0};
    struct frame *f = frame_make(&h, NULL, NULL);
    enum status st;

    st = network_send(s, SIM_ROUTER, (struct peer_id){conn}, &f);
    assert_null(f);
    return st;
}

static struct sim *new_sim(void)
{
    struct sim *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    return s;
}

static void test_network_keeps_order(void **state)
{
    struct sim *s = new_sim();
    uint32_t conn = begin_network(s);

    (void)state;
    for (uint64_t i = 1; i <= 100; i++) {
        assert_int_equal(send_one(s, conn, i), ST_OK);
    }
    run(s);
    assert_int_equal(received.n, 100);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(received.sessions[i], i + 1);
        assert_true(received.at_us[i] >= SIM_START_US + 100);
    }
    end_network(s);
}

static void test_network_faults(void **state)
{
    struct sim *s = new_sim();
    uint32_t conn = begin_network(s), late = 0;

    (void)state;
    s->options.drop_of = 10000;
    assert_int_equal(send_one(s, conn, 1), ST_OK);
    run(s);
    assert_int_equal(received.n, 0);
    s->options.drop_of = 0;
    s->options.double_of = 10000;
    assert_int_equal(send_one(s, conn, 2), ST_OK);
    run(s);
    assert_int_equal(received.n, 2);
    s->options.double_of = 0;
    s->options.flip_of = 10000;
    assert_int_equal(send_one(s, conn, 3), ST_OK);
    run(s);
    assert_int_equal(received.n, 2);
    assert_int_equal(received.damaged, 1);
    s->options.flip_of = 0;
    s->options.reorder_of = 5000;
    for (uint64_t i = 1; i <= 100; i++) {
        assert_int_equal(send_one(s, conn, i), ST_OK);
    }
    run(s);
    assert_int_equal(received.n, 102);
    for (uint32_t i = 3; i < 102; i++) {
        late += received.sessions[i] < received.sessions[i - 1];
    }
    assert_true(late > 0);
    end_network(s);
}

static void test_network_calm_has_no_faults(void **state)
{
    struct sim *s = new_sim();
    uint32_t conn = begin_network(s);

    (void)state;
    s->calm = true;
    s->options.drop_of = s->options.flip_of = s->options.double_of = 10000;
    assert_int_equal(send_one(s, conn, 1), ST_OK);
    run(s);
    assert_int_equal(received.n, 1);
    assert_int_equal(received.damaged, 0);
    end_network(s);
}

static void test_network_limit_and_cut(void **state)
{
    struct sim *s = new_sim();
    uint32_t conn = begin_network(s);

    (void)state;
    s->options.send_limit = 2;
    assert_int_equal(send_one(s, conn, 1), ST_OK);
    assert_int_equal(send_one(s, conn, 2), ST_OK);
    assert_int_equal(send_one(s, conn, 3), ST_RESOURCE_EXHAUSTED);
    run(s);
    assert_int_equal(received.n, 2);
    network_conn(&s->network, conn)->cut_us[END_PEER] = sim_now(s) + 1000000;
    assert_int_equal(send_one(s, conn, 4), ST_OK);
    run(s);
    assert_int_equal(received.n, 2);
    end_network(s);
}

static void test_network_close(void **state)
{
    struct sim *s = new_sim();
    uint32_t conn = begin_network(s);

    (void)state;
    assert_int_equal(send_one(s, conn, 1), ST_OK);
    network_close(s, SIM_ROUTER, (struct peer_id){conn});
    assert_int_equal(send_one(s, conn, 2), ST_UNAVAILABLE);
    run(s);
    assert_int_equal(received.n, 1);
    assert_int_equal(received.lost, 1); /* after the frames sent before it */
    assert_int_equal(received.n_at_lost, 1);
    end_network(s);
}

static void test_network_pause(void **state)
{
    struct sim *s = new_sim();
    uint32_t conn = begin_network(s);

    (void)state;
    node_pause(s, CLIENT, 1000000);
    node_pause(s, CLIENT, 10); /* a pause is never shortened */
    assert_int_equal(send_one(s, conn, 1), ST_OK);
    assert_int_equal(send_one(s, conn, 2), ST_OK);
    run(s);
    assert_int_equal(received.n, 2);
    assert_int_equal(received.sessions[0], 1);
    assert_true(received.at_us[0] >= SIM_START_US + 1000000);
    end_network(s);
}

/* ---- the tokens and their texts ---- */

static void test_vocabulary_is_its_tokenizer(void **state)
{
    const struct tokenizer *t = vocabulary_tokenizer();
    size_t n, own;

    (void)state;
    assert_true(tokenizer_vocab(t) > 256);
    for (uint32_t id = 0; id < tokenizer_vocab(t) + 10; id++) {
        const char *bytes = tokenizer_token(t, id, &n);
        const uint8_t *ours = vocabulary_bytes(id, &own);

        if (bytes == NULL || tokenizer_is_special(t, id)) {
            assert_int_equal(own, 0);
        } else {
            assert_int_equal(own, n);
            assert_memory_equal(ours, bytes, n);
        }
    }
}

/* The detokenizer and the independent check agree on random tokens. */
static void test_texts_are_the_detokenizers(void **state)
{
    const struct tokenizer *t = vocabulary_tokenizer();
    size_t size = detokenizer_max(t), whole = 0, broken = 0;
    char *theirs = malloc(size), ours[PLAIN_MAX];
    struct detokenizer d;
    struct plain_text p = {.n_held = 0};
    struct rng r;

    (void)state;
    assert_non_null(theirs);
    rng_init(&r, 1, 1);
    detokenizer_init(&d, t, DETOK_SKIP_SPECIAL);
    for (int i = 0; i < 100000; i++) {
        uint32_t id = (uint32_t)rng_below(&r, i % 2 ? 256 : 600);
        bool ends = rng_below(&r, 50) == 0;
        size_t n = ends ? detokenizer_finish(&d, theirs)
                        : detokenizer_push(&d, id, theirs);

        assert_int_equal(
            ends ? plain_finish(&p, ours) : plain_push(&p, id, ours), n);
        assert_memory_equal(ours, theirs, n);
        whole += n >= 2 && memcmp(theirs, "\xc3\xa9", 2) == 0;
        broken += n >= 3 && memcmp(theirs, "\xef\xbf\xbd", 3) == 0;
    }
    free(theirs);
    assert_true(whole > 1000);
    assert_true(broken > 1000);
}

/* ---- oracle ---- */

/* The simulator has expectations of a request that continues another. */
static void test_two_halves_are_one_run(void **state)
{
    const struct fake_model m = {
        .vocab = 500, .attention = true, .linear = true, .window = 7};
    struct sampling p = sampling_default();
    struct oracle whole = {0}, half = {0};
    uint32_t tokens[20];

    (void)state;
    p.seed = 9;
    for (uint32_t i = 0; i < 30; i++) {
        oracle_feed(&whole, &m, i, ROW_PROMPT);
        oracle_feed(&half, &m, i, ROW_PROMPT);
    }
    for (uint32_t i = 0; i < 20; i++) {
        tokens[i] = oracle_next(&whole, &m, &p, 2, i);
        oracle_feed(&whole, &m, tokens[i], ROW_GENERATED);
    }
    for (uint32_t i = 0; i < 10; i++) {
        oracle_feed_continued(&half, &m, tokens[i]);
    }
    p.draw_index = 10;
    p.draw_choice = 2;
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t token = oracle_next(&half, &m, &p, 0, i);

        assert_int_equal(token, tokens[10 + i]);
        oracle_feed(&half, &m, token, ROW_GENERATED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offers_leave_other_seeds_alone),
        cmocka_unit_test(test_offers_are_drawn_within_limits),
        cmocka_unit_test(test_alarms_are_moved),
        cmocka_unit_test(test_events_in_order),
        cmocka_unit_test(test_chance_is_bounded_and_repeats),
        cmocka_unit_test(test_network_keeps_order),
        cmocka_unit_test(test_network_faults),
        cmocka_unit_test(test_network_calm_has_no_faults),
        cmocka_unit_test(test_network_limit_and_cut),
        cmocka_unit_test(test_network_close),
        cmocka_unit_test(test_network_pause),
        cmocka_unit_test(test_vocabulary_is_its_tokenizer),
        cmocka_unit_test(test_texts_are_the_detokenizers),
        cmocka_unit_test(test_two_halves_are_one_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tensors on links: alone in their frames, in order with all other traffic,
 * once and bit-identical; forbidden tensors are refused. */
#include "common/wire/link.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "proto/stage.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/common/wire/peer_pair.h"

#define SESSION 77
#define KIB     1024u
#ifdef __SANITIZE_ADDRESS__
#define RUNS 50
#else
#define RUNS 300
#endif

static uint64_t random_next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* The tensor of the value-th message: none, or 4 bytes to 64 KiB. */
static uint32_t tensor_bytes_of(uint64_t value)
{
    uint64_t s = (value + 1) * 0x9e3779b97f4a7c15;

    (void)random_next(&s);
    return random_next(&s) % 3 == 0
               ? 0
               : 4 + 4 * (uint32_t)(random_next(&s) % (16 * KIB));
}

static void fill(uint8_t *tensor, uint32_t bytes, uint64_t value)
{
    for (uint32_t i = 0; i < bytes; i += 4) {
        put_u32(tensor + i, (uint32_t)(value * 2654435761u) + i);
    }
}

struct sink {
    const struct frame *f;
    const struct frame_header *h;
    uint64_t next;
    bool bad;
};

static void take(void *arg, const struct envelope *e, bool ordered)
{
    static uint8_t want[64 * KIB + 4];
    struct sink *k = arg;
    uint32_t bytes = tensor_bytes_of(k->next);

    fill(want, bytes, k->next);
    if (!ordered || e->body_bytes != 8 || get_u64(e->body) != k->next ||
        k->h->tensor_bytes != bytes ||
        memcmp(k->f->data + frame_tensor_at(k->h), want, bytes) != 0) {
        k->bad = true;
    }
    k->next++;
}

static enum status put(struct link *l, uint64_t value)
{
    uint32_t bytes = tensor_bytes_of(value);
    struct envelope e = {.kind = ENVELOPE_ONEWAY,
                         .method = METHOD_STAGE_FORWARD,
                         .body_bytes = 8};
    uint8_t *tensor = NULL, *body;

    body = bytes == 0 ? link_put(l, LANE_CONTROL, &e)
                      : link_put_tensor(l, &e, bytes, &tensor);
    if (body == NULL) {
        return ST_RESOURCE_EXHAUSTED;
    }
    put_u64(body, value);
    if (bytes > 0) {
        fill(tensor, bytes, value);
    }
    return ST_OK;
}

static bool recv(struct link *l, const struct frame *f, int64_t now,
                 struct sink *k)
{
    struct frame_header h;

    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    k->f = f;
    k->h = &h;
    return link_recv(l, f, &h, now, take, k);
}

/* Moves one frame from `from` to `to`, or drops it. */
static bool pump_one(struct link *from, struct link *to, int64_t now,
                     struct sink *k)
{
    struct frame *f = link_pop(from, now);
    bool any = f != NULL;

    if (any && to != NULL) {
        assert_true(recv(to, f, now, k));
    }
    frame_free(&f);
    return any;
}

/* A seeded run over a network that loses a tenth and duplicates a tenth. */
static void bad_network_run(uint64_t seed)
{
    struct link_limits limits = link_limits_tensors(4, 64 * KIB);
    struct link *a = link_new(SESSION, &limits), *b = link_new(SESSION, NULL);
    struct sink at_a = {.bad = false}, at_b = {.bad = false};
    const uint64_t all = 40;
    uint64_t sent = 0;
    int64_t now = 0;

    for (; at_b.next < all && now < 100000000; now += 1000) {
        struct frame *f;

        while (sent < all && random_next(&seed) % 3 != 0 &&
               put(a, sent) == ST_OK) {
            sent++;
        }
        while ((f = link_pop(a, now)) != NULL) {
            uint64_t r = random_next(&seed) % 10;

            if (r == 1) { /* as if the transport had no room */
                link_unsent(a, now);
            }
            for (uint64_t n = r < 2 ? 0 : r == 2 ? 2 : 1; n > 0; n--) {
                assert_true(recv(b, f, now, &at_b));
            }
            frame_free(&f);
        }
        while (
            pump_one(b, random_next(&seed) % 10 == 0 ? NULL : a, now, &at_a)) {
        }
    }
    assert_false(at_b.bad);
    assert_int_equal(at_b.next, all);
    link_free(&a);
    link_free(&b);
}

static void every_tensor_once_in_order_bit_for_bit(void **state)
{
    (void)state;
    for (uint64_t run = 1; run <= RUNS; run++) {
        bad_network_run(run * 0x9e3779b97f4a7c15);
    }
}

static uint8_t *put_tensor(struct link *l, uint32_t bytes)
{
    struct envelope e = {.kind = ENVELOPE_ONEWAY,
                         .method = METHOD_STAGE_FORWARD};
    uint8_t *tensor;

    return link_put_tensor(l, &e, bytes, &tensor);
}

static void put_plain(struct link *l, enum lane lane)
{
    struct envelope e = {.kind = ENVELOPE_ONEWAY, .method = METHOD_STAGE_OPEN};

    assert_int_equal(link_push(l, lane, &e), ST_OK);
}

static void expect_frame(struct link *l, uint16_t ordered, uint16_t n_state,
                         uint32_t tensor_bytes)
{
    struct frame *f = link_pop(l, 0);
    struct frame_header h;

    assert_non_null(f);
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_int_equal(h.n_ordered, ordered);
    assert_int_equal(h.n_state, n_state);
    assert_int_equal(h.tensor_bytes, tensor_bytes);
    frame_free(&f);
}

static void tensor_travels_alone(void **state)
{
    struct link *a = link_new(SESSION, NULL);

    (void)state;
    put_plain(a, LANE_CONTROL);
    put_plain(a, LANE_CONTROL);
    assert_non_null(put_tensor(a, 8));
    assert_non_null(put_tensor(a, 4));
    put_plain(a, LANE_CONTROL);
    put_plain(a, LANE_SUBMIT);
    put_plain(a, LANE_STATE);
    assert_int_equal(link_queued(a, LANE_CONTROL), 5);
    assert_int_equal(link_taken(a, LANE_CONTROL), 0);
    expect_frame(a, 3, 1, 0); /* submit and state need not wait */
    assert_int_equal(link_taken(a, LANE_CONTROL), 2);
    assert_int_equal(link_due(a), 0);
    expect_frame(a, 1, 0, 8);
    put_plain(a, LANE_STATE);
    put_plain(a, LANE_SUBMIT);
    expect_frame(a, 1, 0, 4);
    assert_int_equal(link_taken(a, LANE_CONTROL), 4);
    expect_frame(a, 2, 1, 0);
    assert_null(link_pop(a, 0));
    assert_int_equal(link_queued(a, LANE_CONTROL), 5);
    assert_int_equal(link_taken(a, LANE_CONTROL), 5);
    link_free(&a);
}

static void outbox_takes_its_limit_and_no_more(void **state)
{
    struct link_limits limits = link_limits_tensors(2, 1 << 20);
    struct link *a = link_new(SESSION, &limits);
    uint32_t half = (uint32_t)limits.outbox_bytes / 2 - ENVELOPE_HEADER;

    (void)state;
    assert_int_equal(limits.outbox_bytes, LINK_OUTBOX_BYTES + (2u << 20));
    assert_non_null(put_tensor(a, half));
    assert_null(put_tensor(a, half + 4));
    assert_non_null(put_tensor(a, half));
    assert_int_equal(link_room(a, LANE_CONTROL), 0);
    expect_frame(a, 1, 0, half);
    assert_int_equal(link_room(a, LANE_CONTROL), half);
    link_free(&a);
}

static void tensors_that_wait_are_counted(void **state)
{
    struct link *a = link_new(SESSION, NULL);

    (void)state;
    for (int i = 0; i < LINK_TENSORS_MAX; i++) {
        assert_non_null(put_tensor(a, 4));
    }
    assert_null(put_tensor(a, 4));
    expect_frame(a, 1, 0, 4);
    assert_non_null(put_tensor(a, 4));
    assert_null(put_tensor(a, 4));
    link_free(&a);
}

static void ring_stops_at_its_bytes(void **state)
{
    struct link_limits limits = {8u << 20, 3u << 20};
    struct link *a = link_new(SESSION, &limits), *b = link_new(SESSION, NULL);
    struct frame *ack;
    struct sink k = {.bad = false};

    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_non_null(put_tensor(a, 1 << 20));
    }
    for (int i = 0; i < 3; i++) { /* with their headers past it */
        expect_frame(a, 1, 0, 1 << 20);
    }
    assert_null(link_pop(a, 0));
    put_plain(a, LANE_STATE);
    expect_frame(a, 0, 1, 0);
    /* b has received none of them: a tensor's resend allows for its bytes. */
    assert_int_equal(link_due(a),
                     LINK_RESEND_US + (1 << 20) / LINK_TENSOR_BYTES_US);
    assert_true(pump_one(a, b, link_due(a), &k));
    ack = link_pop(b, link_due(a)); /* at once: it is large */
    assert_non_null(ack);
    assert_true(recv(a, ack, LINK_RESEND_US, &k));
    frame_free(&ack);
    link_free(&a);
    link_free(&b);
}

/* ---- forbidden tensors ---- */

struct forged {
    uint32_t tensor_bytes;
    uint16_t method, n_ordered, n_state;
    uint8_t kind;
};

static bool forge(const struct forged *g)
{
    static uint8_t tensor[64];
    struct link *l = link_new(SESSION, NULL);
    struct envelope e = {.kind = g->kind, .method = g->method, .call = 0};
    struct frame_header h = {.session = SESSION,
                             .number = g->n_ordered > 0,
                             .n_ordered = g->n_ordered,
                             .n_state = g->n_state,
                             .tensor_bytes = g->tensor_bytes};
    uint8_t buffer[4 * ENVELOPE_HEADER];
    struct sink k = {.bad = false};
    struct frame *f;
    bool fine;

    for (int i = 0; i < g->n_ordered + g->n_state; i++) {
        h.envelopes_bytes +=
            (uint32_t)envelope_write(buffer + h.envelopes_bytes, &e);
    }
    f = frame_make(&h, buffer, tensor);
    fine = recv(l, f, 0, &k);
    assert_int_equal(k.next, fine ? g->n_ordered + g->n_state : 0);
    frame_free(&f);
    link_free(&l);
    return fine;
}

static void tensors_that_may_not_be_are_refused(void **state)
{
    const struct forged fine[] = {
        {4, METHOD_STAGE_FORWARD, 1, 0, ENVELOPE_ONEWAY},
        {8, METHOD_STAGE_FORWARD, 1, 0, ENVELOPE_ONEWAY},
        {0, METHOD_STAGE_FORWARD, 2, 1, ENVELOPE_ONEWAY},
    };
    const struct forged bad[] = {
        {5, METHOD_STAGE_FORWARD, 1, 0, ENVELOPE_ONEWAY},
        {7, METHOD_STAGE_FORWARD, 1, 0, ENVELOPE_ONEWAY},
        {3, METHOD_STAGE_FORWARD, 1, 0, ENVELOPE_ONEWAY},
        {4, METHOD_STAGE_FORWARD, 2, 0, ENVELOPE_ONEWAY},
        {4, METHOD_STAGE_FORWARD, 1, 1, ENVELOPE_ONEWAY},
        {4, METHOD_STAGE_FORWARD, 0, 1, ENVELOPE_ONEWAY},
        {4, METHOD_STAGE_FORWARD, 0, 0, ENVELOPE_ONEWAY},
        {4, METHOD_STAGE_FORWARD, 1, 0, ENVELOPE_CALL},
        {4, METHOD_STAGE_FORWARD, 1, 0, 77},
        {4, METHOD_STAGE_RESULT, 1, 0, ENVELOPE_ONEWAY},
        {4, METHOD_REGISTRY_LIVE, 1, 0, ENVELOPE_ONEWAY},
        {4, 0x7777, 1, 0, ENVELOPE_ONEWAY},
    };

    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        assert_true(forge(&fine[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(forge(&bad[i]));
    }
}

static void only_forward_has_a_tensor(void **state)
{
    (void)state;
    for (unsigned i = 0; method_at(i) != NULL; i++) {
        const struct method_row *m = method_at(i);

        assert_int_equal(m->tensor_cap, m->number == METHOD_STAGE_FORWARD
                                            ? FRAME_TENSOR_MAX
                                            : 0);
        assert_true(m->tensor_cap == 0 ||
                    (m->kind == ONEWAY && m->lane == LANE_CONTROL &&
                     m->callers == BY_WORKER && m->servers == BY_WORKER));
    }
}

/* ---- peers ---- */

static enum status send_tensor(struct end *e, const void *tensor,
                               uint32_t bytes)
{
    Sluice__V1__StageForward m = SLUICE__V1__STAGE_FORWARD__INIT;

    m.step = 3;
    return peer_oneway_tensor(e->peer, METHOD_STAGE_FORWARD, &m.base, tensor,
                              bytes);
}

static void peer_gets_the_tensor(void **state)
{
    struct pair *p = pair_new(BY_WORKER, BY_WORKER);
    float x[3] = {1.5f, -0.0f, 3e38f};
    uint32_t bytes = 1;

    (void)state;
    assert_int_equal(send_tensor(&p->a, x, sizeof x), ST_OK);
    pair_settle(p);
    assert_int_equal(p->b.n_calls, 1);
    assert_int_equal(p->b.method, METHOD_STAGE_FORWARD);
    assert_int_equal(p->b.tensor_bytes, sizeof x);
    assert_memory_equal(p->b.tensor, x, sizeof x);
    assert_null(peer_tensor(p->b.peer, &bytes)); /* on_call has returned */
    assert_int_equal(bytes, 0);
    pair_free(p);
}

static void peer_refuses_what_is_no_tensor(void **state)
{
    struct pair *p = pair_new(BY_WORKER, BY_WORKER);
    static const uint8_t x[16];

    (void)state;
    assert_int_equal(send_tensor(&p->a, x, 0), ST_INVALID_ARGUMENT);
    assert_int_equal(send_tensor(&p->a, x, 3), ST_INVALID_ARGUMENT);
    assert_int_equal(send_tensor(&p->a, x, 5), ST_INVALID_ARGUMENT);
    assert_int_equal(send_tensor(&p->a, x, FRAME_TENSOR_MAX + 4),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(send_tensor(&p->a, x, LINK_OUTBOX_BYTES),
                     ST_RESOURCE_EXHAUSTED); /* limit of a default link */
    pair_free(p);
}

static void tensor_of_another_role_is_struck(void **state)
{
    const uint8_t roles[][2] = {{BY_ROUTER, BY_WORKER},
                                {BY_WORKER, BY_ROUTER},
                                {BY_CLIENT, BY_ROUTER},
                                {BY_CLIENT, BY_WORKER}};
    float x = 1;

    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        struct pair *p = pair_new(roles[i][0], roles[i][1]);

        assert_int_equal(send_tensor(&p->a, &x, sizeof x), ST_OK);
        peer_flush(p->a.peer, pair_clock_us);
        assert_int_equal(pair_take_in(&p->b), PEER_STRIKE);
        assert_int_equal(p->b.n_calls, 0);
        pair_free(p);
    }
}

static void largest_tensor_passes(void **state)
{
    struct link_limits limits = link_limits_tensors(1, FRAME_TENSOR_MAX);
    struct link *a = link_new(SESSION, &limits);
    struct envelope e = {.kind = ENVELOPE_ONEWAY,
                         .method = METHOD_STAGE_FORWARD};
    struct frame_header h = {.session = SESSION};
    uint8_t *tensor;
    struct frame *f;

    (void)state;
    assert_non_null(link_put_tensor(a, &e, FRAME_TENSOR_MAX, &tensor));
    memset(tensor, 0x5a, FRAME_TENSOR_MAX);
    f = link_pop(a, 0);
    assert_non_null(f);
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_int_equal(h.tensor_bytes, FRAME_TENSOR_MAX);
    put_u32(f->data + 16, FRAME_TENSOR_MAX + 4); /* one past the limit */
    assert_int_equal(frame_check(f->data, f->bytes + 4, &h, NULL),
                     ST_INVALID_ARGUMENT);
    frame_free(&f);
    link_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_travels_alone),
        cmocka_unit_test(outbox_takes_its_limit_and_no_more),
        cmocka_unit_test(tensors_that_wait_are_counted),
        cmocka_unit_test(ring_stops_at_its_bytes),
        cmocka_unit_test(tensors_that_may_not_be_are_refused),
        cmocka_unit_test(only_forward_has_a_tensor),
        cmocka_unit_test(peer_gets_the_tensor),
        cmocka_unit_test(peer_refuses_what_is_no_tensor),
        cmocka_unit_test(tensor_of_another_role_is_struck),
        cmocka_unit_test(largest_tensor_passes),
        cmocka_unit_test(every_tensor_once_in_order_bit_for_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/link.h"
#include "tests/unit/cmocka.h"

#define SESSION 77
#ifdef __SANITIZE_ADDRESS__
#define RUNS 500
#else
#define RUNS 2000
#endif

/* xorshift: the seed is the number of the run, so that a failure is
 * reproducible. */
static uint64_t random_next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

struct sink {
    uint64_t next[2]; /* the next value expected, of control and of submit */
    uint64_t n_state, last_state;
    bool bad;
};

/* A body is its number followed by filler. */
static void take(void *arg, const struct envelope *e, bool ordered)
{
    struct sink *k = arg;
    uint64_t v = e->body_bytes >= 8 ? get_u64(e->body) : 0;

    if (!ordered) {
        k->n_state++;
        k->last_state = v > k->last_state ? v : k->last_state;
    } else if (e->method > 1 || v != k->next[e->method]++) {
        k->bad = true;
    }
}

static enum status put(struct link *l, enum lane lane, uint64_t value,
                       uint32_t bytes)
{
    static uint8_t body[1u << 20];
    struct envelope e = {.kind = ENVELOPE_CALL,
                         .call = value + 1,
                         .method = (uint16_t)lane,
                         .body_bytes = bytes,
                         .body = body};

    put_u64(body, value);
    if (lane == LANE_STATE) {
        e.kind = ENVELOPE_ONEWAY;
        e.call = 0;
    }
    return link_push(l, lane, &e);
}

static bool recv(struct link *l, const struct frame *f, int64_t now,
                 struct sink *k)
{
    struct frame_header h;

    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    return link_recv(l, f, &h, now, take, k);
}

/* Moves every ready frame and returns their number. */
static int pump(struct link *from, struct link *to, int64_t now, struct sink *k)
{
    struct frame *f;
    int n = 0;

    while ((f = link_pop(from, now)) != NULL) {
        assert_true(recv(to, f, now, k));
        frame_free(&f);
        n++;
    }
    return n;
}

struct net {
    struct frame *flying[256];
    int64_t at[256];
    int n;
};

static void net_send(struct net *net, struct frame *f, int64_t now,
                     uint64_t *seed)
{
    uint64_t r = random_next(seed) % 100;

    if (r < 10 || net->n >= 254) {
        frame_free(&f);
        return;
    }
    if (r < 20) {
        net->flying[net->n] = frame_copy(f);
        net->at[net->n++] = now + (int64_t)(random_next(seed) % 60000);
    }
    net->flying[net->n] = f;
    net->at[net->n++] =
        now + (r < 40 ? (int64_t)(random_next(seed) % 30000) : 1000);
}

static void net_deliver(struct net *net, struct link *to, int64_t now,
                        struct sink *k)
{
    for (int i = 0; i < net->n;) {
        if (net->at[i] > now) {
            i++;
            continue;
        }
        assert_true(recv(to, net->flying[i], now, k));
        frame_free(&net->flying[i]);
        net->n--;
        memmove(&net->flying[i], &net->flying[i + 1],
                (size_t)(net->n - i) * sizeof net->flying[0]);
        memmove(&net->at[i], &net->at[i + 1],
                (size_t)(net->n - i) * sizeof net->at[0]);
    }
}

static void net_clear(struct net *net)
{
    while (net->n > 0) {
        frame_free(&net->flying[--net->n]);
    }
}

/* A seeded run of a link over a network that loses a tenth, duplicates a
 * tenth and delays a fifth of all frames. */
static void bad_network_run(uint64_t seed)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct net ab = {.n = 0}, ba = {.n = 0};
    struct sink at_a = {.bad = false}, at_b = {.bad = false};
    uint64_t sent[2] = {0, 0}, back = 0;
    const uint64_t all = 60;
    int64_t now = 0;

    for (int turn = 0; turn < 100000; turn++, now += 1000) {
        struct frame *f;

        for (enum lane lane = LANE_CONTROL; lane <= LANE_SUBMIT; lane++) {
            if (sent[lane] < all && random_next(&seed) % 3 == 0 &&
                put(a, lane, sent[lane],
                    8 + (uint32_t)(random_next(&seed) % 9000)) == ST_OK) {
                sent[lane]++;
            }
        }
        if (back < all && put(b, LANE_CONTROL, back, 100) == ST_OK) {
            back++;
        }
        assert_int_equal(put(b, LANE_STATE, (uint64_t)turn, 50), ST_OK);
        while ((f = link_pop(a, now)) != NULL) {
            net_send(&ab, f, now, &seed);
        }
        while ((f = link_pop(b, now)) != NULL) {
            net_send(&ba, f, now, &seed);
        }
        net_deliver(&ab, b, now, &at_b);
        net_deliver(&ba, a, now, &at_a);
        if (at_b.next[0] == all && at_b.next[1] == all && at_a.next[0] == all) {
            break;
        }
    }
    assert_false(at_a.bad);
    assert_false(at_b.bad);
    assert_int_equal(at_b.next[0], all);
    assert_int_equal(at_b.next[1], all);
    assert_int_equal(at_a.next[0], all);
    assert_true(at_a.n_state > 0);
    net_clear(&ab);
    net_clear(&ba);
    link_free(&a);
    link_free(&b);
}

static void exactly_once_in_order(void **state)
{
    (void)state;
    for (uint64_t run = 1; run <= RUNS; run++) {
        bad_network_run(run * 0x9e3779b97f4a7c15);
    }
}

static void quiet_link_acks_and_rests(void **state)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct sink k = {.bad = false};

    (void)state;
    assert_true(link_due(a) == INT64_MAX);
    assert_int_equal(put(a, LANE_CONTROL, 0, 8), ST_OK);
    assert_int_equal(link_due(a), 0);
    assert_int_equal(pump(a, b, 0, &k), 1);
    assert_int_equal(link_due(a), LINK_RESEND_US);
    assert_int_equal(link_due(b), LINK_ACK_DELAY_US);
    assert_int_equal(pump(b, a, LINK_ACK_DELAY_US - 1, &k), 0);
    assert_int_equal(pump(b, a, LINK_ACK_DELAY_US, &k), 1);
    assert_true(link_due(a) == INT64_MAX);
    assert_true(link_due(b) == INT64_MAX);
    assert_int_equal(k.next[0], 1);
    link_free(&a);
    link_free(&b);
}

static void resends_with_doubling_delay(void **state)
{
    struct link *a = link_new(SESSION, NULL);
    int64_t now = 0, delay = LINK_RESEND_US;
    struct frame *f;

    (void)state;
    assert_int_equal(put(a, LANE_CONTROL, 0, 8), ST_OK);
    f = link_pop(a, now);
    assert_non_null(f);
    frame_free(&f);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(link_due(a), now + delay);
        assert_null(link_pop(a, now + delay - 1));
        now += delay;
        f = link_pop(a, now);
        assert_non_null(f);
        frame_free(&f);
        assert_null(link_pop(a, now));
        delay = delay * 2 < LINK_RESEND_MAX_US ? delay * 2 : LINK_RESEND_MAX_US;
    }
    assert_int_equal(link_counts(a)->resent, 8);
    link_free(&a);
}

/* Pops every frame that is due, and drops it. */
static void drop_due(struct link *l, int64_t now)
{
    struct frame *f;

    while ((f = link_pop(l, now)) != NULL) {
        frame_free(&f);
    }
}

/* The waits of the resends add up to the limit. */
static void gives_up_without_an_acknowledgement(void **state)
{
    struct link *a = link_new(SESSION, NULL);
    int64_t now = 0;

    (void)state;
    assert_int_equal(put(a, LANE_CONTROL, 0, 8), ST_OK);
    drop_due(a, now);
    while (now < LINK_UNACKED_US) {
        assert_false(link_gave_up(a));
        now = link_due(a);
        drop_due(a, now);
    }
    assert_true(now < LINK_UNACKED_US + LINK_RESEND_MAX_US);
    assert_true(link_gave_up(a));
    assert_true(link_due(a) == INT64_MAX);
    assert_null(link_pop(a, now + LINK_RESEND_MAX_US));
    assert_in_range(link_counts(a)->resent, 20, 40);
    link_free(&a);
}

/* A peer that was suspended acknowledges the last resend before the limit. */
static void goes_on_after_a_late_acknowledgement(void **state)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct sink k = {.bad = false};
    int64_t now = 0;

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        int64_t began = now;

        assert_int_equal(put(a, LANE_CONTROL, i, 8), ST_OK);
        drop_due(a, now);
        while (link_due(a) - began < LINK_UNACKED_US) {
            now = link_due(a);
            if (link_due(a) - began < LINK_UNACKED_US - LINK_RESEND_MAX_US) {
                drop_due(a, now);
            } else {
                break;
            }
        }
        (void)pump(a, b, now, &k);
        (void)pump(b, a, now + LINK_ACK_DELAY_US, &k);
        assert_false(link_gave_up(a));
        assert_true(link_due(a) == INT64_MAX);
    }
    assert_int_equal(k.next[0], 3);
    link_free(&a);
    link_free(&b);
}

/* This process is suspended ten times, each time for ten minutes. */
static void its_own_absence_does_not_count(void **state)
{
    struct link *a = link_new(SESSION, NULL);
    int64_t now = 0;

    (void)state;
    assert_int_equal(put(a, LANE_CONTROL, 0, 8), ST_OK);
    for (int i = 0; i < 10; i++) {
        drop_due(a, now);
        assert_false(link_gave_up(a));
        now += 600000000;
    }
    link_free(&a);
}

/* Reports of a gap cause resends too; without progress they end. */
static void gives_up_although_gaps_are_reported(void **state)
{
    struct frame_header h = {.session = SESSION, .flags = FRAME_GAP};
    struct frame *gap = frame_make(&h, NULL, NULL);
    struct link *a = link_new(SESSION, NULL);
    struct sink k = {.bad = false};
    int64_t now = 0;

    (void)state;
    assert_int_equal(put(a, LANE_CONTROL, 0, 8), ST_OK);
    drop_due(a, now);
    while (now < LINK_UNACKED_US) {
        assert_false(link_gave_up(a));
        now += LINK_GAP_US;
        assert_true(recv(a, gap, now, &k));
        drop_due(a, now);
    }
    assert_true(link_gave_up(a));
    frame_free(&gap);
    link_free(&a);
}

static void gap_is_resent_at_once_and_once(void **state)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct sink k = {.bad = false};
    struct frame *f[4], *report, *next;

    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(put(a, LANE_CONTROL, i, 8), ST_OK);
        f[i] = link_pop(a, 0);
        assert_non_null(f[i]);
    }
    for (int i = 1; i < 4; i++) {
        assert_true(recv(b, f[i], 0, &k)); /* f[0] is lost */
    }
    report = link_pop(b, 0);
    assert_non_null(report);
    assert_int_equal(get_u16(report->data + 6), FRAME_GAP);
    assert_null(link_pop(b, 0)); /* three frames ahead, one report */
    assert_int_equal(put(b, LANE_STATE, 1, 8), ST_OK);
    next = link_pop(b, 0);
    assert_int_equal(get_u16(next->data + 6), 0);
    frame_free(&next);
    assert_true(recv(a, report, 1, &k));
    assert_true(recv(a, report, 1, &k));
    assert_int_equal(pump(a, b, 1, &k), 4);
    assert_true(recv(a, report, 2, &k)); /* late copies do not multiply */
    assert_int_equal(pump(a, b, 2, &k), 0);
    assert_int_equal(link_counts(a)->resent, 4);
    assert_int_equal(k.next[0], 4);
    assert_false(k.bad);
    for (int i = 0; i < 4; i++) {
        frame_free(&f[i]);
    }
    frame_free(&report);
    link_free(&a);
    link_free(&b);
}

static void submit_window_holds(void **state)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct sink k = {.bad = false};
    struct frame *f;

    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        assert_int_equal(put(a, LANE_SUBMIT, i, 20000), ST_OK);
    }
    assert_int_equal(put(a, LANE_CONTROL, 0, 10), ST_OK);
    f = link_pop(a, 0);
    assert_non_null(f);
    /* 3 of 20,024 bytes fit in 64 KiB; the control envelope goes first. */
    assert_int_equal(f->bytes, FRAME_HEADER + 34 + 3 * 20024);
    assert_int_equal(get_u16(f->data + 8), 4);
    assert_null(link_pop(a, 0));
    assert_int_equal(put(a, LANE_CONTROL, 1, 10), ST_OK);
    assert_true(recv(b, f, 0, &k));
    frame_free(&f);
    f = link_pop(a, 0); /* control continues while the window is closed */
    assert_non_null(f);
    assert_int_equal(f->bytes, FRAME_HEADER + 34);
    assert_true(recv(b, f, 0, &k));
    frame_free(&f);
    for (int turn = 0; turn < 10; turn++) {
        pump(b, a, turn * LINK_ACK_DELAY_US, &k);
        pump(a, b, turn * LINK_ACK_DELAY_US, &k);
    }
    assert_int_equal(k.next[LANE_SUBMIT], 8);
    assert_false(k.bad);
    link_free(&a);
    link_free(&b);
}

static void whole_window_envelope_goes_alone(void **state)
{
    struct link *a = link_new(SESSION, NULL);
    struct frame *f;

    (void)state;
    assert_int_equal(put(a, LANE_SUBMIT, 0, 65536), ST_OK);
    assert_int_equal(put(a, LANE_SUBMIT, 1, 8), ST_OK);
    f = link_pop(a, 0);
    assert_non_null(f);
    assert_int_equal(f->bytes, FRAME_HEADER + ENVELOPE_HEADER + 65536);
    frame_free(&f);
    assert_null(link_pop(a, 0));
    link_free(&a);
}

static void full_lane_is_refused_but_for_ends(void **state)
{
    struct link *a = link_new(SESSION, NULL);
    struct envelope end = {.kind = ENVELOPE_END, .call = 1};
    uint64_t n = 0;

    (void)state;
    assert_int_equal(link_room(a, LANE_CONTROL),
                     LINK_OUTBOX_BYTES - ENVELOPE_HEADER);
    while (put(a, LANE_CONTROL, n, 1000) == ST_OK) {
        n++;
    }
    assert_int_equal(n, LINK_OUTBOX_BYTES / 1024);
    assert_int_equal(link_room(a, LANE_CONTROL), 0);
    assert_int_equal(put(a, LANE_CONTROL, n, 8), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(put(a, LANE_SUBMIT, 0, 8), ST_OK);
    assert_int_equal(link_push(a, LANE_CONTROL, &end), ST_OK);
    link_free(&a);
}

static void lane_takes_its_limit_and_no_more(void **state)
{
    struct link *a = link_new(SESSION, NULL);
    uint32_t half = LINK_OUTBOX_BYTES / 2 - ENVELOPE_HEADER;

    (void)state;
    assert_int_equal(put(a, LANE_CONTROL, 0, half), ST_OK);
    assert_int_equal(put(a, LANE_CONTROL, 1, half + 1), ST_RESOURCE_EXHAUSTED);
    assert_int_equal(put(a, LANE_CONTROL, 1, half), ST_OK);
    assert_int_equal(link_room(a, LANE_CONTROL), 0);
    link_free(&a);
}

static void ring_stops_at_its_frames(void **state)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct frame *f[LINK_RING_FRAMES], *ack;
    struct sink k = {.bad = false};

    (void)state;
    for (uint64_t i = 0; i < LINK_RING_FRAMES; i++) {
        assert_int_equal(put(a, LANE_CONTROL, i, 8), ST_OK);
        f[i] = link_pop(a, 0);
        assert_non_null(f[i]);
    }
    assert_int_equal(put(a, LANE_CONTROL, LINK_RING_FRAMES, 8), ST_OK);
    assert_null(link_pop(a, 0));
    assert_int_equal(put(a, LANE_STATE, 1, 8), ST_OK); /* needs no ring */
    ack = link_pop(a, 0);
    assert_non_null(ack);
    frame_free(&ack);
    assert_true(recv(b, f[0], 0, &k));
    ack = link_pop(b, LINK_ACK_DELAY_US);
    assert_non_null(ack);
    assert_true(recv(a, ack, LINK_ACK_DELAY_US, &k));
    frame_free(&ack);
    ack = link_pop(a, LINK_ACK_DELAY_US);
    assert_non_null(ack); /* one place is free again */
    frame_free(&ack);
    assert_null(link_pop(a, LINK_ACK_DELAY_US));
    for (int i = 0; i < LINK_RING_FRAMES; i++) {
        frame_free(&f[i]);
    }
    link_free(&a);
    link_free(&b);
}

static void ring_stops_at_its_bytes(void **state)
{
    struct link *a = link_new(SESSION, NULL);
    struct frame *f;
    uint32_t n = 0;

    (void)state;
    for (uint64_t i = 0; i < 64; i++) {
        if (link_room(a, LANE_CONTROL) < 200000) {
            break;
        }
        assert_int_equal(put(a, LANE_CONTROL, i, 200000), ST_OK);
        if ((f = link_pop(a, 0)) != NULL) {
            frame_free(&f);
            n++;
        }
    }
    /* The frame that passes the limit is the last. */
    assert_int_equal(n, LINK_RING_BYTES / 200024 + 1);
    link_free(&a);
}

static void many_frames_are_acknowledged_at_once(void **state)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct sink k = {.bad = false};

    (void)state;
    for (uint64_t i = 0; i < LINK_ACK_FRAMES; i++) {
        assert_int_equal(put(a, LANE_CONTROL, i, 8), ST_OK);
        assert_int_equal(pump(a, b, 0, &k), 1);
        assert_int_equal(pump(b, a, 0, &k), i == LINK_ACK_FRAMES - 1);
    }
    /* A few large envelopes may fill the window too. */
    assert_int_equal(put(a, LANE_SUBMIT, 0, LINK_SUBMIT_WINDOW / 2), ST_OK);
    assert_int_equal(pump(a, b, 0, &k), 1);
    assert_int_equal(pump(b, a, 0, &k), 1);
    link_free(&a);
    link_free(&b);
}

/* A peer that may be gone gets a part of the missing frames, and nothing new,
 * until it acknowledges something. */
static void resends_a_part_until_it_hears(void **state)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct sink k = {.bad = false};
    struct frame *f;

    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(put(a, LANE_CONTROL, i, 200000), ST_OK);
        f = link_pop(a, 0);
        assert_non_null(f);
        frame_free(&f); /* lost */
    }
    assert_int_equal(put(a, LANE_CONTROL, 4, 8), ST_OK);
    f = link_pop(a, 0);
    frame_free(&f);
    assert_int_equal(pump(a, b, LINK_RESEND_US, &k), 2);
    assert_int_equal(k.next[0], 2);
    assert_int_equal(put(a, LANE_CONTROL, 5, 8), ST_OK);
    assert_null(link_pop(a, LINK_RESEND_US));
    assert_int_equal(pump(b, a, LINK_RESEND_US, &k), 1);
    assert_int_equal(pump(a, b, LINK_RESEND_US, &k), 2);
    assert_int_equal(k.next[0], 4);
    assert_int_equal(pump(b, a, LINK_RESEND_US, &k), 1);
    assert_int_equal(pump(a, b, LINK_RESEND_US, &k), 2);
    assert_int_equal(k.next[0], 6);
    assert_false(k.bad);
    link_free(&a);
    link_free(&b);
}

static void newest_state_replaces_older(void **state)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct sink k = {.bad = false};

    (void)state;
    for (uint64_t i = 1; i <= 100; i++) {
        assert_int_equal(put(a, LANE_STATE, i, 8 + (uint32_t)i), ST_OK);
    }
    assert_int_equal(pump(a, b, 0, &k), 1);
    assert_int_equal(k.n_state, 1);
    assert_int_equal(k.last_state, 100);
    assert_true(link_due(a) == INT64_MAX);
    assert_int_equal(pump(a, b, LINK_RESEND_MAX_US, &k), 0); /* not resent */
    link_free(&a);
    link_free(&b);
}

static void too_many_state_methods_are_refused(void **state)
{
    struct link *a = link_new(SESSION, NULL);
    struct envelope e = {.kind = ENVELOPE_ONEWAY};

    (void)state;
    for (e.method = 1; e.method <= LINK_STATE_METHODS; e.method++) {
        assert_int_equal(link_push(a, LANE_STATE, &e), ST_OK);
    }
    assert_int_equal(link_push(a, LANE_STATE, &e), ST_RESOURCE_EXHAUSTED);
    link_free(&a);
}

static void unsent_frame_goes_again_soon(void **state)
{
    struct link *a = link_new(SESSION, NULL), *b = link_new(SESSION, NULL);
    struct sink k = {.bad = false};
    struct frame *f;

    (void)state;
    assert_int_equal(put(a, LANE_CONTROL, 0, 8), ST_OK);
    f = link_pop(a, 0);
    frame_free(&f);
    link_unsent(a, 0);
    assert_null(link_pop(a, 0));
    assert_int_equal(put(a, LANE_CONTROL, 1, 8), ST_OK);
    assert_int_equal(link_due(a), LINK_HOLD_US);
    assert_int_equal(pump(a, b, LINK_HOLD_US, &k), 2);
    assert_int_equal(k.next[0], 2);
    link_free(&a);
    link_free(&b);
}

static void rule_breakers_are_refused(void **state)
{
    struct link *a = link_new(SESSION, NULL);
    struct sink k = {.bad = false};
    uint8_t body[2 * ENVELOPE_HEADER];
    struct envelope e = {.kind = ENVELOPE_CALL, .call = 1};
    struct frame_header h = {.session = SESSION};
    struct frame *f;

    (void)state;
    h.ack = 1; /* an ack of a frame that was never sent */
    f = frame_make(&h, body, NULL);
    assert_false(recv(a, f, 0, &k));
    frame_free(&f);

    h = (struct frame_header){
        .n_ordered = 1, .number = LINK_RING_FRAMES, .session = SESSION};
    h.envelopes_bytes = (uint32_t)envelope_write(body, &e);
    f = frame_make(&h, body, NULL);
    assert_true(recv(a, f, 0, &k)); /* the highest number that is accepted */
    frame_free(&f);
    h.number++;
    f = frame_make(&h, body, NULL);
    assert_false(recv(a, f, 0, &k));
    frame_free(&f);

    h.number = 1;
    put_u32(body + 8, 1); /* a body that is missing */
    f = frame_make(&h, body, NULL);
    assert_false(recv(a, f, 0, &k));
    frame_free(&f);

    envelope_write(body, &e);
    envelope_write(body + ENVELOPE_HEADER, &e);
    h.envelopes_bytes = 2 * ENVELOPE_HEADER; /* two, one declared */
    f = frame_make(&h, body, NULL);
    assert_false(recv(a, f, 0, &k));
    frame_free(&f);
    assert_int_equal(k.next[0], 0);
    link_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_link_acks_and_rests),
        cmocka_unit_test(resends_with_doubling_delay),
        cmocka_unit_test(gives_up_without_an_acknowledgement),
        cmocka_unit_test(goes_on_after_a_late_acknowledgement),
        cmocka_unit_test(its_own_absence_does_not_count),
        cmocka_unit_test(gives_up_although_gaps_are_reported),
        cmocka_unit_test(gap_is_resent_at_once_and_once),
        cmocka_unit_test(submit_window_holds),
        cmocka_unit_test(whole_window_envelope_goes_alone),
        cmocka_unit_test(full_lane_is_refused_but_for_ends),
        cmocka_unit_test(lane_takes_its_limit_and_no_more),
        cmocka_unit_test(ring_stops_at_its_frames),
        cmocka_unit_test(ring_stops_at_its_bytes),
        cmocka_unit_test(many_frames_are_acknowledged_at_once),
        cmocka_unit_test(resends_a_part_until_it_hears),
        cmocka_unit_test(newest_state_replaces_older),
        cmocka_unit_test(too_many_state_methods_are_refused),
        cmocka_unit_test(unsent_frame_goes_again_soon),
        cmocka_unit_test(rule_breakers_are_refused),
        cmocka_unit_test(exactly_once_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

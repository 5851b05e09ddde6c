/* A node with several sessions to one router. */
#include <string.h>

#include "common/wire/loop.h"
#include "common/wire/method.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"

/* Counts events; a server sends each frame back. */
struct end {
    struct transport *t;
    struct loop loop;
    bool echo;
    unsigned n_opened, n_recv;
};

static void end_opened(void *node, struct peer_id who)
{
    (void)who;
    ((struct end *)node)->n_opened++;
}

static void end_recv(void *node, struct peer_id from, struct frame **f)
{
    struct end *x = node;
    struct node_io *io = transport_io(x->t);

    x->n_recv++;
    if (x->echo) {
        assert_int_equal(io->send(io, from, f), ST_OK);
    }
    frame_free(f);
}

static void end_lost(void *node, struct peer_id who)
{
    (void)node;
    (void)who;
}

static int64_t end_tick(void *node, int64_t now_us)
{
    (void)node;
    (void)now_us;
    return NODE_IDLE;
}

static const struct node_ops end_ops = {end_opened, end_recv, end_lost,
                                        end_tick};

static void server_start(struct end *s)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", BY_CLIENT, false};
    struct error e;

    *s = (struct end){.echo = true};
    assert_int_equal(transport_listen(&s->t, &port, 1, NULL, &e), ST_OK);
    loop_init(&s->loop, s->t, &end_ops, s);
}

static void client_start(struct end *c, const struct end *s, unsigned n)
{
    struct error e;

    *c = (struct end){.echo = false};
    assert_int_equal(
        transport_connect_many(&c->t, transport_endpoint(s->t, 0), n, NULL, &e),
        ST_OK);
    loop_init(&c->loop, c->t, &end_ops, c);
}

/* Runs turns of both ends until *count is n. */
static void until(struct end *s, struct end *c, const unsigned *count,
                  unsigned n)
{
    int64_t end_us = loop_now_us() + patience_us();

    while (*count < n && loop_now_us() < end_us) {
        loop_turn(&s->loop, 5000);
        loop_turn(&c->loop, 5000);
    }
    assert_int_equal(*count, n);
}

static struct peer_id open_session(struct end *c)
{
    return transport_io(c->t)->open(transport_io(c->t));
}

static enum status send_frame(struct end *c, struct peer_id to)
{
    struct frame *f = frame_new(FRAME_HEADER);

    memset(f->data, 7, FRAME_HEADER);
    return transport_io(c->t)->send(transport_io(c->t), to, &f);
}

static void opens_as_many_sessions_as_asked_for(void **state)
{
    struct peer_id id[3];
    struct end s, c;

    (void)state;
    server_start(&s);
    client_start(&c, &s, 2);
    id[0] = open_session(&c);
    id[1] = open_session(&c);
    assert_int_equal(open_session(&c).v, 0); /* one past the limit */
    until(&s, &c, &c.n_opened, 2);
    assert_int_equal(send_frame(&c, id[0]), ST_OK);
    assert_int_equal(send_frame(&c, id[1]), ST_OK);
    until(&s, &c, &c.n_recv, 2);
    transport_io(c.t)->close(transport_io(c.t), id[0]);
    id[2] = open_session(&c); /* takes the place of the closed one */
    assert_true(id[2].v > id[1].v);
    until(&s, &c, &c.n_opened, 3);
    assert_int_equal(send_frame(&c, id[1]), ST_OK);
    assert_int_equal(send_frame(&c, id[0]), ST_UNAVAILABLE);
    transport_free(&c.t);
    transport_free(&s.t);
}

static void holds_the_most_sessions(void **state)
{
    struct end s, c;

    (void)state;
    server_start(&s);
    client_start(&c, &s, TRANSPORT_SESSIONS_MAX);
    for (unsigned i = 0; i < TRANSPORT_SESSIONS_MAX; i++) {
        assert_int_not_equal(open_session(&c).v, 0);
    }
    assert_int_equal(open_session(&c).v, 0);
    until(&s, &c, &c.n_opened, TRANSPORT_SESSIONS_MAX);
    transport_free(&c.t);
    transport_free(&s.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_as_many_sessions_as_asked_for),
        cmocka_unit_test(holds_the_most_sessions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

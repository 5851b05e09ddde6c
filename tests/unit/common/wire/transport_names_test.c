/* Connections to hosts by name, with a name server of the test. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/curve_keys.h"
#include "common/wire/loop.h"
#include "common/wire/method.h"
#include "common/wire/transport_impl.h"
#include "tests/key_files.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"

#define DEAD "127.0.0.9" /* nobody listens there */

static struct key_files files;

/* A node, and the name server that its transport asks. */
struct end {
    struct curve_keys *keys;
    struct transport *t;
    struct loop loop;
    unsigned n_lost, n_opened;
    struct peer_id lost, opened;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool hangs, fails;
    const char *addresses[2];
    unsigned n_addresses, n_lookups, n_running;
};

static char logged[LOG_LINE];

static void end_opened(void *node, struct peer_id who)
{
    struct end *x = node;

    x->opened = who;
    x->n_opened++;
}

static void end_recv(void *node, struct peer_id from, struct frame **f)
{
    (void)node, (void)from;
    frame_free(f);
}

static void end_lost(void *node, struct peer_id who)
{
    struct end *x = node;

    x->lost = who;
    x->n_lost++;
}

static int64_t end_tick(void *node, int64_t now_us)
{
    (void)node, (void)now_us;
    return NODE_IDLE;
}

static const struct node_ops ops = {end_opened, end_recv, end_lost, end_tick};

static void lookup(void *arg, const char *host, struct resolver_answer *out)
{
    struct end *x = arg;

    (void)host;
    pthread_mutex_lock(&x->lock);
    x->n_lookups++;
    x->n_running++;
    pthread_cond_broadcast(&x->changed);
    while (x->hangs) {
        pthread_cond_wait(&x->changed, &x->lock);
    }
    snprintf(out->why, sizeof out->why, "no such name");
    for (unsigned i = 0; !x->fails && i < x->n_addresses; i++) {
        snprintf(out->addresses[out->n++], RESOLVER_TEXT, "%s",
                 x->addresses[i]);
    }
    x->n_running--;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

static void names_set(struct end *x, bool hangs, bool fails)
{
    pthread_mutex_lock(&x->lock);
    x->hangs = hangs;
    x->fails = fails;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

static struct curve_keys *keys_of(const char *name)
{
    char path[KEY_FILES_PATH];
    struct curve_keys *keys;
    struct error e;

    key_files_path(&files, name, ".key", path);
    if (curve_keys_load(&keys, path, files.dir, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return keys;
}

static void server_start(struct end *s)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", BY_WORKER, true};
    struct error e;

    memset(s, 0, sizeof *s);
    s->keys = keys_of("router");
    if (transport_listen(&s->t, &port, 1, s->keys, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    loop_init(&s->loop, s->t, &ops, s);
}

/* A client of tcp://node-1 with the port of the server, which has one address,
 * 127.0.0.1.  Nothing is dialled yet. */
static void client_start(struct end *c, const struct end *s)
{
    const char *port = strrchr(transport_endpoint(s->t, 0), ':');
    char endpoint[ENDPOINT_MAX];
    struct error e;

    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->addresses[0] = "127.0.0.1";
    c->n_addresses = 1;
    c->keys = keys_of("worker");
    snprintf(endpoint, sizeof endpoint, "tcp://node-1%s", port);
    if (transport_connect(&c->t, endpoint, c->keys, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    c->t->lookup = lookup;
    c->t->lookup_arg = c;
    loop_init(&c->loop, c->t, &ops, c);
}

static void end_stop(struct end *x)
{
    transport_free(&x->t);
    curve_keys_free(&x->keys);
}

/* Waits for lookups that are still running: they use x. */
static void client_stop(struct end *x)
{
    end_stop(x);
    names_set(x, false, false);
    pthread_mutex_lock(&x->lock);
    while (x->n_running > 0) {
        pthread_cond_wait(&x->changed, &x->lock);
    }
    pthread_mutex_unlock(&x->lock);
}

static struct peer_id open_router(struct end *x)
{
    return transport_io(x->t)->open(transport_io(x->t));
}

/* Runs both nodes until the expression is true. */
#define UNTIL(x, y, expression)                           \
    do {                                                  \
        int64_t until_us = loop_now_us() + patience_us(); \
                                                          \
        while (!(expression)) {                           \
            assert_true(loop_now_us() < until_us);        \
            loop_turn(&(x)->loop, 5000);                  \
            loop_turn(&(y)->loop, 5000);                  \
        }                                                 \
    } while (0)

static void until_asked(struct end *x, unsigned n)
{
    pthread_mutex_lock(&x->lock);
    while (x->n_lookups < n) {
        pthread_cond_wait(&x->changed, &x->lock);
    }
    pthread_mutex_unlock(&x->lock);
}

static void a_name_is_dialled(void **state)
{
    struct end s, c;
    struct peer_id who;

    (void)state;
    server_start(&s);
    client_start(&c, &s);
    who = open_router(&c);
    UNTIL(&s, &c, c.n_opened == 1);
    assert_int_equal(c.opened.v, who.v);
    assert_int_equal(c.n_lost, 0);
    client_stop(&c);
    end_stop(&s);
}

/* The loop runs on while a name server is silent, and frames are lost as before
 * any connection.  A session that gives up and dials again gets the answer. */
static void a_silent_name_server_delays_nothing(void **state)
{
    struct frame *f = frame_new(64);
    struct end s, c;
    struct node_io *io;
    struct peer_id first, second;

    (void)state;
    server_start(&s);
    client_start(&c, &s);
    io = transport_io(c.t);
    names_set(&c, true, false);
    first = open_router(&c);
    until_asked(&c, 1);
    loop_turn(&c.loop, 1000);
    assert_int_equal(io->send(io, first, &f), ST_UNAVAILABLE);
    assert_null(f);
    io->close(io, first);
    second = open_router(&c);
    assert_int_not_equal(first.v, second.v);
    loop_turn(&c.loop, 1000);
    assert_int_equal(c.n_opened + c.n_lost, 0);
    names_set(&c, false, false);
    UNTIL(&s, &c, c.n_opened == 1);
    assert_int_equal(c.opened.v, second.v);
    assert_int_equal(c.n_lost, 0);
    assert_int_equal(c.n_lookups, 1);
    client_stop(&c);
    end_stop(&s);
}

/* An address needs no name server. */
static void a_stage_by_address_is_dialled_meanwhile(void **state)
{
    const char *endpoint;
    struct end s, c;
    struct node_io *io;
    struct peer_id stage;

    (void)state;
    server_start(&s);
    client_start(&c, &s);
    io = transport_io(c.t);
    endpoint = transport_endpoint(s.t, 0);
    names_set(&c, true, false);
    open_router(&c);
    until_asked(&c, 1);
    stage = io->open_to(io, endpoint, curve_keys_public(s.keys));
    UNTIL(&s, &c, c.n_opened == 1);
    assert_int_equal(c.opened.v, stage.v);
    client_stop(&c);
    end_stop(&s);
}

static void the_end_does_not_wait_for_a_name_server(void **state)
{
    struct end s, c;

    (void)state;
    server_start(&s);
    client_start(&c, &s);
    names_set(&c, true, false);
    open_router(&c);
    until_asked(&c, 1);
    client_stop(&c);
    end_stop(&s);
}

static void keep_line(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

static void a_name_without_address_is_a_lost_connection(void **state)
{
    struct end s, c;
    struct peer_id who;

    (void)state;
    server_start(&s);
    client_start(&c, &s);
    names_set(&c, false, true);
    log_setup(LOG_WARN, keep_line, NULL);
    who = open_router(&c);
    UNTIL(&s, &c, c.n_lost == 1);
    assert_int_equal(c.lost.v, who.v);
    assert_non_null(strstr(logged, "host-unresolved host=node-1 why=\"no such "
                                   "name\""));
    client_stop(&c);
    log_setup(LOG_WARN, NULL, NULL);
    end_stop(&s);
}

/* Hosts move: a later connection asks again. */
static void each_connection_asks_anew(void **state)
{
    struct end s, c;
    struct node_io *io;
    struct peer_id who;

    (void)state;
    server_start(&s);
    client_start(&c, &s);
    io = transport_io(c.t);
    for (unsigned i = 1; i <= 3; i++) {
        who = open_router(&c);
        UNTIL(&s, &c, c.n_opened == i);
        assert_int_equal(c.n_lookups, i);
        io->close(io, who);
    }
    client_stop(&c);
    end_stop(&s);
}

/* The address that answered is kept for the next connection. */
static void the_next_address_is_tried_after_a_failure(void **state)
{
    struct end s, c;
    struct node_io *io;
    struct peer_id who;

    (void)state;
    server_start(&s);
    client_start(&c, &s);
    io = transport_io(c.t);
    c.addresses[0] = DEAD;
    c.addresses[1] = "127.0.0.1";
    c.n_addresses = 2;
    open_router(&c);
    UNTIL(&s, &c, c.n_lost == 1);
    for (unsigned i = 1; i <= 2; i++) {
        who = open_router(&c);
        UNTIL(&s, &c, c.n_opened == i);
        io->close(io, who);
    }
    assert_int_equal(c.n_lost, 1);
    /* A host that does not even refuse: the session gives up and closes. */
    io->close(io, open_router(&c));
    open_router(&c);
    UNTIL(&s, &c, c.n_lost == 2);
    client_stop(&c);
    end_stop(&s);
}

static int make_files(void **state)
{
    (void)state;
    key_files_begin(&files);
    key_files_make(&files, "router", "router,worker", 1);
    key_files_make(&files, "worker", "worker", 1);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    key_files_end(&files);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_dialled),
        cmocka_unit_test(a_silent_name_server_delays_nothing),
        cmocka_unit_test(a_stage_by_address_is_dialled_meanwhile),
        cmocka_unit_test(the_end_does_not_wait_for_a_name_server),
        cmocka_unit_test(a_name_without_address_is_a_lost_connection),
        cmocka_unit_test(each_connection_asks_anew),
        cmocka_unit_test(the_next_address_is_tried_after_a_failure),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}

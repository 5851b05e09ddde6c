/* transport_curve_rig.h - Nodes with keys, and a relay between them.
 *
 * The server's ports: 0 for workers, with tensors; 1 for clients. */
#ifndef TESTS_UNIT_COMMON_WIRE_TRANSPORT_CURVE_RIG_H
#define TESTS_UNIT_COMMON_WIRE_TRANSPORT_CURVE_RIG_H

#include "common/wire/curve_keys.h"
#include "common/wire/loop.h"
#include "common/wire/transport.h"
#include "tests/key_files.h"

#define WORKERS 0
#define CLIENTS 1

struct end {
    struct curve_keys *keys;
    struct transport *t;
    struct loop loop;
    unsigned n_recv, n_lost, n_opened;
    struct peer_id last, lost;
    char from[KEY_NAME_MAX + 1]; /* the name of the last sender */
};

extern struct key_files files;
extern const struct node_ops ops;

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

struct curve_keys *keys_of(const char *name);

void server_start(struct end *x, const char *key);
struct peer_id redial(struct end *c);
/* Dials a port with the key of a name, NULL: without keys. */
struct peer_id dial(struct end *c, const struct end *s, unsigned port,
                    const char *key);
void end_stop(struct end *x);

void say(struct end *x, struct peer_id to, uint32_t bytes);
struct node_counts counts(const struct end *x);
/* Connects and sends a frame, which arrives. */
struct peer_id meet(struct end *c, struct end *s, unsigned port,
                    const char *key);

/* Make and remove the keys of all nodes. */
int begin(void **state);
int finish(void **state);

int raw_dial(const char *endpoint);

/* A relay to the clients' port. */
struct relay {
    int listener, down, up; /* -1: not open */
    char endpoint[64];
    uint8_t kept[4096]; /* the first bytes of the client */
    size_t sent;        /* bytes of the client that were passed on */
    size_t limit;       /* highest value of `sent` */
    bool ended;         /* the server has closed */
};

void relay_begin(struct relay *r);
void relay_end(const struct relay *r);
void relay_turn(struct relay *r, const struct end *s);

/* Runs the relay and the server until the expression is true. */
#define RELAY_UNTIL(r, s, expression)                     \
    do {                                                  \
        int64_t until_us = loop_now_us() + patience_us(); \
                                                          \
        while (!(expression)) {                           \
            assert_true(loop_now_us() < until_us);        \
            relay_turn(r, s);                             \
            loop_turn(&(s)->loop, 1000);                  \
        }                                                 \
    } while (0)

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)

#endif

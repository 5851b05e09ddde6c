#include "tests/unit/common/wire/transport_curve_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/method.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"

struct key_files files;

static void end_opened(void *node, struct peer_id who)
{
    (void)who;
    ((struct end *)node)->n_opened++;
}

static void end_recv(void *node, struct peer_id from, struct frame **f)
{
    struct end *x = node;
    struct node_io *io = transport_io(x->t);
    const struct identity *id = io->identity(io, from);

    x->n_recv++;
    x->last = from;
    assert_non_null(id);
    snprintf(x->from, sizeof x->from, "%s", id->name);
    frame_free(f);
}

static void end_lost(void *node, struct peer_id who)
{
    struct end *x = node;

    x->n_lost++;
    x->lost = who;
}

static int64_t end_tick(void *node, int64_t now_us)
{
    (void)node;
    (void)now_us;
    return NODE_IDLE;
}

const struct node_ops ops = {end_opened, end_recv, end_lost, end_tick};

struct curve_keys *keys_of(const char *name)
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

void server_start(struct end *x, const char *key)
{
    const struct transport_port ports[] = {
        {"tcp://127.0.0.1:*", BY_WORKER, true},
        {"tcp://127.0.0.1:*", BY_CLIENT | BY_ADMIN, false}};
    struct error e;

    *x = (struct end){.keys = keys_of(key)};
    if (transport_listen(&x->t, ports, 2, x->keys, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    loop_init(&x->loop, x->t, &ops, x);
}

struct peer_id redial(struct end *c)
{
    return transport_io(c->t)->open(transport_io(c->t));
}

/* Dials a port with the key of a name, NULL: without keys. */
struct peer_id dial(struct end *c, const struct end *s, unsigned port,
                    const char *key)
{
    struct error e;

    *c = (struct end){.keys = key != NULL ? keys_of(key) : NULL};
    if (transport_connect(&c->t, transport_endpoint(s->t, port), c->keys, &e) !=
        ST_OK) {
        fail_msg("%s", e.text);
    }
    loop_init(&c->loop, c->t, &ops, c);
    return redial(c);
}

void end_stop(struct end *x)
{
    transport_free(&x->t);
    curve_keys_free(&x->keys);
}

void say(struct end *x, struct peer_id to, uint32_t bytes)
{
    struct frame *f = frame_new(bytes);

    memset(f->data, 0, bytes);
    assert_int_equal(transport_io(x->t)->send(transport_io(x->t), to, &f),
                     ST_OK);
}

struct node_counts counts(const struct end *x)
{
    struct node_counts c;

    transport_io(x->t)->counts(transport_io(x->t), &c);
    return c;
}

/* Connects and sends a frame, which arrives. */
struct peer_id meet(struct end *c, struct end *s, unsigned port,
                    const char *key)
{
    unsigned before = s->n_recv;
    struct peer_id id = dial(c, s, port, key);

    UNTIL(s, c, c->n_opened == 1);
    say(c, id, FRAME_HEADER);
    UNTIL(s, c, s->n_recv == before + 1);
    return id;
}

int begin(void **state)
{
    (void)state;
    key_files_begin(&files);
    key_files_make(&files, "router", "router", 1);
    key_files_make(&files, "w1", "worker", 1);
    key_files_make(&files, "w2", "worker", 1);
    key_files_make(&files, "alice", "client", 1);
    key_files_make(&files, "root", "admin", 1);
    key_files_make(&files, "mallory", "router,worker,client,admin", 0);
    return 0;
}

int finish(void **state)
{
    (void)state;
    key_files_end(&files);
    return 0;
}

/* ---- raw bytes ---- */

int raw_dial(const char *endpoint)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct timeval wait = {patience_s(), 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    return fd;
}

void relay_begin(struct relay *r)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;

    *r = (struct relay){.down = -1, .up = -1, .limit = SIZE_MAX};
    r->listener =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(r->listener, 1), 0);
    getsockname(r->listener, (struct sockaddr *)&at, &size);
    snprintf(r->endpoint, sizeof r->endpoint, "tcp://127.0.0.1:%u",
             ntohs(at.sin_port));
}

void relay_end(const struct relay *r)
{
    close(r->listener);
    close(r->down);
    close(r->up);
}

/* Passes on what has come from the client, up to the limit. */
static void relay_up(struct relay *r)
{
    size_t room = r->limit - r->sent;
    uint8_t bytes[4096];
    ssize_t n;

    room = room < sizeof bytes ? room : sizeof bytes;
    n = room > 0 ? recv(r->down, bytes, room, MSG_DONTWAIT) : 0;
    if (n > 0) {
        for (size_t i = 0; i < (size_t)n; i++) {
            if (r->sent + i < sizeof r->kept) {
                r->kept[r->sent + i] = bytes[i];
            }
        }
        r->ended |= send(r->up, bytes, (size_t)n, MSG_NOSIGNAL) != n;
        r->sent += (size_t)n;
    }
}

void relay_turn(struct relay *r, const struct end *s)
{
    uint8_t bytes[4096];
    ssize_t n;

    if (r->down < 0) {
        r->down = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
        return;
    }
    if (r->up < 0) {
        r->up = raw_dial(transport_endpoint(s->t, CLIENTS));
    }
    for (int i = 0; i < 64; i++) {
        relay_up(r);
    }
    n = recv(r->up, bytes, sizeof bytes, MSG_DONTWAIT);
    r->ended |= n == 0 || (n < 0 && errno != EAGAIN);
    if (n > 0) {
        send(r->down, bytes, (size_t)n, MSG_NOSIGNAL);
    }
}

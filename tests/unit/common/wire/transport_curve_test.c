/* A real transport with keys: who is let in, who is not, and who must go. */
#include <stdio.h>
#include <string.h>

#include "common/wire/method.h"
#include "common/wire/transport_impl.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/common/wire/transport_curve_rig.h"

static void reload(struct end *x)
{
    struct error e;

    if (curve_keys_reload(x->keys, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    transport_revoke(x->t);
}

/* Dials with a key that the port does not accept. */
static void expect_denied(struct end *s, unsigned port, const char *key,
                          enum node_denial why)
{
    uint64_t before = counts(s).denied[why];
    unsigned recv = s->n_recv;
    struct end c;

    dial(&c, s, port, key);
    UNTIL(s, &c, c.n_lost == 1 && counts(s).denied[why] == before + 1);
    assert_int_equal(c.n_opened, 0);
    assert_int_equal(s->n_recv, recv);
    assert_string_not_equal(transport_trouble(c.t), "");
    end_stop(&c);
}

static void knows_peers_by_their_keys(void **state)
{
    struct node_io *io;
    struct end s, w, c;
    struct peer_id id;

    (void)state;
    server_start(&s, "router");
    meet(&w, &s, WORKERS, "w1");
    assert_string_equal(s.from, "w1");
    id = meet(&c, &s, CLIENTS, "alice");
    assert_string_equal(s.from, "alice");
    io = transport_io(c.t);
    assert_string_equal(io->identity(io, id)->name, "router");
    assert_int_equal(io->identity(io, id)->roles, BY_ROUTER);
    say(&s, s.last, FRAME_HEADER);
    UNTIL(&s, &c, c.n_recv == 1);
    assert_string_equal(c.from, "router");
    end_stop(&c);
    end_stop(&w);
    end_stop(&s);
}

static void refuses_who_may_not_connect(void **state)
{
    struct end s;

    (void)state;
    server_start(&s, "router");
    for (unsigned port = WORKERS; port <= CLIENTS; port++) {
        expect_denied(&s, port, NULL, DENIED_NO_KEY);
        expect_denied(&s, port, "mallory", DENIED_UNKNOWN_KEY);
        expect_denied(&s, port, "router", DENIED_WRONG_ROLE);
    }
    expect_denied(&s, WORKERS, "alice", DENIED_WRONG_ROLE);
    expect_denied(&s, WORKERS, "root", DENIED_WRONG_ROLE);
    expect_denied(&s, CLIENTS, "w1", DENIED_WRONG_ROLE);
    assert_int_equal(s.n_lost, 0);
    end_stop(&s);
}

/* An administrator is also a client. */
static void an_admin_connects_as_a_client(void **state)
{
    struct end s, c;

    (void)state;
    server_start(&s, "router");
    meet(&c, &s, CLIENTS, "root");
    assert_string_equal(s.from, "root");
    end_stop(&c);
    end_stop(&s);
}

static void a_wrong_server_key_fails_the_handshake(void **state)
{
    struct end s;

    (void)state;
    server_start(&s, "router");
    key_files_make(&files, "router", "router", 1); /* another one */
    expect_denied(&s, CLIENTS, "alice", DENIED_HANDSHAKE);
    end_stop(&s);
}

/* The client trusts both keys and tries them in turn. */
static void finds_a_router_whose_key_has_changed(void **state)
{
    char from[KEY_FILES_PATH], to[KEY_FILES_PATH];
    struct peer_id id = {0};
    struct end s, c;

    (void)state;
    key_files_path(&files, "router", ".cert", from);
    key_files_path(&files, "an-older-router", ".cert", to);
    assert_int_equal(rename(from, to), 0);
    key_files_make(&files, "router+2", "router", 1);
    server_start(&s, "router+2");
    id = dial(&c, &s, CLIENTS, "alice");
    UNTIL(&s, &c, c.n_opened + c.n_lost > 0);
    for (int i = 0; c.n_opened == 0; i++) {
        unsigned before = c.n_lost;

        assert_true(i < 2);
        id = redial(&c);
        UNTIL(&s, &c, c.n_opened == 1 || c.n_lost > before);
    }
    say(&c, id, FRAME_HEADER);
    UNTIL(&s, &c, s.n_recv == 1);
    assert_string_equal(
        transport_io(c.t)->identity(transport_io(c.t), id)->name, "router");
    end_stop(&c);
    end_stop(&s);
    key_files_remove(&files, "router+2", ".cert");
    assert_int_equal(rename(to, from), 0);
}

static void a_removed_key_ends_its_connections(void **state)
{
    struct peer_id w_at_s;
    struct end s, w, c;

    (void)state;
    server_start(&s, "router");
    meet(&w, &s, WORKERS, "w1");
    w_at_s = s.last;
    meet(&c, &s, CLIENTS, "alice");
    key_files_remove(&files, "alice", ".cert");
    reload(&s);
    UNTIL(&s, &c, s.n_lost == 1 && c.n_lost == 1);
    assert_int_equal(s.lost.v, s.last.v);
    redial(&c);
    UNTIL(&s, &c, c.n_lost == 2);
    assert_int_equal(c.n_opened, 1);
    say(&s, w_at_s, FRAME_HEADER); /* the other one stays */
    UNTIL(&s, &w, w.n_recv == 1);
    assert_int_equal(s.n_lost, 1);
    end_stop(&c);
    end_stop(&w);
    end_stop(&s);
}

/* A connection that has not spoken yet reaches no core afterwards. */
static void a_removed_key_does_not_begin_to_speak(void **state)
{
    struct peer_id id;
    struct end s, c;

    (void)state;
    server_start(&s, "router");
    id = dial(&c, &s, CLIENTS, "alice");
    UNTIL(&s, &c, c.n_opened == 1);
    key_files_remove(&files, "alice", ".cert");
    reload(&s);
    say(&c, id, FRAME_HEADER);
    UNTIL(&s, &c, c.n_lost == 1);
    assert_int_equal(s.n_recv, 0);
    end_stop(&c);
    end_stop(&s);
}

static void a_lost_role_ends_its_connections(void **state)
{
    char text[1024], path[KEY_FILES_PATH];
    struct end s, c;
    FILE *f;

    (void)state;
    server_start(&s, "router");
    meet(&c, &s, CLIENTS, "root");
    key_files_path(&files, "root", ".cert", path);
    f = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    memcpy(strstr(text, "\"admin\""), "client\n", 7);
    key_files_write(&files, "root", ".cert", text);
    reload(&s);
    UNTIL(&s, &c, s.n_lost == 1 && c.n_lost == 1);
    end_stop(&c);
    end_stop(&s);
}

static void a_client_ends_when_it_trusts_the_router_no_more(void **state)
{
    struct end s, c;

    (void)state;
    server_start(&s, "router");
    meet(&c, &s, CLIENTS, "alice");
    key_files_remove(&files, "router", ".cert");
    reload(&c);
    UNTIL(&s, &c, c.n_lost == 1 && s.n_lost == 1);
    redial(&c);
    UNTIL(&s, &c, c.n_lost == 2);
    assert_non_null(strstr(transport_trouble(c.t), "role router"));
    end_stop(&c);
    end_stop(&s);
}

/* ---- messages ---- */

static void long_messages_come_as_without_keys(void **state)
{
    struct peer_id id;
    struct end s, w;

    (void)state;
    server_start(&s, "router");
    id = meet(&w, &s, WORKERS, "w1");
    say(&w, id, FRAME_BYTES_MAX);
    UNTIL(&s, &w, s.n_recv == 2);
    transport_io(s.t)->trust(transport_io(s.t), s.last);
    say(&w, id, FRAME_BYTES_MAX + FRAME_TENSOR_MAX);
    UNTIL(&s, &w, s.n_recv == 3);
    say(&s, s.last, FRAME_BYTES_MAX);
    UNTIL(&s, &w, w.n_recv == 1);
    end_stop(&w);
    id = meet(&w, &s, CLIENTS, "alice");
    say(&w, id, FRAME_BYTES_MAX + 1);
    UNTIL(&s, &w, w.n_lost == 1);
    assert_int_equal(s.n_recv, 4);
    assert_int_equal(counts(&s).cut, 1);
    end_stop(&w);
    end_stop(&s);
}

/* Many messages at once are no unfinished message. */
static void bursts_are_not_cut(void **state)
{
    struct peer_id id;
    struct end s, c;
    unsigned sent = 1;

    (void)state;
    server_start(&s, "router");
    id = meet(&c, &s, CLIENTS, "alice");
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 200; i++) {
            struct frame *f = frame_new(FRAME_HEADER + (uint32_t)i * 37);
            struct node_io *io = transport_io(c.t);

            memset(f->data, 0, f->bytes);
            sent += io->send(io, id, &f) == ST_OK;
        }
        loop_turn(&c.loop, 0);
    }
    UNTIL(&s, &c, s.n_recv == sent);
    assert_int_equal(counts(&s).cut, 0);
    assert_int_equal(c.n_lost, 0);
    end_stop(&c);
    end_stop(&s);
}

static void a_stage_is_dialled_by_its_key(void **state)
{
    const struct transport_port port = {"tcp://127.0.0.1:*", BY_WORKER, true};
    struct curve_keys *own = keys_of("w1");
    struct end next = {.keys = keys_of("w2")}, prev = {.keys = own};
    const struct identity *there;
    struct peer_id id;
    struct node_io *io;
    struct error e;

    (void)state;
    assert_int_equal(
        transport_new(&next.t, "tcp://127.0.0.1:1", &port, 1, next.keys, &e),
        ST_OK);
    loop_init(&next.loop, next.t, &ops, &next);
    assert_int_equal(
        transport_new(&prev.t, "tcp://127.0.0.1:1", &port, 1, own, &e), ST_OK);
    loop_init(&prev.loop, prev.t, &ops, &prev);
    io = transport_io(prev.t);
    /* Without a key, and with one that is no worker's, nothing is dialled. */
    io->open_to(io, transport_endpoint(next.t, 0), NULL);
    UNTIL(&next, &prev, prev.n_lost == 1);
    there = curve_keys_nth(own, BY_CLIENT, 0);
    io->open_to(io, transport_endpoint(next.t, 0), there->key);
    UNTIL(&next, &prev, prev.n_lost == 2);
    id = io->open_to(io, transport_endpoint(next.t, 0),
                     curve_keys_public(next.keys));
    UNTIL(&next, &prev, prev.n_opened == 1);
    say(&prev, id, FRAME_HEADER);
    UNTIL(&next, &prev, next.n_recv == 1);
    assert_string_equal(next.from, "w1");
    assert_string_equal(io->identity(io, id)->name, "w2");
    end_stop(&prev);
    end_stop(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(knows_peers_by_their_keys),
        TEST(refuses_who_may_not_connect),
        TEST(an_admin_connects_as_a_client),
        TEST(a_wrong_server_key_fails_the_handshake),
        TEST(finds_a_router_whose_key_has_changed),
        TEST(a_removed_key_ends_its_connections),
        TEST(a_removed_key_does_not_begin_to_speak),
        TEST(a_lost_role_ends_its_connections),
        TEST(a_client_ends_when_it_trusts_the_router_no_more),
        TEST(long_messages_come_as_without_keys),
        TEST(bursts_are_not_cut),
        TEST(a_stage_is_dialled_by_its_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

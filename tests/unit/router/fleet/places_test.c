/* Places for sessions: how many of each role, and which session makes room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define N_CLIENTS 3
#define N_ADMINS  2

static struct rig *small_rig(void)
{
    const struct rig_options o = {.max_peers = N_CLIENTS,
                                  .max_admins = N_ADMINS,
                                  .max_requests = 16,
                                  .max_waiting = 16};

    return rig_new(&o);
}

static struct fake *say_hello(struct rig *rig, uint8_t role, const char *name)
{
    struct fake *f = fake_new(rig, role, name);

    fake_hello(f);
    return f;
}

static uint64_t n_evicted(const struct rig *rig)
{
    struct router_metrics m;

    router_counts(rig->router, &m);
    return m.evicted;
}

static void the_session_idle_longest_makes_room(void **state)
{
    struct rig *rig = small_rig();
    struct fake *c[N_CLIENTS], *more;

    (void)state;
    for (int i = 0; i < N_CLIENTS; i++) {
        c[i] = rig_client(rig, "c");
        rig_advance(rig, 1000);
    }
    assert_int_equal(n_evicted(rig), 0); /* at the limit */
    more = rig_client(rig, "more");      /* one past it */
    assert_true(more->up && c[0]->gone && !c[1]->gone && !c[2]->gone);
    assert_non_null(strstr(c[0]->goodbye, "all 3 places for clients"));
    assert_non_null(strstr(c[0]->goodbye, "no open call"));
    assert_int_equal(n_evicted(rig), 1);
    /* It may come again at once, in the place of the next. */
    fake_reconnect(c[0]);
    assert_true(c[0]->up && c[1]->gone && !c[2]->gone && !more->gone);
    rig_free(&rig);
}

static void a_session_with_an_open_call_keeps_its_place(void **state)
{
    struct rig *rig = small_rig();
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *busy = rig_client(rig, "busy");
    struct record *x = client_generate(busy, 1, 40, 4);
    struct fake *idle, *more;

    (void)state;
    rig_run(rig);
    idle = rig_client(rig, "idle");
    rig_client(rig, "c");
    more = rig_client(rig, "more");
    assert_true(more->up && idle->gone && !busy->gone);
    worker_give(w, 1, 0, 4, SLUICE__V1__FINISH__FINISH_LENGTH);
    assert_true(x->ended && x->status == ST_OK);
    rig_free(&rig);
}

static void a_house_full_of_calls_refuses(void **state)
{
    struct rig *rig = small_rig();
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c[N_CLIENTS], *more;

    (void)state;
    for (int i = 0; i < N_CLIENTS; i++) {
        c[i] = rig_client(rig, "c");
        client_generate(c[i], (uint8_t)(1 + i), 40, 4);
        rig_run(rig);
    }
    more = say_hello(rig, BY_CLIENT, "more");
    assert_false(more->up);
    assert_int_equal(more->refusal, ST_RESOURCE_EXHAUSTED);
    assert_string_equal(more->why,
                        "3 clients are connected and all have open calls, at "
                        "most 3 may be; retry, or raise the router's "
                        "--max-peers");
    assert_int_equal(more->retry_ms, 1000);
    assert_int_equal(n_evicted(rig), 0);
    /* The first call to end makes room. */
    worker_give(w, 2, 0, 4, SLUICE__V1__FINISH__FINISH_LENGTH);
    fake_reconnect(more);
    assert_true(more->up && c[1]->gone && !c[0]->gone && !c[2]->gone);
    rig_free(&rig);
}

static void clients_keep_out_no_worker_and_no_administrator(void **state)
{
    struct rig *rig = small_rig();
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *admin;

    (void)state;
    for (int i = 0; i < N_CLIENTS; i++) {
        client_generate(rig_client(rig, "c"), (uint8_t)(1 + i), 40, 4);
        rig_run(rig);
    }
    fake_lost(w);
    fake_restart(w);
    admin = say_hello(rig, BY_ADMIN, "a");
    assert_true(w->up && !w->refused && admin->up);
    rig_free(&rig);
}

static void administrators_keep_out_no_client(void **state)
{
    struct rig *rig = small_rig();
    struct fake *a[N_ADMINS], *more, *c;

    (void)state;
    for (int i = 0; i < N_ADMINS; i++) {
        Sluice__V1__WatchRequest m = SLUICE__V1__WATCH_REQUEST__INIT;

        a[i] = rig_admin(rig, "a");
        client_call(a[i], METHOD_ADMIN_WATCH, &m.base, 0);
        rig_run(rig);
    }
    more = say_hello(rig, BY_ADMIN, "more");
    assert_false(more->up);
    assert_int_equal(more->refusal, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(more->why, "2 administrators are connected"));
    assert_non_null(strstr(more->why, "--max-admins"));
    c = say_hello(rig, BY_CLIENT, "c");
    assert_true(c->up && !a[0]->gone && !a[1]->gone);
    rig_free(&rig);
}

static void ping(struct fake *f)
{
    assert_true(peer_ping(f->peer));
    rig_run(f->rig);
}

static void calls_are_activity_and_pings_are_not(void **state)
{
    struct rig *rig = small_rig();
    struct fake *calls = rig_client(rig, "calls");
    struct fake *pings = rig_client(rig, "pings");
    struct fake *later = rig_client(rig, "later");
    Sluice__V1__ListModelsRequest m = SLUICE__V1__LIST_MODELS_REQUEST__INIT;

    (void)state;
    rig_advance(rig, 1000);
    ping(pings);
    client_call(calls, METHOD_INFERENCE_LIST_MODELS, &m.base, 0);
    rig_advance(rig, 1000);
    rig_client(rig, "x");
    assert_true(pings->gone && !calls->gone && !later->gone);
    rig_client(rig, "y");
    assert_true(later->gone && !calls->gone);
    rig_free(&rig);
}

/* Has the end of a call wait in the link of a client that does not
 * acknowledge, and fills the house with two others. */
static struct fake *client_that_reads_nothing(struct rig *rig)
{
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *deaf = rig_client(rig, "deaf"), *c;

    client_generate(deaf, 1, 40, 100);
    rig_run(rig);
    deaf->deaf = true;
    for (int i = 0; i < 80; i++) { /* frames; 64 may be unacknowledged */
        worker_give(w, 1, 0, 1, 0);
    }
    c = rig_client(rig, "c");
    client_cancel(c, 1);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 1), CHOICE_ENDED);
    rig_client(rig, "d");
    client_cancel(c, 2); /* c is not the one that is idle longest */
    rig_run(rig);
    return deaf;
}

static void an_end_that_waits_keeps_the_place(void **state)
{
    struct rig *rig = small_rig();
    struct fake *deaf = client_that_reads_nothing(rig);

    (void)state;
    rig_advance(rig, PLACE_SETTLE_US - 10000);
    deaf->deaf = false;
    rig_client(rig, "more");
    assert_false(deaf->gone);
    assert_int_equal(n_evicted(rig), 1);
    rig_free(&rig);
}

static void an_end_that_nobody_reads_loses_the_place(void **state)
{
    struct rig *rig = small_rig();
    struct fake *deaf = client_that_reads_nothing(rig);

    (void)state;
    rig_advance(rig, PLACE_SETTLE_US);
    deaf->deaf = false;
    rig_client(rig, "more");
    assert_true(deaf->gone);
    assert_int_equal(n_evicted(rig), 1);
    rig_free(&rig);
}

/* A session that ends gives its place back, whatever ended it. */
static void places_are_given_back(void **state)
{
    struct rig *rig = small_rig();
    struct router_metrics m;

    (void)state;
    for (int i = 0; i < 4 * N_CLIENTS; i++) {
        struct fake *c = rig_client(rig, "c");

        if (i % 2 == 0) {
            fake_lost(c);
        } else {
            struct frame *f = goodbye_make(c->session, "bye");

            router_node_ops.recv(rig->router, c->id, &f);
        }
        rig_run(rig);
    }
    router_counts(rig->router, &m);
    assert_int_equal(m.clients, 0);
    assert_int_equal(m.evicted, 0);
    rig_client(rig, "c");
    rig_admin(rig, "a");
    router_counts(rig->router, &m);
    assert_int_equal(m.clients, 1);
    assert_int_equal(m.admins, 1);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_session_idle_longest_makes_room),
        cmocka_unit_test(a_session_with_an_open_call_keeps_its_place),
        cmocka_unit_test(a_house_full_of_calls_refuses),
        cmocka_unit_test(clients_keep_out_no_worker_and_no_administrator),
        cmocka_unit_test(administrators_keep_out_no_client),
        cmocka_unit_test(calls_are_activity_and_pings_are_not),
        cmocka_unit_test(an_end_that_waits_keeps_the_place),
        cmocka_unit_test(an_end_that_nobody_reads_loses_the_place),
        cmocka_unit_test(places_are_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

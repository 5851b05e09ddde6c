/* The resolver: names in the background, with lookups of the test. */
#include "common/wire/resolver.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

/* ---- a name server of the test ---- */

/* Lookups of a name that begins with "slow" wait until the test lets them go.
 * "none" has no address; the others have two. */
struct names {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool go;
    unsigned begun, ended, most, now;
};

static void names_init(struct names *n)
{
    *n = (struct names){.go = false};
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
}

static void lookup(void *arg, const char *host, struct resolver_answer *out)
{
    struct names *n = arg;

    pthread_mutex_lock(&n->lock);
    n->begun++;
    n->now++;
    n->most = n->now > n->most ? n->now : n->most;
    pthread_cond_broadcast(&n->changed);
    while (strncmp(host, "slow", 4) == 0 && !n->go) {
        pthread_cond_wait(&n->changed, &n->lock);
    }
    if (strcmp(host, "none") == 0) {
        snprintf(out->why, sizeof out->why, "no such name");
    } else {
        out->n = 2;
        snprintf(out->addresses[0], RESOLVER_TEXT, "192.0.2.1");
        snprintf(out->addresses[1], RESOLVER_TEXT, "2001:db8::1");
    }
    n->now--;
    n->ended++;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static void names_go(struct names *n)
{
    pthread_mutex_lock(&n->lock);
    n->go = true;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

/* Waits until that many lookups have begun. */
static void names_begun(struct names *n, unsigned begun)
{
    pthread_mutex_lock(&n->lock);
    while (n->begun < begun) {
        pthread_cond_wait(&n->changed, &n->lock);
    }
    pthread_mutex_unlock(&n->lock);
}

/* Waits for the lookups, which use n, then frees it. */
static void names_fini(struct names *n)
{
    names_go(n);
    pthread_mutex_lock(&n->lock);
    while (n->ended < n->begun) {
        pthread_cond_wait(&n->changed, &n->lock);
    }
    pthread_mutex_unlock(&n->lock);
}

static struct resolver *make(struct names *n)
{
    struct resolver *r = NULL;
    struct error e;

    names_init(n);
    assert_int_equal(resolver_new(&r, lookup, n, &e), ST_OK);
    return r;
}

static bool readable(const struct resolver *r, int ms)
{
    struct pollfd item = {.fd = resolver_fd(r), .events = POLLIN};

    return poll(&item, 1, ms) == 1;
}

/* Waits for the next answer. */
static struct resolver_answer wait_answer(struct resolver *r)
{
    struct resolver_answer a;

    while (!resolver_take(r, &a)) {
        assert_true(readable(r, -1));
    }
    return a;
}

/* ---- */

static void an_answer_has_the_addresses_in_order(void **state)
{
    struct names n;
    struct resolver *r = make(&n);
    struct resolver_answer a;

    (void)state;
    assert_false(readable(r, 0));
    assert_false(resolver_take(r, &a));
    assert_true(resolver_ask(r, 7, "node-1"));
    a = wait_answer(r);
    assert_int_equal(a.id, 7);
    assert_int_equal(a.n, 2);
    assert_string_equal(a.addresses[0], "192.0.2.1");
    assert_string_equal(a.addresses[1], "2001:db8::1");
    assert_false(resolver_take(r, &a));
    assert_false(readable(r, 0));
    resolver_free(&r);
    assert_null(r);
    names_fini(&n);
}

static void a_failure_has_a_reason(void **state)
{
    struct names n;
    struct resolver *r = make(&n);
    struct resolver_answer a;

    (void)state;
    assert_true(resolver_ask(r, 1, "none"));
    a = wait_answer(r);
    assert_int_equal(a.n, 0);
    assert_string_equal(a.why, "no such name");
    resolver_free(&r);
    names_fini(&n);
}

/* A name server that is silent for one name delays no other name. */
static void a_slow_name_delays_no_other(void **state)
{
    struct names n;
    struct resolver *r = make(&n);

    (void)state;
    assert_true(resolver_ask(r, 1, "slow"));
    names_begun(&n, 1);
    for (uint32_t id = 2; id < 6; id++) {
        assert_true(resolver_ask(r, id, "node-1"));
        assert_int_equal(wait_answer(r).id, id);
    }
    names_go(&n);
    assert_int_equal(wait_answer(r).id, 1);
    resolver_free(&r);
    names_fini(&n);
}

/* A session that gives up and asks again would otherwise never see the answer
 * of a name server slower than itself. */
static void a_lookup_serves_those_who_ask_before_it_ends(void **state)
{
    struct names n;
    struct resolver *r = make(&n);
    struct resolver_answer a;
    bool seen[3] = {false};

    (void)state;
    assert_true(resolver_ask(r, 1, "slow"));
    names_begun(&n, 1);
    resolver_cancel(r, 1);
    for (uint32_t id = 2; id < 5; id++) {
        assert_true(resolver_ask(r, id, "slow"));
    }
    names_go(&n);
    for (int i = 0; i < 3; i++) {
        a = wait_answer(r);
        assert_in_range(a.id, 2, 4);
        seen[a.id - 2] = true;
        assert_int_equal(a.n, 2);
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    assert_int_equal(n.begun, 1);
    resolver_free(&r);
    names_fini(&n);
}

/* Hosts move: each later query looks the name up anew. */
static void nothing_is_kept(void **state)
{
    struct names n;
    struct resolver *r = make(&n);

    (void)state;
    for (uint32_t id = 1; id <= 3; id++) {
        assert_true(resolver_ask(r, id, "node-1"));
        assert_int_equal(wait_answer(r).id, id);
        assert_int_equal(n.begun, id);
    }
    resolver_free(&r);
    names_fini(&n);
}

static void a_cancelled_query_has_no_answer(void **state)
{
    struct names n;
    struct resolver *r = make(&n);
    struct resolver_answer a;

    (void)state;
    assert_true(resolver_ask(r, 1, "slow"));
    names_begun(&n, 1); /* names_fini() waits for those that have begun */
    resolver_cancel(r, 1);
    resolver_cancel(r, 99);
    names_go(&n);
    assert_true(resolver_ask(r, 2, "node-1"));
    assert_int_equal(wait_answer(r).id, 2);
    assert_true(resolver_ask(r, 3, "node-1")); /* answered, then cancelled */
    while (!readable(r, -1)) {
    }
    resolver_cancel(r, 3);
    assert_false(resolver_take(r, &a));
    assert_false(readable(r, 0));
    resolver_free(&r);
    names_fini(&n);
}

/* One past the limit of lookups: the name waits for a thread. */
static void lookups_are_bounded(void **state)
{
    struct names n;
    struct resolver *r = make(&n);
    bool seen[RESOLVER_THREADS + 1] = {false};
    char host[16];

    (void)state;
    for (unsigned i = 0; i <= RESOLVER_THREADS; i++) {
        snprintf(host, sizeof host, "slow-%u", i);
        assert_true(resolver_ask(r, i, host));
    }
    names_begun(&n, RESOLVER_THREADS);
    assert_int_equal(n.begun, RESOLVER_THREADS);
    names_go(&n);
    for (unsigned i = 0; i <= RESOLVER_THREADS; i++) {
        seen[wait_answer(r).id] = true;
    }
    for (unsigned i = 0; i <= RESOLVER_THREADS; i++) {
        assert_true(seen[i]);
    }
    assert_int_equal(n.begun, RESOLVER_THREADS + 1);
    assert_int_equal(n.most, RESOLVER_THREADS);
    resolver_free(&r);
    names_fini(&n);
}

static void queries_are_bounded(void **state)
{
    char host[ENDPOINT_NAME_MAX + 3];
    struct names n;
    struct resolver *r = make(&n);

    (void)state;
    for (uint32_t id = 1; id <= RESOLVER_QUERIES; id++) {
        assert_true(resolver_ask(r, id, "slow"));
    }
    assert_false(resolver_ask(r, 1000, "slow"));
    resolver_cancel(r, 1);
    memset(host, 'a', sizeof host);
    host[sizeof host - 1] = '\0'; /* one byte longer than the longest */
    assert_false(resolver_ask(r, 1000, host));
    host[sizeof host - 2] = '\0';
    assert_true(resolver_ask(r, 1000, host));
    assert_int_equal(wait_answer(r).id, 1000);
    names_begun(&n, 2);
    resolver_free(&r);
    names_fini(&n);
}

/* A lookup that hangs cannot be ended, and the program does not wait for it. */
static void the_end_does_not_wait_for_a_lookup(void **state)
{
    struct names n;
    struct resolver *r = make(&n);

    (void)state;
    assert_true(resolver_ask(r, 1, "slow"));
    names_begun(&n, 1);
    resolver_free(&r);
    names_fini(&n);
}

static void the_resolver_of_the_system_answers(void **state)
{
    struct resolver *r = NULL;
    struct resolver_answer a;
    struct error e;

    (void)state;
    assert_int_equal(resolver_new(&r, NULL, NULL, &e), ST_OK);
    assert_true(resolver_ask(r, 1, "localhost")); /* in every /etc/hosts */
    a = wait_answer(r);
    assert_true(a.n >= 1);
    for (unsigned i = 0; i < a.n; i++) {
        assert_true(strncmp(a.addresses[i], "127.", 4) == 0 ||
                    strcmp(a.addresses[i], "::1") == 0);
    }
    /* An empty label: no name server is asked. */
    assert_true(resolver_ask(r, 2, "a..b"));
    a = wait_answer(r);
    assert_int_equal(a.n, 0);
    assert_string_not_equal(a.why, "");
    resolver_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_has_the_addresses_in_order),
        cmocka_unit_test(a_failure_has_a_reason),
        cmocka_unit_test(a_slow_name_delays_no_other),
        cmocka_unit_test(a_lookup_serves_those_who_ask_before_it_ends),
        cmocka_unit_test(nothing_is_kept),
        cmocka_unit_test(a_cancelled_query_has_no_answer),
        cmocka_unit_test(lookups_are_bounded),
        cmocka_unit_test(queries_are_bounded),
        cmocka_unit_test(the_end_does_not_wait_for_a_lookup),
        cmocka_unit_test(the_resolver_of_the_system_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Hellos with keys: roles, names and lineages follow from the key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

static const struct rig_options keyed = {.max_peers = 64,
                                         .max_requests = 64,
                                         .max_waiting = 64,
                                         .worker_wait_us = 1000000,
                                         .keyed = true};

static struct fake *with_key(struct fake *f, const char *key, uint8_t roles)
{
    fake_key(f, key, roles);
    return f;
}

static struct fake *up(struct fake *f)
{
    fake_hello(f);
    if (!f->up) {
        fail_msg("%s was refused: %s", f->name, f->why);
    }
    return f;
}

static struct fake *worker(struct rig *rig, const char *key, const char *name)
{
    return with_key(fake_worker_new(rig, name, 64, 8), key, BY_WORKER);
}

static struct fake *admin(struct rig *rig)
{
    return up(with_key(fake_new(rig, BY_ADMIN, "ops"), "ops", BY_ADMIN));
}

static void refused(struct fake *f, enum status status, const char *text)
{
    fake_hello(f);
    assert_false(f->up);
    assert_int_equal(f->refusal, status);
    if (strstr(f->why, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", f->why, text);
    }
}

static const Sluice__V1__ListWorkersReply *list(struct fake *a)
{
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    struct record *x = client_call(a, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);

    rig_run(a->rig);
    assert_int_equal(x->status, ST_OK);
    return (const void *)x->reply;
}

static bool equal(ProtobufCBinaryData d, const char *s)
{
    return d.len == strlen(s) && memcmp(d.data, s, d.len) == 0;
}

static void the_key_names_the_worker(void **state)
{
    struct rig *rig = rig_new(&keyed);
    struct fake *a = admin(rig), *w1 = up(worker(rig, "w1", "w1"));
    struct fake *w2 = worker(rig, "pool", "w2");
    struct fake *o =
        with_key(fake_offer_new(rig, "o", 2, 12), "pool", BY_WORKER);
    const Sluice__V1__ListWorkersReply *m;

    (void)state;
    w2->shard.has_lineage = true;
    w2->shard.lineage = wire_text("w1");
    up(w2);
    up(o);
    assert_string_equal(w1->your_name, "w1");
    assert_string_equal(w2->your_name, "pool/w2");
    assert_string_equal(a->your_name, "ops");
    m = list(a);
    assert_int_equal(m->n_workers, 2);
    assert_true(equal(m->workers[0]->name, "w1"));
    assert_true(equal(m->workers[0]->lineage, "w1"));
    assert_true(equal(m->workers[0]->key, "w1"));
    assert_true(equal(m->workers[1]->name, "pool/w2"));
    assert_true(equal(m->workers[1]->lineage, "pool/w1"));
    assert_true(equal(m->workers[1]->key, "pool"));
    assert_int_equal(m->n_offers, 1);
    assert_true(equal(m->offers[0]->name, "pool/o"));
    assert_true(equal(m->offers[0]->key, "pool"));
    rig_end(&rig);
}

static void status_names_the_caller(void **state)
{
    Sluice__V1__StatusRequest m = SLUICE__V1__STATUS_REQUEST__INIT;
    struct rig *rig = rig_new(&keyed);
    struct fake *a =
        up(with_key(fake_new(rig, BY_ADMIN, "desk"), "ops", BY_ADMIN));
    struct record *x = client_call(a, METHOD_ADMIN_STATUS, &m.base, 0);
    const Sluice__V1__StatusReply *reply;

    (void)state;
    rig_run(rig);
    assert_int_equal(x->status, ST_OK);
    reply = (const void *)x->reply;
    assert_true(equal(reply->your_name, "ops/desk"));
    rig_end(&rig);
}

/* As before there were keys, also for a name with a slash. */
static void without_keys_the_hello_names_the_worker(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_admin(rig, "ops"), *w = rig_worker(rig, "k/w", 8, 2);
    const Sluice__V1__ListWorkersReply *m = list(a);

    (void)state;
    assert_string_equal(w->your_name, "k/w");
    assert_true(equal(m->workers[0]->name, "k/w"));
    assert_true(equal(m->workers[0]->lineage, "k/w"));
    assert_false(m->workers[0]->has_key);
    rig_end(&rig);
}

static void a_role_that_the_key_lacks_is_refused(void **state)
{
    static const struct {
        uint8_t role, roles;
        const char *why;
    } cases[] = {
        {BY_ADMIN, BY_CLIENT, "the key k1 does not have the role admin"},
        {BY_ADMIN, BY_WORKER | BY_ROUTER, "role admin"},
        {BY_CLIENT, BY_WORKER, "the key k1 does not have the role client"},
        {BY_WORKER, BY_ADMIN | BY_CLIENT, "does not have the role worker"},
        {BY_WORKER, 0, "does not have the role worker"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig *rig = rig_new(&keyed);
        struct fake *f = cases[i].role == BY_WORKER
                             ? fake_worker_new(rig, "x", 8, 2)
                             : fake_new(rig, cases[i].role, "x");

        refused(with_key(f, "k1", cases[i].roles), ST_PERMISSION_DENIED,
                cases[i].why);
        rig_end(&rig);
    }
}

/* One key may have several roles, and an administrator is a client too. */
static void a_role_that_the_key_has_is_accepted(void **state)
{
    struct rig *rig = rig_new(&keyed);

    (void)state;
    up(with_key(fake_new(rig, BY_CLIENT, "x"), "k1", BY_ADMIN));
    up(with_key(fake_new(rig, BY_CLIENT, "x"), "k2", BY_WORKER | BY_CLIENT));
    up(with_key(fake_worker_new(rig, "x", 8, 2), "k2", BY_WORKER | BY_CLIENT));
    rig_end(&rig);
}

static void a_connection_without_a_key_is_refused_among_keys(void **state)
{
    struct rig *rig = rig_new(&keyed);

    (void)state;
    refused(fake_worker_new(rig, "w1", 8, 2), ST_UNAUTHENTICATED, "keys only");
    refused(fake_new(rig, BY_ADMIN, "ops"), ST_UNAUTHENTICATED, "keys only");
    rig_end(&rig);
}

/* The first worker is quiet, so that its name could be taken over. */
static void another_key_takes_no_session(void **state)
{
    struct rig *rig = rig_new(&keyed);
    struct fake *w1 = up(worker(rig, "w1", "w1")), *x, *again;

    (void)state;
    rig_advance(rig, NAME_BUSY_US);
    x = up(worker(rig, "x", "w1"));
    assert_string_equal(x->your_name, "x/w1");
    assert_false(w1->gone);
    assert_int_equal(fake_view(w1).session, w1->session);
    again = up(worker(rig, "w1", "w1"));
    assert_string_equal(again->your_name, "w1");
    assert_true(w1->gone);
    assert_false(x->gone);
    rig_end(&rig);
}

/* Two processes with one key and one name would otherwise end each other's
 * sessions for ever. */
static void the_same_key_and_name_wait_for_silence(void **state)
{
    struct rig *rig = rig_new(&keyed);
    struct fake *w1 = up(worker(rig, "w1", "w1"));
    struct fake *again = worker(rig, "w1", "w1"), *other;

    (void)state;
    refused(again, ST_ALREADY_EXISTS, "a worker named w1 is connected");
    assert_int_equal(again->retry_ms, NAME_BUSY_US / 1000);
    assert_false(w1->gone);
    other = up(worker(rig, "w1", "second"));
    assert_string_equal(other->your_name, "w1/second");
    rig_end(&rig);
}

static void break_protocol(struct fake *w)
{
    w->classes[0].free++; /* the sum is wrong */
    worker_report(w);
    rig_run(w->rig);
    assert_true(w->gone);
}

static void another_key_has_no_part_in_a_quarantine(void **state)
{
    struct rig *rig = rig_new(&keyed);
    struct fake *w1 = up(worker(rig, "w1", "w1"));
    struct fake *x = up(worker(rig, "x", "w1"));

    (void)state;
    break_protocol(x); /* w1's name is not in quarantine */
    refused(worker(rig, "x", "w1"), ST_UNAVAILABLE, "worker x/w1 violated");
    fake_lost(w1);
    rig_run(rig);
    fake_reconnect(w1);
    assert_true(w1->up);
    break_protocol(w1);
    refused(worker(rig, "w1", "w1"), ST_UNAVAILABLE, "worker w1 violated");
    up(worker(rig, "y", "w1"));
    rig_end(&rig);
}

/* A worker that names the lineage of another key and dies again and again puts
 * only its own lineage on probation. */
static void another_key_has_no_part_in_a_lineage(void **state)
{
    struct rig *rig = rig_new(&keyed);
    struct fake *w1, *x = worker(rig, "x", "w1");

    (void)state;
    x->shard.has_lineage = true;
    x->shard.lineage = wire_text("w1");
    up(x);
    for (int i = 0; i < 3; i++) {
        fake_lost(x);
        rig_run(rig);
        fake_restart(x);
        assert_true(x->up);
    }
    assert_int_equal(fake_view(x).n_barren, 3);
    w1 = up(worker(rig, "w1", "w1"));
    assert_int_equal(fake_view(w1).n_barren, 0);
    rig_end(&rig);
}

static void long_names_and_lineages_are_refused(void **state)
{
    char key[KEY_NAME_MAX + 1] = {0}, said[PEER_NAME_MAX + 1] = {0};
    struct rig *rig = rig_new(&keyed);
    struct fake *w;

    (void)state;
    memset(key, 'k', KEY_NAME_MAX);
    memset(said, 's', PEER_NAME_MAX - KEY_NAME_MAX - 1);
    w = worker(rig, key, said);
    w->shard.has_lineage = true;
    w->shard.lineage = wire_text(said);
    up(w);
    assert_int_equal(strlen(w->your_name), PEER_NAME_MAX);
    said[PEER_NAME_MAX - KEY_NAME_MAX - 1] = 's';
    refused(worker(rig, key, said), ST_INVALID_ARGUMENT,
            "the name has 65 bytes with its key");
    refused(with_key(fake_new(rig, BY_CLIENT, said), key, BY_CLIENT),
            ST_INVALID_ARGUMENT, "shorten it to 31 bytes");
    w = worker(rig, key, "w");
    w->shard.has_lineage = true;
    w->shard.lineage = wire_text(said);
    refused(w, ST_INVALID_ARGUMENT, "the lineage has 65 bytes with its key");
    w = with_key(fake_offer_new(rig, "o", 2, 12), key, BY_WORKER);
    w->offer.has_lineage = true;
    w->offer.lineage = wire_text(said);
    refused(w, ST_INVALID_ARGUMENT, "the lineage has 65 bytes with its key");
    rig_end(&rig);
}

static void refused_keys_have_no_side_effects(void **state)
{
    struct rig *rig = rig_new(&keyed);
    struct fake *w1 = up(worker(rig, "w1", "w1")), *x;
    struct fake *c =
        up(with_key(fake_new(rig, BY_CLIENT, "c"), "c", BY_CLIENT));
    struct record *r = client_generate(c, 1, 40, 10);
    struct router_worker_view before;

    (void)state;
    rig_run(rig);
    rig_advance(rig, NAME_BUSY_US);
    before = fake_view(w1);
    x = with_key(fake_worker_new(rig, "w1", 64, 8), "w1", BY_CLIENT);
    refused(x, ST_PERMISSION_DENIED, "role worker");
    refused(fake_worker_new(rig, "w1", 64, 8), ST_UNAUTHENTICATED, "keys");
    assert_false(w1->gone);
    assert_int_equal(fake_view(w1).session, before.session);
    assert_int_equal(fake_view(w1).n_sequences, 1);
    worker_give(w1, 1, 0, 10, SLUICE__V1__FINISH__FINISH_LENGTH);
    record_check(r, 1, 0, 10);
    rig_end(&rig);
}

/* ---- what people see ---- */

static char lines[4096];

static void take_line(void *arg, enum log_level level, const char *line)
{
    size_t n = strlen(lines);

    (void)arg, (void)level;
    snprintf(lines + n, sizeof lines - n, "%s\n", line);
}

static void logged(const char *text)
{
    if (strstr(lines, text) == NULL) {
        fail_msg("\"%s\" is not in: %s", text, lines);
    }
}

static void logs_name_the_key(void **state)
{
    struct rig *rig = rig_new(&keyed);

    (void)state;
    lines[0] = '\0';
    log_setup(LOG_INFO, take_line, NULL);
    up(worker(rig, "pool", "w2"));
    up(with_key(fake_new(rig, BY_CLIENT, "g1"), "gateways", BY_CLIENT));
    up(with_key(fake_new(rig, BY_ADMIN, "ops"), "ops", BY_ADMIN));
    refused(with_key(fake_new(rig, BY_ADMIN, "w"), "w9", BY_WORKER),
            ST_PERMISSION_DENIED, "w9");
    log_setup(LOG_OFF, NULL, NULL);
    logged("worker-up worker=pool/w2");
    logged("client-up client=gateways/g1 role=client");
    logged("client-up client=ops role=admin");
    logged(" key=w9 status=PERMISSION_DENIED");
    rig_end(&rig);
}

static void the_lower_minor_version_is_used(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = fake_new(rig, BY_CLIENT, "c");

    (void)state;
    c->minor = 0;
    assert_int_equal(up(c)->minor, 0);
    c = fake_new(rig, BY_CLIENT, "c");
    c->minor = WIRE_VERSION_MINOR + 1;
    assert_int_equal(up(c)->minor, WIRE_VERSION_MINOR);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_names_the_worker),
        cmocka_unit_test(status_names_the_caller),
        cmocka_unit_test(without_keys_the_hello_names_the_worker),
        cmocka_unit_test(a_role_that_the_key_lacks_is_refused),
        cmocka_unit_test(a_role_that_the_key_has_is_accepted),
        cmocka_unit_test(a_connection_without_a_key_is_refused_among_keys),
        cmocka_unit_test(another_key_takes_no_session),
        cmocka_unit_test(the_same_key_and_name_wait_for_silence),
        cmocka_unit_test(another_key_has_no_part_in_a_quarantine),
        cmocka_unit_test(another_key_has_no_part_in_a_lineage),
        cmocka_unit_test(long_names_and_lineages_are_refused),
        cmocka_unit_test(refused_keys_have_no_side_effects),
        cmocka_unit_test(logs_name_the_key),
        cmocka_unit_test(the_lower_minor_version_is_used),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

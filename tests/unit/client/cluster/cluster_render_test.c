/* Keys that are made and checked, and what a bundle of each host has. */
#include "client/cluster/cluster_render.h"

#include <stdlib.h>
#include <unistd.h>

#include "client/cluster/cluster_tenants.h"
#include "common/wire/method.h"
#include "gateway/keys/keys.h"
#include "tests/unit/client/cluster/parsed.h"
#include "tests/unit/client/cluster/scratch.h"

static struct error e;
static struct key_needs needs;
static unsigned n_made;

static const char file[] =
    "cluster: c\nkeys: {dir: keys}\n"
    "hosts: {a: {address: 10.0.0.1}, b: {address: 10.0.0.2}, d: {address: "
    "10.0.0.3}}\n"
    "models: {m: {path: /m}, k: {path: /k}}\n"
    "router: {host: a}\n"
    "gateways: [{name: g, host: a}]\n"
    "workers:\n"
    "  - {name: s, host: b, model: m, stages: 2}\n"
    "  - {name: t, host: d, model: m, stages: 2}\n"
    "  - {name: k, host: d, model: k}\n"
    "tenants: {web: {streams: 5}}\n"
    "admins: [ops]\n";

static void on_made(void *arg, const struct curve_cert *c)
{
    (void)arg;
    (void)c;
    n_made++;
}

static void on_tenant(void *arg, const char *path)
{
    (void)arg;
    (void)path;
    n_made++;
}

static int make(void **state)
{
    int rc = scratch_make(state);

    parsed(file);
    cluster_keys_needed(&needs, &layout);
    n_made = 0;
    return rc;
}

static int end(void **state)
{
    cluster_keys_free(&needs);
    parsed_free();
    return scratch_remove(state);
}

static void make_all(void)
{
    assert_int_equal(
        cluster_keys_make(&needs, scratch_path("keys"), on_made, NULL, &e),
        ST_OK);
    assert_int_equal(cluster_tenants_make(&cluster, scratch_path("keys"),
                                          on_tenant, NULL, &e),
                     ST_OK);
}

static void check_keys(void)
{
    memset(&faults, 0, sizeof faults);
    memset(&notes, 0, sizeof notes);
    cluster_keys_check(&needs, scratch_path("keys"), (struct place){1, 1},
                       &faults, &notes);
}

static enum status try_render(struct bundle *b, size_t host)
{
    enum status st;
    char dir[600];
    struct certificate_list keys, certs;
    char *api_keys;
    struct render r = {&layout, dir, &keys, &certs, NULL};

    snprintf(dir, sizeof dir, "%s", scratch_path("keys"));
    assert_int_equal(certificate_list(&keys, dir, ".key", &e), ST_OK);
    assert_int_equal(certificate_list(&certs, dir, ".cert", &e), ST_OK);
    assert_int_equal(cluster_tenants_text(&cluster, dir, &api_keys, &e), ST_OK);
    r.api_keys = api_keys;
    st = cluster_render(b, &r, &cluster.hosts[host], &e);
    certificate_list_free(&keys);
    certificate_list_free(&certs);
    free(api_keys);
    return st;
}

static void render(struct bundle *b, size_t host)
{
    assert_int_equal(try_render(b, host), ST_OK);
}

static void assert_files(size_t host, const char *wanted)
{
    char all[2048] = "";
    struct bundle b;

    render(&b, host);
    for (size_t i = 0; i < b.n; i++) {
        strcat(all, b.file[i].path + strlen("etc/sluice/"));
        strcat(all, " ");
    }
    for (size_t i = 0; i < b.n_units; i++) {
        strcat(all, b.unit[i]);
        strcat(all, " ");
    }
    assert_string_equal(all, wanted);
    bundle_free(&b);
}

static void each_host_gets_what_it_needs_and_no_more(void **state)
{
    (void)state;
    make_all();
    assert_files(0, "api-keys gateway.conf keys/g.key keys/router.key "
                    "router.conf trust/g.cert trust/k.cert trust/ops.cert "
                    "trust/router.cert trust/s.cert trust/t.cert "
                    "sluice-router.service sluice-gateway.service ");
    assert_files(1, "keys/s.key trust/router.cert trust/t.cert worker-s.conf "
                    "sluice-worker@s.service ");
    assert_files(2, "keys/k.key keys/t.key trust/router.cert trust/s.cert "
                    "worker-k.conf worker-t.conf sluice-worker@t.service "
                    "sluice-worker@k.service ");
}

static void keys_are_made_once(void **state)
{
    (void)state;
    check_keys();
    assert_no_fault();
    assert_int_equal(notes.n, 1);
    make_all();
    assert_int_equal(n_made, 7);
    make_all();
    assert_int_equal(n_made, 7);
    check_keys();
    assert_no_fault();
    assert_int_equal(notes.n, 0);
    assert_int_equal(scratch_mode("keys/web.apikey"), 0600);
}

static void a_rotation_keeps_both_certificates(void **state)
{
    struct curve_cert c;
    struct bundle b;
    const struct bundle_file *key;

    (void)state;
    make_all();
    assert_int_equal(certificate_write(&c, scratch_path("keys"), "s+2",
                                       BY_WORKER, false, &e),
                     ST_OK);
    check_keys();
    assert_no_fault();
    assert_files(2, "keys/k.key keys/t.key trust/router.cert trust/s+2.cert "
                    "trust/s.cert worker-k.conf worker-t.conf "
                    "sluice-worker@t.service sluice-worker@k.service ");
    render(&b, 1);
    key = bundle_find(&b, "etc/sluice/keys/s.key");
    assert_non_null(strstr(key->bytes, "name = \"s+2\""));
    bundle_free(&b);
}

static void the_hash_of_an_api_key_admits_its_tenant(void **state)
{
    struct keys *keys;
    struct bundle b;
    const struct bundle_file *list;
    const char *key;

    (void)state;
    make_all();
    render(&b, 0);
    list = bundle_find(&b, "etc/sluice/api-keys");
    assert_int_equal(keys_parse(&keys, list->bytes, list->n, &e), ST_OK);
    key = scratch_read("keys/web.apikey");
    assert_non_null(keys_find(keys, key, strcspn(key, "\n")));
    assert_null(strstr(list->bytes, key));
    keys_free(&keys);
    bundle_free(&b);
}

/* Asserts one fault of the keys with this part. */
static void fault_of_keys(const char *part)
{
    check_keys();
    assert_int_equal(faults.n, 1);
    if (strstr(faults.item[0].text, part) == NULL) {
        fail_msg("%s has no \"%s\"", faults.item[0].text, part);
    }
}

static void wrong_keys_are_faults(void **state)
{
    struct curve_cert c;
    char from[600], to[600];

    (void)state;
    make_all();
    assert_int_equal(unlink(scratch_path("keys/s.key")), 0);
    fault_of_keys("has s.cert but no s.key; restore it");
    assert_int_equal(
        certificate_write(&c, scratch_path("keys"), "s", BY_CLIENT, true, &e),
        ST_OK);
    check_keys();
    assert_int_equal(faults.n, 2);
    assert_non_null(strstr(faults.item[0].text,
                           "s.key has the role client, but s needs worker"));
    assert_int_equal(
        certificate_write(&c, scratch_path("keys"), "s", BY_WORKER, true, &e),
        ST_OK);
    check_keys();
    assert_no_fault();
    snprintf(from, sizeof from, "%s", scratch_path("keys/t.cert"));
    snprintf(to, sizeof to, "%s", scratch_path("keys/s.cert"));
    assert_int_equal(unlink(to), 0);
    assert_int_equal(link(from, to), 0);
    check_keys();
    assert_int_equal(faults.n, 2);
    assert_non_null(strstr(faults.item[0].text, "the name in it is t, not s"));
    assert_non_null(strstr(faults.item[1].text, "are of different keys"));
}

/* Links a file of the keys' folder to another name there. */
static void link_key(const char *from, const char *to)
{
    char path[600];

    snprintf(path, sizeof path, "%s", scratch_path(from));
    assert_int_equal(link(path, scratch_path(to)), 0);
}

static void a_secret_key_never_becomes_a_certificate(void **state)
{
    struct bundle b;

    (void)state;
    make_all();
    assert_int_equal(unlink(scratch_path("keys/s.cert")), 0);
    link_key("keys/s.key", "keys/s.cert");
    fault_of_keys("s.cert has a secret key");
    assert_int_equal(try_render(&b, 2), ST_FAILED_PRECONDITION);
    assert_non_null(strstr(e.text, "s.cert has a secret key"));
}

/* Such as a key that was renamed in place of being removed. */
static void a_certificate_of_another_file_name_is_refused(void **state)
{
    struct bundle b;

    (void)state;
    make_all();
    link_key("keys/s.cert", "keys/s (old).cert");
    assert_int_equal(try_render(&b, 2), ST_FAILED_PRECONDITION);
    assert_non_null(strstr(e.text, "s (old).cert has the certificate s; "));
    assert_int_equal(unlink(scratch_path("keys/s (old).cert")), 0);
    link_key("keys/s.cert", "keys/s.old.cert");
    assert_int_equal(try_render(&b, 2), ST_FAILED_PRECONDITION);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_host_gets_what_it_needs_and_no_more),
        TEST(keys_are_made_once),
        TEST(a_rotation_keeps_both_certificates),
        TEST(the_hash_of_an_api_key_admits_its_tenant),
        TEST(wrong_keys_are_faults),
        TEST(a_secret_key_never_becomes_a_certificate),
        TEST(a_certificate_of_another_file_name_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

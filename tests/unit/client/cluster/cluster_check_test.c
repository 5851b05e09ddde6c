/* Faults that depend on several values of the cluster file. */
#include "client/cluster/cluster_check.h"

#include "client/cluster/cluster_ports.h"
#include "client/cluster/cluster_stages.h"
#include "tests/unit/client/cluster/parsed.h"

#define ROUTER     "router: {host: a}\n"
#define ONE_WORKER "workers: [{name: w, host: b, model: m}]\n"

/* Parses a file that is valid value by value, and checks it. */
static void check(const char *rest)
{
    char all[4096];

    snprintf(all, sizeof all, "%s%s", PARSED_HEAD, rest);
    parsed(all);
    assert_no_fault();
    cluster_check(&layout, &faults);
}

static void one(const char *rest, unsigned line, unsigned column,
                const char *text)
{
    check(rest);
    assert_fault(0, 7 + line, column, text);
    assert_int_equal(faults.n, 1);
    parsed_free();
}

static void valid(const char *rest)
{
    check(rest);
    assert_no_fault();
    parsed_free();
}

static void a_valid_file_has_no_fault(void **state)
{
    (void)state;
    valid(ROUTER ONE_WORKER "gateways: [{name: g, host: a}]\ntenants: {t: }\n");
}

static void unknown_hosts_and_models_are_named(void **state)
{
    (void)state;
    one("router: {host: bb}\n" ONE_WORKER, 1, 16,
        "host \"bb\" is not in hosts; add it there");
    one(ROUTER "workers: [{name: w, host: b, model: mmm}]\n", 2, 37,
        "model \"mmm\" is not in models; add it there");
}

static void daemons_have_names_of_their_own(void **state)
{
    (void)state;
    one(ROUTER ONE_WORKER "gateways: [{name: w, host: a, listen: "
                          "'127.0.0.1:8000'}]\n",
        2, 18,
        "worker w: the gateway in line 10 has this name; every daemon and "
        "admin needs a name of its own");
    one(ROUTER ONE_WORKER "admins: [router]\n", 3, 10,
        "admin router: the router in line 8 has this name; every daemon and "
        "admin needs a name of its own");
}

static void a_count_makes_names_that_may_be_too_long(void **state)
{
    (void)state;
    valid(ROUTER "workers: [{name: a2345678901234567890123456789, host: b, "
                 "model: m, count: 10}]\n");
    check(ROUTER "workers: [{name: a23456789012345678901234567890, host: b, "
                 "model: m, count: 10}]\n");
    assert_int_equal(faults.n, 1);
    assert_string_equal(faults.item[0].text,
                        "worker a23456789012345678901234567890-10: with its "
                        "number the name has 33 bytes; at most 32 are allowed");
    parsed_free();
}

static void daemons_take_no_more_than_they_take(void **state)
{
    char models[4096];
    size_t n = 0;

    (void)state;
    valid(ROUTER "workers: [{name: w, host: b, model: m, count: 63}, "
                 "{name: v, host: b, model: m}]\n");
    one(ROUTER "workers: [{name: w, host: b, model: m, count: 63}, "
               "{name: v, host: b, model: m, count: 2}]\n",
        2, 88,
        "worker v: with its count there are 65 workers; a router takes at most "
        "64");
    /* The head has one model, and ends with it. */
    for (int i = 1; i <= 32; i++) {
        n += (size_t)snprintf(models + n, sizeof models - n,
                              "  m%d: {path: /m}\n", i);
    }
    n += (size_t)snprintf(models + n, sizeof models - n, "%s",
                          ROUTER ONE_WORKER);
    valid(models);
    snprintf(models + n, sizeof models - n,
             "gateways: [{name: g, host: a, "
             "listen: '127.0.0.1:8000'}]\n");
    one(models, 32, 3,
        "model m32 is number 33; a gateway serves at most 32 "
        "models");
}

static void ports_of_a_host_do_not_clash(void **state)
{
    (void)state;
    one("router: {host: a, workers_port: 9, clients_port: 9}\n" ONE_WORKER, 1,
        50,
        "port 9 of host a is both clients_port of the router and workers_port "
        "of the router (line 8); change one");
    one(ROUTER ONE_WORKER
        "gateways: [{name: g, host: a, listen: '127.0.0.1:7071'}]\n",
        3, 39,
        "port 7071 of host a is both listen of gateway g and clients_port of "
        "the router (line 8); change one");
    one(ROUTER "workers: [{name: w, host: a, model: m, options: {metrics: "
               "'127.0.0.1:7070'}}]\n",
        2, 59,
        "port 7070 of host a is both metrics of worker w and workers_port of "
        "the router (line 8); change one");
    valid(ROUTER "workers: [{name: w, host: b, model: m, options: {metrics: "
                 "'127.0.0.1:7070'}}]\n");
}

static void ports_of_metrics_count_with_the_instances(void **state)
{
    char out[TREE_TEXT_MAX + 16];

    (void)state;
    check(ROUTER "workers: [{name: w, host: b, model: m, count: 3, options: "
                 "{metrics: '127.0.0.1:9100'}}]\n");
    assert_no_fault();
    assert_string_equal(
        cluster_option_value(out, cluster.workers[0].unit.options.item, 2),
        "127.0.0.1:9102");
    parsed_free();
}

static void stage_ports_are_chosen_without_clashes(void **state)
{
    (void)state;
    check("router: {host: b, clients_port: 7080}\n"
          "workers:\n"
          "  - {name: w, host: b, model: m, stages: 2, count: 2}\n"
          "  - {name: v, host: a, model: m, stages: 2, count: 2, stage_port: "
          "9000}\n");
    assert_no_fault();
    assert_int_equal(layout.instances[0].stage_port, 7081);
    assert_int_equal(layout.instances[1].stage_port, 7082);
    assert_int_equal(layout.instances[3].stage_port, 9001);
    parsed_free();
    one(ROUTER "workers: [{name: w, host: b, model: m, stage_port: 1}]\n", 2,
        52, "stage_port has no effect without layers or stages; remove it");
    valid(ROUTER "workers: [{name: w, host: b, model: m, stages: 2, count: 2, "
                 "stage_port: 65534}]\n");
    one(ROUTER "workers: [{name: w, host: b, model: m, stages: 2, count: 2, "
               "stage_port: 65535}]\n",
        2, 73,
        "stage_port 65535 with count 2: the last port would be 65536; at most "
        "65535");
}

static void an_open_gateway_needs_tenants(void **state)
{
    (void)state;
    one(ROUTER ONE_WORKER "gateways: [{name: g, host: a}]\n", 3, 28,
        "gateway g listens at 10.0.0.1:8000, where every machine could use it; "
        "add tenants: {NAME: {}}, or listen: 127.0.0.1:8000");
    one(ROUTER ONE_WORKER "gateways: [{name: g, host: a, listen: x}]\n", 3, 39,
        "listen \"x\": a port, or HOST:PORT, is required");
    one(ROUTER ONE_WORKER "tenants: {t: }\n"
                          "gateways: [{name: g, host: a}, {name: h, host: a, "
                          "listen: 1}]\n",
        4, 48, "host a has the gateway in line 11; one host runs one gateway");
}

/* A file with these hosts and keys. */
static void hosts(const char *keys, const char *list, const char *fault)
{
    char all[1024];

    snprintf(all, sizeof all,
             "cluster: c\n%shosts:\n%smodels: {}\nrouter: {host: a}\n"
             "workers: []\n",
             keys, list);
    parsed(all);
    assert_no_fault();
    cluster_check(&layout, &faults);
    if (fault == NULL) {
        assert_no_fault();
    } else {
        assert_int_equal(faults.n, 1);
        assert_string_equal(faults.item[0].text, fault);
    }
    parsed_free();
}

static void addresses_are_checked(void **state)
{
    static const char keys[] = "keys: {dir: k}\n";

    (void)state;
    hosts(keys, "  a: {address: node-1.example.org}\n", NULL);
    hosts(keys, "  a: {address: 'fd00::1'}\n", NULL);
    hosts("", "  a: {address: 127.0.0.1}\n", NULL);
    hosts("", "  a: {address: 10.0.0.1}\n",
          "address 10.0.0.1 is not loopback, and connections between machines "
          "need keys; add keys: {dir: keys}");
    hosts(keys, "  a: {address: 10.0.0.1:80}\n",
          "address \"10.0.0.1:80\": an IPv4 or IPv6 address without brackets, "
          "or a host name, is required, without a port");
    hosts(
        keys, "  a: {address: 10.0.0.256}\n",
        "address \"10.0.0.256\": an IPv4 or IPv6 address without brackets, or "
        "a host name, is required, without a port");
    hosts(keys, "  a: {address: -x.org}\n",
          "address \"-x.org\": an IPv4 or IPv6 address without brackets, or a "
          "host name, is required, without a port");
    hosts(keys, "  a: {address: x.org, bind: eth0}\n",
          "bind \"eth0\": an IP address of the host is required, or 0.0.0.0 or "
          ":: for all");
    hosts(keys, "  a: {address: x.org}\n  b: {address: x.org}\n",
          "address x.org is also that of the host in line 4; two entries of "
          "one machine get one bundle each");
}

static void memory_is_a_size_or_a_share(void **state)
{
    (void)state;
    valid(ROUTER "workers: [{name: w, host: b, model: m, memory: 0.5}]\n");
    one(ROUTER "workers: [{name: w, host: b, model: m, memory: 1.5}]\n", 2, 48,
        "memory \"1.5\": a size such as 24GiB, or a share such as 0.5, is "
        "required");
    one(ROUTER "workers: [{name: w, host: b, model: m, memory: much}]\n", 2, 48,
        "memory \"much\": a size such as 24GiB, or a share such as 0.5, is "
        "required");
}

#define PART(name, layers) \
    "  - {name: " name ", host: b, model: m, layers: " layers "}\n"

static void layers_must_be_whole(void **state)
{
    (void)state;
    valid(ROUTER "workers:\n" PART("u", "0-4") PART("v", "4-8"));
    valid(ROUTER "workers:\n" PART("u", "0-4") PART("v", "4-8")
              PART("x", "0-8"));
    check(ROUTER "workers:\n" PART("u", "0-4") PART("v", "5-8"));
    assert_int_equal(faults.n, 2);
    assert_fault(0, 10, 42,
                 "layers 0-4 of model m: no worker's layers begin at 4, so no "
                 "replica has all layers");
    assert_fault(1, 11, 42,
                 "layers 5-8 of model m: no worker's layers end at 5, so no "
                 "replica has all layers");
    parsed_free();
    one(ROUTER "workers:\n" PART("u", "0-4") PART("v", "4-8") PART("x", "4-6"),
        5, 42,
        "layers 4-6 of model m: no worker's layers begin at 6, so no replica "
        "has all layers");
    one(ROUTER "workers:\n" PART("u", "4-4"), 3, 42,
        "layers \"4-4\": A-B is required, with A < B and B at most 512; 0-12 "
        "are layers 0 to 11");
    valid(ROUTER "workers:\n" PART("u", "0-512"));
    one(ROUTER "workers:\n" PART("u", "0-513"), 3, 42,
        "layers \"0-513\": A-B is required, with A < B and B at most 512; 0-12 "
        "are layers 0 to 11");
    one(ROUTER "workers:\n"
               "  - {name: u, host: b, model: m, layers: 0-1, stages: 2}\n",
        3, 55,
        "stages lets the router assign layers, and layers sets them; give one "
        "of the two");
}

static void stages_must_fill_replicas(void **state)
{
    (void)state;
    valid(ROUTER "workers: [{name: w, host: b, model: m, stages: 2, count: "
                 "4}]\n");
    one(ROUTER "workers: [{name: w, host: b, model: m, stages: 3, count: 4}]\n",
        2, 48,
        "stages 3 of model m: 4 workers form no whole number of replicas; add "
        "2 or change stages");
    one(ROUTER "workers: [{name: w, host: b, model: m, stages: 2}]\n", 2, 48,
        "stages 2 of model m: 1 worker form no whole number of replicas; add 1 "
        "or change stages");
}

static void unused_hosts_and_models_are_notes(void **state)
{
    (void)state;
    check("router: {host: a}\nworkers: []\n");
    assert_no_fault();
    cluster_notes(&layout, &notes);
    assert_int_equal(notes.n, 2);
    assert_string_equal(notes.item[0].text, "host b runs nothing");
    assert_string_equal(notes.item[1].text,
                        "model m has no worker; requests for it wait");
    parsed_free();
}

static void faults_of_both_kinds_are_listed(void **state)
{
    (void)state;
    parsed(PARSED_HEAD "router: {host: x, zzz: 1}\nworkers: []\n");
    cluster_check(&layout, &faults);
    assert_int_equal(faults.n, 2);
    assert_fault(0, 8, 16, "host \"x\" is not in hosts; add it there");
    parsed_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_file_has_no_fault),
        cmocka_unit_test(unknown_hosts_and_models_are_named),
        cmocka_unit_test(daemons_have_names_of_their_own),
        cmocka_unit_test(a_count_makes_names_that_may_be_too_long),
        cmocka_unit_test(daemons_take_no_more_than_they_take),
        cmocka_unit_test(ports_of_a_host_do_not_clash),
        cmocka_unit_test(ports_of_metrics_count_with_the_instances),
        cmocka_unit_test(stage_ports_are_chosen_without_clashes),
        cmocka_unit_test(an_open_gateway_needs_tenants),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(memory_is_a_size_or_a_share),
        cmocka_unit_test(layers_must_be_whole),
        cmocka_unit_test(stages_must_fill_replicas),
        cmocka_unit_test(unused_hosts_and_models_are_notes),
        cmocka_unit_test(faults_of_both_kinds_are_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

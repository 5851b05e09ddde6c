/* The cluster file: values, defaults, and the sentence of every fault. */
#include "client/cluster/cluster_file.h"

#include <stdlib.h>

#include "tests/unit/client/cluster/parsed.h"

/* Everything that a valid file needs, in front of a line with a fault. */
static const char tail[] = "router: {host: a}\n"
                           "workers:\n"
                           "  - {name: w, host: b, model: m}\n";

/* Asserts that the only fault of a valid file with `line` in it is this one,
 * which `line` has in its line `at` from 1. */
static void one(const char *line, unsigned at, unsigned column,
                const char *text)
{
    char all[8192];

    snprintf(all, sizeof all, "%s%s%s", PARSED_HEAD, tail, line);
    parsed(all);
    assert_fault(0, 10 + at, column, text);
    assert_int_equal(faults.n, 1);
    parsed_free();
}

static void a_whole_file_is_read(void **state)
{
    (void)state;
    parsed(PARSED_HEAD
           "router: {host: a, workers_port: 1, clients_port: 65535}\n"
           "gateways:\n"
           "  - {name: g, host: a, listen: 9000, options: {cors: '*'}}\n"
           "workers:\n"
           "  - name: w\n"
           "    host: b\n"
           "    model: m\n"
           "    memory: 2GiB\n"
           "    count: 2\n"
           "    memory_max: 3GiB\n"
           "    cpus: 0-3\n"
           "    environment: {A_B: 'x \"y\" 50%'}\n"
           "    options: {threads: 2, max_rows: 8, pin: yes}\n"
           "tenants: {t: {streams: 3}, u: }\n"
           "admins: [ops]\n");
    assert_no_fault();
    assert_string_equal(cluster.name.text, "demo");
    assert_string_equal(cluster.keys_dir.text, "keys");
    assert_int_equal(cluster.n_hosts, 2);
    assert_int_equal(cluster.hosts[1].memory.v, UINT64_C(4) << 30);
    assert_string_equal(cluster.router.name.text, "router");
    assert_int_equal(cluster.router.clients_port.v, 65535);
    assert_string_equal(cluster.gateways[0].unit.options.item[0].value.text,
                        "*");
    assert_int_equal(cluster.workers[0].count.v, 2);
    assert_int_equal(cluster.workers[0].unit.options.n, 3);
    assert_string_equal(cluster.workers[0].unit.environment.item[0].value.text,
                        "x \"y\" 50%");
    assert_int_equal(cluster.n_tenants, 2);
    assert_int_equal(cluster.tenants[0].streams.v, 3);
    assert_string_equal(cluster.admins[0].text, "ops");
    parsed_free();
}

static void ports_and_counts_have_defaults(void **state)
{
    char all[1024];

    (void)state;
    snprintf(all, sizeof all, "%s%s", PARSED_HEAD, tail);
    parsed(all);
    assert_no_fault();
    assert_int_equal(cluster.router.workers_port.v, 7070);
    assert_int_equal(cluster.router.clients_port.v, 7071);
    assert_int_equal(cluster.workers[0].count.v, 1);
    parsed_free();
}

static void unknown_keys_are_refused_with_the_nearest(void **state)
{
    (void)state;
    one("gatways: []\n", 1, 1,
        "\"gatways\": unknown key of the cluster file; did you mean gateways?");
    one("zzz: 1\n", 1, 1,
        "\"zzz\": unknown key of the cluster file; docs/cluster.md lists the "
        "keys");
    one("gateways: [{name: g, host: a, lisen: 1}]\n", 1, 31,
        "\"lisen\": unknown key of a gateway; did you mean listen?");
}

static void values_have_their_kind(void **state)
{
    (void)state;
    one("gateways: {}\n", 1, 11,
        "gateways is a map; a list is required: - name: NAME");
    one("gateways:\n", 1, 10,
        "gateways is empty; a list is required: - name: NAME");
    one("gateways: [x]\n", 1, 12,
        "a gateway is a value; a map is required: - name: NAME");
    one("gateways: [{name: g, host: [a]}]\n", 1, 28,
        "host is a list; a single value is required");
    one("gateways: [{name: g, host: }]\n", 1, 28, "host has no value");
    one("gateways: [{name: g}]\n", 1, 12, "a gateway needs the key host");
    one("tenants: {t: 3}\n", 1, 14,
        "tenant \"t\" must be a map of keys and values, not a value");
    one("gateways: [{name: g, host: a, environment: {1A: x}}]\n", 1, 45,
        "environment \"1A\": a variable has letters, digits and underscores");
}

static void numbers_have_their_range(void **state)
{
    (void)state;
    one("tenants: {t: {streams: 0}}\n", 1, 24,
        "streams \"0\": a whole number from 1 to 1000000 is required");
    one("tenants: {t: {streams: 1000001}}\n", 1, 24,
        "streams \"1000001\": a whole number from 1 to 1000000 is required");
    one("tenants: {t: {streams: -1}}\n", 1, 24,
        "streams \"-1\": a whole number from 1 to 1000000 is required");
    one("tenants: {t: {tokens: 99999999999999999999}}\n", 1, 23,
        "tokens \"99999999999999999999\": a whole number from 1 to 1000000000 "
        "is required");
    one("gateways: [{name: g, host: a, memory_max: 4XB}]\n", 1, 43,
        "memory_max \"4XB\": a size such as 512MiB or 64GiB is required");
}

/* A router with that port. */
static void port(const char *value, bool valid)
{
    char all[1024];

    snprintf(all, sizeof all,
             PARSED_HEAD "router: {host: a, workers_port: %s}\nworkers: []\n",
             value);
    parsed(all);
    if (valid) {
        assert_no_fault();
    } else {
        assert_true(faults.n == 1);
        assert_non_null(strstr(faults.item[0].text,
                               "a whole number from 1 to 65535 is required"));
    }
    parsed_free();
}

static void ports_are_checked_at_the_limits(void **state)
{
    (void)state;
    port("1", true);
    port("65535", true);
    port("0", false);
    port("65536", false);
}

static void names_are_checked_at_the_limit(void **state)
{
    char name[CLUSTER_NAME_MAX + 2];
    struct error e;

    (void)state;
    memset(name, 'x', sizeof name);
    name[CLUSTER_NAME_MAX + 1] = '\0';
    assert_int_equal(cluster_name_check(name, &e), ST_INVALID_ARGUMENT);
    name[CLUSTER_NAME_MAX] = '\0';
    assert_int_equal(cluster_name_check(name, &e), ST_OK);
    assert_int_equal(cluster_name_check("A1._-z", &e), ST_OK);
    assert_int_equal(cluster_name_check("", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(cluster_name_check("a/b", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(cluster_name_check("..", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(cluster_name_check("-x", &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text,
                        "\"-x\": a name has 1 to 32 letters, digits, dots, "
                        "dashes and underscores, and begins with a letter or a "
                        "digit");
}

static void options_are_those_of_the_daemons(void **state)
{
    (void)state;
    one("gateways: [{name: g, host: a, options: {max-tokns: 1}}]\n", 1, 41,
        "\"max-tokns\": unknown option of sluice-gateway; did you mean "
        "max-tokens?");
    one("gateways: [{name: g, host: a, options: {zzzzz: 1}}]\n", 1, 41,
        "\"zzzzz\": unknown option of sluice-gateway; sluice-gateway --help "
        "lists all");
    one("gateways: [{name: g, host: a, options: {listen: 1}}]\n", 1, 41,
        "listen: use the key \"gateways: listen\" of the cluster file instead");
    one("gateways: [{name: g, host: a, options: {limits: yes}}]\n", 1, 41,
        "limits: not an option of a running sluice-gateway; remove it");
    one("gateways: [{name: g, host: a, options: {sessions: [1]}}]\n", 1, 51,
        "sessions is a list; a single value is required");
}

static void values_of_options_are_checked(void **state)
{
    char all[1024];

    (void)state;
    snprintf(all, sizeof all,
             PARSED_HEAD "router: {host: a, options: {max-requests: 0, "
                         "headroom: 3}}\nworkers: []\n");
    parsed(all);
    assert_int_equal(faults.n, 2);
    assert_fault(0, 8, 43, "max-requests \"0\": must be from 1 to 1048576");
    assert_fault(1, 8, 56, "headroom \"3\": yes or no is required");
    parsed_free();
}

static void all_faults_are_listed_in_their_order(void **state)
{
    (void)state;
    parsed("cluster: []\n"
           "hosts: {a: {adress: 1}}\n"
           "models: {'x y': {path: /x}}\n"
           "router: {host: a, options: {max-peers: x}}\n"
           "worker: []\n");
    assert_int_equal(faults.n, 7);
    assert_fault(0, 0, 0, "the section workers is missing");
    assert_fault(1, 1, 10, "cluster is a list; a single value is required");
    assert_fault(2, 2, 12, "a host needs the key address");
    assert_fault(3, 2, 13,
                 "\"adress\": unknown key of a host; did you mean address?");
    assert_fault(4, 3, 10,
                 "model \"x y\": a name has 1 to 128 bytes without blanks and "
                 "\"=\"");
    assert_fault(5, 4, 40, "max-peers \"x\": a whole number is needed");
    assert_fault(6, 5, 1,
                 "\"worker\": unknown key of the cluster file; did you mean "
                 "workers?");
    parsed_free();
}

/* Asserts a file with n copies of a row in a section, numbered at the '%'. */
static void copies(const char *section, const char *row, unsigned n,
                   const char *fault)
{
    size_t size = 1024 + (size_t)n * 96;
    char *all = malloc(size);
    size_t at;

    assert_non_null(all);
    at = (size_t)snprintf(all, size, "%s%s", PARSED_HEAD, section);
    for (unsigned i = 0; i < n; i++) {
        at += (size_t)snprintf(all + at, size - at, "%.*s%u%s",
                               (int)strcspn(row, "%"), row, i,
                               strchr(row, '%') + 1);
    }
    parsed(all);
    if (fault == NULL) {
        assert_no_fault();
    } else {
        assert_int_equal(faults.n, 1);
        assert_string_equal(faults.item[0].text, fault);
    }
    parsed_free();
    free(all);
}

static void sections_have_limits(void **state)
{
    static const char workers[] = "router: {host: a}\nworkers:\n";
    static const char gateways[] =
        "router: {host: a}\nworkers: []\ngateways:\n";
    static const char admins[] = "router: {host: a}\nworkers: []\nadmins:\n";
    static const char tenants[] = "router: {host: a}\nworkers: []\ntenants:\n";

    (void)state;
    copies(workers, "  - {name: w%, host: b, model: m}\n", CLUSTER_WORKERS_MAX,
           NULL);
    copies(workers, "  - {name: w%, host: b, model: m}\n",
           CLUSTER_WORKERS_MAX + 1, "1025 workers; at most 1024 are allowed");
    copies(workers, "  - {name: w%, host: b, model: m, count: 513}\n", 2,
           "1026 workers, by their counts; at most 1024 are allowed");
    copies(gateways, "  - {name: g%, host: b}\n", CLUSTER_GATEWAYS_MAX, NULL);
    copies(gateways, "  - {name: g%, host: b}\n", CLUSTER_GATEWAYS_MAX + 1,
           "65 gateways; at most 64 are allowed");
    copies(admins, "  - o%\n", CLUSTER_NAMES_MAX, NULL);
    copies(admins, "  - o%\n", CLUSTER_NAMES_MAX + 1,
           "257 admins; at most 256 are allowed");
    copies(tenants, "  t%: \n", CLUSTER_NAMES_MAX, NULL);
    copies(tenants, "  t%: \n", CLUSTER_NAMES_MAX + 1,
           "257 tenants; at most 256 are allowed");
}

/* A file whose only large section stands first. */
static void first(const char *section, const char *row, unsigned n,
                  const char *fault)
{
    size_t size = 1024 + (size_t)n * 96;
    char *all = malloc(size);
    size_t at;

    assert_non_null(all);
    at = (size_t)snprintf(all, size, "%s", section);
    for (unsigned i = 0; i < n; i++) {
        at += (size_t)snprintf(all + at, size - at, "%.*s%u%s",
                               (int)strcspn(row, "%"), row, i,
                               strchr(row, '%') + 1);
    }
    snprintf(all + at, size - at,
             "cluster: c\nrouter: {host: h0}\nworkers: "
             "[]\n");
    parsed(all);
    assert_int_equal(faults.n, fault == NULL ? 0 : 1);
    if (fault != NULL) {
        assert_string_equal(faults.item[0].text, fault);
    }
    parsed_free();
    free(all);
}

static void hosts_and_models_have_limits(void **state)
{
    (void)state;
    first("models: {}\nhosts:\n", "  h%: {address: 10.0.0.1}\n",
          CLUSTER_HOSTS_MAX, NULL);
    first("models: {}\nhosts:\n", "  h%: {address: 10.0.0.1}\n",
          CLUSTER_HOSTS_MAX + 1, "257 hosts; at most 256 are allowed");
    first("hosts: {}\nmodels:\n", "  m%: {path: /m}\n", CLUSTER_MODELS_MAX,
          NULL);
    first("hosts: {}\nmodels:\n", "  m%: {path: /m}\n", CLUSTER_MODELS_MAX + 1,
          "65 models; at most 64 are allowed");
}

static void the_example_has_no_fault(void **state)
{
    struct error e;

    (void)state;
    memset(&faults, 0, sizeof faults);
    assert_int_equal(
        cluster_load(&cluster, "deploy/cluster/cluster.yaml", &faults, &e),
        ST_OK);
    assert_no_fault();
    cluster_free(&cluster);
}

static void a_missing_file_is_named(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(cluster_load(&cluster, "no/such.yaml", &faults, &e),
                     ST_NOT_FOUND);
    assert_string_equal(e.text, "no/such.yaml: No such file or directory");
    cluster_free(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_file_is_read),
        cmocka_unit_test(ports_and_counts_have_defaults),
        cmocka_unit_test(unknown_keys_are_refused_with_the_nearest),
        cmocka_unit_test(values_have_their_kind),
        cmocka_unit_test(numbers_have_their_range),
        cmocka_unit_test(ports_are_checked_at_the_limits),
        cmocka_unit_test(names_are_checked_at_the_limit),
        cmocka_unit_test(options_are_those_of_the_daemons),
        cmocka_unit_test(values_of_options_are_checked),
        cmocka_unit_test(all_faults_are_listed_in_their_order),
        cmocka_unit_test(sections_have_limits),
        cmocka_unit_test(hosts_and_models_have_limits),
        cmocka_unit_test(the_example_has_no_fault),
        cmocka_unit_test(a_missing_file_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

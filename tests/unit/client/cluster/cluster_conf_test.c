/* Configuration files and drop-ins. */
#include "client/cluster/cluster_conf.h"

#include <stdlib.h>

#include "tests/unit/client/cluster/parsed.h"

#define HEAD                                                           \
    "# Written by sluicectl cluster render.  sluicectl cluster apply " \
    "replaces "                                                        \
    "it:\n# change the cluster file instead.\n"

static void parse(const char *rest)
{
    char all[4096];

    snprintf(all, sizeof all, "%s%s", PARSED_HEAD, rest);
    parsed(all);
    assert_no_fault();
}

static void assert_text(char *text, const char *wanted)
{
    assert_string_equal(text, wanted);
    free(text);
}

static void a_router_listens_at_its_host(void **state)
{
    (void)state;
    parse("router: {host: a, options: {max_waiting: 7}}\nworkers: []\n");
    assert_text(cluster_conf_router(&layout),
                HEAD "name = router\n"
                     "workers = tcp://10.0.0.1:7070\n"
                     "clients = tcp://10.0.0.1:7071\n"
                     "model = m=/srv/m\n"
                     "key = /etc/sluice/keys/router.key\n"
                     "trust = /etc/sluice/trust\n"
                     "max-waiting = 7\n");
    parsed_free();
}

/* Whole workers, replicas of N stages, and replicas of named layers. */
static void a_router_expects_the_places_of_the_file(void **state)
{
    static const struct {
        const char *workers, *wanted;
    } rows[] = {
        {"  - {name: w, host: b, model: m, count: 3}\n"
         "  - {name: v, host: a, model: m}\n",
         "places = m=4\n"},
        {"  - {name: w, host: b, model: m, stages: 2, count: 3}\n"
         "  - {name: v, host: a, model: m, stages: 2}\n"
         "  - {name: u, host: a, model: m}\n",
         "places = m=3\n"},
        {"  - {name: w, host: b, model: m, layers: 0-4, count: 2}\n"
         "  - {name: v, host: b, model: m, layers: 4-6, count: 2}\n"
         "  - {name: u, host: a, model: m, layers: 6-8}\n"
         "  - {name: t, host: a, model: m, layers: 4-8}\n",
         "places = m=2\n"},
        {"  - {name: w, host: b, model: m, layers: 0-4, count: 2}\n"
         "  - {name: u, host: a, model: m, layers: 4-8, count: 2}\n",
         "places = m=2\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char file[600], *text;

        snprintf(file, sizeof file, "router: {host: a}\nworkers:\n%s",
                 rows[i].workers);
        parse(file);
        text = cluster_conf_router(&layout);
        if (strstr(text, rows[i].wanted) == NULL) {
            fail_msg("%zu: %s", i, text);
        }
        free(text);
        parsed_free();
    }
}

/* A figure of the file's options is taken as it is. */
static void places_may_be_stated(void **state)
{
    char *text;

    (void)state;
    parse("router: {host: a, options: {places: 'm=7'}}\nworkers:\n"
          "  - {name: w, host: b, model: m}\n");
    text = cluster_conf_router(&layout);
    assert_non_null(strstr(text, "places = m=7\n"));
    assert_null(strstr(text, "m=1"));
    free(text);
    parsed_free();
}

static void a_gateway_dials_the_router(void **state)
{
    (void)state;
    parse("router: {host: a}\nworkers: []\ntenants: {t: }\n"
          "gateways: [{name: g, host: b, options: {cors: 'https://x #1'}}]\n");
    assert_text(cluster_conf_gateway(&layout, cluster.gateways),
                HEAD "name = g\n"
                     "router = tcp://10.0.0.1:7071\n"
                     "listen = 10.0.0.2:8000\n"
                     "model = m=/srv/m\n"
                     "keys = /etc/sluice/api-keys\n"
                     "key = /etc/sluice/keys/g.key\n"
                     "trust = /etc/sluice/trust\n"
                     "cors = \"https://x #1\"\n");
    parsed_free();
}

static void a_stage_has_a_port_of_its_own(void **state)
{
    (void)state;
    parse("router: {host: a}\nworkers:\n"
          "  - {name: w, host: b, model: m, device: '0', memory: 0.5, "
          "stages: 2, count: 2}\n");
    assert_text(cluster_conf_worker(&layout, &layout.instances[1]),
                HEAD "name = w-2\n"
                     "router = tcp://10.0.0.1:7070\n"
                     "model = /srv/m\n"
                     "model-name = m\n"
                     "device = 0\n"
                     "memory = 0.5\n"
                     "stages = 2\n"
                     "stage-listen = tcp://10.0.0.2:7081\n"
                     "advertise = tcp://10.0.0.2:7081\n"
                     "key = /etc/sluice/keys/w-2.key\n"
                     "trust = /etc/sluice/trust\n");
    parsed_free();
}

static void assert_device(size_t i, const char *wanted)
{
    char *text = cluster_conf_worker(&layout, &layout.instances[i]);

    assert_non_null(strstr(text, wanted));
    free(text);
}

/* By the number of the GPU on the host; other devices are as written. */
static void workers_of_a_host_take_its_gpus_in_order(void **state)
{
    (void)state;
    parse("router: {host: a}\nworkers:\n"
          "  - {name: w, host: b, model: m, device: opencl, count: 3}\n"
          "  - {name: c, host: b, model: m, device: '0', count: 2}\n"
          "  - {name: v, host: b, model: m, device: opencl}\n"
          "  - {name: u, host: a, model: m, device: opencl}\n");
    assert_device(0, "device = opencl\n");
    assert_device(1, "device = opencl:1\n");
    assert_device(2, "device = opencl:2\n");
    assert_device(3, "device = 0\n");
    assert_device(4, "device = 0\n");
    assert_device(5, "device = opencl:3\n");
    assert_device(6, "device = opencl\n");
    parsed_free();
}

static void addresses_of_other_kinds_are_written(void **state)
{
    char at[ENDPOINT_MAX];
    struct cluster_host h = {.address = {.text = "fd00::1"}};

    (void)state;
    cluster_listen_at(at, &h, 7);
    assert_string_equal(at, "tcp://[fd00::1]:7");
    h.address.text = "n1.example.org";
    cluster_endpoint(at, &h, 7);
    assert_string_equal(at, "tcp://n1.example.org:7");
    cluster_listen_at(at, &h, 7);
    assert_string_equal(at, "tcp://0.0.0.0:7");
    h.bind.text = "::";
    cluster_listen_at(at, &h, 7);
    assert_string_equal(at, "tcp://[::]:7");
}

static void a_drop_in_escapes_values(void **state)
{
    (void)state;
    parse("router: {host: a, cpus: 0-3, memory_max: 1GiB, "
          "environment: {A: 'b \"c\" 5% \\d'}}\nworkers: []\n");
    assert_text(cluster_conf_unit(&cluster.router.unit),
                HEAD "[Service]\n"
                     "MemoryMax=1073741824\n"
                     "CPUAffinity=0-3\n"
                     "Environment=\"A=b \\\"c\\\" 5%% \\\\d\"\n");
    parsed_free();
    parse("router: {host: a}\nworkers: []\n");
    assert_null(cluster_conf_unit(&cluster.router.unit));
    parsed_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_router_listens_at_its_host),
        cmocka_unit_test(a_router_expects_the_places_of_the_file),
        cmocka_unit_test(places_may_be_stated),
        cmocka_unit_test(a_gateway_dials_the_router),
        cmocka_unit_test(a_stage_has_a_port_of_its_own),
        cmocka_unit_test(workers_of_a_host_take_its_gpus_in_order),
        cmocka_unit_test(addresses_of_other_kinds_are_written),
        cmocka_unit_test(a_drop_in_escapes_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

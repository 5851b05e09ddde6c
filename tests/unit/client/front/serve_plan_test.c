/* The command lines that `sluice serve` runs. */
#include "client/front/serve_plan.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static struct serve_args args(void)
{
    return (struct serve_args){.model = "models/tiny/",
                               .n_workers = 1,
                               .n_cpus = 8,
                               .listen_host = "127.0.0.1",
                               .port = 8000,
                               .log_level = "warn",
                               .dir = "/d",
                               .router = "R",
                               .worker = "W",
                               .gateway = "G"};
}

/* Expects the words of command i, joined by spaces. */
static void runs(const struct serve_plan *p, uint32_t i, const char *want)
{
    char text[1024] = "";

    for (size_t k = 0; k < p->commands[i].n; k++) {
        size_t n = strlen(text);

        snprintf(text + n, sizeof text - n, "%s%s", k > 0 ? " " : "",
                 p->commands[i].argv[k]);
    }
    assert_null(p->commands[i].argv[p->commands[i].n]);
    assert_string_equal(text, want);
}

static void make(const struct serve_args *a, struct serve_plan *p)
{
    struct error e = {0};

    if (serve_plan_make(a, p, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

static void refused(const struct serve_args *a, const char *has)
{
    struct serve_plan p;
    struct error e = {0};

    assert_int_equal(serve_plan_make(a, &p, &e), ST_INVALID_ARGUMENT);
    if (strstr(e.text, has) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", e.text, has);
    }
    serve_plan_fini(&p);
}

static void one_worker_has_the_defaults(void **state)
{
    struct serve_args a = args();
    struct serve_plan p;

    (void)state;
    make(&a, &p);
    assert_int_equal(p.n, 3);
    assert_string_equal(p.model_name, "tiny");
    assert_string_equal(p.commands[0].name, "router");
    assert_int_equal(p.commands[0].stop_level, 0);
    runs(&p, 0,
         "R --config none --workers ipc:///d/workers --clients "
         "ipc:///d/clients --model tiny=models/tiny/ --log-level warn");
    assert_string_equal(p.commands[1].name, "w1");
    assert_int_equal(p.commands[1].stop_level, 1);
    runs(&p, 1,
         "W --config none --model models/tiny/ --model-name tiny --router "
         "ipc:///d/workers --name w1 --grace 5 --log-level warn");
    assert_string_equal(p.commands[2].name, "gateway");
    assert_int_equal(p.commands[2].start_level, 1); /* beside workers */
    assert_int_equal(p.commands[2].stop_level, 2);
    runs(&p, 2,
         "G --config none --router ipc:///d/clients --listen 127.0.0.1:8000 "
         "--model "
         "tiny=models/tiny/ --grace 5 --log-level warn");
    serve_plan_fini(&p);
}

static void workers_share_the_cpus(void **state)
{
    struct serve_args a = args();
    struct serve_plan p;
    char *extra[] = {"--threads=2", "--memory", "1GiB"};

    (void)state;
    a.n_workers = 3;
    make(&a, &p);
    runs(&p, 3,
         "W --config none --model models/tiny/ --model-name tiny --router "
         "ipc:///d/workers --name w3 --grace 5 --threads 2 --log-level warn");
    serve_plan_fini(&p);
    a.n_cpus = 1;
    a.n_workers = 64;
    make(&a, &p);
    runs(&p, 64,
         "W --config none --model models/tiny/ --model-name tiny --router "
         "ipc:///d/workers --name w64 --grace 5 --threads 1 --log-level warn");
    serve_plan_fini(&p);
    a.extra = extra;
    a.n_extra = 3;
    make(&a, &p);
    runs(&p, 1,
         "W --config none --model models/tiny/ --model-name tiny --router "
         "ipc:///d/workers --name w1 --grace 5 --log-level warn --threads=2 "
         "--memory 1GiB");
    serve_plan_fini(&p);
}

static void stages_listen_in_the_directory(void **state)
{
    struct serve_args a = args();
    struct serve_plan p;

    (void)state;
    a.n_workers = a.n_stages = 2;
    a.devices = (struct option_list){{"0", "1"}, 2};
    make(&a, &p);
    runs(&p, 2,
         "W --config none --model models/tiny/ --model-name tiny --router "
         "ipc:///d/workers --name w2 --grace 5 --stages 2 --stage-listen "
         "ipc:///d/w2 --device 1 --threads 4 --log-level warn");
    serve_plan_fini(&p);
    a.devices.n = 1;
    make(&a, &p);
    assert_string_equal(p.commands[2].argv[18], "0");
    serve_plan_fini(&p);
    a.devices = (struct option_list){{"opencl"}, 1};
    make(&a, &p);
    assert_string_equal(p.commands[1].argv[18], "opencl");
    assert_string_equal(p.commands[2].argv[18], "opencl:1");
    serve_plan_fini(&p);
    a.devices = (struct option_list){{"0", "1"}, 1};
    a.n_workers = a.n_stages = 3;
    a.devices.n = 2;
    refused(&a, "2 times --device for 3 workers");
}

static void a_file_gives_its_name_without_its_ending(void **state)
{
    static const struct {
        const char *model, *name;
    } rows[] = {
        {"a/m-Q4_K_M.gguf", "m-Q4_K_M"},
        {"m.gguf", "m"},
        {"a/m-00002-of-00003.gguf", "m"},
        {"a/-00002-of-00003.gguf", "-00002-of-00003"},
        {"a/m-0002-of-00003.gguf", "m-0002-of-00003"},
        {"a.gguf/m", "m"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct serve_args a = args();
        struct serve_plan p;

        a.model = rows[i].model;
        make(&a, &p);
        assert_string_equal(p.model_name, rows[i].name);
        serve_plan_fini(&p);
    }
}

static void the_gateway_gets_its_options(void **state)
{
    struct serve_args a = args();
    struct serve_plan p;

    (void)state;
    a.name = "org/model:4b";
    a.listen_host = "::1";
    a.port = 0;
    a.keys = "k";
    a.allow_hosts = (struct option_list){.item = {"h", "i"}, .n = 2};
    a.cors = "*";
    a.max_tokens = 9;
    a.tls_cert = "c";
    a.tls_key = "t";
    make(&a, &p);
    runs(&p, 2,
         "G --config none --router ipc:///d/clients --listen [::1]:0 --model "
         "org/model:4b=models/tiny/ --grace 5 --keys k --allow-host h "
         "--allow-host i --cors * --max-tokens 9 --tls-cert c --tls-key t "
         "--log-level warn");
    serve_plan_fini(&p);
    a.tls_key = NULL;
    refused(&a, "--tls-cert and --tls-key");
}

static void without_a_host_there_is_no_gateway(void **state)
{
    struct serve_args a = args();
    struct serve_plan p;

    (void)state;
    a.listen_host = NULL;
    a.n_workers = 2;
    make(&a, &p);
    assert_int_equal(p.n, 3);
    assert_string_equal(p.commands[2].name, "w2");
    serve_plan_fini(&p);
}

static void numbers_past_the_limits_are_refused(void **state)
{
    struct serve_args a = args();
    char word[] = "--pin";
    char *extra[SERVE_EXTRA_MAX];
    struct serve_plan p;

    (void)state;
    a.n_workers = 0;
    refused(&a, "0 workers; 1 to 64");
    a.n_workers = 65;
    refused(&a, "65 workers");
    a.n_workers = 1;
    a.n_extra = SERVE_EXTRA_MAX;
    a.extra = extra;
    for (size_t i = 0; i < SERVE_EXTRA_MAX; i++) {
        extra[i] = word;
    }
    make(&a, &p);
    serve_plan_fini(&p);
    a.n_extra = SERVE_EXTRA_MAX + 1;
    refused(&a, "65 words after --");
}

static void names_are_checked(void **state)
{
    static const struct {
        const char *model, *name;
    } cases[] = {
        {"/", NULL},   {"", NULL},    {"a b", NULL},
        {"m", ""},     {"m", "a=b"},  {"m", "it's"},
        {"m", "a\"b"}, {"m", "a\\b"}, {"m", "a\nb"},
    };
    struct serve_args a = args();
    struct serve_plan p;
    char name[130];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        a.model = cases[i].model;
        a.name = cases[i].name;
        refused(&a, "give --name");
    }
    memset(name, 'n', sizeof name);
    name[128] = '\0';
    a.name = name;
    make(&a, &p);
    serve_plan_fini(&p);
    name[128] = 'n';
    name[129] = '\0';
    refused(&a, "1 to 128 bytes");
    a.name = NULL;
    a.model = ".";
    make(&a, &p);
    assert_string_equal(p.model_name, ".");
    serve_plan_fini(&p);
}

static void the_url_is_found_in_the_ready_line(void **state)
{
    char url[24];

    (void)state;
    assert_true(serve_plan_url("sluice-gateway 1 ready: http://127.0.0.1:8000, "
                               "router ipc:///d/clients",
                               url, sizeof url));
    assert_string_equal(url, "http://127.0.0.1:8000");
    assert_true(serve_plan_url("ready: https://[::1]:1", url, sizeof url));
    assert_string_equal(url, "https://[::1]:1");
    assert_false(serve_plan_url("ready: nothing", url, sizeof url));
    /* 23 characters fit, 24 do not. */
    assert_true(serve_plan_url("x: http://123.123.123.1:80", url, sizeof url));
    assert_int_equal(strlen(url), sizeof url - 1);
    assert_false(
        serve_plan_url("x: http://123.123.123.12:80", url, sizeof url));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_has_the_defaults),
        cmocka_unit_test(workers_share_the_cpus),
        cmocka_unit_test(stages_listen_in_the_directory),
        cmocka_unit_test(a_file_gives_its_name_without_its_ending),
        cmocka_unit_test(the_gateway_gets_its_options),
        cmocka_unit_test(without_a_host_there_is_no_gateway),
        cmocka_unit_test(numbers_past_the_limits_are_refused),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(the_url_is_found_in_the_ready_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

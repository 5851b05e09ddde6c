/* The steps of a daemon, with a program that notes which of them ran. */
#include "common/daemon/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log_output.h"
#include "tests/unit/cmocka.h"

#define OPTIONS(X)                                                 \
    X(job, STRING, "NAME", "serve", "what the program does", 0, 0) \
    CURVE_KEYS_OPTIONS(X)                                          \
    X(metrics, STRING, "HOST:PORT", NULL, "address", 0, 0)         \
    X(metrics_anyone, FLAG, NULL, NULL, "any address", 0, 0)       \
    LOG_OPTIONS(X)                                                 \
    CONFIG_OPTIONS(X, "made-up")                                   \
    X(limits, FLAG, NULL, NULL, "print all limits", 0, 0)          \
    X(list_metrics, FLAG, NULL, NULL, "print all metrics", 0, 0)   \
    X(version, FLAG, NULL, NULL, "print the version", 0, 0)        \
    X(help, FLAG, NULL, NULL, "print this text", 0, 0)

OPTION_TABLE(made_args, OPTIONS);

static const struct option_program about = {.name = "sluice-made-up",
                                            .summary = "nothing",
                                            .role = "made-up",
                                            .section = 8,
                                            .usage = "usage: made up\n\n",
                                            .more = "\nend of help\n",
                                            .rows = made_args_rows,
                                            .n_rows =
                                                OPTION_COUNT(made_args_rows)};

static const struct limit_row rows[] = {{"MADE_UP_MAX", 7, "", "made up"}};
static const size_t rows_n = OPTION_COUNT(rows);
static const struct limit_table limits[] = {{rows, &rows_n, NULL},
                                            {NULL, NULL, NULL}};

struct parts {
    struct daemon daemon;
    struct made_args args;
    char steps[64]; /* a letter for each step */
    int turns;
    bool reloaded, stopping;
};

static void note(struct parts *p, char step)
{
    size_t n = strlen(p->steps);

    assert_true(n + 1 < sizeof p->steps);
    p->steps[n] = step;
}

static bool is_job(const struct parts *p, const char *name)
{
    return strcmp(p->args.job, name) == 0;
}

static enum status check(void *parts, struct error *e)
{
    note(parts, 'c');
    return is_job(parts, "wrong")
               ? error_set(e, ST_INVALID_ARGUMENT, "--job wrong: give another")
               : ST_OK;
}

static enum status print(void *parts, bool *done, struct error *e)
{
    (void)e;
    note(parts, 'p');
    *done = is_job(parts, "print");
    return ST_OK;
}

static enum status command(void *parts, bool *done, struct error *e)
{
    note(parts, 'o');
    *done = is_job(parts, "command") || is_job(parts, "fail");
    return is_job(parts, "fail") ? error_set(e, ST_NOT_FOUND, "no file")
                                 : ST_OK;
}

/* The first turn finds the program not up.  Later ones send it signals. */
static int64_t tick(void *node, int64_t now_us)
{
    struct parts *p = node;

    p->turns++;
    if (p->turns == 2) {
        note(p, 'u');
        raise(SIGHUP);
    } else if (p->reloaded && !p->stopping) {
        raise(SIGTERM);
    }
    return p->stopping ? NODE_STOP : now_us + 1000;
}

static void opened(void *node, struct peer_id who)
{
    (void)node;
    (void)who;
}

static void received(void *node, struct peer_id from, struct frame **f)
{
    (void)node;
    (void)from;
    frame_free(f);
}

static const struct node_ops ops = {
    .opened = opened, .recv = received, .lost = opened, .tick = tick};

static enum status assemble(void *parts, struct error *e)
{
    struct parts *p = parts;
    struct daemon *d = &p->daemon;
    enum status st;

    note(p, 'a');
    if (is_job(p, "cancelled")) {
        return error_set(e, ST_CANCELLED, "stopped");
    }
    if (is_job(p, "broken")) {
        return error_set(e, ST_UNAVAILABLE, "no port");
    }
    st = daemon_keys(d, e);
    if (st == ST_OK) {
        st = transport_connect(&d->transport, "tcp://127.0.0.1:1", d->keys, e);
    }
    st = st == ST_OK ? daemon_metrics(d, e) : st;
    if (st == ST_OK) {
        daemon_node(d, &ops, p);
    }
    return st;
}

static void dismantle(void *parts)
{
    note(parts, 'd');
}

static bool is_up(const void *parts)
{
    return ((const struct parts *)parts)->turns > 1;
}

static void render(void *parts, struct metric_page *page)
{
    (void)parts;
    (void)page;
}

static void write_status(void *parts, char *text, size_t cap)
{
    (void)parts;
    snprintf(text, cap, "made up");
}

static void print_state(const void *parts)
{
    (void)parts;
    fputs("made up", stdout);
}

static void list_metrics(FILE *to)
{
    fputs("a metric\n", to);
}

static void reload(void *parts)
{
    struct parts *p = parts;

    note(p, 'h');
    p->reloaded = true;
}

static void stop(void *parts)
{
    struct parts *p = parts;

    note(p, 's');
    p->stopping = true;
}

static int end(void *parts)
{
    note(parts, 'e');
    return 5;
}

static const struct daemon_program program = {.options = &about,
                                              .limits = limits,
                                              .list_metrics = list_metrics,
                                              .check = check,
                                              .print = print,
                                              .command = command,
                                              .assemble = assemble,
                                              .dismantle = dismantle,
                                              .is_up = is_up,
                                              .render = render,
                                              .status = write_status,
                                              .print_state = print_state,
                                              .reload = reload,
                                              .stop = stop,
                                              .end = end};

/* The outcome of a run: exit code, steps, and output. */
struct run {
    int code;
    char steps[64];
    char text[16384];
};

static int output_to(int file)
{
    int saved = dup(STDOUT_FILENO);

    fflush(stdout);
    assert_true(saved >= 0);
    assert_int_equal(dup2(file, STDOUT_FILENO), STDOUT_FILENO);
    return saved;
}

static void run_with(struct run *r, const char *option, const char *value)
{
    static struct parts p;
    char *argv[] = {"sluice-made-up", "--config=none", "--log-level=off",
                    (char *)option, (char *)value};
    FILE *file = tmpfile();
    int saved, argc = value != NULL ? 5 : 4;

    assert_non_null(file);
    memset(r, 0, sizeof *r);
    memset(&p, 0, sizeof p);
    saved = output_to(fileno(file));
    r->code = daemon_main(&p.daemon, &program, &p, &p.args, argc, argv);
    close(output_to(saved));
    close(saved);
    rewind(file);
    r->text[fread(r->text, 1, sizeof r->text - 1, file)] = '\0';
    fclose(file);
    memcpy(r->steps, p.steps, sizeof r->steps);
}

static void serves_until_a_signal_and_takes_apart(void **state)
{
    struct run r;

    (void)state;
    run_with(&r, "--metrics", "127.0.0.1:0");
    assert_string_equal(r.steps, "cpoauhsed");
    assert_int_equal(r.code, 5);
    assert_non_null(
        strstr(r.text, "sluice-made-up " SLUICE_VERSION " ready: made up\n"));
    assert_non_null(
        strstr(r.text, "sluice-made-up metrics: http://127.0.0.1:"));
}

static void what_was_made_is_freed_if_the_start_fails(void **state)
{
    struct run r;

    (void)state;
    run_with(&r, "--job", "broken");
    assert_string_equal(r.steps, "cpoad");
    assert_int_equal(r.code, DAEMON_EXIT_SETUP);
    run_with(&r, "--metrics", "example.com:1");
    assert_string_equal(r.steps, "cpoad");
    assert_int_equal(r.code, DAEMON_EXIT_SETUP);
    run_with(&r, "--job", "cancelled"); /* by a signal: no failure */
    assert_string_equal(r.steps, "cpoad");
    assert_int_equal(r.code, EXIT_SUCCESS);
}

static void options_that_ask_for_something_else(void **state)
{
    static const struct {
        const char *option, *value, *steps, *text;
        int code;
    } of[] = {
        {"--job", "wrong", "c", "", DAEMON_EXIT_SETUP},
        {"--job", "print", "cp", "", EXIT_SUCCESS},
        {"--job", "command", "cpo", "", EXIT_SUCCESS},
        {"--job", "fail", "cpo", "", DAEMON_EXIT_SETUP},
        {"--log-level", "loud", "cp", "", DAEMON_EXIT_SETUP},
        {"--no-such", "x", "", "", DAEMON_EXIT_SETUP},
        {"--version", NULL, "cp", "sluice-made-up " SLUICE_VERSION "\n",
         EXIT_SUCCESS},
        {"--help", NULL, "cp", "end of help\n", EXIT_SUCCESS},
        {"--limits", NULL, "cp", "MADE_UP_MAX", EXIT_SUCCESS},
        {"--list-metrics", NULL, "cp", "a metric\n", EXIT_SUCCESS},
        {"--print-config", NULL, "cp", "job", EXIT_SUCCESS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct run r;

        run_with(&r, of[i].option, of[i].value);
        assert_string_equal(r.steps, of[i].steps);
        assert_int_equal(r.code, of[i].code);
        assert_non_null(strstr(r.text, of[i].text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_until_a_signal_and_takes_apart),
        cmocka_unit_test(what_was_made_is_freed_if_the_start_fails),
        cmocka_unit_test(options_that_ask_for_something_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

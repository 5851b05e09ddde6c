/* serve.c - `sluice serve`: router, workers and gateway as one group. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/front/front.h"
#include "client/front/group.h"
#include "client/front/process.h"
#include "client/front/serve_plan.h"
#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "common/model/directory.h"

#define SOCKET_DIR_MAX 80 /* a socket's path has at most 107 bytes */

#define SERVE_OPTIONS(X)                                                       \
    X(name, STRING, "NAME", NULL,                                              \
      "model name for clients (default: the last part of MODEL_DIR)", 0, 0)    \
    X(workers, U32, "N", NULL,                                                 \
      "workers with the whole model each (default: 1)", 1, SERVE_WORKERS_MAX)  \
    X(stages, U32, "N", NULL, "workers that split the model's layers", 2,      \
      SERVE_WORKERS_MAX)                                                       \
    X(device, LIST, "NAME", NULL,                                              \
      "compute device, for all workers or one for each (default: cpu)", 0,     \
      SERVE_WORKERS_MAX)                                                       \
    X(host, STRING, "HOST", "127.0.0.1", "address to listen at", 0, 0)         \
    X(port, U32, "PORT", "8000", "port to listen at, 0: any free port", 0,     \
      65535)                                                                   \
    X(keys, STRING, "FILE", NULL,                                              \
      "file of API keys (default: none; loopback only)", 0, 0)                 \
    X(tls_cert, STRING, "FILE", NULL, "certificate chain for HTTPS, PEM", 0,   \
      0)                                                                       \
    X(tls_key, STRING, "FILE", NULL, "private key of the certificate, PEM", 0, \
      0)                                                                       \
    X(log_level, STRING, "LEVEL", NULL,                                        \
      "log level of all programs: debug, info, warn, error or off (default: "  \
      "info with --log-dir, else warn)",                                       \
      0, 0)                                                                    \
    X(log_dir, STRING, "DIR", NULL,                                            \
      "directory for one log a program (default: standard error)", 0, 0)       \
    X(help, FLAG, NULL, NULL, "print this text and exit", 0, 0)

OPTION_TABLE(serve_options, SERVE_OPTIONS);

/* ---- the directory of the sockets ---- */

/* Makes a directory for this user alone (mode 0700). */
static enum status dir_make(char *dir, size_t size, struct error *e)
{
    const char *bases[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};

    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        if (bases[i] != NULL && bases[i][0] == '/' &&
            (size_t)snprintf(dir, size, "%s/sluice-XXXXXX", bases[i]) < size &&
            mkdtemp(dir) != NULL) {
            return ST_OK;
        }
    }
    return error_set(e, ST_UNAVAILABLE,
                     "cannot make a directory in XDG_RUNTIME_DIR, TMPDIR or "
                     "/tmp: %s",
                     strerror(errno));
}

/* Removes the directory and the sockets that killed programs have left. */
static void dir_remove(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *entry;

    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.') {
            unlinkat(dirfd(d), entry->d_name, 0);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    rmdir(dir);
}

/* ---- the group ---- */

struct up {
    const struct serve_plan *plan;
    bool keys;
};

static void on_up(void *arg, const char *line)
{
    const struct up *up = arg;
    const char *auth =
        up->keys ? " -H \"Authorization: Bearer $SLUICE_API_KEY\"" : "";
    char url[512];

    if (!serve_plan_url(line, url, sizeof url)) {
        return;
    }
    printf("\n%s serves %s.  Try:\n\n"
           "    curl %s/v1/chat/completions%s -H 'Content-Type: "
           "application/json' -d '{\"model\":\"%s\",\"messages\":"
           "[{\"role\":\"user\",\"content\":\"Hello!\"}]}'\n"
           "    sluice chat --url %s\n\n"
           "Ctrl-C stops all programs.\n",
           url, up->plan->model_name, url, auth, up->plan->model_name, url);
    fflush(stdout);
}

static enum status run_plan(const struct serve_plan *plan,
                            const struct serve_options *o, struct error *e)
{
    struct group_child children[SERVE_WORKERS_MAX + 2];
    struct up up = {plan, o->keys != NULL};
    struct group_options options = {.children = children,
                                    .n = plan->n,
                                    .log_dir = o->log_dir,
                                    .up = on_up,
                                    .arg = &up};

    for (uint32_t i = 0; i < plan->n; i++) {
        const struct serve_command *c = &plan->commands[i];

        children[i] = (struct group_child){
            c->name, c->level == 1 ? "loading" : "starting", c->argv, c->level};
    }
    return group_run(&options, e);
}

/* Reads everything but the weights, so that a broken model is reported once and
 * before any program starts. */
static enum status check_model(const char *model, struct error *e)
{
    struct model_config config;
    struct checkpoint *files = NULL;
    enum status st = directory_check(
        model, DIRECTORY_CONFIG | DIRECTORY_TOKENIZER | DIRECTORY_WEIGHTS, e);

    st = st == ST_OK ? config_load(&config, model, e) : st;
    st = st == ST_OK ? checkpoint_open(&files, model, e) : st;
    checkpoint_close(&files);
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", model);
}

static enum status serve(const struct serve_options *o, struct serve_args *a,
                         struct error *e)
{
    char dir[SOCKET_DIR_MAX], router[SERVE_PATH_MAX], worker[SERVE_PATH_MAX],
        gateway[SERVE_PATH_MAX];
    struct serve_plan plan;
    enum status st = dir_make(dir, sizeof dir, e);

    if (st != ST_OK) {
        return st;
    }
    process_find("sluice-router", router, sizeof router);
    process_find("sluice-worker", worker, sizeof worker);
    process_find("sluice-gateway", gateway, sizeof gateway);
    a->dir = dir;
    a->router = router;
    a->worker = worker;
    a->gateway = gateway;
    st = serve_plan_make(a, &plan, e);
    if (st == ST_OK) {
        st = run_plan(&plan, o, e);
    }
    serve_plan_fini(&plan);
    dir_remove(dir);
    return st;
}

/* ---- the command line ---- */

/* Splits off the words after "--", which belong to the workers. */
static int split_extra(int argc, char **argv, struct serve_args *a)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            a->extra = argv + i + 1;
            a->n_extra = (size_t)(argc - i - 1);
            return i;
        }
    }
    return argc;
}

static enum status take_options(const struct serve_options *o, int n_words,
                                char **words, struct serve_args *a,
                                struct error *e)
{
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (n_words != 1) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%d operands; one MODEL_DIR is required, and options "
                         "of the workers stand after --",
                         n_words);
    }
    if (o->workers > 0 && o->stages > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--workers and --stages exclude each other");
    }
    a->model = words[0];
    a->name = o->name;
    a->n_stages = o->stages;
    a->n_workers = o->stages > 0 ? o->stages : o->workers > 0 ? o->workers : 1;
    a->n_cpus = n_cpus > 0 ? (uint32_t)n_cpus : 1;
    a->devices = o->device;
    a->listen_host = o->host;
    a->port = o->port;
    a->keys = o->keys;
    a->tls_cert = o->tls_cert;
    a->tls_key = o->tls_key;
    /* In a terminal, the lines of requests would hide those of the group. */
    a->log_level = o->log_level != NULL ? o->log_level
                   : o->log_dir != NULL ? "info"
                                        : "warn";
    return check_model(a->model, e);
}

static int run(int argc, char **argv)
{
    struct serve_args a = {0};
    struct serve_options o;
    struct error e;
    int n_words;
    enum status st;

    argc = split_extra(argc, argv, &a);
    st = option_parse(serve_options_rows, OPTION_COUNT(serve_options_rows), &o,
                      argc, argv, &n_words, &e);
    if (st == ST_OK && o.help) {
        front_print_help(&serve_verb);
        return FRONT_OK;
    }
    if (st == ST_OK) {
        st = take_options(&o, n_words, argv + 1, &a, &e);
    }
    if (st == ST_OK) {
        st = serve(&o, &a, &e);
    }
    return st == ST_OK ? FRONT_OK
                       : front_error(&serve_verb, FRONT_USAGE, e.text);
}

const struct front_verb serve_verb = {
    .name = "serve",
    .operands = "MODEL_DIR [options] [-- options of sluice-worker]",
    .summary = "serve a model over HTTP: router, workers and gateway",
    .more =
        "The programs run in the foreground until Ctrl-C or SIGTERM.  A "
        "program\n"
        "that dies is started again.  A second Ctrl-C kills all at once.\n\n"
        "examples:\n"
        "  sluice serve models/tiny-hybrid\n"
        "  sluice serve models/tiny-hybrid --workers 2 -- --memory 256MiB\n"
        "  sluice serve models/tiny-hybrid --stages 2 --port 8080\n\n"
        "exit codes: 0 stopped by SIGINT or SIGTERM, 2 could not start\n",
    .rows = serve_options_rows,
    .n_rows = OPTION_COUNT(serve_options_rows),
    .run = run,
};

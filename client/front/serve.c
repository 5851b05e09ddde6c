/* serve.c - `sluice serve`: router, workers and gateway as one group. */
#include <stdio.h>
#include <stdlib.h>

#include "client/front/front.h"
#include "client/front/serve_group.h"
#include "proto/limits.h"

#define SERVE_OPTIONS(X)                                                       \
    X(model, STRING, "PATH", NULL,                                             \
      "model directory or GGUF file, in place of the operand; also -m", 0, 0)  \
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
    X(allow_host, LIST, "NAME", NULL,                                          \
      "host name besides those of loopback under which clients may use a "     \
      "server without keys, as behind a proxy; * for any",                     \
      0, 0)                                                                    \
    X(cors, STRING, "ORIGIN", NULL,                                            \
      "origin whose pages may use the server, or *", 0, 0)                     \
    X(max_tokens, U32, "N", NULL,                                              \
      "tokens of a chat answer, if the request sets no number (default: "      \
      "2048)",                                                                 \
      1, MODEL_CONTEXT_MAX)                                                    \
    X(tls_cert, STRING, "FILE", NULL, "certificate chain for HTTPS, PEM", 0,   \
      0)                                                                       \
    X(tls_key, STRING, "FILE", NULL, "private key of the certificate, PEM", 0, \
      0)                                                                       \
    X(router_option, LIST, "NAME=VALUE", NULL,                                 \
      "option of sluice-router, again for each: max-waiting=64", 0, 0)         \
    X(gateway_option, LIST, "NAME=VALUE", NULL,                                \
      "option of sluice-gateway, again for each: metrics=127.0.0.1:9466", 0,   \
      0)                                                                       \
    X(log_level, STRING, "LEVEL", NULL,                                        \
      "log level of all programs: debug, info, warn, error or off (default: "  \
      "info with --log-dir, else warn)",                                       \
      0, 0)                                                                    \
    X(log_dir, STRING, "DIR", NULL,                                            \
      "directory for one log a program (default: standard error)", 0, 0)       \
    X(help, FLAG, NULL, NULL, "print this text and exit", 0, 0)

OPTION_TABLE(serve_options, SERVE_OPTIONS);

static void on_up(void *arg, const struct serve_args *a,
                  const struct serve_plan *plan, const char *line)
{
    const struct serve_options *o = arg;
    const char *auth =
        o->keys != NULL ? " -H \"Authorization: Bearer $SLUICE_API_KEY\"" : "";
    bool proxy = getenv("http_proxy") != NULL || getenv("all_proxy") != NULL ||
                 getenv("ALL_PROXY") != NULL; /* as curl reads them */
    char url[512];

    if (!serve_plan_url(line, url, sizeof url)) {
        return;
    }
    printf("\n%s serves %s.  Try:\n\n"
           "    curl%s %s/v1/chat/completions%s -H 'Content-Type: "
           "application/json' -d '{\"model\":\"%s\",\"messages\":"
           "[{\"role\":\"user\",\"content\":\"Hello!\"}]}'\n"
           "    sluice chat --url %s\n"
           "    sluicectl --router ipc://%s/clients status\n\n"
           "Ctrl-C stops all programs.\n",
           url, plan->model_name, proxy ? " --noproxy '*'" : "", url, auth,
           plan->model_name, url, a->dir);
    fflush(stdout);
}

static enum status take_options(const struct serve_options *o, int n_words,
                                char **words, struct serve_args *a,
                                struct error *e)
{
    enum status st = serve_group_workers(a, o->workers, o->stages, e);

    a->name = o->name;
    a->devices = o->device;
    a->listen_host = o->host;
    a->port = o->port;
    a->keys = o->keys;
    a->allow_hosts = o->allow_host;
    a->cors = o->cors;
    a->max_tokens = o->max_tokens;
    a->tls_cert = o->tls_cert;
    a->tls_key = o->tls_key;
    a->router_options = o->router_option;
    a->gateway_options = o->gateway_option;
    /* In a terminal, the lines of requests would hide those of the group. */
    a->log_level = o->log_level != NULL ? o->log_level
                   : o->log_dir != NULL ? "info"
                                        : "warn";
    return st == ST_OK ? serve_group_model(a, o->model, n_words, words, e) : st;
}

static int run(int argc, char **argv)
{
    struct serve_args a = {0};
    struct serve_options o;
    struct error e;
    int n_words;
    enum status st;

    argc = serve_group_extra(argc, argv, &a);
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
        struct serve_hooks hooks = {
            .log_dir = o.log_dir, .up = on_up, .arg = &o};

        st = serve_group_run(&a, &hooks, &e);
    }
    return st == ST_OK ? FRONT_OK
                       : front_error(&serve_verb, FRONT_USAGE, e.text);
}

const struct front_verb serve_verb = {
    .name = "serve",
    .operands = "MODEL_DIR [options] [-- options of sluice-worker]",
    .summary = "serve a model over HTTP: router, workers and gateway",
    .more =
        "MODEL_DIR is a model directory or a GGUF file.  The programs run in "
        "the\n"
        "foreground until Ctrl-C or SIGTERM.  A program that dies is started "
        "again.\n"
        "A second Ctrl-C kills all at once.\n\n"
        "examples:\n"
        "  sluice serve models/tiny-hybrid\n"
        "  sluice serve models/tiny-hybrid --workers 2 -- --memory 256MiB\n"
        "  sluice serve models/tiny-hybrid --stages 2 --port 8080\n"
        "  sluice serve models/tiny-hybrid -- --drafts auto\n\n"
        "exit codes: 0 stopped by SIGINT or SIGTERM, 2 could not start\n",
    .rows = serve_options_rows,
    .n_rows = OPTION_COUNT(serve_options_rows),
    .run = run,
};

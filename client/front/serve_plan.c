#include "client/front/serve_plan.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/model/gguf_model.h"
#include "proto/limits.h"

/* ---- words ---- */

/* Appends one formatted word.  A front for people has nothing to save when
 * memory is out, so it aborts as the other parts of the client do. */
static void __attribute__((format(printf, 2, 3)))
word(struct serve_command *c, const char *fmt, ...)
{
    va_list ap;

    if (c->n + 1 >= c->size) {
        c->size = c->size == 0 ? 32 : 2 * c->size;
        c->argv = memory_must(realloc(c->argv, c->size * sizeof *c->argv));
    }
    va_start(ap, fmt);
    if (vasprintf(&c->argv[c->n++], fmt, ap) < 0) {
        (void)memory_must(NULL);
    }
    va_end(ap);
    c->argv[c->n] = NULL;
}

static void option(struct serve_command *c, const char *name, const char *value)
{
    if (value != NULL) {
        word(c, "--%s", name);
        word(c, "%s", value);
    }
}

#define GATEWAY_LEVEL 2

/* Adds options that a person gave as NAME=VALUE, or as --NAME=VALUE. */
static void more_options(struct serve_command *c,
                         const struct option_list *list)
{
    for (unsigned i = 0; i < list->n; i++) {
        const char *text = list->item[i];

        word(c, "%s%s", strncmp(text, "--", 2) == 0 ? "" : "--", text);
    }
}

static struct serve_command *command(struct serve_plan *p, uint32_t level,
                                     const char *path)
{
    struct serve_command *c = &p->commands[p->n++];

    c->start_level = level < GATEWAY_LEVEL ? level : GATEWAY_LEVEL - 1;
    c->stop_level = level;
    word(c, "%s", path);
    option(c, "config", "none"); /* the machine's files are for its services */
    return c;
}

/* ---- checks ---- */

static enum status name_make(const struct serve_args *a, char *name,
                             size_t size, struct error *e)
{
    const char *text = a->name != NULL ? a->name : a->model;
    size_t n = strlen(text), begin;

    /* "models/tiny/" and "models/tiny.gguf" have the name "tiny". */
    while (a->name == NULL && n > 1 && text[n - 1] == '/') {
        n--;
    }
    begin = n;
    while (a->name == NULL && begin > 0 && text[begin - 1] != '/') {
        begin--;
    }
    begin = a->name != NULL ? 0 : begin;
    if (a->name == NULL) {
        n = begin + gguf_files_name(text + begin, n - begin);
    }
    for (size_t i = begin; i < n; i++) {
        /* '=' ends the name in --model NAME=DIR. */
        if ((unsigned char)text[i] <= ' ' || text[i] == '=' ||
            text[i] == '\'' || text[i] == '"' || text[i] == '\\') {
            begin = n;
        }
    }
    if (begin == n || n - begin > MODEL_NAME_MAX || n - begin >= size) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s cannot be a model's name: 1 to %d bytes without "
                         "spaces, quotes, \\ and = are required; give --name",
                         quote(text).text, MODEL_NAME_MAX);
    }
    memcpy(name, text + begin, n - begin);
    name[n - begin] = '\0';
    return ST_OK;
}

static enum status check(const struct serve_args *a, struct error *e)
{
    if (a->n_workers < 1 || a->n_workers > SERVE_WORKERS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u workers; 1 to %d are allowed", a->n_workers,
                         SERVE_WORKERS_MAX);
    }
    if (a->devices.n > 1 && a->devices.n != a->n_workers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u times --device for %u workers; give one for all, "
                         "or one for each",
                         a->devices.n, a->n_workers);
    }
    if ((a->tls_cert == NULL) != (a->tls_key == NULL)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--tls-cert and --tls-key need each other");
    }
    if (a->n_extra > SERVE_EXTRA_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu words after --; at most %d are allowed",
                         a->n_extra, SERVE_EXTRA_MAX);
    }
    return ST_OK;
}

/* ---- the commands ---- */

/* Open requests get less time than the supervisor gives before SIGKILL. */
#define GRACE_S "5"

static void plan_router(const struct serve_args *a, struct serve_plan *p)
{
    struct serve_command *c = command(p, 0, a->router);

    snprintf(c->name, sizeof c->name, "router");
    word(c, "--workers");
    word(c, "ipc://%s/workers", a->dir);
    word(c, "--clients");
    word(c, "ipc://%s/clients", a->dir);
    word(c, "--model");
    word(c, "%s=%s", p->model_name, a->model);
    option(c, "log-level", a->log_level);
    more_options(c, &a->router_options);
}

/* Several workers share the CPUs, unless an extra option sets the threads. */
static bool shares_cpus(const struct serve_args *a)
{
    if (a->n_workers == 1) {
        return false;
    }
    for (size_t i = 0; i < a->n_extra; i++) {
        if (strncmp(a->extra[i], "--threads", strlen("--threads")) == 0) {
            return false;
        }
    }
    return true;
}

/* Workers with "opencl" for all take the GPUs in order. */
static void plan_device(const struct serve_args *a, struct serve_command *c,
                        uint32_t i)
{
    bool all = a->devices.n == 1;

    if (all && i > 0 && strcmp(a->devices.item[0], "opencl") == 0) {
        word(c, "--device");
        word(c, "opencl:%u", i);
    } else if (a->devices.n > 0) {
        option(c, "device", a->devices.item[all ? 0 : i]);
    }
}

static void plan_worker(const struct serve_args *a, struct serve_plan *p,
                        uint32_t i)
{
    struct serve_command *c = command(p, 1, a->worker);

    snprintf(c->name, sizeof c->name, "w%u", i + 1);
    option(c, "model", a->model);
    option(c, "model-name", p->model_name);
    word(c, "--router");
    word(c, "ipc://%s/workers", a->dir);
    option(c, "name", c->name);
    option(c, "grace", GRACE_S);
    if (a->n_stages > 0) {
        word(c, "--stages");
        word(c, "%u", a->n_stages);
        word(c, "--stage-listen");
        word(c, "ipc://%s/%s", a->dir, c->name);
    }
    plan_device(a, c, i);
    if (shares_cpus(a)) {
        uint32_t n = a->n_cpus / a->n_workers;

        word(c, "--threads");
        word(c, "%u", n > 0 ? n : 1);
    }
    option(c, "log-level", a->log_level);
    for (size_t k = 0; k < a->n_extra; k++) {
        word(c, "%s", a->extra[k]);
    }
}

static void plan_gateway(const struct serve_args *a, struct serve_plan *p)
{
    struct serve_command *c = command(p, GATEWAY_LEVEL, a->gateway);
    bool v6 = strchr(a->listen_host, ':') != NULL && a->listen_host[0] != '[';

    snprintf(c->name, sizeof c->name, "gateway");
    word(c, "--router");
    word(c, "ipc://%s/clients", a->dir);
    word(c, "--listen");
    word(c, v6 ? "[%s]:%u" : "%s:%u", a->listen_host, a->port);
    word(c, "--model");
    word(c, "%s=%s", p->model_name, a->model);
    option(c, "grace", GRACE_S);
    option(c, "keys", a->keys);
    for (unsigned i = 0; i < a->allow_hosts.n; i++) {
        option(c, "allow-host", a->allow_hosts.item[i]);
    }
    option(c, "cors", a->cors);
    if (a->max_tokens > 0) {
        word(c, "--max-tokens");
        word(c, "%u", a->max_tokens);
    }
    option(c, "tls-cert", a->tls_cert);
    option(c, "tls-key", a->tls_key);
    option(c, "log-level", a->log_level);
    more_options(c, &a->gateway_options);
}

enum status serve_plan_make(const struct serve_args *args,
                            struct serve_plan *out, struct error *e)
{
    enum status st = check(args, e);

    memset(out, 0, sizeof *out);
    if (st == ST_OK) {
        st = name_make(args, out->model_name, sizeof out->model_name, e);
    }
    if (st != ST_OK) {
        return st;
    }
    out->commands = calloc(args->n_workers + 2, sizeof *out->commands);
    if (out->commands == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    plan_router(args, out);
    for (uint32_t i = 0; i < args->n_workers; i++) {
        plan_worker(args, out, i);
    }
    if (args->listen_host != NULL) {
        plan_gateway(args, out);
    }
    assert(out->n <= args->n_workers + 2);
    return ST_OK;
}

void serve_plan_fini(struct serve_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        for (size_t k = 0; k < p->commands[i].n; k++) {
            free(p->commands[i].argv[k]);
        }
        free(p->commands[i].argv);
    }
    free(p->commands);
    p->commands = NULL;
    p->n = 0;
}

bool serve_plan_url(const char *ready, char *url, size_t size)
{
    const char *begin = strstr(ready, " http://");
    size_t n;

    if (begin == NULL) {
        begin = strstr(ready, " https://");
    }
    if (begin == NULL) {
        return false;
    }
    n = strcspn(begin + 1, ", \t");
    if (n >= size) {
        return false;
    }
    memcpy(url, begin + 1, n);
    url[n] = '\0';
    return true;
}

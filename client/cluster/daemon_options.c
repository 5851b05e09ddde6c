#include "client/cluster/daemon_options.h"

#include <string.h>

#include "common/base/near.h"
#include "common/base/option_value.h"
#include "common/base/quote.h"
#include "gateway/args.h"
#include "router/args.h"
#include "worker/args.h"

/* A value is stored alone, so that no row needs the daemon's struct. */
#define ROW(name, type, value, fallback, help, min, max) \
    {#name, OPTION_##type, value, fallback, help, min, max, 0},

static const struct option_row router_rows[] = {ROUTER_OPTIONS(ROW)};
static const struct option_row gateway_rows[] = {GATEWAY_OPTIONS(ROW)};
static const struct option_row worker_rows[] = {WORKER_OPTIONS(ROW)};

static const struct daemon {
    const char *program;
    const struct option_row *rows;
    size_t n;
} daemons[] = {
    [DAEMON_ROUTER] = {"sluice-router", router_rows, OPTION_COUNT(router_rows)},
    [DAEMON_GATEWAY] = {"sluice-gateway", gateway_rows,
                        OPTION_COUNT(gateway_rows)},
    [DAEMON_WORKER] = {"sluice-worker", worker_rows, OPTION_COUNT(worker_rows)},
};

/* Options that `cluster render` writes; instead: the key of the file. */
static const struct taken {
    enum daemon_kind who;
    const char *option, *instead;
} taken[] = {
    {DAEMON_ROUTER, "name", "router: name"},
    {DAEMON_ROUTER, "workers", "router: workers_port"},
    {DAEMON_ROUTER, "clients", "router: clients_port"},
    {DAEMON_ROUTER, "model", "models"},
    {DAEMON_ROUTER, "key", "keys"},
    {DAEMON_ROUTER, "trust", "keys"},
    {DAEMON_GATEWAY, "name", "gateways: name"},
    {DAEMON_GATEWAY, "router", "router: host"},
    {DAEMON_GATEWAY, "listen", "gateways: listen"},
    {DAEMON_GATEWAY, "model", "models"},
    {DAEMON_GATEWAY, "keys", "tenants"},
    {DAEMON_GATEWAY, "key", "keys"},
    {DAEMON_GATEWAY, "trust", "keys"},
    {DAEMON_WORKER, "name", "workers: name"},
    {DAEMON_WORKER, "model", "workers: model"},
    {DAEMON_WORKER, "model_name", "workers: model"},
    {DAEMON_WORKER, "router", "router: host"},
    {DAEMON_WORKER, "device", "workers: device"},
    {DAEMON_WORKER, "memory", "workers: memory"},
    {DAEMON_WORKER, "layers", "workers: layers"},
    {DAEMON_WORKER, "stages", "workers: stages"},
    {DAEMON_WORKER, "stage_listen", "workers: stage_port"},
    {DAEMON_WORKER, "stage_advertise", "hosts: address"},
    {DAEMON_WORKER, "advertise", "hosts: address"},
    {DAEMON_WORKER, "key", "keys"},
    {DAEMON_WORKER, "trust", "keys"},
};

/* Options with which a daemon prints something and exits, and those of the
 * configuration file itself. */
static const char *const not_running[] = {
    "help",   "version",      "limits",  "list_metrics", "list_routes",
    "config", "print_config", "new_key", "check"};

const char *daemon_program(enum daemon_kind who)
{
    return daemons[who].program;
}

bool daemon_option_same(const char *a, const char *b)
{
    size_t i = 0;

    while (a[i] != '\0' &&
           (a[i] == b[i] || (strchr("-_", a[i]) != NULL && b[i] != '\0' &&
                             strchr("-_", b[i]) != NULL))) {
        i++;
    }
    return a[i] == b[i];
}

static bool is_running(const char *option)
{
    for (size_t i = 0; i < sizeof not_running / sizeof *not_running; i++) {
        if (strcmp(not_running[i], option) == 0) {
            return false;
        }
    }
    return true;
}

static const char *taken_by(enum daemon_kind who, const char *option)
{
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (taken[i].who == who && strcmp(taken[i].option, option) == 0) {
            return taken[i].instead;
        }
    }
    return NULL;
}

/* Returns the nearest option that a cluster file may name, or NULL. */
static const char *nearest(enum daemon_kind who, const char *name)
{
    const struct daemon *d = &daemons[who];
    struct near near = near_to(name, strlen(name));

    for (size_t i = 0; i < d->n; i++) {
        if (is_running(d->rows[i].name) &&
            taken_by(who, d->rows[i].name) == NULL) {
            near_offer(&near, d->rows[i].name);
        }
    }
    return near.best;
}

static enum status unknown(enum daemon_kind who, const char *name,
                           struct error *e)
{
    const char *best = nearest(who, name);
    char spelt[OPTION_FLAG_TEXT];

    if (best == NULL) {
        return error_set(
            e, ST_NOT_FOUND, "%s: unknown option of %s; %s --help lists all",
            quote(name).text, daemon_program(who), daemon_program(who));
    }
    return error_set(e, ST_NOT_FOUND,
                     "%s: unknown option of %s; did you mean %s?",
                     quote(name).text, daemon_program(who),
                     option_name(best, spelt, sizeof spelt));
}

static enum status check_value(const struct option_row *row, const char *name,
                               const char *value, struct error *e)
{
    union {
        struct option_list list;
        uint64_t number;
        double real;
    } out = {.list.n = 0};
    bool yes;

    if (row->type == OPTION_FLAG) {
        return option_bool(value, &yes)
                   ? ST_OK
                   : error_set(e, ST_INVALID_ARGUMENT,
                               "%s %s: yes or no is required", name,
                               quote(value).text);
    }
    if (option_store(row, &out, value, e) != ST_OK) {
        return error_wrap(e, "%s %s", name, quote(value).text);
    }
    return ST_OK;
}

enum status daemon_option_check(enum daemon_kind who, const char *name,
                                const char *value, struct error *e)
{
    const struct daemon *d = &daemons[who];
    const struct option_row *row =
        option_find(d->rows, d->n, name, strlen(name));

    if (row == NULL) {
        return unknown(who, name, e);
    }
    if (taken_by(who, row->name) != NULL) {
        return error_set(e, ST_NOT_FOUND,
                         "%s: use the key \"%s\" of the cluster file instead",
                         name, taken_by(who, row->name));
    }
    if (!is_running(row->name)) {
        return error_set(e, ST_NOT_FOUND,
                         "%s: not an option of a running %s; remove it", name,
                         d->program);
    }
    return check_value(row, name, value, e);
}

bool daemon_option_is_list(enum daemon_kind who, const char *name)
{
    const struct daemon *d = &daemons[who];
    const struct option_row *row =
        option_find(d->rows, d->n, name, strlen(name));

    return row != NULL && row->type == OPTION_LIST;
}

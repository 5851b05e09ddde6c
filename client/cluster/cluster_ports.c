#include "client/cluster/cluster_ports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cluster/daemon_options.h"
#include "common/base/memory.h"
#include "common/base/quote.h"

#define WHAT_MAX 96

struct port {
    const struct cluster_host *host;
    uint64_t number;
    char what[WHAT_MAX];
    struct place at;
};

struct ports {
    struct port *item; /* [n] */
    size_t n;
};

static void add(struct ports *p, const struct port *port)
{
    if (port->host == NULL || port->number == 0) {
        return;
    }
    p->item = memory_must(realloc(p->item, (p->n + 1) * sizeof *p->item));
    p->item[p->n++] = *port;
}

/* Returns the port after the last colon, or UINT64_MAX. */
static uint64_t port_of(const char *text)
{
    const char *colon = strrchr(text, ':');
    const char *digits = colon != NULL ? colon + 1 : text;
    size_t n = strspn(digits, "0123456789");

    if (n == 0 || n > 5 || digits[n] != '\0' || atoi(digits) > 65535) {
        return UINT64_MAX;
    }
    return strtoull(digits, NULL, 10);
}

const char *cluster_option_value(char out[TREE_TEXT_MAX + 16],
                                 const struct cluster_pair *option,
                                 uint32_t number)
{
    const char *value = option->value.text;
    uint64_t port = port_of(value);

    if (!daemon_option_same(option->name.text, "metrics") || number == 0 ||
        port == UINT64_MAX || port == 0) {
        return value;
    }
    snprintf(out, TREE_TEXT_MAX + 16, "%.*s:%" PRIu64,
             (int)(strrchr(value, ':') - value), value, port + number);
    return out;
}

/* Adds the ports that options name. */
static void add_options(struct ports *p, const struct cluster_unit *u,
                        const struct cluster_host *h, uint32_t number,
                        const char *who)
{
    for (size_t i = 0; i < u->options.n; i++) {
        const struct cluster_pair *o = &u->options.item[i];
        char value[TREE_TEXT_MAX + 16];
        struct port port = {.host = h, .at = o->value.at};

        if ((daemon_option_same(o->name.text, "metrics") ||
             daemon_option_same(o->name.text, "admins")) &&
            strncmp(o->value.text, "ipc:", 4) != 0 &&
            strchr(o->value.text, ':') != NULL) {
            port.number = port_of(cluster_option_value(value, o, number));
            port.number = port.number == UINT64_MAX ? 0 : port.number;
            snprintf(port.what, sizeof port.what, "%s of %s", o->name.text,
                     who);
            add(p, &port);
        }
    }
}

static void add_router(struct ports *p, const struct layout *l)
{
    const struct cluster_router *r = &l->cluster->router;
    struct port port = {.host = l->router_host};

    port.number = r->workers_port.v;
    port.at = r->workers_port.given ? r->workers_port.at : r->at;
    snprintf(port.what, sizeof port.what, "workers_port of the router");
    add(p, &port);
    port.number = r->clients_port.v;
    port.at = r->clients_port.given ? r->clients_port.at : r->at;
    snprintf(port.what, sizeof port.what, "clients_port of the router");
    add(p, &port);
    add_options(p, &r->unit, l->router_host, 0, "the router");
}

/* A gateway without API keys serves loopback only. */
static void check_open(const struct cluster *c, const char *at,
                       const struct cluster_gateway *g, struct faults *f)
{
    if (c->n_tenants == 0 && strncmp(at, "127.", 4) != 0 &&
        strncmp(at, "[::1]", 5) != 0 && strncmp(at, "localhost:", 10) != 0) {
        faults_add(f, g->listen.text != NULL ? g->listen.at : g->host.at,
                   "gateway %s listens at %s, where every machine could use "
                   "it; add tenants: {NAME: {}}, or listen: 127.0.0.1:%d",
                   g->name.text != NULL ? g->name.text : "", at,
                   CLUSTER_LISTEN_PORT);
    }
}

static void add_gateway(struct ports *p, const struct cluster *c,
                        const struct cluster_gateway *g, struct faults *f)
{
    const struct cluster_host *h = cluster_host_find(c, g->host.text);
    struct port port = {.host = h};
    char at[ENDPOINT_MAX];

    if (h == NULL || h->address.text == NULL) {
        return;
    }
    if (g->listen.text != NULL && port_of(g->listen.text) == UINT64_MAX) {
        faults_add(f, g->listen.at,
                   "listen %s: a port, or HOST:PORT, is required",
                   quote(g->listen.text).text);
        return;
    }
    cluster_gateway_listen(at, g, h);
    check_open(c, at, g, f);
    port.number = port_of(at);
    port.at = g->listen.text != NULL ? g->listen.at : g->host.at;
    snprintf(port.what, sizeof port.what, "listen of gateway %.40s",
             g->name.text != NULL ? g->name.text : "");
    add(p, &port);
    add_options(p, &g->unit, h, 0, port.what + strlen("listen of "));
}

static void add_instance(struct ports *p, const struct instance *in)
{
    const struct cluster_worker *w = in->worker;
    struct port port = {.host = in->host, .number = in->stage_port};
    char who[WHAT_MAX];

    snprintf(who, sizeof who, "worker %s", in->name);
    snprintf(port.what, sizeof port.what, "stage_port of %.70s", who);
    port.at = w->stage_port.given ? w->stage_port.at : w->name.at;
    add(p, &port);
    add_options(p, &w->unit, in->host, in->number, who);
}

static void find_clashes(const struct ports *p, struct faults *f)
{
    for (size_t i = 0; i < p->n; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct port *a = &p->item[i], *b = &p->item[k];

            if (a->host == b->host && a->number == b->number) {
                faults_add(f, a->at,
                           "port %" PRIu64 " of host %s is both %s and %s "
                           "(line %u); change one",
                           a->number, a->host->name.text, a->what, b->what,
                           b->at.line);
                break;
            }
        }
    }
}

void cluster_ports_check(const struct layout *l, struct faults *f)
{
    struct ports p = {0};

    add_router(&p, l);
    for (size_t i = 0; i < l->cluster->n_gateways; i++) {
        add_gateway(&p, l->cluster, &l->cluster->gateways[i], f);
    }
    for (size_t i = 0; i < l->n; i++) {
        add_instance(&p, &l->instances[i]);
    }
    find_clashes(&p, f);
    free(p.item);
}

#include "client/cluster/cluster_layout.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

void cluster_path(char *out, size_t size, const char *base, const char *path)
{
    bool alone = path[0] == '/' || strcmp(base, ".") == 0;

    snprintf(out, size, "%.2000s%s%s", alone ? "" : base, alone ? "" : "/",
             path);
}

const struct cluster_host *cluster_host_find(const struct cluster *c,
                                             const char *name)
{
    for (size_t i = 0; name != NULL && i < c->n_hosts; i++) {
        if (c->hosts[i].name.text != NULL &&
            strcmp(c->hosts[i].name.text, name) == 0) {
            return &c->hosts[i];
        }
    }
    return NULL;
}

const struct cluster_model *cluster_model_find(const struct cluster *c,
                                               const char *name)
{
    for (size_t i = 0; name != NULL && i < c->n_models; i++) {
        if (strcmp(c->models[i].name.text, name) == 0) {
            return &c->models[i];
        }
    }
    return NULL;
}

bool cluster_worker_is_stage(const struct cluster_worker *w)
{
    return w->layers.text != NULL || w->stages.v > 1;
}

bool cluster_is_ip(const char *text)
{
    struct in6_addr out;

    return inet_pton(AF_INET, text, &out) == 1 ||
           inet_pton(AF_INET6, text, &out) == 1;
}

bool cluster_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strcmp(address, "localhost") == 0;
}

/* Writes "HOST:PORT", with brackets around an IPv6 address. */
static void host_port(char *out, size_t size, const char *host, uint64_t port)
{
    bool v6 = strchr(host, ':') != NULL;

    snprintf(out, size, "%s%.200s%s:%" PRIu64, v6 ? "[" : "", host,
             v6 ? "]" : "", port);
}

/* A program listens at an address.  The one behind a name is known on its host
 * only, so a host with a name listens at all of its addresses. */
static const char *bind_of(const struct cluster_host *h)
{
    if (h->bind.text != NULL) {
        return h->bind.text;
    }
    return cluster_is_ip(h->address.text) ||
                   cluster_is_loopback(h->address.text)
               ? h->address.text
               : "0.0.0.0";
}

void cluster_endpoint(char out[ENDPOINT_MAX], const struct cluster_host *h,
                      uint64_t port)
{
    size_t n = (size_t)snprintf(out, ENDPOINT_MAX, "tcp://");

    host_port(out + n, ENDPOINT_MAX - n, h->address.text, port);
}

void cluster_listen_at(char out[ENDPOINT_MAX], const struct cluster_host *h,
                       uint64_t port)
{
    size_t n = (size_t)snprintf(out, ENDPOINT_MAX, "tcp://");

    host_port(out + n, ENDPOINT_MAX - n, bind_of(h), port);
}

void cluster_gateway_listen(char out[ENDPOINT_MAX],
                            const struct cluster_gateway *g,
                            const struct cluster_host *h)
{
    const char *listen = g->listen.text;

    if (listen != NULL && strchr(listen, ':') != NULL) {
        snprintf(out, ENDPOINT_MAX, "%s", listen);
    } else {
        host_port(out, ENDPOINT_MAX, bind_of(h),
                  listen != NULL ? strtoull(listen, NULL, 10)
                                 : CLUSTER_LISTEN_PORT);
    }
}

/* ---- instances ---- */

static bool port_is_taken(const struct layout *l, const struct cluster_host *h,
                          uint64_t port)
{
    const struct cluster_router *r = &l->cluster->router;

    if (l->router_host == h &&
        (port == r->workers_port.v || port == r->clients_port.v)) {
        return true;
    }
    for (size_t i = 0; i < l->n; i++) {
        if (l->instances[i].host == h && l->instances[i].stage_port == port) {
            return true;
        }
    }
    return false;
}

static bool takes_gpu(const struct cluster_worker *w)
{
    return w->device.text != NULL && strcmp(w->device.text, "opencl") == 0;
}

const char *cluster_device(char out[LAYOUT_DEVICE_MAX],
                           const struct instance *in)
{
    const char *device = in->worker->device.text;

    snprintf(out, LAYOUT_DEVICE_MAX, "opencl:%u", in->gpu);
    return in->gpu > 0 ? out : device != NULL ? device : "cpu";
}

static uint32_t stage_port(const struct layout *l, const struct instance *in)
{
    const struct cluster_worker *w = in->worker;
    uint32_t port = CLUSTER_STAGE_PORT;

    if (!cluster_worker_is_stage(w)) {
        return 0;
    }
    if (w->stage_port.given) {
        return (uint32_t)w->stage_port.v + in->number;
    }
    while (port_is_taken(l, in->host, port)) {
        port++;
    }
    return port;
}

/* Counts the instances that have taken a GPU of this host. */
static uint32_t gpus_taken(const struct layout *l, const struct cluster_host *h)
{
    uint32_t n = 0;

    for (size_t i = 0; i < l->n; i++) {
        n += l->instances[i].host == h && takes_gpu(l->instances[i].worker);
    }
    return n;
}

static void add_instances(struct layout *l, const struct cluster_worker *w)
{
    for (uint32_t i = 0; i < w->count.v; i++) {
        struct instance in = {.worker = w, .number = i};

        in.host = cluster_host_find(l->cluster, w->host.text);
        if (in.host == NULL || in.host->address.text == NULL ||
            w->name.text == NULL) {
            return;
        }
        if (w->count.v > 1) {
            snprintf(in.name, sizeof in.name, "%s-%u", w->name.text, i + 1);
        } else {
            snprintf(in.name, sizeof in.name, "%s", w->name.text);
        }
        in.stage_port = stage_port(l, &in);
        in.gpu = takes_gpu(w) ? gpus_taken(l, in.host) : 0;
        l->instances[l->n++] = in;
    }
}

void cluster_layout_make(struct layout *out, const struct cluster *c)
{
    size_t n = 0;

    *out = (struct layout){.cluster = c};
    out->router_host = cluster_host_find(c, c->router.host.text);
    if (out->router_host != NULL && out->router_host->address.text == NULL) {
        out->router_host = NULL;
    }
    for (size_t i = 0; i < c->n_workers; i++) {
        n += c->workers[i].count.v;
    }
    if (n > CLUSTER_WORKERS_MAX) {
        return; /* reported */
    }
    out->instances = memory_must(calloc(n + 1, sizeof *out->instances));
    for (size_t i = 0; i < c->n_workers; i++) {
        add_instances(out, &c->workers[i]);
    }
}

void cluster_layout_free(struct layout *l)
{
    free(l->instances);
    *l = (struct layout){0};
}

#include "client/cluster/cluster_conf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cluster/cluster_ports.h"
#include "client/cluster/cluster_stages.h"
#include "client/cluster/daemon_options.h"
#include "common/base/memory.h"
#include "common/base/option_file.h"
#include "common/base/option_value.h"

#define HEAD                                                           \
    "# Written by sluicectl cluster render.  sluicectl cluster apply " \
    "replaces "                                                        \
    "it:\n# change the cluster file instead.\n"

struct text {
    FILE *to;
    char *bytes;
    size_t n;
};

static void begin(struct text *t)
{
    t->to = open_memstream(&t->bytes, &t->n);
    if (t->to == NULL) {
        (void)memory_must(NULL);
    }
}

static char *end(struct text *t)
{
    if (fclose(t->to) != 0) {
        (void)memory_must(NULL);
    }
    return t->bytes;
}

static void set(struct text *t, const char *name, const char *value)
{
    fprintf(t->to, "%s = ", name);
    /* No value of a cluster file has a control character, the only kind that
     * no line can hold. */
    if (!option_file_print_value(t->to, value)) {
        (void)memory_must(NULL);
    }
    fputc('\n', t->to);
}

static void set_number(struct text *t, const char *name, uint64_t value)
{
    fprintf(t->to, "%s = %" PRIu64 "\n", name, value);
}

static void set_keys(struct text *t, const struct layout *l, const char *name)
{
    if (l->cluster->keys_dir.text != NULL) {
        fprintf(t->to, "key = /etc/sluice/keys/%s.key\n", name);
        fputs("trust = /etc/sluice/trust\n", t->to);
    }
}

static void set_models(struct text *t, const struct cluster *c)
{
    for (size_t i = 0; i < c->n_models; i++) {
        const struct cluster_model *m = &c->models[i];
        char value[2 * TREE_TEXT_MAX + 2];

        snprintf(value, sizeof value, "%s=%s", m->name.text, m->path.text);
        set(t, "model", value);
    }
}

static void set_options(struct text *t, const struct cluster_unit *u,
                        uint32_t number)
{
    for (size_t i = 0; i < u->options.n; i++) {
        const struct cluster_pair *o = &u->options.item[i];
        char value[TREE_TEXT_MAX + 16];
        char name[OPTION_FLAG_TEXT];

        set(t, option_name(o->name.text, name, sizeof name),
            cluster_option_value(value, o, number));
    }
}

static bool has_option(const struct cluster_unit *u, const char *name)
{
    for (size_t i = 0; i < u->options.n; i++) {
        if (strcmp(u->options.item[i].name.text, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The places of each model that the workers of the file form. */
static void set_places(struct text *t, const struct cluster *c)
{
    for (size_t i = 0; i < c->n_models; i++) {
        const struct cluster_model *m = &c->models[i];
        uint64_t n = cluster_places(c, m);
        char value[TREE_TEXT_MAX + 24];

        if (n > 0) {
            snprintf(value, sizeof value, "%s=%" PRIu64, m->name.text, n);
            set(t, "places", value);
        }
    }
}

char *cluster_conf_router(const struct layout *l)
{
    const struct cluster_router *r = &l->cluster->router;
    char endpoint[ENDPOINT_MAX];
    struct text t;

    begin(&t);
    fputs(HEAD, t.to);
    set(&t, "name", r->name.text);
    cluster_listen_at(endpoint, l->router_host, r->workers_port.v);
    set(&t, "workers", endpoint);
    cluster_listen_at(endpoint, l->router_host, r->clients_port.v);
    set(&t, "clients", endpoint);
    set_models(&t, l->cluster);
    if (!has_option(&r->unit, "places")) {
        set_places(&t, l->cluster);
    }
    set_keys(&t, l, r->name.text);
    set_options(&t, &r->unit, 0);
    return end(&t);
}

char *cluster_conf_gateway(const struct layout *l,
                           const struct cluster_gateway *g)
{
    const struct cluster *c = l->cluster;
    char endpoint[ENDPOINT_MAX];
    struct text t;

    begin(&t);
    fputs(HEAD, t.to);
    set(&t, "name", g->name.text);
    cluster_endpoint(endpoint, l->router_host, c->router.clients_port.v);
    set(&t, "router", endpoint);
    cluster_gateway_listen(endpoint, g, cluster_host_find(c, g->host.text));
    set(&t, "listen", endpoint);
    set_models(&t, c);
    if (c->n_tenants > 0) {
        set(&t, "keys", "/etc/sluice/api-keys");
    }
    set_keys(&t, l, g->name.text);
    set_options(&t, &g->unit, 0);
    return end(&t);
}

static void set_stage(struct text *t, const struct instance *in)
{
    char endpoint[ENDPOINT_MAX];

    if (in->worker->layers.text != NULL) {
        set(t, "layers", in->worker->layers.text);
    } else {
        set_number(t, "stages", in->worker->stages.v);
    }
    cluster_listen_at(endpoint, in->host, in->stage_port);
    set(t, "stage-listen", endpoint);
    cluster_endpoint(endpoint, in->host, in->stage_port);
    set(t, "advertise", endpoint);
}

char *cluster_conf_worker(const struct layout *l, const struct instance *in)
{
    const struct cluster *c = l->cluster;
    const struct cluster_worker *w = in->worker;
    char endpoint[ENDPOINT_MAX], device[LAYOUT_DEVICE_MAX];
    struct text t;

    begin(&t);
    fputs(HEAD, t.to);
    set(&t, "name", in->name);
    cluster_endpoint(endpoint, l->router_host, c->router.workers_port.v);
    set(&t, "router", endpoint);
    set(&t, "model", cluster_model_find(c, w->model.text)->path.text);
    set(&t, "model-name", w->model.text);
    if (w->device.text != NULL) {
        set(&t, "device", cluster_device(device, in));
    }
    if (w->memory.text != NULL) {
        set(&t, "memory", w->memory.text);
    }
    if (in->stage_port > 0) {
        set_stage(&t, in);
    }
    set_keys(&t, l, in->name);
    set_options(&t, &w->unit, in->number);
    return end(&t);
}

/* In a unit, '%' begins a specifier, and quotes and backslashes are escaped. */
static void put_quoted(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '%') {
            fputc('%', to);
        } else if (*text == '"' || *text == '\\') {
            fputc('\\', to);
        }
        fputc(*text, to);
    }
}

char *cluster_conf_unit(const struct cluster_unit *u)
{
    struct text t;

    if (!u->memory_max.given && u->cpus.text == NULL && u->environment.n == 0) {
        return NULL;
    }
    begin(&t);
    fputs(HEAD "[Service]\n", t.to);
    if (u->memory_max.given) {
        fprintf(t.to, "MemoryMax=%" PRIu64 "\n", u->memory_max.v);
    }
    if (u->cpus.text != NULL) {
        fprintf(t.to, "CPUAffinity=%s\n", u->cpus.text);
    }
    for (size_t i = 0; i < u->environment.n; i++) {
        fprintf(t.to, "Environment=\"%s=", u->environment.item[i].name.text);
        put_quoted(t.to, u->environment.item[i].value.text);
        fputs("\"\n", t.to);
    }
    return end(&t);
}

#include "client/cluster/cluster_check.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cluster/cluster_ports.h"
#include "client/cluster/cluster_stages.h"
#include "common/base/memory.h"
#include "common/base/near.h"
#include "common/base/option.h"
#include "common/base/quote.h"
#include "gateway/args.h"
#include "router/args.h"

/* ---- names that refer to others ---- */

static void check_host(const struct cluster *c, const struct cluster_text *name,
                       struct faults *f)
{
    struct near near;

    if (name->text == NULL || cluster_host_find(c, name->text) != NULL) {
        return;
    }
    near = near_to(name->text, strlen(name->text));
    for (size_t i = 0; i < c->n_hosts; i++) {
        if (c->hosts[i].name.text != NULL) {
            near_offer(&near, c->hosts[i].name.text);
        }
    }
    faults_add(f, name->at, "host %s is not in hosts%s%s%s",
               quote(name->text).text,
               near.best != NULL ? "; did you mean " : "",
               near.best != NULL ? near.best : "",
               near.best != NULL ? "?" : "; add it there");
}

static void check_model(const struct cluster *c,
                        const struct cluster_text *name, struct faults *f)
{
    struct near near;

    if (name->text == NULL || cluster_model_find(c, name->text) != NULL) {
        return;
    }
    near = near_to(name->text, strlen(name->text));
    for (size_t i = 0; i < c->n_models; i++) {
        near_offer(&near, c->models[i].name.text);
    }
    faults_add(f, name->at, "model %s is not in models%s%s%s",
               quote(name->text).text,
               near.best != NULL ? "; did you mean " : "",
               near.best != NULL ? near.best : "",
               near.best != NULL ? "?" : "; add it there");
}

static void check_references(const struct cluster *c, struct faults *f)
{
    check_host(c, &c->router.host, f);
    for (size_t i = 0; i < c->n_gateways; i++) {
        check_host(c, &c->gateways[i].host, f);
    }
    for (size_t i = 0; i < c->n_workers; i++) {
        check_host(c, &c->workers[i].host, f);
        check_model(c, &c->workers[i].model, f);
    }
}

/* ---- names of keys ---- */

/* Everything that has a key, and thus a name of its own. */
struct named {
    const char *name, *what;
    struct place at;
};

static void check_names(const struct named *all, size_t n, struct faults *f)
{
    for (size_t i = 0; i < n; i++) {
        if (strlen(all[i].name) > CLUSTER_NAME_MAX) {
            faults_add(f, all[i].at,
                       "%s %s: with its number the name has %zu bytes; at most "
                       "%d are allowed",
                       all[i].what, all[i].name, strlen(all[i].name),
                       CLUSTER_NAME_MAX);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(all[i].name, all[k].name) == 0) {
                faults_add(f, all[i].at,
                           "%s %s: the %s in line %u has this name; every "
                           "daemon and admin needs a name of its own",
                           all[i].what, all[i].name, all[k].what,
                           all[k].at.line);
                break;
            }
        }
    }
}

static void collect_names(const struct layout *l, struct faults *f)
{
    const struct cluster *c = l->cluster;
    struct named *all = memory_must(
        calloc(1 + c->n_gateways + l->n + c->n_admins, sizeof *all));
    size_t n = 0;

    all[n++] = (struct named){c->router.name.text, "router", c->router.name.at};
    for (size_t i = 0; i < c->n_gateways; i++) {
        if (c->gateways[i].name.text != NULL) {
            all[n++] = (struct named){c->gateways[i].name.text, "gateway",
                                      c->gateways[i].name.at};
        }
    }
    for (size_t i = 0; i < l->n; i++) {
        all[n++] = (struct named){l->instances[i].name, "worker",
                                  l->instances[i].worker->name.at};
    }
    for (size_t i = 0; i < c->n_admins; i++) {
        if (c->admins[i].text != NULL) {
            all[n++] =
                (struct named){c->admins[i].text, "admin", c->admins[i].at};
        }
    }
    check_names(all, n, f);
    free(all);
}

/* ---- addresses ---- */

/* A host name of DNS: labels of letters, digits and dashes. */
static bool is_dns_name(const char *s)
{
    size_t label = 0, n = strlen(s);

    for (size_t i = 0; i < n; i++) {
        bool dash = s[i] == '-';

        if (s[i] == '.' ? label == 0 : !isalnum((unsigned char)s[i]) && !dash) {
            return false;
        }
        if (dash && (label == 0 || s[i + 1] == '.' || s[i + 1] == '\0')) {
            return false;
        }
        label = s[i] == '.' ? 0 : label + 1;
        if (label > 63) {
            return false;
        }
    }
    return n > 0 && n <= 200;
}

/* Digits and dots alone are a mistyped address, and no name. */
static bool is_address(const char *s)
{
    return cluster_is_ip(s) ||
           (is_dns_name(s) && strspn(s, "0123456789.") != strlen(s));
}

static void check_address(const struct cluster *c, size_t i, struct faults *f)
{
    const struct cluster_host *h = &c->hosts[i];

    if (!is_address(h->address.text)) {
        faults_add(f, h->address.at,
                   "address %s: an IPv4 or IPv6 address without brackets, or a "
                   "host name, is required, without a port",
                   quote(h->address.text).text);
    } else if (c->keys_dir.text == NULL &&
               !cluster_is_loopback(h->address.text)) {
        faults_add(f, h->address.at,
                   "address %s is not loopback, and connections between "
                   "machines need keys; add keys: {dir: keys}",
                   h->address.text);
    }
    for (size_t k = 0; k < i; k++) {
        if (c->hosts[k].address.text != NULL &&
            strcmp(c->hosts[k].address.text, h->address.text) == 0) {
            faults_add(f, h->address.at,
                       "address %s is also that of the host in line %u; two "
                       "entries of one machine get one bundle each",
                       h->address.text, c->hosts[k].address.at.line);
        }
    }
}

static void check_addresses(const struct cluster *c, struct faults *f)
{
    for (size_t i = 0; i < c->n_hosts; i++) {
        const struct cluster_text *bind = &c->hosts[i].bind;

        if (c->hosts[i].address.text != NULL) {
            check_address(c, i, f);
        }
        if (bind->text != NULL && !cluster_is_ip(bind->text)) {
            faults_add(f, bind->at,
                       "bind %s: an IP address of the host is required, or "
                       "0.0.0.0 or :: for all",
                       quote(bind->text).text);
        }
    }
}

/* ---- values of workers ---- */

static bool is_memory(const char *text)
{
    uint64_t bytes;
    char *end;
    double share = strtod(text, &end);

    if (*end == '\0' && strchr(text, '.') != NULL &&
        strpbrk(text, "xX") == NULL) {
        return share > 0 && share <= 1;
    }
    return option_bytes(text, &bytes) && bytes > 0;
}

static void check_worker(const struct cluster_worker *w, struct faults *f)
{
    if (w->memory.text != NULL && !is_memory(w->memory.text)) {
        faults_add(f, w->memory.at,
                   "memory %s: a size such as 24GiB, or a share such as 0.5, "
                   "is required",
                   quote(w->memory.text).text);
    }
    if (w->layers.text != NULL && w->stages.given) {
        faults_add(f, w->stages.at,
                   "stages lets the router assign layers, and layers sets "
                   "them; give one of the two");
    }
    if (w->stage_port.given && !cluster_worker_is_stage(w)) {
        faults_add(f, w->stage_port.at,
                   "stage_port has no effect without layers or stages; "
                   "remove it");
    }
    if (w->stage_port.given &&
        w->stage_port.v + w->count.v > (uint64_t)UINT16_MAX + 1) {
        faults_add(f, w->stage_port.at,
                   "stage_port %" PRIu64 " with count %" PRIu64
                   ": the last port would be %" PRIu64 "; at most 65535",
                   w->stage_port.v, w->count.v,
                   w->stage_port.v + w->count.v - 1);
    }
}

/* ---- what the daemons take ---- */

/* The fault is at the worker that is one too many. */
static void check_most_workers(const struct cluster *c, struct faults *f)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *w = &c->workers[i];

        if (n <= ROUTER_WORKERS_MAX && n + w->count.v > ROUTER_WORKERS_MAX) {
            faults_add(f, w->count.given ? w->count.at : w->name.at,
                       "worker %s: with its count there are %" PRIu64
                       " workers; a router takes at most %d",
                       w->name.text, n + w->count.v, ROUTER_WORKERS_MAX);
        }
        n += w->count.v;
    }
}

static void check_most_models(const struct cluster *c, struct faults *f)
{
    if (c->n_gateways > 0 && c->n_models > SERVED_MODELS_MAX) {
        const struct cluster_text *first = &c->models[SERVED_MODELS_MAX].name;

        faults_add(f, first->at,
                   "model %s is number %d; a gateway serves at most %d models",
                   first->text, SERVED_MODELS_MAX + 1, SERVED_MODELS_MAX);
    }
}

/* A host has one unit sluice-gateway.service. */
static void check_gateways(const struct cluster *c, struct faults *f)
{
    for (size_t i = 0; i < c->n_gateways; i++) {
        const struct cluster_text *host = &c->gateways[i].host;

        for (size_t k = 0; k < i && host->text != NULL; k++) {
            const struct cluster_text *other = &c->gateways[k].host;

            if (other->text != NULL && strcmp(host->text, other->text) == 0) {
                faults_add(f, host->at,
                           "host %s has the gateway in line %u; one host runs "
                           "one gateway",
                           host->text, other->at.line);
                break;
            }
        }
    }
}

void cluster_check(const struct layout *l, struct faults *f)
{
    const struct cluster *c = l->cluster;

    check_references(c, f);
    check_addresses(c, f);
    collect_names(l, f);
    for (size_t i = 0; i < c->n_workers; i++) {
        check_worker(&c->workers[i], f);
    }
    check_gateways(c, f);
    check_most_workers(c, f);
    check_most_models(c, f);
    cluster_ports_check(l, f);
    cluster_stages_check(c, f);
    faults_sort(f);
}

/* ---- notes ---- */

static bool host_is_used(const struct layout *l, const struct cluster_host *h)
{
    const struct cluster *c = l->cluster;

    if (l->router_host == h) {
        return true;
    }
    for (size_t i = 0; i < c->n_gateways; i++) {
        if (cluster_host_find(c, c->gateways[i].host.text) == h) {
            return true;
        }
    }
    for (size_t i = 0; i < l->n; i++) {
        if (l->instances[i].host == h) {
            return true;
        }
    }
    return false;
}

static bool model_is_used(const struct layout *l, const struct cluster_model *m)
{
    for (size_t i = 0; i < l->n; i++) {
        if (cluster_model_find(l->cluster,
                               l->instances[i].worker->model.text) == m) {
            return true;
        }
    }
    return false;
}

void cluster_notes(const struct layout *l, struct faults *notes)
{
    const struct cluster *c = l->cluster;

    for (size_t i = 0; i < c->n_hosts; i++) {
        if (c->hosts[i].name.text != NULL && !host_is_used(l, &c->hosts[i])) {
            faults_add(notes, c->hosts[i].name.at, "host %s runs nothing",
                       c->hosts[i].name.text);
        }
    }
    for (size_t i = 0; i < c->n_models; i++) {
        if (!model_is_used(l, &c->models[i])) {
            faults_add(notes, c->models[i].name.at,
                       "model %s has no worker; requests for it wait",
                       c->models[i].name.text);
        }
    }
}

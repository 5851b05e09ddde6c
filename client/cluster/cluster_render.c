#include "client/cluster/cluster_render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cluster/cluster_conf.h"
#include "text/file.h"

#define UNIT_DIR "etc/systemd/system/"

static bool has_router(const struct render *r, const struct cluster_host *h)
{
    return r->layout->router_host == h;
}

static const struct cluster_gateway *gateway_of(const struct layout *l,
                                                const struct cluster_host *h)
{
    const struct cluster *c = l->cluster;

    for (size_t i = 0; i < c->n_gateways; i++) {
        if (cluster_host_find(c, c->gateways[i].host.text) == h) {
            return &c->gateways[i];
        }
    }
    return NULL;
}

bool cluster_render_has(const struct layout *l, const struct cluster_host *h)
{
    if (l->router_host == h || gateway_of(l, h) != NULL) {
        return true;
    }
    for (size_t i = 0; i < l->n; i++) {
        if (l->instances[i].host == h) {
            return true;
        }
    }
    return false;
}

/* ---- keys ---- */

static enum status add_file(struct bundle *b, const struct render *r,
                            const char *file, const char *to, struct error *e)
{
    char path[CERTIFICATE_PATH_MAX];
    char *bytes;
    size_t n;
    enum status st;

    snprintf(path, sizeof path, "%.3900s/%s", r->keys_dir, file);
    st = file_read(path, CURVE_CERT_BYTES_MAX, &bytes, &n, e);
    if (st == ST_OK) {
        bundle_add(b, to, bytes, n);
        explicit_bzero(bytes, n);
        free(bytes);
    }
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", path);
}

/* Adds the secret key of a daemon under a name that a rotation keeps. */
static enum status add_key(struct bundle *b, const struct render *r,
                           const char *name, struct error *e)
{
    char to[BUNDLE_PATH_MAX];
    const struct certificate_entry *key;

    if (r->keys_dir == NULL) {
        return ST_OK;
    }
    key = certificate_newest(r->keys, name);
    if (key == NULL) {
        return error_set(e, ST_NOT_FOUND, "%s has no %s.key", r->keys_dir,
                         name);
    }
    snprintf(to, sizeof to, "etc/sluice/keys/%s.key", name);
    return add_file(b, r, key->file, to, e);
}

/* Every host that trusts the name gets the file, under its own name. */
static enum status check_public(const struct render *r,
                                const struct certificate_entry *cert,
                                struct error *e)
{
    char file[sizeof cert->file];

    snprintf(file, sizeof file, "%.60s.cert", cert->cert.name);
    if (strcmp(file, cert->file) != 0) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "%s/%s has the certificate %s; remove it, or name it "
                         "%s",
                         r->keys_dir, cert->file, cert->cert.name, file);
    }
    return !cert->cert.has_secret
               ? ST_OK
               : error_set(e, ST_FAILED_PRECONDITION,
                           "%s/%s has a secret key, which no other host may "
                           "get; replace it by the public certificate",
                           r->keys_dir, cert->file);
}

/* Adds all certificates of a name, once. */
static enum status add_trust(struct bundle *b, const struct render *r,
                             const char *name, struct error *e)
{
    enum status st = ST_OK;

    for (size_t i = 0; r->keys_dir != NULL && i < r->certs->n; i++) {
        const struct certificate_entry *cert = &r->certs->item[i];
        char to[BUNDLE_PATH_MAX];

        snprintf(to, sizeof to, "etc/sluice/trust/%s", cert->file);
        if (cert->readable && strcmp(cert->cert.identity.name, name) == 0 &&
            bundle_find(b, to) == NULL) {
            st = check_public(r, cert, e);
            st = st == ST_OK ? add_file(b, r, cert->file, to, e) : st;
        }
        if (st != ST_OK) {
            return st;
        }
    }
    return ST_OK;
}

/* ---- daemons ---- */

/* Adds and frees a text. */
static void add_text(struct bundle *b, const char *path, char *text)
{
    if (text != NULL) {
        bundle_add(b, path, text, strlen(text));
    }
    free(text);
}

static void add_unit(struct bundle *b, const char *unit,
                     const struct cluster_unit *u)
{
    char path[BUNDLE_PATH_MAX];

    bundle_add_unit(b, unit);
    snprintf(path, sizeof path, UNIT_DIR "%s.d/50-cluster.conf", unit);
    add_text(b, path, cluster_conf_unit(u));
}

static enum status add_router(struct bundle *b, const struct render *r,
                              struct error *e)
{
    const struct cluster *c = r->layout->cluster;
    enum status st = add_key(b, r, c->router.name.text, e);

    add_text(b, "etc/sluice/router.conf", cluster_conf_router(r->layout));
    add_unit(b, "sluice-router.service", &c->router.unit);
    for (size_t i = 0; i < c->n_gateways && st == ST_OK; i++) {
        st = add_trust(b, r, c->gateways[i].name.text, e);
    }
    for (size_t i = 0; i < r->layout->n && st == ST_OK; i++) {
        st = add_trust(b, r, r->layout->instances[i].name, e);
    }
    for (size_t i = 0; i < c->n_admins && st == ST_OK; i++) {
        st = add_trust(b, r, c->admins[i].text, e);
    }
    return st;
}

static enum status add_gateway(struct bundle *b, const struct render *r,
                               const struct cluster_gateway *g, struct error *e)
{
    enum status st = add_key(b, r, g->name.text, e);

    add_text(b, "etc/sluice/gateway.conf", cluster_conf_gateway(r->layout, g));
    add_unit(b, "sluice-gateway.service", &g->unit);
    if (r->api_keys != NULL) {
        bundle_add(b, "etc/sluice/api-keys", r->api_keys, strlen(r->api_keys));
    }
    return st == ST_OK
               ? add_trust(b, r, r->layout->cluster->router.name.text, e)
               : st;
}

/* Adds the certificates of the stages that may be next to this one. */
static enum status add_stages(struct bundle *b, const struct render *r,
                              const struct instance *in, struct error *e)
{
    enum status st = ST_OK;

    for (size_t i = 0; i < r->layout->n && st == ST_OK; i++) {
        const struct instance *other = &r->layout->instances[i];

        if (other->stage_port > 0 && other != in &&
            strcmp(other->worker->model.text, in->worker->model.text) == 0) {
            st = add_trust(b, r, other->name, e);
        }
    }
    return st;
}

static enum status add_worker(struct bundle *b, const struct render *r,
                              const struct instance *in, struct error *e)
{
    char path[BUNDLE_PATH_MAX], unit[BUNDLE_NAME_MAX];
    enum status st = add_key(b, r, in->name, e);

    snprintf(path, sizeof path, "etc/sluice/worker-%.40s.conf", in->name);
    add_text(b, path, cluster_conf_worker(r->layout, in));
    snprintf(unit, sizeof unit, "sluice-worker@%.40s.service", in->name);
    add_unit(b, unit, &in->worker->unit);
    st = st == ST_OK ? add_trust(b, r, r->layout->cluster->router.name.text, e)
                     : st;
    return st == ST_OK && in->stage_port > 0 ? add_stages(b, r, in, e) : st;
}

static enum status add_all(struct bundle *b, const struct render *r,
                           const struct cluster_host *h, struct error *e)
{
    const struct layout *l = r->layout;
    const struct cluster_gateway *g = gateway_of(l, h);
    enum status st = ST_OK;

    if (has_router(r, h)) {
        st = add_router(b, r, e);
    }
    for (size_t i = 0; i < l->n && st == ST_OK; i++) {
        if (l->instances[i].host == h) {
            st = add_worker(b, r, &l->instances[i], e);
        }
    }
    return st == ST_OK && g != NULL ? add_gateway(b, r, g, e) : st;
}

enum status cluster_render(struct bundle *out, const struct render *r,
                           const struct cluster_host *h, struct error *e)
{
    enum status st;

    *out = (struct bundle){0};
    snprintf(out->cluster, sizeof out->cluster, "%s",
             r->layout->cluster->name.text);
    snprintf(out->host, sizeof out->host, "%s", h->name.text);
    st = add_all(out, r, h, e);
    if (st != ST_OK) {
        bundle_free(out);
        return st;
    }
    bundle_sort(out);
    return ST_OK;
}

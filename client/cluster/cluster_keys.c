#include "client/cluster/cluster_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/wire/method.h"

/* Returns the roles that a key of a need gets. */
static uint8_t roles_of(const struct key_need *k)
{
    return k->role == BY_ADMIN ? BY_ADMIN | BY_CLIENT : k->role;
}

static void add(struct key_needs *k, const struct key_need *need)
{
    if (need->name != NULL) {
        k->item[k->n++] = *need;
    }
}

void cluster_keys_needed(struct key_needs *out, const struct layout *l)
{
    const struct cluster *c = l->cluster;

    *out = (struct key_needs){0};
    out->item = memory_must(
        calloc(1 + c->n_gateways + l->n + c->n_admins, sizeof *out->item));
    if (c->keys_dir.text == NULL) {
        return;
    }
    add(out, &(struct key_need){c->router.name.text, BY_ROUTER, l->router_host,
                                c->router.name.at});
    for (size_t i = 0; i < c->n_gateways; i++) {
        const struct cluster_gateway *g = &c->gateways[i];

        add(out,
            &(struct key_need){g->name.text, BY_CLIENT,
                               cluster_host_find(c, g->host.text), g->name.at});
    }
    for (size_t i = 0; i < l->n; i++) {
        const struct instance *in = &l->instances[i];

        add(out, &(struct key_need){in->name, BY_WORKER, in->host,
                                    in->worker->name.at});
    }
    for (size_t i = 0; i < c->n_admins; i++) {
        add(out, &(struct key_need){c->admins[i].text, BY_ADMIN, NULL,
                                    c->admins[i].at});
    }
}

void cluster_keys_free(struct key_needs *k)
{
    free(k->item);
    *k = (struct key_needs){0};
}

void cluster_keys_dir(char out[CERTIFICATE_PATH_MAX], const struct cluster *c,
                      const char *base)
{
    cluster_path(out, CERTIFICATE_PATH_MAX, base, c->keys_dir.text);
}

/* ---- check ---- */

/* Both kinds of files in the folder. */
struct folder {
    const char *dir;
    struct certificate_list keys, certs;
};

static void check_entry(const struct folder *d, const struct key_need *need,
                        const struct certificate_entry *entry, struct faults *f)
{
    char has[CERTIFICATE_ROLES_TEXT], wants[CERTIFICATE_ROLES_TEXT];

    if (!entry->readable) {
        faults_add(f, need->at, "%s", entry->fault);
    } else if (strcmp(entry->cert.identity.name, need->name) != 0) {
        faults_add(f, need->at, "%s/%s: the name in it is %s, not %s", d->dir,
                   entry->file, entry->cert.identity.name, need->name);
    } else if ((entry->cert.identity.roles & need->role) == 0) {
        faults_add(f, need->at,
                   "%s/%s has the role %s, but %s needs %s; make the key again "
                   "with keygen --force, or use another name",
                   d->dir, entry->file,
                   certificate_roles_text(has, entry->cert.identity.roles),
                   need->name, certificate_roles_text(wants, roles_of(need)));
    }
}

static void check_pair(const struct folder *d, const struct key_need *need,
                       const struct certificate_entry *key,
                       const struct certificate_entry *cert, struct faults *f)
{
    if (key->readable && !key->cert.has_secret) {
        faults_add(f, need->at, "%s/%s has no secret key", d->dir, key->file);
    }
    if (cert->readable && cert->cert.has_secret) {
        faults_add(f, need->at,
                   "%s/%s has a secret key, which no other host may get; "
                   "replace it by the public certificate",
                   d->dir, cert->file);
    }
    if (key->readable && cert->readable &&
        memcmp(key->cert.identity.key, cert->cert.identity.key, KEY_BYTES) !=
            0) {
        faults_add(f, need->at,
                   "%s/%s and %s are of different keys; restore the pair, or "
                   "make a new one with keygen --force",
                   d->dir, key->file, cert->file);
    }
}

/* Returns false if the key is missing and can be made. */
static bool check_need(const struct folder *d, const struct key_need *need,
                       struct faults *f)
{
    const struct certificate_entry *key =
        certificate_newest(&d->keys, need->name);
    const struct certificate_entry *cert =
        certificate_newest(&d->certs, need->name);

    if (key == NULL && cert == NULL) {
        return false;
    }
    if (key == NULL || cert == NULL) {
        faults_add(f, need->at,
                   "%s has %s but no %s.%s; restore it, or make a new pair "
                   "with keygen --force",
                   d->dir, key == NULL ? cert->file : key->file, need->name,
                   key == NULL ? "key" : "cert");
        return true;
    }
    check_entry(d, need, key, f);
    check_entry(d, need, cert, f);
    check_pair(d, need, key, cert, f);
    return true;
}

/* A folder that is missing has no keys yet. */
static bool open_folder(struct folder *d, struct error *e)
{
    enum status st = certificate_list(&d->keys, d->dir, ".key", e);

    if (st == ST_OK) {
        st = certificate_list(&d->certs, d->dir, ".cert", e);
    }
    return st == ST_OK || st == ST_NOT_FOUND;
}

static void close_folder(struct folder *d)
{
    certificate_list_free(&d->keys);
    certificate_list_free(&d->certs);
}

void cluster_keys_check(const struct key_needs *k, const char *dir,
                        struct place at, struct faults *f, struct faults *notes)
{
    struct folder d = {.dir = dir};
    size_t missing = 0;
    struct error e;

    if (k->n == 0) {
        return;
    }
    if (!open_folder(&d, &e)) {
        faults_add(f, at, "%s", e.text);
        close_folder(&d);
        return;
    }
    for (size_t i = 0; i < k->n; i++) {
        missing += check_need(&d, &k->item[i], f) ? 0 : 1;
    }
    if (missing > 0) {
        faults_add(notes, at,
                   "%zu of %zu keys are not in %s yet; render makes them",
                   missing, k->n, dir);
    }
    close_folder(&d);
    faults_sort(f);
}

enum status cluster_keys_make(const struct key_needs *k, const char *dir,
                              void (*made)(void *arg,
                                           const struct curve_cert *c),
                              void *arg, struct error *e)
{
    struct folder d = {.dir = dir};
    enum status st = open_folder(&d, e) ? ST_OK : e->code;

    for (size_t i = 0; i < k->n && st == ST_OK; i++) {
        const struct key_need *need = &k->item[i];
        struct curve_cert c;

        if (certificate_newest(&d.keys, need->name) == NULL &&
            certificate_newest(&d.certs, need->name) == NULL) {
            st = certificate_write(&c, dir, need->name, roles_of(need), false,
                                   e);
            if (st == ST_OK) {
                made(arg, &c);
            }
        }
    }
    close_folder(&d);
    return st;
}

/* cluster_file.c - The tables of fields, and the functions that fill them. */
#include "client/cluster/cluster_file.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/cluster/daemon_options.h"
#include "common/base/memory.h"
#include "common/base/near.h"
#include "common/base/option.h"
#include "common/base/quote.h"
#include "proto/limits.h"
#include "text/file.h"

enum kind {
    NAME,        /* the name of a key */
    TEXT,        /* any text */
    PORT,        /* 1 to 65535 */
    COUNT,       /* 1 to most */
    SIZE,        /* bytes */
    ENVIRONMENT, /* NAME: VALUE */
    OPTIONS      /* of a daemon */
};

struct field {
    const char *name;
    enum kind kind;
    size_t offset;
    bool required;
    uint64_t most;        /* of COUNT */
    enum daemon_kind who; /* of OPTIONS */
};

#define AT(type, member) offsetof(struct cluster_##type, member)
#define FIELD(type, name, KIND)                  \
    {                                            \
#name, KIND, AT(type, name), false, 0, 0 \
    }
#define NEEDED(type, name, KIND)                \
    {                                           \
#name, KIND, AT(type, name), true, 0, 0 \
    }
#define COUNTED(type, name, most)                    \
    {                                                \
#name, COUNT, AT(type, name), false, most, 0 \
    }
#define UNIT(type, daemon)                                                     \
    {"memory_max", SIZE, AT(type, unit.memory_max), false, 0, 0},              \
        {"cpus", TEXT, AT(type, unit.cpus), false, 0, 0},                      \
        {"environment", ENVIRONMENT, AT(type, unit.environment), false, 0, 0}, \
    {                                                                          \
        "options", OPTIONS, AT(type, unit.options), false, 0, daemon           \
    }

static const struct field host_fields[] = {
    NEEDED(host, address, TEXT),
    FIELD(host, bind, TEXT),
    FIELD(host, memory, SIZE),
};

static const struct field model_fields[] = {
    NEEDED(model, path, TEXT),
    FIELD(model, here, TEXT),
};

static const struct field router_fields[] = {
    FIELD(router, name, NAME),         NEEDED(router, host, TEXT),
    FIELD(router, workers_port, PORT), FIELD(router, clients_port, PORT),
    UNIT(router, DAEMON_ROUTER),
};

static const struct field gateway_fields[] = {
    NEEDED(gateway, name, NAME),
    NEEDED(gateway, host, TEXT),
    FIELD(gateway, listen, TEXT),
    UNIT(gateway, DAEMON_GATEWAY),
};

static const struct field worker_fields[] = {
    NEEDED(worker, name, NAME),
    NEEDED(worker, host, TEXT),
    NEEDED(worker, model, TEXT),
    FIELD(worker, device, TEXT),
    FIELD(worker, memory, TEXT),
    FIELD(worker, layers, TEXT),
    COUNTED(worker, count, CLUSTER_WORKERS_MAX),
    COUNTED(worker, stages, STAGES_MAX),
    FIELD(worker, stage_port, PORT),
    UNIT(worker, DAEMON_WORKER),
};

static const struct field tenant_fields[] = {
    COUNTED(tenant, requests, 1000000000),
    COUNTED(tenant, tokens, 1000000000),
    COUNTED(tenant, streams, 1000000),
};

static const char *const sections[] = {"cluster", "keys",    "hosts",
                                       "models",  "router",  "gateways",
                                       "workers", "tenants", "admins"};

static void *zeroed(size_t n, size_t size)
{
    void *p = memory_must(calloc(n > 0 ? n : 1, size));

    return p;
}

enum status cluster_name_check(const char *name, struct error *e)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    size_t n = strlen(name);

    if (n == 0 || n > CLUSTER_NAME_MAX || strspn(name, allowed) != n ||
        strchr("._-", name[0]) != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s: a name has 1 to %d letters, digits, dots, "
                         "dashes and underscores, and begins with a letter or "
                         "a digit",
                         quote(name).text, CLUSTER_NAME_MAX);
    }
    return ST_OK;
}

/* ---- values ---- */

/* Returns the text of a value, or NULL after adding a fault: it is missing, or
 * a list or a map. */
static const char *text_of(const struct tree_node *v, const char *name,
                           struct faults *f)
{
    if (v->kind != TREE_TEXT) {
        faults_add(f, v->at, "%.60s is %s; a single value is required", name,
                   yaml_tree_kind(v->kind));
        return NULL;
    }
    if (v->text[0] == '\0') {
        faults_add(f, v->at, "%.60s has no value", name);
        return NULL;
    }
    return v->text;
}

static bool whole(const char *text, uint64_t *out)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 18 || text[n] != '\0') {
        return false;
    }
    *out = strtoull(text, NULL, 10);
    return true;
}

static void take_count(struct cluster_number *out, const struct tree_node *v,
                       const char *name, uint64_t most, struct faults *f)
{
    const char *text = text_of(v, name, f);
    uint64_t number = 0;

    if (text == NULL) {
        return;
    }
    if (!whole(text, &number) || number < 1 || number > most) {
        faults_add(f, v->at, "%s %s: a whole number from 1 to %llu is required",
                   name, quote(text).text, (unsigned long long)most);
        return;
    }
    *out = (struct cluster_number){number, v->at, true};
}

static void take_size(struct cluster_number *out, const struct tree_node *v,
                      const char *name, struct faults *f)
{
    const char *text = text_of(v, name, f);
    uint64_t bytes;

    if (text == NULL) {
        return;
    }
    if (!option_bytes(text, &bytes) || bytes == 0 || bytes > SHARD_BYTES_MAX) {
        faults_add(f, v->at,
                   "%s %s: a size such as 512MiB or 64GiB is required", name,
                   quote(text).text);
        return;
    }
    *out = (struct cluster_number){bytes, v->at, true};
}

static void take_name(struct cluster_text *out, const struct tree_node *v,
                      const char *what, struct faults *f)
{
    const char *text = text_of(v, what, f);
    struct error e;

    if (text == NULL) {
        return;
    }
    if (cluster_name_check(text, &e) != ST_OK) {
        faults_add(f, v->at, "%s %s", what, e.text);
        return;
    }
    *out = (struct cluster_text){text, v->at};
}

static void add_pair(struct cluster_pairs *to, const struct tree_node *key,
                     const struct tree_node *value)
{
    to->item[to->n++] =
        (struct cluster_pair){{key->text, key->at}, {value->text, value->at}};
}

/* A value of an environment reaches systemd in double quotes. */
static void take_variable(struct cluster_pairs *to, const struct tree_node *key,
                          const struct tree_node *v, struct faults *f)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz_0123456789";

    if (key->text[0] == '\0' ||
        strspn(key->text, letters) != strlen(key->text) ||
        strchr("0123456789", key->text[0]) != NULL) {
        faults_add(f, key->at,
                   "environment %s: a variable has letters, digits and "
                   "underscores",
                   quote(key->text).text);
    } else if (v->kind != TREE_TEXT) {
        faults_add(f, v->at, "environment %s is %s; a single value is required",
                   key->text, yaml_tree_kind(v->kind));
    } else {
        add_pair(to, key, v);
    }
}

/* Takes one value of an option; a list has several. */
static void take_option(struct cluster_pairs *to, enum daemon_kind who,
                        const struct tree_node *key, const struct tree_node *v,
                        struct faults *f)
{
    struct error e;

    if (v->kind != TREE_TEXT) {
        faults_add(f, v->at, "%.60s is %s; a single value is required",
                   key->text, yaml_tree_kind(v->kind));
    } else if (daemon_option_check(who, key->text, v->text, &e) != ST_OK) {
        faults_add(f, e.code == ST_NOT_FOUND ? key->at : v->at, "%s", e.text);
    } else {
        add_pair(to, key, v);
    }
}

static void take_options(struct cluster_pairs *to, const struct field *field,
                         const struct tree_node *key, const struct tree_node *v,
                         struct faults *f)
{
    if (field->kind == ENVIRONMENT) {
        take_variable(to, key, v, f);
    } else if (v->kind == TREE_LIST &&
               daemon_option_is_list(field->who, key->text)) {
        for (size_t i = 0; i < v->n; i++) {
            take_option(to, field->who, key, v->items[i], f);
        }
    } else {
        take_option(to, field->who, key, v, f);
    }
}

/* Returns the most pairs that a map can give: lists count each item. */
static size_t count_pairs(const struct tree_node *map)
{
    size_t n = 0;

    for (size_t i = 0; i + 1 < map->n; i += 2) {
        n += map->items[i + 1]->kind == TREE_LIST ? map->items[i + 1]->n : 1;
    }
    return n;
}

static bool is_kind(const struct tree_node *v, enum tree_kind kind,
                    const char *name, const char *example, struct faults *f)
{
    if (v->kind != kind) {
        faults_add(f, v->at, "%.60s is %s; %s is required: %s", name,
                   v->kind == TREE_TEXT && v->text[0] == '\0'
                       ? "empty"
                       : yaml_tree_kind(v->kind),
                   yaml_tree_kind(kind), example);
    }
    return v->kind == kind;
}

static void take_pairs(struct cluster_pairs *to, const struct field *field,
                       const struct tree_node *v, struct faults *f)
{
    if (!is_kind(v, TREE_MAP, field->name, "NAME: VALUE", f)) {
        return;
    }
    to->item = zeroed(count_pairs(v), sizeof *to->item);
    for (size_t i = 0; i < v->n; i += 2) {
        take_options(to, field, v->items[i], v->items[i + 1], f);
    }
}

static void take_field(void *out, const struct field *field,
                       const struct tree_node *v, struct faults *f)
{
    void *at = (char *)out + field->offset;
    const char *text;

    switch (field->kind) {
    case NAME:
        take_name(at, v, field->name, f);
        break;
    case TEXT:
        text = text_of(v, field->name, f);
        *(struct cluster_text *)at = (struct cluster_text){text, v->at};
        break;
    case PORT:
        take_count(at, v, field->name, 65535, f);
        break;
    case COUNT:
        take_count(at, v, field->name, field->most, f);
        break;
    case SIZE:
        take_size(at, v, field->name, f);
        break;
    case ENVIRONMENT:
    case OPTIONS:
        take_pairs(at, field, v, f);
        break;
    }
}

/* ---- sections ---- */

/* A section that is a map of the fields in a table. */
struct table {
    const char *what; /* "a worker" */
    const struct field *fields;
    size_t n;
};

#define TABLE(what, fields)                            \
    {                                                  \
        what, fields, sizeof fields / sizeof *(fields) \
    }

static const struct table host_table = TABLE("a host", host_fields);
static const struct table model_table = TABLE("a model", model_fields);
static const struct table router_table = TABLE("the router", router_fields);
static const struct table gateway_table = TABLE("a gateway", gateway_fields);
static const struct table worker_table = TABLE("a worker", worker_fields);
static const struct table tenant_table = TABLE("a tenant", tenant_fields);

static void unknown_key(const struct tree_node *key, const struct near *near,
                        const char *what, struct faults *f)
{
    if (near->best != NULL) {
        faults_add(f, key->at, "%s: unknown key of %s; did you mean %s?",
                   quote(key->text).text, what, near->best);
    } else {
        faults_add(f, key->at,
                   "%s: unknown key of %s; docs/cluster.md lists the keys",
                   quote(key->text).text, what);
    }
}

static const struct field *
find_field(const struct table *t, const struct tree_node *key, struct faults *f)
{
    struct near near = near_to(key->text, strlen(key->text));

    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->fields[i].name, key->text) == 0) {
            return &t->fields[i];
        }
        near_offer(&near, t->fields[i].name);
    }
    unknown_key(key, &near, t->what, f);
    return NULL;
}

static const struct tree_node *value_of(const struct tree_node *map,
                                        const char *name)
{
    for (size_t i = 0; i + 1 < map->n; i += 2) {
        if (strcmp(map->items[i]->text, name) == 0) {
            return map->items[i + 1];
        }
    }
    return NULL;
}

/* Fills *out from a map. */
static void take_map(void *out, const struct table *t,
                     const struct tree_node *map, struct faults *f)
{
    for (size_t i = 0; i < map->n; i += 2) {
        const struct field *field = find_field(t, map->items[i], f);

        if (field != NULL) {
            take_field(out, field, map->items[i + 1], f);
        }
    }
    for (size_t i = 0; i < t->n; i++) {
        if (t->fields[i].required && value_of(map, t->fields[i].name) == NULL) {
            faults_add(f, map->at, "%s needs the key %s", t->what,
                       t->fields[i].name);
        }
    }
}

/* Returns whether n is past the limit, after adding a fault. */
static bool too_many(const struct tree_node *v, size_t n, size_t most,
                     const char *name, struct faults *f)
{
    if (n > most) {
        faults_add(f, v->at, "%zu %s; at most %zu are allowed", n, name, most);
    }
    return n > most;
}

/* Takes a map of names to maps.  Each struct begins with its name.  With
 * `any`, a name is any text, as of a model. */
static void take_named(const struct tree_node *v, const char *name, bool any,
                       const struct table *t, void *items, size_t size,
                       struct faults *f)
{
    for (size_t i = 0; i < v->n; i += 2) {
        char *out = (char *)items + i / 2 * size;
        struct cluster_text *called = (void *)out;

        if (any) {
            *called = (struct cluster_text){v->items[i]->text, v->items[i]->at};
        } else {
            take_name(called, v->items[i], name, f);
        }
        if (v->items[i + 1]->kind == TREE_MAP) {
            take_map(out, t, v->items[i + 1], f);
        } else if (t != &tenant_table || v->items[i + 1]->kind != TREE_TEXT ||
                   v->items[i + 1]->text[0] != '\0') {
            faults_add(f, v->items[i + 1]->at,
                       "%s %s must be a map of keys and values, not %s", name,
                       quote(v->items[i]->text).text,
                       yaml_tree_kind(v->items[i + 1]->kind));
        }
    }
}

/* Takes a list of maps. */
static void take_rows(const struct tree_node *v, const struct table *t,
                      void *items, size_t size, struct faults *f)
{
    for (size_t i = 0; i < v->n; i++) {
        if (is_kind(v->items[i], TREE_MAP, t->what, "- name: NAME", f)) {
            take_map((char *)items + i * size, t, v->items[i], f);
        }
    }
}

static void take_hosts(struct cluster *c, const struct tree_node *v,
                       struct faults *f)
{
    if (is_kind(v, TREE_MAP, "hosts", "NAME: {address: ADDRESS}", f) &&
        !too_many(v, v->n / 2, CLUSTER_HOSTS_MAX, "hosts", f)) {
        c->n_hosts = v->n / 2;
        c->hosts = zeroed(c->n_hosts, sizeof *c->hosts);
        take_named(v, "host", false, &host_table, c->hosts, sizeof *c->hosts,
                   f);
    }
}

/* A model's name goes into NAME=DIR and has the limits of the wire. */
static void check_model_names(const struct cluster *c, struct faults *f)
{
    for (size_t i = 0; i < c->n_models; i++) {
        const struct cluster_text *name = &c->models[i].name;
        size_t n = strlen(name->text);

        if (n == 0 || n > MODEL_NAME_MAX || strpbrk(name->text, "= ") != NULL) {
            faults_add(f, name->at,
                       "model %s: a name has 1 to %d bytes without blanks and "
                       "\"=\"",
                       quote(name->text).text, MODEL_NAME_MAX);
        }
    }
}

static void take_models(struct cluster *c, const struct tree_node *v,
                        struct faults *f)
{
    if (is_kind(v, TREE_MAP, "models", "NAME: {path: DIR}", f) &&
        !too_many(v, v->n / 2, CLUSTER_MODELS_MAX, "models", f)) {
        c->n_models = v->n / 2;
        c->models = zeroed(c->n_models, sizeof *c->models);
        take_named(v, "model", true, &model_table, c->models, sizeof *c->models,
                   f);
        check_model_names(c, f);
    }
}

static void take_tenants(struct cluster *c, const struct tree_node *v,
                         struct faults *f)
{
    if (is_kind(v, TREE_MAP, "tenants", "NAME: {streams: 32}", f) &&
        !too_many(v, v->n / 2, CLUSTER_NAMES_MAX, "tenants", f)) {
        c->n_tenants = v->n / 2;
        c->tenants = zeroed(c->n_tenants, sizeof *c->tenants);
        take_named(v, "tenant", false, &tenant_table, c->tenants,
                   sizeof *c->tenants, f);
    }
}

static void take_admins(struct cluster *c, const struct tree_node *v,
                        struct faults *f)
{
    if (!is_kind(v, TREE_LIST, "admins", "[NAME, NAME]", f) ||
        too_many(v, v->n, CLUSTER_NAMES_MAX, "admins", f)) {
        return;
    }
    c->admins = zeroed(v->n, sizeof *c->admins);
    for (size_t i = 0; i < v->n; i++) {
        take_name(&c->admins[c->n_admins++], v->items[i], "admin", f);
    }
}

static void take_gateways(struct cluster *c, const struct tree_node *v,
                          struct faults *f)
{
    if (is_kind(v, TREE_LIST, "gateways", "- name: NAME", f) &&
        !too_many(v, v->n, CLUSTER_GATEWAYS_MAX, "gateways", f)) {
        c->n_gateways = v->n;
        c->gateways = zeroed(v->n, sizeof *c->gateways);
        take_rows(v, &gateway_table, c->gateways, sizeof *c->gateways, f);
    }
}

static void take_workers(struct cluster *c, const struct tree_node *v,
                         struct faults *f)
{
    uint64_t n = 0;

    if (!is_kind(v, TREE_LIST, "workers", "- name: NAME", f) ||
        too_many(v, v->n, CLUSTER_WORKERS_MAX, "workers", f)) {
        return;
    }
    c->n_workers = v->n;
    c->workers = zeroed(v->n, sizeof *c->workers);
    take_rows(v, &worker_table, c->workers, sizeof *c->workers, f);
    for (size_t i = 0; i < c->n_workers; i++) {
        struct cluster_number *count = &c->workers[i].count;

        count->v = count->given ? count->v : 1;
        n += count->v;
    }
    (void)!too_many(v, n, CLUSTER_WORKERS_MAX, "workers, by their counts", f);
}

static void take_keys(struct cluster *c, const struct tree_node *v,
                      struct faults *f)
{
    static const struct field fields[] = {
        {"dir", TEXT, offsetof(struct cluster, keys_dir), true, 0, 0}};
    static const struct table table = TABLE("keys", fields);

    c->keys_at = v->at;
    if (is_kind(v, TREE_MAP, "keys", "{dir: keys}", f)) {
        take_map(c, &table, v, f);
    }
}

static void take_router(struct cluster *c, const struct tree_node *v,
                        struct faults *f)
{
    if (is_kind(v, TREE_MAP, "router", "{host: NAME}", f)) {
        c->router.at = v->at;
        c->router.given = true;
        take_map(&c->router, &router_table, v, f);
    }
}

static void take_cluster(struct cluster *c, const struct tree_node *v,
                         struct faults *f)
{
    take_name(&c->name, v, "cluster", f);
}

static void take_section(struct cluster *c, const struct tree_node *key,
                         const struct tree_node *v, struct faults *f)
{
    static void (*const takers[])(struct cluster *, const struct tree_node *,
                                  struct faults *) = {
        take_cluster,  take_keys,    take_hosts,   take_models, take_router,
        take_gateways, take_workers, take_tenants, take_admins};
    struct near near = near_to(key->text, strlen(key->text));

    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (strcmp(sections[i], key->text) == 0) {
            takers[i](c, v, f);
            return;
        }
        near_offer(&near, sections[i]);
    }
    unknown_key(key, &near, "the cluster file", f);
}

static void take_root(struct cluster *c, struct faults *f)
{
    static const char *const needed[] = {"cluster", "hosts", "models", "router",
                                         "workers"};
    const struct tree_node *root = c->tree;

    if (!is_kind(root, TREE_MAP, "the cluster file", "cluster: NAME", f)) {
        return;
    }
    for (size_t i = 0; i < root->n; i += 2) {
        take_section(c, root->items[i], root->items[i + 1], f);
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (value_of(root, needed[i]) == NULL) {
            faults_add(f, (struct place){0, 0}, "the section %s is missing",
                       needed[i]);
        }
    }
}

/* A value that the file leaves out. */
static void use_default(struct cluster_number *n, uint64_t v)
{
    n->v = n->given ? n->v : v;
}

void cluster_parse(struct cluster *out, const char *bytes, size_t n,
                   struct faults *faults)
{
    *out = (struct cluster){0};
    out->tree = yaml_tree_parse(bytes, n, faults);
    if (out->tree != NULL) {
        take_root(out, faults);
    }
    if (out->router.name.text == NULL) {
        out->router.name = (struct cluster_text){"router", out->router.at};
    }
    use_default(&out->router.workers_port, CLUSTER_WORKERS_PORT);
    use_default(&out->router.clients_port, CLUSTER_CLIENTS_PORT);
    faults_sort(faults);
}

enum status cluster_load(struct cluster *out, const char *path,
                         struct faults *faults, struct error *e)
{
    char *bytes;
    size_t n;
    enum status st;

    *out = (struct cluster){0};
    st = file_read(path, TREE_BYTES_MAX, &bytes, &n, e);
    if (st == ST_OK) {
        cluster_parse(out, bytes, n, faults);
        free(bytes);
    }
    return st == ST_OK ? ST_OK : error_wrap(e, "%s", path);
}

static void free_unit(struct cluster_unit *u)
{
    free(u->environment.item);
    free(u->options.item);
}

void cluster_free(struct cluster *c)
{
    free_unit(&c->router.unit);
    for (size_t i = 0; c->gateways != NULL && i < c->n_gateways; i++) {
        free_unit(&c->gateways[i].unit);
    }
    for (size_t i = 0; c->workers != NULL && i < c->n_workers; i++) {
        free_unit(&c->workers[i].unit);
    }
    free(c->hosts);
    free(c->models);
    free(c->gateways);
    free(c->workers);
    free(c->tenants);
    free(c->admins);
    yaml_tree_free(&c->tree);
    *c = (struct cluster){0};
}

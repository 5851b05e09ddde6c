#include "gateway/keys/keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "gateway/keys/keys_line.h"
#include "gateway/keys/tenant_state.h"

_Static_assert(KEYS_HASH_BYTES == SHA256_DIGEST_LENGTH, "SHA-256");

const struct limit_row keys_limits[] = {
#define X(name, value, unit, what) LIMIT_ROW(name, unit, what),
    KEYS_LIMIT_MAP(X)
#undef X
};

const size_t keys_limits_n = sizeof keys_limits / sizeof *keys_limits;

struct entry {
    uint8_t hash[KEYS_HASH_BYTES];
    struct tenant *tenant;
    bool is_operator;
};

struct keys {
    struct list tenants;   /* struct tenant */
    struct tenant *open;   /* the tenant of everyone; NULL: keys are required */
    struct entry *entries; /* [n], room for [size] */
    size_t n, size;
};

/* ---- tenants ---- */

static struct tenant *tenant_find(struct keys *k, const char *name)
{
    for (struct list *l = k->tenants.next; l != &k->tenants; l = l->next) {
        struct tenant *t = LIST_OF(l, struct tenant, node);

        if (strcmp(t->name, name) == 0) {
            return t;
        }
    }
    return NULL;
}

static struct tenant *tenant_new(struct keys *k, const char *name,
                                 const struct tenant_limits *limits)
{
    struct tenant *t = calloc(1, sizeof *t);

    if (t == NULL) {
        return NULL;
    }
    memcpy(t->name, name, strlen(name) + 1);
    t->limits = *limits;
    t->listed = true;
    list_append(&k->tenants, &t->node);
    return t;
}

static enum status no_memory(struct error *e)
{
    return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
}

/* ---- making keys ---- */

static enum status keys_make(struct keys **out, struct error *e)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return no_memory(e);
    }
    list_init(&(*out)->tenants);
    return ST_OK;
}

static enum status check_new(const struct keys *k, const struct keys_line *line,
                             struct error *e)
{
    if (k->n == KEYS_MAX) {
        return error_set(e, ST_OUT_OF_RANGE, "more than %d keys", KEYS_MAX);
    }
    for (size_t i = 0; i < k->n; i++) {
        if (memcmp(k->entries[i].hash, line->hash, KEYS_HASH_BYTES) == 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "an earlier line has the same hash");
        }
    }
    return ST_OK;
}

static enum status grow(struct keys *k, struct error *e)
{
    size_t size = k->size == 0 ? 16 : 2 * k->size;
    struct entry *entries;

    if (k->n < k->size) {
        return ST_OK;
    }
    entries = realloc(k->entries, size * sizeof *entries);
    if (entries == NULL) {
        return no_memory(e);
    }
    k->entries = entries;
    k->size = size;
    return ST_OK;
}

static enum status add(struct keys *k, const struct keys_line *line,
                       struct error *e)
{
    enum status st = check_new(k, line, e);
    struct tenant *t = tenant_find(k, line->tenant);

    if (st == ST_OK && t != NULL &&
        memcmp(&t->limits, &line->limits, sizeof t->limits) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "tenant %s has other limits on an earlier line; all "
                         "lines of a tenant need the same limits",
                         line->tenant);
    }
    if (st == ST_OK) {
        st = grow(k, e);
    }
    if (st == ST_OK && t == NULL) {
        t = tenant_new(k, line->tenant, &line->limits);
        st = t == NULL ? no_memory(e) : ST_OK;
    }
    if (st == ST_OK) {
        struct entry *entry = &k->entries[k->n++];

        memcpy(entry->hash, line->hash, sizeof entry->hash);
        entry->tenant = t;
        entry->is_operator = line->is_operator;
    }
    return st;
}

static enum status add_line(struct keys *k, const char *text, size_t n,
                            struct error *e)
{
    struct keys_line line;
    enum status st;

    if (n > KEYS_LINE_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "%zu bytes long, at most %d are allowed", n,
                         KEYS_LINE_BYTES);
    }
    st = keys_line_parse(text, n, &line, e);
    return st == ST_OK && !line.empty ? add(k, &line, e) : st;
}

static enum status add_lines(struct keys *k, const char *text, size_t n,
                             struct error *e)
{
    size_t begin = 0;

    if (n > KEYS_FILE_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "%zu bytes long, at most %d are allowed", n,
                         KEYS_FILE_BYTES);
    }
    for (size_t number = 1; begin < n; number++) {
        const char *end = memchr(text + begin, '\n', n - begin);
        size_t n_line = end != NULL ? (size_t)(end - text) - begin : n - begin;
        enum status st = add_line(k, text + begin, n_line, e);

        if (st != ST_OK) {
            error_wrap(e, "line %zu", number);
            return st;
        }
        begin += n_line + 1;
    }
    if (k->n == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "no key in the file; sluice-gateway --new-key TENANT "
                         "makes a key and its line");
    }
    return ST_OK;
}

enum status keys_parse(struct keys **out, const char *text, size_t n,
                       struct error *e)
{
    enum status st = keys_make(out, e);

    if (st == ST_OK) {
        st = add_lines(*out, text, n, e);
    }
    if (st != ST_OK) {
        keys_free(out);
    }
    return st;
}

enum status keys_open(struct keys **out, struct error *e)
{
    static const struct tenant_limits none = {.guaranteed = TENANT_STREAMS_MAX};
    enum status st = keys_make(out, e);

    if (st != ST_OK) {
        return st;
    }
    (*out)->open = tenant_new(*out, TENANT_DEFAULT, &none);
    if ((*out)->open == NULL) {
        keys_free(out);
        return no_memory(e);
    }
    return ST_OK;
}

void keys_free(struct keys **k)
{
    struct list *l;

    if (*k == NULL) {
        return;
    }
    while ((l = list_take(&(*k)->tenants)) != NULL) {
        free(LIST_OF(l, struct tenant, node));
    }
    free((*k)->entries);
    free(*k);
    *k = NULL;
}

/* ---- reload ---- */

/* Moves the tenants of `from` to k.  A tenant that k has already takes the new
 * limits and the new entries, and keeps its use. */
static void adopt(struct keys *k, struct keys *from)
{
    struct list *l;

    while ((l = list_take(&from->tenants)) != NULL) {
        struct tenant *t = LIST_OF(l, struct tenant, node);
        struct tenant *old = tenant_find(k, t->name);

        if (old == NULL) {
            list_append(&k->tenants, &t->node);
            continue;
        }
        old->limits = t->limits;
        old->listed = true;
        for (size_t i = 0; i < from->n; i++) {
            if (from->entries[i].tenant == t) {
                from->entries[i].tenant = old;
            }
        }
        free(t);
    }
}

static void unlist_all(struct keys *k)
{
    for (struct list *l = k->tenants.next; l != &k->tenants; l = l->next) {
        LIST_OF(l, struct tenant, node)->listed = false;
    }
}

static void free_unlisted(struct keys *k)
{
    struct list *next;

    for (struct list *l = k->tenants.next; l != &k->tenants; l = next) {
        struct tenant *t = LIST_OF(l, struct tenant, node);

        next = l->next;
        if (!t->listed && t->n_streams == 0) {
            list_remove(l);
            free(t);
        }
    }
}

enum status keys_replace(struct keys *k, const char *text, size_t n,
                         struct error *e)
{
    struct keys *from;
    /* Nothing can fail once the whole text is parsed. */
    enum status st = keys_parse(&from, text, n, e);

    if (st != ST_OK) {
        return st;
    }
    unlist_all(k);
    adopt(k, from);
    free_unlisted(k);
    free(k->entries);
    k->entries = from->entries;
    k->n = from->n;
    k->size = from->size;
    k->open = NULL;
    from->entries = NULL;
    keys_free(&from);
    return ST_OK;
}

/* ---- lookup ---- */

/* Returns the entry's index + 1, or 0.  The loop has no branch on a result and
 * no early end, so its time is the same for each key. */
static size_t entry_find(const struct keys *k, const uint8_t *hash)
{
    size_t found = 0;

    for (size_t i = 0; i < k->n; i++) {
        unsigned differs =
            (unsigned)CRYPTO_memcmp(k->entries[i].hash, hash, KEYS_HASH_BYTES);
        /* CRYPTO_memcmp() returns 0 to 255: 0 borrows from all bits. */
        size_t mask = ~(size_t)0 * (((differs - 1u) >> 8) & 1u);

        found |= mask & (i + 1);
    }
    return found;
}

/* Returns the entry of a presented key; NULL: none matches. */
static const struct entry *find(const struct keys *k, const char *key, size_t n)
{
    uint8_t hash[KEYS_HASH_BYTES];
    size_t found;

    if (SHA256((const unsigned char *)key, n, hash) == NULL) {
        return NULL;
    }
    found = entry_find(k, hash);
    return found != 0 ? &k->entries[found - 1] : NULL;
}

struct tenant *keys_find(struct keys *k, const char *key, size_t n)
{
    const struct entry *entry = k->open != NULL ? NULL : find(k, key, n);

    return entry != NULL ? entry->tenant : k->open;
}

bool keys_is_operator(struct keys *k, const char *key, size_t n)
{
    const struct entry *entry = k->open != NULL ? NULL : find(k, key, n);

    return entry != NULL ? entry->is_operator : k->open != NULL;
}

bool keys_are_open(const struct keys *k)
{
    return k->open != NULL;
}

size_t keys_n(const struct keys *k)
{
    return k->n;
}

void keys_each_tenant(struct keys *k, void (*fn)(void *arg, struct tenant *t),
                      void *arg)
{
    for (struct list *l = k->tenants.next; l != &k->tenants; l = l->next) {
        fn(arg, LIST_OF(l, struct tenant, node));
    }
}

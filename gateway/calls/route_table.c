#include "gateway/calls/route_table.h"

#include <assert.h>
#include <string.h>

static const struct route fixed[] = {
#define X(path, method, handler, public, label, help)    \
    {ROUTE_##handler,       path, HTTP_##method, public, \
     GATEWAY_ROUTE_##label, help, NULL},
    ROUTES(X)
#undef X
};

#define FIXED_N (sizeof fixed / sizeof *fixed)

static_assert(DIALECT_ROWS + FIXED_N <= ROUTE_ROWS,
              "the table has room for all routes");

void route_table_init(struct route_table *t, const struct dialect *const *list)
{
    /* Dialects come first, as people look for them first in --list-routes. */
    t->n = 0;
    for (; *list != NULL; list++) {
        const struct dialect *d = *list;

        assert(t->n < DIALECT_ROWS);
        t->rows[t->n++] = (struct route){.id = ROUTE_route_generate,
                                         .path = d->path,
                                         .method = HTTP_POST,
                                         .label = d->label,
                                         .help = d->help,
                                         .dialect = d};
    }
    memcpy(t->rows + t->n, fixed, sizeof fixed);
    t->n += FIXED_N;
}

static bool matches(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);

    return n > 1 && r->path[n - 1] == '/'
               ? strncmp(r->path, path, n) == 0 && path[n] != '\0'
               : strcmp(r->path, path) == 0;
}

static const struct route *find(const struct route_table *t, const char *path)
{
    for (size_t i = 0; i < t->n; i++) {
        if (matches(&t->rows[i], path)) {
            return &t->rows[i];
        }
    }
    return NULL;
}

#define VERSION "/v1"

const struct route *route_find(const struct route_table *t, const char *path)
{
    char alias[ROUTE_PATH_BYTES + sizeof VERSION] = VERSION;
    char *tail = alias + strlen(VERSION);
    size_t n = strlen(path);
    const struct route *r;

    if (n >= ROUTE_PATH_BYTES) {
        return find(t, path);
    }
    memcpy(tail, path, n + 1);
    if (n > 1 && tail[n - 1] == '/') {
        tail[--n] = '\0';
    }
    r = find(t, tail);
    if (r != NULL || n <= 1) {
        return r;
    }
    if (strncmp(tail, VERSION "/", sizeof VERSION) != 0) {
        return find(t, alias);
    }
    r = find(t, tail + strlen(VERSION));
    return r != NULL && strncmp(r->path, VERSION "/", sizeof VERSION) == 0
               ? NULL /* twice in front */
               : r;
}

/* Routes of dialects always need a key, so that those of ROUTES suffice. */
bool route_is_public(enum gateway_route label)
{
    for (size_t i = 0; i < FIXED_N; i++) {
        if (fixed[i].label == label) {
            return fixed[i].is_public;
        }
    }
    return false;
}

#include "gateway/calls/route_table.h"

#include <string.h>

const struct route routes[ROUTES_N] = {
#define X(path, method, handler, public, label, help) \
    {ROUTE_##handler, path, HTTP_##method, public, GATEWAY_ROUTE_##label, help},
    ROUTES(X)
#undef X
};

static bool matches(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);

    return r->path[n - 1] == '/'
               ? strncmp(r->path, path, n) == 0 && path[n] != '\0'
               : strcmp(r->path, path) == 0;
}

const struct route *route_find(const char *path)
{
    for (size_t i = 0; i < ROUTES_N; i++) {
        if (matches(&routes[i], path)) {
            return &routes[i];
        }
    }
    return NULL;
}

enum gateway_route route_label(const char *path)
{
    const struct route *r = route_find(path);

    return r != NULL ? r->label : GATEWAY_ROUTE_OTHER;
}

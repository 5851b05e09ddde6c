#include "gateway/calls/access.h"

#include <strings.h>

/* Returns the key of "Authorization: Bearer KEY", or of "x-api-key: KEY" as
 * Anthropic's clients have it; NULL if there is none. */
static const char *key_of(const struct http_exchange *x, size_t *n)
{
    static const char scheme[] = "Bearer ";
    const char *value = http_header(x, "authorization", n);

    if (value == NULL || *n < sizeof scheme - 1 ||
        strncasecmp(value, scheme, sizeof scheme - 1) != 0) {
        *n = 0;
        return http_header(x, "x-api-key", n);
    }
    value += sizeof scheme - 1;
    *n -= sizeof scheme - 1;
    while (*n > 0 && *value == ' ') {
        value++;
        --*n;
    }
    return value;
}

struct tenant *access_tenant(const struct service *c,
                             const struct http_exchange *x)
{
    size_t n;
    const char *key = key_of(x, &n);

    return keys_find(c->options.keys, key, n);
}

bool access_is_operator(const struct service *c, const struct http_exchange *x)
{
    size_t n;
    const char *key = key_of(x, &n);

    return keys_is_operator(c->options.keys, key, n);
}

bool access_has_key(const struct http_exchange *x)
{
    size_t n;

    return key_of(x, &n) != NULL;
}

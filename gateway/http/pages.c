#include "gateway/http/pages.h"

#include <string.h>
#include <strings.h>

#include "common/base/local_host.h"

bool http_page_host_valid(const char *name)
{
    return strcmp(name, "*") == 0 ||
           (name[0] != '\0' && strlen(name) < LOCAL_HOST_BYTES &&
            strpbrk(name, "/ \t\r\n\",;?#@\\[]*") == NULL &&
            (strchr(name, ':') == NULL ||
             strchr(name, ':') != strrchr(name, ':')));
}

static bool is_ours(const char *host, size_t n,
                    const struct http_page_rules *rules)
{
    char name[LOCAL_HOST_BYTES];

    if (!host_name_copy(host, n, name)) {
        return false;
    }
    for (unsigned i = 0; i < rules->n_hosts; i++) {
        if (strcmp(rules->hosts[i], "*") == 0 ||
            strcasecmp(rules->hosts[i], name) == 0) {
            return true;
        }
    }
    return host_name_is_local(name);
}

static bool is_our_origin(const char *origin,
                          const struct http_page_rules *rules)
{
    size_t n;
    const char *host = origin_host(origin, &n);

    return host != NULL && is_ours(host, n, rules);
}

static bool has(const struct http_exchange *x, const char *name,
                const char *value)
{
    const char *text = http_header(x, name, NULL);

    return text != NULL && strcasecmp(text, value) == 0;
}

/* A browser shows the answer to the person, not to the page with the link. */
static bool follows_link(const struct http_exchange *x)
{
    enum http_method m = http_method_of(x);

    return (m == HTTP_GET || m == HTTP_HEAD) &&
           has(x, "sec-fetch-mode", "navigate");
}

const char *http_page_refusal(const struct http_exchange *x,
                              const struct http_page_rules *rules)
{
    size_t n;
    const char *host = http_header(x, "host", &n);
    const char *origin = http_header(x, "origin", NULL);

    if (rules->cors != NULL && strcmp(rules->cors, "*") == 0) {
        return NULL;
    }
    if (host != NULL && !is_ours(host, n, rules)) {
        return "the Host header names another machine; without keys only this "
               "machine is served: use a loopback name, or give the gateway "
               "--allow-host NAME or --keys";
    }
    if (origin != NULL) {
        if (rules->cors != NULL && strcasecmp(rules->cors, origin) == 0) {
            return NULL;
        }
        if (!is_our_origin(origin, rules)) {
            return "a page of another host may not use this server; see --cors";
        }
    }
    if (has(x, "sec-fetch-site", "cross-site") && !follows_link(x)) {
        return "a page of another site may not use this server; see --cors";
    }
    return NULL;
}

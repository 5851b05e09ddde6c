#include "client/load/drive/target.h"

#include <string.h>

#include "client/load/drive/ask.h"
#include "common/base/quote.h"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

const struct target_ops *target_of(const char *endpoint)
{
    if (begins(endpoint, "http://") || begins(endpoint, "https://")) {
        return &http_target;
    }
    if (begins(endpoint, "tcp://") || begins(endpoint, "ipc://")) {
        return &native_target;
    }
    return NULL;
}

enum status target_ask(const struct target_options *o, struct target_facts *out,
                       struct error *e)
{
    const struct target_ops *kind = target_of(o->endpoint);

    *out = (struct target_facts){0};
    if (kind == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--target %s is no endpoint; write tcp://HOST:PORT "
                         "or ipc://PATH of a router, or http://HOST:PORT",
                         quote(o->endpoint).text);
    }
    return kind == &http_target ? http_ask(o, out, e) : native_ask(o, out, e);
}

#include "client/load/drive/kind.h"

#include <string.h>

#include "client/load/drive/ask.h"
#include "client/load/drive/http_target.h"
#include "client/load/drive/native_target.h"
#include "common/base/affix.h"
#include "common/base/quote.h"

enum kind kind_of(const char *endpoint)
{
    if (starts_with(endpoint, "http://") || starts_with(endpoint, "https://")) {
        return KIND_HTTP;
    }
    if (starts_with(endpoint, "tcp://") || starts_with(endpoint, "ipc://")) {
        return KIND_NATIVE;
    }
    return KIND_NONE;
}

const struct target_ops *kind_ops(enum kind kind)
{
    return kind == KIND_HTTP     ? &http_target
           : kind == KIND_NATIVE ? &native_target
                                 : NULL;
}

enum status kind_ask(const struct target_options *o, struct target_facts *out,
                     struct error *e)
{
    *out = (struct target_facts){0};
    switch (kind_of(o->endpoint)) {
    case KIND_HTTP:
        return http_ask(o, out, e);
    case KIND_NATIVE:
        return native_ask(o, out, e);
    default:
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--target %s is no endpoint; write tcp://HOST:PORT "
                         "or ipc://PATH of a router, or http://HOST:PORT",
                         quote(o->endpoint).text);
    }
}

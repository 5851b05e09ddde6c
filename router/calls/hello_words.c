#include "router/calls/hello_words.h"

#include <inttypes.h>
#include <string.h>

#include "router/fleet/workers.h"

/* Copies a word, whose length was checked. */
static void copy(char *out, bool has, ProtobufCBinaryData word)
{
    if (has) {
        memcpy(out, word.data, word.len);
    }
    out[has ? word.len : 0] = '\0';
}

struct hello_words hello_words_of_shard(const Sluice__V1__WorkerShard *s)
{
    struct hello_words w;

    copy(w.format, s->has_kv_format, s->kv_format);
    copy(w.arithmetic, s->has_arithmetic, s->arithmetic);
    return w;
}

struct hello_words hello_words_of_offer(const Sluice__V1__WorkerOffer *o)
{
    struct hello_words w;

    copy(w.format, o->has_kv_format, o->kv_format);
    copy(w.arithmetic, o->has_arithmetic, o->arithmetic);
    return w;
}

static bool same_arithmetic(const struct hello_words *w,
                            const struct router_options *o,
                            const struct model *m)
{
    return o->mixed_arithmetic ||
           shard_words_agree(m->arithmetic, w->arithmetic);
}

enum status hello_words_check(const struct hello_words *w,
                              const struct router_options *o,
                              const struct model *m, uint32_t n,
                              struct error *e)
{
    if (n > 0 && !shard_words_agree(m->kv_format, w->format)) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "model %s: the KV cache is %s, but that of the "
                         "%" PRIu32 " connected workers is %s; start all "
                         "workers of a model with the same --kv-dtype, "
                         "--kv-bits, --kv-group and --kv-scheme",
                         m->name, w->format, n, m->kv_format);
    }
    if (n > 0 && !same_arithmetic(w, o, m)) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "model %s: the arithmetic is %s, but that of the "
                         "%" PRIu32 " connected workers is %s; start all "
                         "workers of a model with the same --products on the "
                         "same kind of device, or the router with "
                         "--mixed-arithmetic",
                         m->name, w->arithmetic, n, m->arithmetic);
    }
    return ST_OK;
}

bool hello_words_go_on(const struct hello_words *w,
                       const struct router_options *o, const struct model *m)
{
    return shard_words_agree(m->kv_format, w->format) &&
           same_arithmetic(w, o, m);
}

void hello_words_learn(const struct hello_words *w, struct model *m)
{
    if (m->kv_format[0] == '\0') {
        memcpy(m->kv_format, w->format, sizeof m->kv_format);
    }
    if (m->arithmetic[0] == '\0') {
        memcpy(m->arithmetic, w->arithmetic, sizeof m->arithmetic);
    }
}

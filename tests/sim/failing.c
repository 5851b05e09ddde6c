#include "tests/sim/failing.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "client/lib/client_core.h"
#include "common/wire/frame.h"
#include "common/wire/hello.h"
#include "common/wire/wire.h"
#include "gateway/gateway_core.h"
#include "router/router_core.h"
#include "tests/sim/sim.h"
#include "worker/stages/offer.h"
#include "worker/worker_core.h"

struct failing failing;

void *failing_malloc(size_t bytes);
void *failing_calloc(size_t n, size_t bytes);
void *failing_realloc(void *p, size_t bytes);
void failing_free(void *p);
char *failing_strdup(const char *s);

static bool fails(void)
{
    uint64_t n;

    if (failing.off) {
        return false;
    }
    n = ++failing.n;
    if (failing.before) {
        failing.before(n);
    }
    if (failing.fail_at == 0 || n < failing.fail_at ||
        n > failing.fail_at + failing.run) {
        return false;
    }
    sim_short = true;
    return true;
}

static void *counted(void *p)
{
    failing.live += p != NULL;
    return p;
}

void *failing_malloc(size_t bytes)
{
    return fails() ? NULL : counted(malloc(bytes));
}

void *failing_calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : counted(calloc(n, bytes));
}

void *failing_realloc(void *p, size_t bytes)
{
    if (fails()) {
        return NULL;
    }
    return p != NULL ? realloc(p, bytes) : counted(malloc(bytes));
}

char *failing_strdup(const char *s)
{
    return fails() ? NULL : counted(strdup(s));
}

void failing_free(void *p)
{
    failing.live -= p != NULL;
    free(p);
}

/* ---- the simulator's: counted, since some change hands, but whole ---- */

void *own_malloc(size_t bytes);
void *own_calloc(size_t n, size_t bytes);
void *own_realloc(void *p, size_t bytes);
void own_free(void *p);
char *own_strdup(const char *s);

void *own_malloc(size_t bytes)
{
    return counted(malloc(bytes));
}

void *own_calloc(size_t n, size_t bytes)
{
    return counted(calloc(n, bytes));
}

void *own_realloc(void *p, size_t bytes)
{
    return p != NULL ? realloc(p, bytes) : counted(malloc(bytes));
}

char *own_strdup(const char *s)
{
    return counted(strdup(s));
}

void own_free(void *p)
{
    failing_free(p);
}

/* ---- the start of the programs ---- */

#define START(type, name, params, args) \
    struct type *__real_##name params;  \
    struct type *__wrap_##name params;  \
    struct type *__wrap_##name params   \
    {                                   \
        struct type *made;              \
        bool off = failing.off;         \
                                        \
        failing.off = true;             \
        made = __real_##name args;      \
        failing.off = off;              \
        return made;                    \
    }

START(router_core, router_new,
      (const struct router_options *o, struct node_io *io), (o, io))
START(gateway_core, gateway_new,
      (const struct gateway_options *o, struct node_io *io,
       const struct http_io *http),
      (o, io, http))
START(client_core, client_core_new,
      (const struct client_options *o, struct node_io *io), (o, io))
START(worker_core, worker_new,
      (const struct worker_options *o, struct node_io *io, struct engine *e),
      (o, io, e))

START(offer, offer_new, (const struct offer_options *o, struct node_io *io),
      (o, io))

void __real_gateways_begin(struct sim *s, struct sim_node *n);
void __wrap_gateways_begin(struct sim *s, struct sim_node *n);
void __wrap_gateways_begin(struct sim *s, struct sim_node *n)
{
    failing.off = true;
    __real_gateways_begin(s, n);
    failing.off = false;
}

/* ---- what the simulator itself takes from the product ---- */

#define OWN(type, name, params, args) \
    type own_##name params;           \
    type own_##name params            \
    {                                 \
        type made;                    \
        bool off = failing.off;       \
                                      \
        failing.off = true;           \
        made = name args;             \
        failing.off = off;            \
        return made;                  \
    }

OWN(struct frame *, frame_new, (uint32_t bytes), (bytes))
OWN(struct frame *, frame_copy, (const struct frame *f), (f))
OWN(struct frame *, frame_make,
    (const struct frame_header *h, const uint8_t *e, const void *t), (h, e, t))
OWN(struct frame *, hello_make, (const ProtobufCMessage *m), (m))
OWN(struct frame *, goodbye_make, (uint64_t session, const char *why),
    (session, why))
OWN(enum status, wire_unpack,
    (struct arena * a, const ProtobufCMessageDescriptor *type,
     const uint8_t *body, size_t bytes, ProtobufCMessage **out,
     struct error *e),
    (a, type, body, bytes, out, e))
OWN(json_t *, json_loadb,
    (const char *text, size_t n, size_t flags, json_error_t *e),
    (text, n, flags, e))

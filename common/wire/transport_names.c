#include <stdio.h>

#include "common/base/log.h"
#include "common/base/monotonic.h"
#include "common/wire/transport_impl.h"

static void unresolved(struct transport *t, const char *host, const char *why)
{
    log_gate_write(&t->unresolved, monotonic_us(), "host=%s why=\"%s\"", host,
                   why);
}

bool transport_ask(struct transport *t, struct port *p, const char *host)
{
    struct error e;

    /* Made with the first name: a program that dials addresses starts no
     * thread. */
    if (t->resolver == NULL &&
        resolver_new(&t->resolver, t->lookup, t->lookup_arg, &e) != ST_OK) {
        unresolved(t, host, e.text);
        return false;
    }
    p->resolving = resolver_ask(t->resolver, p->id, host);
    if (!p->resolving) {
        unresolved(t, host, "too many names are being resolved");
    }
    return p->resolving;
}

/* Dials the address whose turn it is. */
static bool dial_answer(struct transport *t, struct port *p,
                        const struct resolver_answer *a)
{
    struct endpoint to;
    enum status st = endpoint_split(&to, p->endpoint, NULL);

    if (st != ST_OK || a->n == 0) {
        unresolved(t, to.host, a->why);
        return false;
    }
    if (!endpoint_join(p->at, a->addresses[p->tries % a->n], to.port)) {
        return false;
    }
    log_debug("host-resolved", "host=%s addresses=%u dialled=%s", to.host, a->n,
              p->at);
    return transport_dial_address(t, p);
}

void transport_take_answers(struct transport *t)
{
    struct resolver_answer a;

    while (resolver_take(t->resolver, &a)) {
        struct port *p = transport_dialled(t, (struct peer_id){a.id});

        if (p != NULL && p->resolving) {
            p->resolving = false;
            p->gone = !dial_answer(t, p, &a);
        }
    }
}

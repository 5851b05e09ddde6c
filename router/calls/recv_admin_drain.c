/* recv_admin_drain.c - Drain and Undrain of a worker, by its name. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/admin.pb-c.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/placement/drain.h"
#include "router/replicas/place.h"

/* Writes the names of all workers to out, as many as fit: "w1, w2, ...". */
static void list_names(const struct router_core *r, char *out, size_t cap)
{
    size_t at = 0;

    snprintf(out, cap, "none");
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const char *name = r->fleet.workers[i]->peer->name;

        if (at + strlen(name) + sizeof ", ..." > cap) {
            snprintf(out + at, cap - at, ", ...");
            return;
        }
        at += (size_t)snprintf(out + at, cap - at, "%s%s", i > 0 ? ", " : "",
                               name);
    }
}

/* Returns the worker of this name; NULL: the call was refused. */
static struct worker *find_worker(struct router_core *r,
                                  const struct incoming *in,
                                  ProtobufCBinaryData name)
{
    char names[200];

    if (!wire_text_ok(name, 1, PEER_NAME_MAX)) {
        refuse(in, ST_INVALID_ARGUMENT,
               "the worker's name must be 1..%d bytes of UTF-8", PEER_NAME_MAX);
        return NULL;
    }
    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        struct router_peer *p = r->fleet.workers[i]->peer;

        if (!p->ended && strlen(p->name) == name.len &&
            memcmp(p->name, name.data, name.len) == 0) {
            return p->worker;
        }
    }
    list_names(r, names, sizeof names);
    refuse(in, ST_NOT_FOUND, "no worker is named %.*s; connected workers: %s",
           (int)name.len, (const char *)name.data, names);
    return NULL;
}

void recv_admin_drain(struct router_core *r, const struct incoming *in,
                      const request_of_ADMIN_DRAIN *m)
{
    struct worker *w = find_worker(r, in, m->worker);

    if (w == NULL) {
        return;
    }
    if (m->grace_ms > GRACE_MS_MAX) {
        refuse(in, ST_INVALID_ARGUMENT,
               "grace_ms is %" PRIu32 ", at most %d is allowed", m->grace_ms,
               GRACE_MS_MAX);
        return;
    }
    drain_begin(&r->placement, w, in->peer, in->call, m->grace_ms, false);
}

/* Returns the stage of the place of w that is leaving; NULL: none. */
static const struct worker *leaving_stage(struct worker *w)
{
    const struct worker *place = worker_place(w);

    for (uint32_t i = 0; place != NULL && i < worker_n_stages(place); i++) {
        const struct worker *s = worker_stage(place, i);

        if (s != NULL && s->drain == DRAIN_LEAVES) {
            return s;
        }
    }
    return w->drain == DRAIN_LEAVES ? w : NULL;
}

void recv_admin_undrain(struct router_core *r, const struct incoming *in,
                        const request_of_ADMIN_UNDRAIN *m)
{
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    struct worker *w = find_worker(r, in, m->worker);
    const struct worker *leaves;

    if (w == NULL) {
        return;
    }
    leaves = leaving_stage(w);
    if (leaves != NULL) {
        refuse(in, ST_FAILED_PRECONDITION,
               "worker %s is stopping and cannot be undrained; start it "
               "again",
               leaves->peer->name);
        return;
    }
    drain_end(&r->placement, w);
    peer_end(in->peer->peer, in->call, &nothing.base);
}

#include "common/wire/door_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/method.h"
#include "common/wire/transport_limits.h"

#define TRUSTED_UNTAKEN 8 /* of the longest messages of a trusted peer */

_Static_assert(ZMTP_MESSAGE_MIN == FRAME_HEADER,
               "the shortest message is a frame's header");

/* libzmq's queue also has the user id of the connection. */
_Static_assert(DOOR_UNHEARD_MAX < TRANSPORT_HWM - 1,
               "the queue of a connection that is not read never becomes full");

static const struct door_limits limits = {.connections = DOOR_CONNECTIONS,
                                          .per_address = DOOR_CONNECTIONS -
                                                         DOOR_CONNECTIONS / 4,
                                          .rate = DOOR_ACCEPT_RATE,
                                          .burst = DOOR_ACCEPT_BURST,
                                          .handshakes = UINT32_MAX};

/* Clients may not take the descriptors of workers.  The self-test, whose port
 * is nobody's, needs the few that are left. */
static enum door_rank rank_of(const struct port *p)
{
    return p->allowed == 0                 ? DOOR_ALL
           : (p->allowed & BY_WORKER) != 0 ? DOOR_FIRST
                                           : DOOR_SECOND;
}

static struct door_config config_of(const struct port *p)
{
    uint64_t most = port_bytes_max(p);
    struct door_config c = {
        .limits = limits,
        .message_max = FRAME_BYTES_MAX,
        .trusted_max = most,
        .rank = rank_of(p),
        .curve = p->keys != NULL,
        .untaken_bytes = (int64_t)TRANSPORT_HWM * FRAME_BYTES_MAX,
        .trusted_untaken = p->tensors
                               ? (int64_t)(TRUSTED_UNTAKEN * most)
                               : (int64_t)TRANSPORT_HWM * FRAME_BYTES_MAX};

    if (c.curve) {
        c.limits.handshakes = DOOR_HANDSHAKES;
    }
    return c;
}

enum status door_watch_open(struct door_watch *w, const struct port *p,
                            struct error *e)
{
    const struct door_config c = config_of(p);
    unsigned door = w->n < DOOR_PORTS_MAX ? door_open(&c, w->due_us) : 0;

    if (door == 0) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%d ports of this process listen, which is the limit",
                         DOOR_PORTS_MAX);
    }
    w->ports[w->n++] = (struct door_watched){.door = door, .port = p};
    return ST_OK;
}

enum status door_watch_bound(const struct door_watch *w, struct error *e)
{
    if (door_listens(w->ports[w->n - 1].door)) {
        return ST_OK;
    }
    return error_set(e, ST_INTERNAL,
                     "this libzmq does not call the program's listen(), so "
                     "its connections cannot be guarded");
}

enum status door_watch_passed(unsigned door, struct error *e)
{
    struct door_counts c = door_counts(door);

    if (c.accepted == 1 && c.spoke == 1 && c.closed == 1) {
        return ST_OK;
    }
    return error_set(e, ST_INTERNAL,
                     "this libzmq does not call the program's accept4(), "
                     "recv() and close(), so its connections cannot be "
                     "guarded");
}

/* Returns the number of refused connections; *why: the commonest reason. */
static uint64_t refused_since(const struct door_counts *now,
                              const struct door_counts *then, const char **why)
{
    uint64_t sum = 0, most = 0;

    for (int v = 0; v < DOOR_VERDICT_NR; v++) {
        uint64_t n = now->refused[v] - then->refused[v];

        sum += n;
        if (n > most) {
            most = n;
            *why = door_verdict_text((enum door_verdict)v);
        }
    }
    return sum;
}

/* Peers without a key are denied, not cut. */
static uint64_t cut_since(const struct door_watched *p,
                          const struct door_counts *now,
                          const struct door_counts *then, const char **why)
{
    uint64_t sum = 0, most = 0;

    for (int f = 0; f < ZMTP_FAULT_NR; f++) {
        uint64_t n = now->cut[f] - then->cut[f];

        if (f == ZMTP_MECHANISM && p->port->keys != NULL) {
            continue;
        }
        sum += n;
        if (n > most) {
            most = n;
            *why = f == ZMTP_FINE ? "no message in time"
                                  : zmtp_fault_text((enum zmtp_fault)f);
        }
    }
    return sum;
}

void door_watch_deny(struct door_watch *w, unsigned i, enum node_denial why,
                     const char *who)
{
    struct door_watched *p = &w->ports[i];

    p->denied[why]++;
    snprintf(p->last, sizeof p->last, " last=%s", who);
}

/* Completes the denials of p with those that its door has counted.  A
 * connection whose key was denied ends unfinished a little later, so the
 * difference may fall for a moment. */
static void add_denied(struct door_watched *p, const struct door_counts *now)
{
    uint64_t judged =
        p->denied[DENIED_UNKNOWN_KEY] + p->denied[DENIED_WRONG_ROLE];
    uint64_t *shakes = &p->denied[DENIED_HANDSHAKE];

    if (p->port->keys == NULL) {
        return;
    }
    p->denied[DENIED_NO_KEY] = now->cut[ZMTP_MECHANISM] + now->unbegun;
    p->denied[DENIED_TOO_MANY] = now->refused[DOOR_SHAKING];
    if (now->unfinished > judged + *shakes) {
        *shakes = now->unfinished - judged;
    }
}

static void report_denied(struct door_watched *p, const struct door_counts *now)
{
    static const char *const labels[] = {
#define X(name, label) label,
        NODE_DENIALS(X)
#undef X
    };
    char text[160];
    size_t n = 0;

    add_denied(p, now);
    for (int i = 0; i < DENIED_NR; i++) {
        uint64_t more = p->denied[i] - p->denied_logged[i];

        if (more > 0 && n < sizeof text) {
            n += (size_t)snprintf(text + n, sizeof text - n, " %s=%" PRIu64,
                                  labels[i], more);
        }
    }
    if (n > 0) {
        log_warn("peers-denied", "port=%s%s%s", p->port->endpoint, text,
                 p->last);
    }
    memcpy(p->denied_logged, p->denied, sizeof p->denied);
    p->last[0] = '\0';
}

static void report(struct door_watched *p)
{
    struct door_counts now = door_counts(p->door);
    const char *why = "";
    uint64_t refused = refused_since(&now, &p->logged, &why), cut;

    if (refused > 0) {
        log_warn("connections-refused", "port=%s n=%" PRIu64 " why=\"%s\"",
                 p->port->endpoint, refused, why);
    }
    cut = cut_since(p, &now, &p->logged, &why);
    if (cut > 0) {
        log_warn("connections-cut", "port=%s n=%" PRIu64 " why=\"%s\"",
                 p->port->endpoint, cut, why);
    }
    report_denied(p, &now);
    p->logged = now;
}

void door_watch_turn(struct door_watch *w, int64_t now_us)
{
    if (w->n == 0 || now_us < w->due_us) {
        return;
    }
    w->due_us = now_us + DOOR_WATCH_US;
    for (unsigned i = 0; i < w->n; i++) {
        if (!w->ports[i].port->unread) { /* nothing has come since */
            door_drained(w->ports[i].door);
        }
        door_sweep(w->ports[i].door, now_us);
        report(&w->ports[i]);
    }
}

void door_watch_sweep(struct door_watch *w, int64_t now_us)
{
    for (unsigned i = 0; i < w->n; i++) {
        door_sweep(w->ports[i].door, now_us);
    }
}

void door_watch_counts(struct door_watch *w, struct node_counts *out)
{
    static const struct door_counts none;
    const char *why;

    *out = (struct node_counts){0};
    for (unsigned i = 0; i < w->n; i++) {
        struct door_watched *p = &w->ports[i];
        struct door_counts now = door_counts(p->door);

        out->accepted += now.accepted;
        out->refused += refused_since(&now, &none, &why);
        out->cut += cut_since(p, &now, &none, &why);
        add_denied(p, &now);
        for (int d = 0; d < DENIED_NR; d++) {
            out->denied[d] += p->denied[d];
        }
    }
}

void door_watch_close(struct door_watch *w)
{
    for (unsigned i = 0; i < w->n; i++) {
        door_close(w->ports[i].door);
    }
    w->n = 0;
}

#include <inttypes.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/base/quote.h"
#include "common/wire/identity.h"
#include "proto/registry.pb-c.h"
#include "router/calls/early.h"
#include "router/calls/hello_words.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/calls/worker_session.h"
#include "router/fleet/places.h"
#include "router/fleet/quarantine.h"
#include "router/replicas/offers.h"
#include "router/replicas/shard.h"
#include "router/requests/choice_moves.h"

#define LEDGER_MINOR 2 /* first minor version whose ledger has pages */

/* A Hello that is being judged.  The router's state must not change until it is
 * accepted: a refused Hello must have no side effects on other peers. */
struct hello {
    struct peer_id from;
    const Sluice__V1__HelloRequest *m;
    const struct identity *who; /* what its key proves; NULL: no keys */
    uint8_t role;               /* BY_* */
    uint32_t retry_ms;
    char name[PEER_NAME_MAX + 1], lineage[PEER_NAME_MAX + 1];
    struct router_peer *old; /* peer whose name it takes; or NULL */
    struct model *model;     /* model of a worker; a reference */
};

static void send_answer(struct router_core *r, const struct router_peer *p,
                        uint32_t minor)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct prefix_key key = r->placement.feeds.key;
    struct frame *f;

    reply.session = p->session;
    reply.version_major = WIRE_VERSION_MAJOR;
    reply.version_minor = hello_minor(minor);
    reply.name = wire_text(r->base.name);
    reply.has_your_name = true;
    reply.your_name = wire_text(p->name);
    /* Clients must not find prefixes of one hash: workers alone get the key. */
    reply.has_prefix_key = p->role == BY_WORKER;
    reply.prefix_key = (ProtobufCBinaryData){sizeof key.bytes, key.bytes};
    f = hello_answer(p->session, &reply.base, NULL, 0);
    hello_send(r->base.io, p->id, &f);
    FP(ROUTER_HELLO);
}

static void refuse_hello(struct router_core *r, const struct hello *h,
                         const struct error *e)
{
    struct frame *f = hello_answer(0, NULL, e, h->retry_ms);

    r->base.metrics.hellos_refused++;
    log_gate_write(&r->base.log.hello_refused, r->base.now_us,
                   "peer=%" PRIu32 "%s%s status=%s why=\"%s\"", h->from.v,
                   h->who != NULL ? " key=" : "",
                   h->who != NULL ? h->who->name : "", status_name(e->code),
                   e->text);
    hello_send(r->base.io, h->from, &f);
}

static enum status check_role(struct hello *h, struct error *e)
{
    const Sluice__V1__HelloRequest *m = h->m;
    enum status st = hello_check(&m->base, "this router", &h->role, e);

    if (st != ST_OK) {
        return st;
    }
    if ((m->worker != NULL || m->offer != NULL) != (h->role == BY_WORKER)) {
        return error_set(
            e, ST_INVALID_ARGUMENT,
            "the Hello of a worker has a shard or an offer, that of "
            "others has neither");
    }
    if (m->worker != NULL && m->offer != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the Hello of a worker has a shard or an offer, not "
                         "both");
    }
    return ST_OK;
}

/* Checks the role against the key, and makes the name from both.  With keys, a
 * peer thus never has the name of another key. */
static enum status check_identity(const struct router_core *r, struct hello *h,
                                  struct error *e)
{
    if (h->who == NULL && r->base.options.keyed && !PLANT(KEY_NOT_NEEDED)) {
        return error_set(e, ST_UNAUTHENTICATED,
                         "this router accepts connections with keys only");
    }
    if (!PLANT(ROLE_OF_HELLO) &&
        identity_check_role(h->who, h->role, e) != ST_OK) {
        return e->code;
    }
    return identity_name(PLANT(NAME_OF_HELLO) ? NULL : h->who, h->m->name,
                         "name", h->name, e);
}

/* Makes the lineage of a worker, whose message has been checked. */
static enum status check_lineage(struct hello *h, protobuf_c_boolean has,
                                 ProtobufCBinaryData lineage, struct error *e)
{
    if (!has) {
        memcpy(h->lineage, h->name, sizeof h->lineage);
        return ST_OK;
    }
    return identity_name(PLANT(LINEAGE_OF_HELLO) ? NULL : h->who, lineage,
                         "lineage", h->lineage, e);
}

/* Checks that peers of this role may use this port: the port for clients
 * rejects workers, and the reverse. */
static enum status check_port(struct router_core *r, const struct hello *h,
                              struct error *e)
{
    uint8_t allowed = r->base.io->port == NULL
                          ? BY_ALL
                          : r->base.io->port(r->base.io, h->from);

    if ((allowed & h->role) == 0) {
        return error_set(e, ST_PERMISSION_DENIED,
                         "%s may not connect to this port",
                         h->role == BY_WORKER   ? "a worker"
                         : h->role == BY_CLIENT ? "a client"
                                                : "an administrator");
    }
    return ST_OK;
}

static enum status check_capacity(struct router_core *r, struct hello *h,
                                  struct error *e)
{
    h->retry_ms = 1000;
    if (r->base.stopping) {
        return error_set(e, ST_UNAVAILABLE, "the router is stopping");
    }
    if (places_check(&r->fleet, h->role, e) != ST_OK) {
        return e->code;
    }
    if (h->m->worker != NULL && r->fleet.n_workers == ROUTER_WORKERS_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%d workers are connected, which is the limit",
                         ROUTER_WORKERS_MAX);
    }
    if (h->m->offer != NULL && r->replicas.offers.n == OFFERS_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%d workers wait for layers, which is the limit",
                         OFFERS_MAX);
    }
    h->retry_ms = 0;
    return ST_OK;
}

static enum status check_quarantine(struct router_core *r, struct hello *h,
                                    struct error *e)
{
    int64_t left_us = quarantine_left_us(&r->fleet, h->name);

    if (left_us == 0) {
        return ST_OK;
    }
    h->retry_ms = (uint32_t)(left_us / 1000) + 1;
    return error_set(e, ST_UNAVAILABLE,
                     "worker %s violated the protocol; it may reconnect in "
                     "%" PRIu32 " ms",
                     h->name, h->retry_ms);
}

/* A worker may take over its old session before the router has missed it.  A
 * name whose session is active belongs to another worker.  This holds for two
 * workers of one key too: if both are started with one --name, the second must
 * not end the session of the first, again and again. */
static enum status check_name(const struct router_core *r, struct hello *h,
                              struct error *e)
{
    const struct list *at = r->fleet.all_peers.next;

    for (; at != &r->fleet.all_peers; at = at->next) {
        struct router_peer *old = LIST_OF(at, struct router_peer, all);
        int64_t quiet_us = r->base.now_us - old->heard_us;

        if (old->role != BY_WORKER || old->ended ||
            strcmp(old->name, h->name) != 0) {
            continue;
        }
        if (quiet_us < NAME_BUSY_US) {
            h->retry_ms = NAME_BUSY_US / 1000;
            return error_set(
                e, ST_ALREADY_EXISTS,
                "a worker named %s is connected; its last frame came "
                "%" PRId64 " ms ago",
                old->name, quiet_us / 1000);
        }
        h->old = old;
        return ST_OK;
    }
    return ST_OK;
}

static enum status check_tokenizer(const struct router_core *r,
                                   const struct model *m,
                                   const Sluice__V1__WorkerShard *s,
                                   struct error *e)
{
    struct text_seam *t = r->base.options.text;
    const uint8_t *hash = m->has_text ? t->ops->hash(t, m->text) : NULL;

    if (hash != NULL &&
        (s->tokenizer.len != 16 || memcmp(s->tokenizer.data, hash, 16) != 0)) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "model %s: tokenizer.json differs from that of this "
                         "router",
                         m->name);
    }
    return ST_OK;
}

/* Returns the number of workers of m whose sessions continue if h is
 * accepted. */
static uint32_t n_staying(const struct router_core *r, const struct hello *h,
                          const struct model *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];

        n += w->model == m && w->peer != h->old && !w->peer->ended;
    }
    return n;
}

static enum status check_weights(const struct router_core *r,
                                 const struct hello *h, const struct model *m,
                                 ProtobufCBinaryData fingerprint,
                                 struct error *e)
{
    uint32_t n = n_staying(r, h, m);

    if (n > 0 && memcmp(m->fingerprint, fingerprint.data, 16) != 0) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "model %s: the weights differ from those of the "
                         "%" PRIu32 " connected workers",
                         m->name, n);
    }
    return ST_OK;
}

static enum status check_model(const struct router_core *r,
                               const struct hello *h, struct error *e)
{
    const Sluice__V1__WorkerShard *s = h->m->worker;
    const struct model *m = h->model;
    enum status st = check_weights(r, h, m, s->fingerprint, e);
    const struct hello_words words = hello_words_of_shard(s);

    if (st != ST_OK) {
        return st;
    }
    if (n_staying(r, h, m) > 0 && m->vocab != s->vocab) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "model %s: the vocabulary has %" PRIu32
                         " tokens, but that of the connected workers has "
                         "%" PRIu32,
                         m->name, s->vocab, m->vocab);
    }
    st = hello_words_check(&words, &r->base.options, m, n_staying(r, h, m), e);
    return st == ST_OK ? check_tokenizer(r, m, s, e) : st;
}

static enum status check_worker(struct router_core *r, struct hello *h,
                                struct error *e)
{
    const Sluice__V1__WorkerShard *s = h->m->worker;
    enum status st = shard_check(s, r->base.options.keyed, e);

    if (st == ST_OK) {
        st = check_lineage(h, s->has_lineage, s->lineage, e);
    }
    if (st == ST_OK) {
        st = check_quarantine(r, h, e);
    }
    if (st == ST_OK) {
        st = check_name(r, h, e);
    }
    if (st != ST_OK) {
        return st;
    }
    h->model = model_take(&r->fleet, s->model.data, s->model.len);
    if (h->model == NULL && r->fleet.n_models < ROUTER_MODELS_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         MEMORY_SENTENCE "the router has none left");
    }
    if (h->model == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%d models are served, which is the limit",
                         ROUTER_MODELS_MAX);
    }
    return check_model(r, h, e);
}

/* Checks an offer against weights, KV format and arithmetic of the model now:
 * layers of others would be refused after they are loaded. */
static enum status check_offer(struct router_core *r, struct hello *h,
                               struct error *e)
{
    const Sluice__V1__WorkerOffer *o = h->m->offer;
    enum status st = offer_check(o, r->base.options.keyed, e);
    const struct model *m;
    struct hello_words words;

    if (st == ST_OK) {
        st = check_lineage(h, o->has_lineage, o->lineage, e);
    }
    if (st == ST_OK) {
        st = check_quarantine(r, h, e);
    }
    if (st == ST_OK) {
        st = check_name(r, h, e);
    }
    if (st != ST_OK) {
        return st;
    }
    m = model_find(&r->fleet, o->model.data, o->model.len);
    if (m == NULL) {
        return ST_OK;
    }
    words = hello_words_of_offer(o);
    st = check_weights(r, h, m, o->fingerprint, e);
    return st == ST_OK ? hello_words_check(&words, &r->base.options, m,
                                           n_staying(r, h, m), e)
                       : st;
}

static bool same_life(const struct worker *w, const Sluice__V1__WorkerShard *s)
{
    /* The same life: the process survived, only its session ended. */
    return s != NULL && s->has_life && s->life == w->life.number;
}

/* Ends the old session of the name.  This happens when the new one is accepted,
 * so that the sequences of the old one have a place to go. */
static void take_name(struct router_core *r, const struct hello *h)
{
    struct router_peer *old = h->old;

    if (old == NULL) {
        return;
    }
    if (old->worker != NULL && !same_life(old->worker, h->m->worker)) {
        worker_died(old->worker, DEATH_LOST);
    }
    peers_end(&r->fleet, old, "%s reconnected on a new connection", old->name);
    if (old->worker != NULL) {
        worker_session_blame(r, old->worker);
    }
}

/* Sets the weights, vocabulary and words of the model, which its first worker
 * determines; each word by the first that states it. */
static void take_weights(struct router_core *r, const struct hello *h)
{
    const Sluice__V1__WorkerShard *s = h->m->worker;
    struct model *m = h->model;
    const struct hello_words w = hello_words_of_shard(s);

    if (n_staying(r, h, m) > 0) {
        hello_words_learn(&w, m);
        return;
    }
    if (memcmp(m->fingerprint, s->fingerprint.data, 16) != 0 ||
        !hello_words_go_on(&w, &r->base.options, m)) {
        peers_reap(&r->fleet); /* no sequence continues with other tokens */
        choices_estranged(&r->requests, m, m->vocab != s->vocab);
    }
    memcpy(m->fingerprint, s->fingerprint.data, 16);
    m->kv_format[0] = m->arithmetic[0] = '\0';
    hello_words_learn(&w, m);
    m->vocab = s->vocab;
}

static struct router_peer *add_peer(struct router_core *r,
                                    const struct hello *h)
{
    struct router_peer *p;

    places_make(&r->fleet, h->role);
    p = peers_add(&r->fleet, h->from, h->role, h->m->nonce);
    if (p == NULL) {
        return NULL;
    }
    p->minor = hello_minor(h->m->version_minor);
    p->keyed = h->who != NULL;
    if (p->keyed) {
        p->identity = *h->who;
    }
    memcpy(p->name, h->name, sizeof p->name);
    memcpy(p->lineage, h->lineage, sizeof p->lineage);
    return p;
}

static void log_up(struct router_core *r, const struct router_peer *p)
{
    if (p->worker != NULL) {
        log_gate_write(&r->base.log.worker_up, r->base.now_us,
                       "worker=%s model=%s blocks=%" PRIu32 " slots=%" PRIu32
                       " arithmetic=%s",
                       p->name, p->worker->model->name,
                       p->worker->ledger.classes[BLOCKS].total,
                       p->worker->ledger.classes[SLOTS].total,
                       quote(p->worker->shard.arithmetic).text);
    } else if (p->role != BY_WORKER) {
        log_gate_write(&r->base.log.client_up, r->base.now_us,
                       "client=%s role=%s peer=%" PRIu32, p->name,
                       identity_role(p->role), p->id.v);
    }
}

static void welcome(struct router_core *r, const struct hello *h)
{
    struct model *model = h->model;
    struct router_peer *p;

    take_name(r, h);
    if (h->m->worker != NULL) {
        take_weights(r, h);
    }
    p = add_peer(r, h);
    if (p == NULL) {
        model_release(&r->fleet, &model);
        return; /* the Hello comes again */
    }
    if (h->m->worker != NULL) {
        p->worker = worker_session_open(r, p, h->model, h->m->worker);
    }
    if ((h->m->worker != NULL && p->worker == NULL) ||
        (h->m->offer != NULL && !offer_open(&r->replicas, p, h->m->offer))) {
        if (p->worker == NULL) {
            model_release(&r->fleet, &model);
        }
        peers_end(&r->fleet, p, "the router is out of memory");
        return;
    }
    log_up(r, p);
    send_answer(r, p, h->m->version_minor);
    if (h->m->worker != NULL) {
        /* After the answer: a worker must get its Hello reply before a
         * Submit. */
        early_run(r);
    }
}

/* Counts the Hello for its role if the port admits that role.  A flood at the
 * port of clients that claims to be of workers is thus no burden to workers. */
static bool throttle_role(struct router_core *r, const struct hello *h,
                          enum status st)
{
    bool is_none = st == ST_INVALID_ARGUMENT || st == ST_PERMISSION_DENIED ||
                   st == ST_FAILED_PRECONDITION || st == ST_UNAUTHENTICATED;

    return hello_throttle_role(r->throttle, is_none ? 0 : h->role,
                               r->base.now_us);
}

/* Drops a Hello without an answer: its sender repeats it. */
static void drop_hello(struct router_core *r, struct peer_id from)
{
    r->base.metrics.hellos_throttled++;
    log_gate_write(&r->base.log.hello_throttled, r->base.now_us,
                   "peer=%" PRIu32 " why=\"too many Hellos at once\"", from.v);
}

/* The fields of window layers came with minor version 4: peers with an older
 * one that send them do not follow its rules. */
static enum status check_window_minor(const Sluice__V1__HelloRequest *m,
                                      struct error *e)
{
    const Sluice__V1__WorkerShard *s = m->worker;
    const Sluice__V1__WorkerOffer *o = m->offer;
    bool has_windows =
        (s != NULL &&
         (s->window_tokens | s->window_pages | s->chunk_tokens) != 0) ||
        (o != NULL &&
         (o->n_window_bytes > 0 || (o->window_tokens | o->chunk_tokens)));

    return m->version_minor >= WIRE_WINDOWS_MINOR || !has_windows
               ? ST_OK
               : error_set(e, ST_FAILED_PRECONDITION,
                           "your version is %" PRIu32 ".%" PRIu32
                           ", but a worker of a model with sliding windows "
                           "needs %d.%d or later: upgrade sluice-worker on its "
                           "host",
                           m->version_major, m->version_minor,
                           WIRE_VERSION_MAJOR, WIRE_WINDOWS_MINOR);
}

/* The columns of a ledger changed their meaning with minor version 2.  Peers
 * with an older one would be granted memory that they do not have. */
static enum status check_minor(const Sluice__V1__HelloRequest *m,
                               struct error *e)
{
    if (m->version_minor >= LEDGER_MINOR) {
        return check_window_minor(m, e);
    }
    return error_set(e, ST_FAILED_PRECONDITION,
                     "your version is %" PRIu32 ".%" PRIu32
                     ", but a worker needs %d.%d or later: upgrade "
                     "sluice-worker on its host",
                     m->version_major, m->version_minor, WIRE_VERSION_MAJOR,
                     LEDGER_MINOR);
}

static enum status check_peer(struct router_core *r, struct hello *h,
                              struct error *e)
{
    enum status st = check_capacity(r, h, e);

    if (st == ST_OK && h->role == BY_WORKER) {
        st = check_minor(h->m, e);
    }
    if (st == ST_OK && h->m->worker != NULL) {
        st = check_worker(r, h, e);
    }
    if (st == ST_OK && h->m->offer != NULL) {
        st = check_offer(r, h, e);
    }
    return st;
}

static void judge(struct router_core *r, struct hello *h)
{
    struct router_peer *p = peers_find(&r->fleet, h->from);
    struct error e;
    enum status st;

    if (p != NULL && p->nonce == h->m->nonce) {
        /* A repeated Hello: its answer is on the way. */
        send_answer(r, p, h->m->version_minor);
        return;
    }
    st = check_role(h, &e);
    if (st == ST_OK) {
        st = check_port(r, h, &e);
    }
    if (st == ST_OK) {
        st = check_identity(r, h, &e);
    }
    if (!throttle_role(r, h, st)) {
        drop_hello(r, h->from);
        return;
    }
    if (p != NULL) {
        st = error_set(&e, ST_FAILED_PRECONDITION,
                       "this connection already has a session; send Hello on a "
                       "new connection");
    } else if (st == ST_OK) {
        st = check_peer(r, h, &e);
    }
    if (st == ST_OK) {
        welcome(r, h);
    } else {
        if (PLANT(REFUSED_NAME)) {
            take_name(r, h);
        }
        if (PLANT(REFUSED_WEIGHTS) && h->model != NULL) {
            take_weights(r, h);
        }
        model_release(&r->fleet, &h->model);
        refuse_hello(r, h, &e);
    }
}

void recv_hello(struct router_core *r, struct peer_id from,
                const struct frame *f, const struct frame_header *header)
{
    const struct method_row *row = method_find(METHOD_REGISTRY_HELLO);
    struct hello h = {.from = from, .who = identity_of(r->base.io, from)};
    ProtobufCMessage *m;
    struct envelope v;
    struct error e;

    if (!hello_is_call(f, header, &v) || v.body_bytes > row->request_cap) {
        r->base.metrics.strikes++;
        return;
    }
    if (!hello_throttle_connection(r->throttle, from, r->base.now_us)) {
        drop_hello(r, from);
        return;
    }
    if (!arena_reserve(&r->base.arena, v.body_bytes)) {
        return; /* as if it were lost: its sender repeats it */
    }
    if (wire_unpack(&r->base.arena, row->request, v.body, v.body_bytes, &m,
                    &e) != ST_OK) {
        error_wrap(&e, "Hello");
        if (hello_throttle_role(r->throttle, 0, r->base.now_us)) {
            refuse_hello(r, &h, &e);
        } else {
            drop_hello(r, from);
        }
        return;
    }
    h.m = (const Sluice__V1__HelloRequest *)(const void *)m;
    judge(r, &h);
}

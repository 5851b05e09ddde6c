#include "tests/sim/keys.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"

#define KEYS_STREAM 101
#define BYTE_STREAM 1000000 /* and later: one for each key */

_Static_assert(KEYS_NODES == SIM_NODES, "one entry for each node");

void keys_init(struct sim *s)
{
    rng_init(&s->keys.chance, s->seed, KEYS_STREAM);
    s->keys.conn = KEYS_CONN;
}

uint32_t keys_of(const struct sim *s, uint32_t node)
{
    return s->options.keys.pooled && node_is_worker(node) ? SIM_FIRST_WORKER
                                                          : node;
}

static bool is_pooled(const struct sim *s, uint32_t node)
{
    return s->options.keys.on && s->options.keys.pooled && node_is_worker(node);
}

void keys_known_as(const struct sim *s, uint32_t node, char out[SIM_KNOWN_AS])
{
    (void)snprintf(out, SIM_KNOWN_AS, "%s%s", is_pooled(s, node) ? "pool/" : "",
                   s->nodes[node].name);
}

static uint8_t roles_of(uint32_t node)
{
    return node == SIM_ROUTER         ? BY_ROUTER
           : node_is_worker(node)     ? BY_WORKER
           : node == SIM_FIRST_CLIENT ? BY_ADMIN
                                      : BY_CLIENT;
}

void keys_make(const struct sim *s, uint32_t node, struct identity *out)
{
    uint32_t key = keys_of(s, node);
    struct rng r;

    memset(out, 0, sizeof(*out));
    (void)snprintf(out->name, sizeof(out->name), "%s",
                   is_pooled(s, node) ? "pool" : s->nodes[node].name);
    out->roles = roles_of(node);
    rng_init(&r, s->seed, BYTE_STREAM + key * 10000u + s->keys.generation[key]);
    for (uint32_t i = 0; i < KEY_BYTES; i++) {
        out->key[i] = (uint8_t)rng_u64(&r);
    }
}

const struct identity *keys_identity(struct sim *s, uint32_t node,
                                     struct peer_id who)
{
    static const struct identity crowd = {"crowd", BY_CLIENT | BY_ADMIN, {1}},
                                 other = {"other", BY_WORKER, {2}};
    const struct conn *c;

    if (!s->options.keys.on) {
        return NULL;
    }
    if (who.v == STRANGER_CONN) {
        return &other;
    }
    if (who.v >= CROWD_CONN) {
        return &crowd;
    }
    if (who.v >= KEYS_CONN) {
        return s->keys.stranger_keyed ? &s->keys.stranger : NULL;
    }
    c = network_conn(&s->network, who.v);
    return c ? &c->identity[c->listener == node ? END_PEER : END_ROUTER] : NULL;
}

/* ---- connections ---- */

void keys_wanted(struct sim *s, struct peer_id who, const uint8_t *key)
{
    struct conn *c = network_conn(&s->network, who.v);

    if ((key != NULL) != (s->options.keys.on != 0)) {
        sim_fail(s, -1, "%s connects to a stage %s a key",
                 s->nodes[c->node].name, key ? "with" : "without");
    } else if (key) {
        c->keyed = true;
        memcpy(c->wanted, key, KEY_BYTES);
    }
}

bool keys_admit(struct sim *s, struct conn *c)
{
    const struct keys *k = &s->keys;
    uint32_t listener = keys_of(s, c->listener);

    if (!s->options.keys.on) {
        return true;
    }
    if (k->removed[keys_of(s, c->node)] || k->removed[listener]) {
        s->counts.cells.deeds[DEED_KEY_REFUSED]++;
        return false;
    }
    keys_make(s, c->node, &c->identity[END_PEER]);
    keys_make(s, c->listener, &c->identity[END_ROUTER]);
    if (c->keyed &&
        memcmp(c->wanted, c->identity[END_ROUTER].key, KEY_BYTES) != 0) {
        return false;
    }
    s->counts.cells.deeds[DEED_KEY_NEXT] +=
        c->keyed && k->generation[listener] > 0;
    return true;
}

/* ---- the rules ---- */

static bool owns(const struct identity *id, const char *name)
{
    size_t n = strlen(id->name);

    return strncmp(id->name, name, n) == 0 &&
           (name[n] == '\0' || name[n] == '/');
}

static void check(struct sim *s, const struct router_session_view *v)
{
    const struct identity *id = keys_identity(s, SIM_ROUTER, v->id);
    uint8_t roles;

    if (!id) {
        sim_fail(s, -1, "a session of %s without a key", v->name);
        return;
    }
    roles = id->roles | (id->roles & BY_ADMIN ? BY_CLIENT : 0);
    if (!owns(id, v->name)) {
        sim_fail(s, -1, "the key %s has a session named %s", id->name, v->name);
    } else if (v->role == BY_WORKER && !owns(id, v->lineage)) {
        sim_fail(s, -1, "the key %s has the lineage %s", id->name, v->lineage);
    } else if (!(roles & v->role)) {
        sim_fail(s, -1, "the key %s has a session of role %u", id->name,
                 v->role);
    }
}

void keys_audit(struct sim *s)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_session_view v;

    if (!s->options.keys.on) {
        return;
    }
    for (uint32_t i = 0; router_session_view(router, i, &v); i++) {
        check(s, &v);
    }
}

void keys_start(struct sim *s)
{
    if (s->options.keys.on) {
        keys_strangers_start(s);
        keys_remove_start(s);
    }
}

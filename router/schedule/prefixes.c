#include "router/schedule/prefixes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "router/schedule/schedule.h"

_Static_assert(ROUTER_WORKERS_MAX <= PREFIX_TREE_WORKERS, "a bit each");

/* The key is random for each life of a router, so that a tenant cannot choose
 * prompts whose hashes collide. */
void prefixes_init(struct prefixes *x, struct node_io *io)
{
    memset(x, 0, sizeof *x);
    for (size_t i = 0; i < sizeof x->key.bytes; i += sizeof(uint64_t)) {
        uint64_t random = io->random(io);

        memcpy(x->key.bytes + i, &random, sizeof random);
    }
}

void prefixes_fini(struct prefixes *x)
{
    for (uint32_t i = 0; i < x->n_models; i++) {
        prefix_tree_free(&x->models[i].tree);
    }
    x->n_models = 0;
}

static struct prefix_model *find(struct prefixes *x, const struct model *m)
{
    for (uint32_t i = 0; i < x->n_models; i++) {
        if (x->models[i].model == m) {
            return &x->models[i];
        }
    }
    return NULL;
}

/* ---- the worker's bit ---- */

/* Gives w a bit in the tree of its model.  There are at most as many entries as
 * models, and as many bits as workers. */
static struct prefix_model *join(struct schedule *s, struct worker *w)
{
    struct prefixes *x = &s->prefixes;
    struct prefix_model *m = find(x, w->model);
    struct node_io *io = s->base->io;

    if (m == NULL) {
        assert(x->n_models < ROUTER_MODELS_MAX);
        m = &x->models[x->n_models++];
        *m = (struct prefix_model){
            .model = w->model,
            .tree = prefix_tree_new(PREFIX_TREE_MAX, io->random(io))};
    }
    if (w->feed.bit == PREFIX_BIT_NONE) {
        uint32_t bit = 0;

        while ((m->bits >> bit & 1) != 0) {
            bit++;
        }
        m->bits |= (uint64_t)1 << bit;
        w->feed.bit = bit;
    }
    return m;
}

static void forget(struct schedule *s, const struct worker *w)
{
    struct prefix_model *m = find(&s->prefixes, w->model);

    if (m != NULL && w->feed.bit != PREFIX_BIT_NONE) {
        prefix_tree_forget(m->tree, w->feed.bit);
    }
}

/* The bit may go to another worker next: nothing with it may stay. */
void prefixes_close(struct schedule *s, struct worker *w)
{
    struct prefixes *x = &s->prefixes;
    struct prefix_model *m = find(x, w->model);

    if (!PLANT(FEED_OUTLIVES)) {
        forget(s, w);
    }
    if (m != NULL && w->feed.bit != PREFIX_BIT_NONE) {
        m->bits &= ~((uint64_t)1 << w->feed.bit);
        if (m->bits == 0) {
            prefix_tree_free(&m->tree);
            *m = x->models[--x->n_models];
        }
    }
    w->feed.bit = PREFIX_BIT_NONE;
}

uint64_t prefixes_digest(const struct schedule *s, const struct worker *w,
                         uint32_t *n)
{
    const struct prefixes *x = &s->prefixes;

    *n = 0;
    for (uint32_t i = 0; i < x->n_models; i++) {
        if (x->models[i].model == w->model && w->feed.bit != PREFIX_BIT_NONE) {
            return prefix_tree_digest(x->models[i].tree, w->feed.bit, n);
        }
    }
    return 0;
}

/* ---- Index ---- */

static enum status check_rows(const struct worker *w,
                              const Sluice__V1__IndexMessage *m,
                              struct error *e)
{
    if (m->n_tokens > INDEX_EVENTS_MAX ||
        m->hashes.len != m->n_tokens * PREFIX_HASH_BYTES) {
        return error_set(e, ST_DATA_LOSS,
                         "Index has %zu events and %zu bytes of hashes, must "
                         "be at most %d and %d bytes for each",
                         m->n_tokens, m->hashes.len, INDEX_EVENTS_MAX,
                         PREFIX_HASH_BYTES);
    }
    for (size_t i = 0; i < m->n_tokens; i++) {
        uint32_t n = m->tokens[i];

        if (n % PREFIX_UNIT != 0 || n > w->shard.context) {
            return error_set(e, ST_DATA_LOSS,
                             "Index has a prefix of %" PRIu32
                             " tokens, must be a multiple of %d, at most "
                             "%" PRIu32,
                             n, PREFIX_UNIT, w->shard.context);
        }
    }
    return ST_OK;
}

/* Numbers that are too high are a gap, which a snapshot repairs.  Numbers that
 * go back are a fault of the worker: its events are of no use then. */
static enum status check_numbers(const struct worker *w,
                                 const Sluice__V1__IndexMessage *m,
                                 struct error *e)
{
    bool restarts = m->snapshot && m->first == 1;

    if ((m->first < w->feed.next && !restarts) || m->first > INT64_MAX) {
        return error_set(e, ST_DATA_LOSS,
                         "Index begins with event %" PRIu64
                         ", but the next one is %" PRIu64,
                         m->first, w->feed.next);
    }
    return ST_OK;
}

static enum status check(const struct worker *w,
                         const Sluice__V1__IndexMessage *m, struct error *e)
{
    enum status st;

    if (w->shard.layer_begin > 0) {
        return error_set(e, ST_DATA_LOSS,
                         "Index came from layers %" PRIu32 "-%" PRIu32
                         ", only the first stage may send it",
                         w->shard.layer_begin, w->shard.layer_end);
    }
    st = check_rows(w, m, e);
    return st == ST_OK ? check_numbers(w, m, e) : st;
}

static struct prefix_hash hash_at(const Sluice__V1__IndexMessage *m, size_t i)
{
    const uint8_t *p = m->hashes.data + i * PREFIX_HASH_BYTES;
    struct prefix_hash h = {0, 0};

    for (int b = 7; b >= 0; b--) {
        h.lo = h.lo << 8 | p[b];
        h.hi = h.hi << 8 | p[8 + b];
    }
    return h;
}

static void apply(struct schedule *s, struct worker *w,
                  const Sluice__V1__IndexMessage *m)
{
    struct prefix_model *x = join(s, w);

    for (size_t i = 0; i < m->n_tokens; i++) {
        if (m->tokens[i] > 0) {
            prefix_tree_add(x->tree, hash_at(m, i), m->tokens[i], w->feed.bit);
            w->feed.n_made++;
        } else {
            prefix_tree_remove(x->tree, hash_at(m, i), w->feed.bit);
        }
    }
}

/* If the link is full, the next Index asks again. */
static void ask_snapshot(struct worker *w)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;

    w->feed.asked = peer_oneway(w->peer->peer, METHOD_WORKER_INDEX_SNAPSHOT,
                                &none.base) == ST_OK;
}

/* After a gap nothing that the worker sent before is certain.  No entry is
 * better than a wrong one: a prompt that waits for a hit that is gone is later
 * than one that expects none. */
static void wait_snapshot(struct schedule *s, struct worker *w, uint64_t first)
{
    log_warn("index-gap", "worker=%s event=%" PRIu64 " expected=%" PRIu64,
             w->peer->name, first, w->feed.next);
    s->base->metrics.index_gaps++;
    forget(s, w);
    w->feed.waits = true;
    ask_snapshot(w);
}

enum status prefixes_receive(struct schedule *s, struct worker *w,
                             const Sluice__V1__IndexMessage *m, struct error *e)
{
    struct prefix_feed *f = &w->feed;

    if (check(w, m, e) != ST_OK) {
        return e->code;
    }
    /* A snapshot replaces everything, whether it was asked for or not. */
    if (m->snapshot) {
        forget(s, w);
        f->waits = false;
    } else if (f->waits && !f->asked) {
        ask_snapshot(w);
    } else if (!f->waits && m->first != f->next && !PLANT(GAP_IGNORED)) {
        wait_snapshot(s, w, m->first);
    }
    f->next = m->first + m->n_tokens;
    if (!f->waits) {
        apply(s, w, m);
    }
    return ST_OK;
}

/* ---- prompts ---- */

void prefix_prompt_init(struct prefix_prompt *p, const struct prefix_key *key,
                        ProtobufCBinaryData scope, const uint32_t *ids,
                        uint32_t n)
{
    uint32_t n_units = (n - 1) / PREFIX_UNIT; /* the last token is computed */
    struct prefix_hash h = prefix_hash_root(key, scope.data, scope.len);

    if (n_units == 0) {
        return;
    }
    p->units = malloc(n_units * sizeof *p->units);
    assert(p->units != NULL);
    for (; p->n_units < n_units; p->n_units++) {
        h = prefix_hash_next(key, h, ids + p->n_units * PREFIX_UNIT);
        p->units[p->n_units] = h;
    }
}

void prefix_prompt_fini(struct prefix_prompt *p)
{
    free(p->units);
    p->units = NULL;
}

uint32_t prefixes_restorable(struct schedule *s, const struct queue_entry *e,
                             const struct worker *w)
{
    struct prefix_prompt *p = e->prompt;
    struct prefix_model *m;

    if (e->keeper == w) {
        return e->n_kept;
    }
    /* Its choices are twins: the place computes the prompt once for all. */
    if (p->mate == w->peer->session && e->n_generated == 0 && !e->uncached) {
        return e->n_prompt - 1;
    }
    m = find(&s->prefixes, w->model);
    if (p->units == NULL || m == NULL || w->feed.bit == PREFIX_BIT_NONE) {
        return 0;
    }
    /* Many workers are judged for one prompt: one walk serves all of them as
     * long as the tree is the same. */
    if (p->version != prefix_tree_version(m->tree)) {
        prefix_tree_match(m->tree, p->units, p->n_units, p->depth);
        p->version = prefix_tree_version(m->tree);
    }
    return p->depth[w->feed.bit];
}

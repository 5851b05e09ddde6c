#include "router/placement/prefix_feed.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/base/state_machine.h"
#include "router/placement/placement.h"

_Static_assert(ROUTER_WORKERS_MAX <= PREFIX_TREE_WORKERS, "a bit each");

/* The key is random for each life of a router, so that a tenant cannot choose
 * prompts whose hashes collide. */
void prefix_feeds_init(struct prefix_feeds *f, struct node_io *io)
{
    memset(f, 0, sizeof *f);
    for (size_t i = 0; i < sizeof f->key.bytes; i += sizeof(uint64_t)) {
        uint64_t random = io->random(io);

        memcpy(f->key.bytes + i, &random, sizeof random);
    }
}

void prefix_feeds_fini(struct prefix_feeds *f)
{
    for (uint32_t i = 0; i < f->n_models; i++) {
        prefix_tree_free(&f->models[i].tree);
    }
    f->n_models = 0;
}

void prefix_feed_init(struct prefix_feed *feed)
{
    *feed = (struct prefix_feed){.next = 1, .bit = PREFIX_BIT_NONE};
}

static struct prefix_model *find(const struct prefix_feeds *f,
                                 const struct model *m)
{
    for (uint32_t i = 0; i < f->n_models; i++) {
        if (f->models[i].model == m) {
            return (struct prefix_model *)&f->models[i];
        }
    }
    return NULL;
}

/* ---- the worker's bit ---- */

/* Gives w a bit in the tree of its model.  There are at most as many entries as
 * models, and as many bits as workers. */
static struct prefix_model *join(struct placement *x, struct worker *w)
{
    struct prefix_feeds *f = &x->feeds;
    struct prefix_model *m = find(f, w->model);
    struct node_io *io = x->base->io;

    if (m == NULL) {
        assert(f->n_models < ROUTER_MODELS_MAX);
        m = &f->models[f->n_models];
        *m = (struct prefix_model){
            .model = w->model,
            .tree = prefix_tree_new(PREFIX_TREE_MAX, io->random(io))};
        if (m->tree == NULL) {
            return NULL;
        }
        f->n_models++;
    }
    if (placement_of(w)->feed.bit == PREFIX_BIT_NONE) {
        uint32_t bit = 0;

        while ((m->bits >> bit & 1) != 0) {
            bit++;
        }
        m->bits |= (uint64_t)1 << bit;
        placement_of(w)->feed.bit = bit;
    }
    return m;
}

static void forget(struct placement *x, const struct worker *w)
{
    struct prefix_model *m = find(&x->feeds, w->model);

    if (m != NULL && placement_of(w)->feed.bit != PREFIX_BIT_NONE) {
        prefix_tree_forget(m->tree, placement_of(w)->feed.bit);
    }
}

/* The bit may go to another worker next: nothing with it may stay. */
void prefix_feed_close(struct placement *x, struct worker *w)
{
    struct prefix_feeds *f = &x->feeds;
    struct prefix_model *m = find(f, w->model);

    if (!PLANT(FEED_OUTLIVES)) {
        forget(x, w);
    }
    if (m != NULL && placement_of(w)->feed.bit != PREFIX_BIT_NONE) {
        m->bits &= ~((uint64_t)1 << placement_of(w)->feed.bit);
        if (m->bits == 0) {
            prefix_tree_free(&m->tree);
            *m = f->models[--f->n_models];
        }
    }
    placement_of(w)->feed.bit = PREFIX_BIT_NONE;
}

uint64_t prefix_feed_digest(const struct placement *x, const struct worker *w,
                            uint32_t *n)
{
    const struct prefix_feeds *f = &x->feeds;

    *n = 0;
    for (uint32_t i = 0; i < f->n_models; i++) {
        if (f->models[i].model == w->model &&
            placement_of(w)->feed.bit != PREFIX_BIT_NONE) {
            return prefix_tree_digest(f->models[i].tree,
                                      placement_of(w)->feed.bit, n);
        }
    }
    return 0;
}

/* ---- Index ---- */

/* The picture in prefix_feed.h as a table. */
static const struct sm_row feed_rows[FEED_STATES] = {
    [FEED_LISTENS] = {"listens", SM_TO(FEED_WAITS)},
    [FEED_WAITS] = {"waits", SM_TO(FEED_ASKED) | SM_TO(FEED_LISTENS)},
    [FEED_ASKED] = {"asked", SM_TO(FEED_LISTENS)},
};

static void move(struct worker *w, enum feed_state to)
{
    struct prefix_feed *f = &placement_of(w)->feed;

    sm_check(feed_rows, f->state, to, "feed", w->peer->name);
    f->state = to;
}

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

    if ((m->first < placement_of(w)->feed.next && !restarts) ||
        m->first > INT64_MAX) {
        return error_set(e, ST_DATA_LOSS,
                         "Index begins with event %" PRIu64
                         ", but the next one is %" PRIu64,
                         m->first, placement_of(w)->feed.next);
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

static void apply(struct placement *x, struct worker *w,
                  const Sluice__V1__IndexMessage *m)
{
    struct prefix_model *model = join(x, w);

    for (size_t i = 0; model != NULL && i < m->n_tokens; i++) {
        if (m->tokens[i] > 0) {
            prefix_tree_add(model->tree, hash_at(m, i), m->tokens[i],
                            placement_of(w)->feed.bit);
            placement_of(w)->feed.n_made++;
        } else {
            prefix_tree_remove(model->tree, hash_at(m, i),
                               placement_of(w)->feed.bit);
        }
    }
}

/* If the link is full, the next Index asks again. */
static void ask_snapshot(struct worker *w)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;

    if (peer_oneway(w->peer->peer, METHOD_WORKER_INDEX_SNAPSHOT, &none.base) ==
        ST_OK) {
        move(w, FEED_ASKED);
    }
}

/* After a gap nothing that the worker sent before is certain.  No entry is
 * better than a wrong one: a prompt that waits for a hit that is gone is later
 * than one that expects none. */
static void wait_snapshot(struct placement *x, struct worker *w, uint64_t first)
{
    log_warn("index-gap", "worker=%s event=%" PRIu64 " expected=%" PRIu64,
             w->peer->name, first, placement_of(w)->feed.next);
    x->base->metrics.index_gaps++;
    forget(x, w);
    move(w, FEED_WAITS);
    ask_snapshot(w);
}

enum status prefix_feed_receive(struct placement *x, struct worker *w,
                                const Sluice__V1__IndexMessage *m,
                                struct error *e)
{
    struct prefix_feed *f = &placement_of(w)->feed;

    if (check(w, m, e) != ST_OK) {
        return e->code;
    }
    /* A snapshot replaces everything, whether it was asked for or not. */
    if (m->snapshot) {
        forget(x, w);
        if (f->state != FEED_LISTENS) {
            move(w, FEED_LISTENS);
        }
    } else if (f->state == FEED_WAITS) {
        ask_snapshot(w);
    } else if (f->state == FEED_LISTENS && m->first != f->next &&
               !PLANT(GAP_IGNORED)) {
        wait_snapshot(x, w, m->first);
    }
    f->next = m->first + m->n_tokens;
    if (f->state == FEED_LISTENS) {
        apply(x, w, m);
    }
    return ST_OK;
}

struct prefix_tree *prefix_feed_tree(const struct placement *x,
                                     const struct model *m)
{
    const struct prefix_model *model = find(&x->feeds, m);

    return model == NULL ? NULL : model->tree;
}

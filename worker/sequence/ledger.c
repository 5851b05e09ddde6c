#include "worker/sequence/ledger.h"

#include <stdlib.h>
#include <string.h>

/* The audit takes any index as a void pointer: a later stage has no prefix
 * index, but the nodes and checkpoints that its leader named. */
static void walk_prefix(const void *index,
                        void (*each)(void *ctx, enum pool_class c,
                                     uint32_t number),
                        void *ctx)
{
    prefix_walk(index, each, ctx);
}

void ledger_set_index(struct ledger *l, ledger_walk_fn walk, const void *index)
{
    l->walk = walk;
    l->index = index;
}

bool ledger_init(struct ledger *l, const struct pool *pool,
                 const struct prefix *index)
{
    memset(l, 0, sizeof *l);
    if (index != NULL) {
        ledger_set_index(l, walk_prefix, index);
        l->prefix = index;
    }
    l->claims = malloc((pool->o.n_pages + (size_t)1) * sizeof *l->claims);
    return l->claims != NULL;
}

void ledger_fini(struct ledger *l)
{
    free(l->claims);
    memset(l, 0, sizeof *l);
}

/* Numbers begin anew: the router of the new session has seen no snapshot and
 * has made no grant. */
void ledger_begin(struct ledger *l, uint64_t session)
{
    l->session = session;
    l->snapshot = 0;
    l->grant = 0;
}

uint64_t ledger_next_snapshot(const struct ledger *l)
{
    return l->snapshot + 1;
}

static void fill_class(Sluice__V1__ClassLedger *out,
                       const struct pool_account *a)
{
    sluice__v1__class_ledger__init(out);
    out->total = a->total;
    out->free = a->free;
    out->held = a->held;
    out->cached = a->cached;
    out->granted = a->granted;
}

void ledger_fill(struct ledger *l, const struct pool *pool,
                 const struct sequence_table *t, struct ledger_message *out)
{
    struct pool_account pages = pool_pages(pool);
    Sluice__V1__Ledger *m = &out->ledger;

    for (int c = 0; c < POOL_CLASSES; c++) {
        struct pool_account a = pool_account(pool, (enum pool_class)c);

        fill_class(&out->classes[c], &a);
    }
    fill_class(&out->pages, &pages);
    sluice__v1__ledger__init(m);
    /* Hello carries a ledger before its session exists: no snapshot. */
    if (l->session != 0) {
        l->snapshot++;
    }
    m->session = l->session;
    m->snapshot = l->snapshot;
    m->grant = l->grant;
    m->blocks = &out->classes[POOL_BLOCKS];
    m->slots = &out->classes[POOL_SLOTS];
    m->checkpoints = &out->classes[POOL_CHECKPOINTS];
    if (pool->o.pages_per[POOL_WINDOWS] > 0) {
        m->windows = &out->classes[POOL_WINDOWS];
    }
    m->pages = &out->pages;
    m->has_violations = true;
    m->violations = pool->violations;
    m->has_n_queued = m->has_n_prefill = m->has_n_decode = m->has_n_kept = true;
    /* A prompt that is still arriving counts as queued: it has a grant, and no
     * row yet. */
    m->n_queued =
        t->in_state[SEQUENCE_RECEIVING] + t->in_state[SEQUENCE_QUEUED];
    m->n_prefill = t->in_state[SEQUENCE_PREFILL];
    m->n_decode = t->in_state[SEQUENCE_DECODE];
    m->n_kept = t->in_state[SEQUENCE_KEPT];
    m->has_n_suspended = true;
    m->n_suspended = t->in_state[SEQUENCE_SUSPENDED];
    m->has_host_total = m->has_host_used = t->host != NULL;
    if (t->host != NULL) {
        m->host_total = t->host->n_pages;
        m->host_used = t->host->n_used;
        m->violations += t->host->violations;
    }
}

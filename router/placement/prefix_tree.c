#include "router/placement/prefix_tree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NONE       UINT32_MAX
#define SIZE_START 256

struct node {
    struct prefix_hash hash;
    uint64_t workers; /* bit i: worker i; 0: the node is not in use */
    uint32_t n_tokens;
    uint32_t next;           /* in its bucket, or in the list of free nodes */
    uint32_t older, younger; /* by use */
};

struct prefix_tree {
    struct node *nodes; /* [size] */
    uint32_t *buckets;  /* [size], size is a power of two */
    uint32_t size, n, n_max;
    uint32_t unused;           /* list of free nodes */
    uint32_t oldest, youngest; /* by use */
    uint64_t seed, version;
};

struct prefix_tree *prefix_tree_new(uint32_t n_max, uint64_t seed)
{
    struct prefix_tree *t = calloc(1, sizeof *t);

    assert(n_max > 0);
    if (t == NULL) {
        return NULL;
    }
    t->n_max = n_max;
    t->seed = t->version = seed; /* no two trees have one version */
    t->unused = t->oldest = t->youngest = NONE;
    return t;
}

void prefix_tree_free(struct prefix_tree **pt)
{
    struct prefix_tree *t = *pt;

    *pt = NULL;
    if (t != NULL) {
        free(t->nodes);
        free(t->buckets);
        free(t);
    }
}

/* ---- the table ---- */

static uint32_t *bucket_of(const struct prefix_tree *t, struct prefix_hash h)
{
    uint64_t z = (h.lo ^ t->seed) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 32) ^ h.hi) * 0xbf58476d1ce4e5b9u;
    return &t->buckets[(z >> 32) & (t->size - 1)];
}

static uint32_t find(const struct prefix_tree *t, struct prefix_hash h)
{
    uint32_t i = t->n == 0 ? NONE : *bucket_of(t, h);

    while (i != NONE && !prefix_hash_same(t->nodes[i].hash, h)) {
        i = t->nodes[i].next;
    }
    return i;
}

static void link_bucket(struct prefix_tree *t, uint32_t i)
{
    uint32_t *bucket = bucket_of(t, t->nodes[i].hash);

    t->nodes[i].next = *bucket;
    *bucket = i;
}

static void unlink_bucket(struct prefix_tree *t, uint32_t i)
{
    uint32_t *at = bucket_of(t, t->nodes[i].hash);

    while (*at != i) {
        at = &t->nodes[*at].next;
    }
    *at = t->nodes[i].next;
}

/* ---- the order of use ---- */

static void leave_order(struct prefix_tree *t, uint32_t i)
{
    const struct node *x = &t->nodes[i];

    *(x->older == NONE ? &t->oldest : &t->nodes[x->older].younger) = x->younger;
    *(x->younger == NONE ? &t->youngest : &t->nodes[x->younger].older) =
        x->older;
}

static void join_order(struct prefix_tree *t, uint32_t i)
{
    struct node *x = &t->nodes[i];

    x->older = t->youngest;
    x->younger = NONE;
    *(t->youngest == NONE ? &t->oldest : &t->nodes[t->youngest].younger) = i;
    t->youngest = i;
}

/* ---- nodes ---- */

static void drop(struct prefix_tree *t, uint32_t i)
{
    unlink_bucket(t, i);
    leave_order(t, i);
    t->nodes[i].workers = 0;
    t->nodes[i].next = t->unused;
    t->unused = i;
    t->n--;
}

/* Doubles the nodes and buckets.  Every index stays. */
static bool grow(struct prefix_tree *t)
{
    uint32_t size = t->size == 0 ? SIZE_START : 2 * t->size;
    struct node *nodes = realloc(t->nodes, size * sizeof *t->nodes);
    uint32_t *buckets = malloc(size * sizeof *buckets);

    t->nodes = nodes != NULL ? nodes : t->nodes;
    if (nodes == NULL || buckets == NULL) {
        free(buckets);
        return false;
    }
    free(t->buckets);
    t->buckets = buckets;
    memset(t->buckets, 0xff, size * sizeof *t->buckets);
    for (uint32_t i = t->size; i < size; i++) {
        t->nodes[i].workers = 0;
        t->nodes[i].next = t->unused;
        t->unused = i;
    }
    t->size = size;
    for (uint32_t i = t->oldest; i != NONE; i = t->nodes[i].younger) {
        link_bucket(t, i);
    }
    return true;
}

/* Without memory the oldest node goes, as at the limit.  Returns NONE if there
 * is none. */
static uint32_t take_node(struct prefix_tree *t)
{
    uint32_t i;

    if (t->n == t->n_max) {
        drop(t, t->oldest);
    } else if (t->unused == NONE && !grow(t)) {
        if (t->n == 0) {
            return NONE;
        }
        drop(t, t->oldest);
    }
    i = t->unused;
    t->unused = t->nodes[i].next;
    t->n++;
    return i;
}

void prefix_tree_add(struct prefix_tree *t, struct prefix_hash h,
                     uint32_t n_tokens, uint32_t bit)
{
    uint32_t i = find(t, h);

    assert(bit < PREFIX_TREE_WORKERS);
    t->version++;
    if (i == NONE) {
        i = take_node(t);
        if (i == NONE) {
            return; /* it is not found again: that costs time alone */
        }
        t->nodes[i] = (struct node){.hash = h, .n_tokens = n_tokens};
        link_bucket(t, i);
    } else {
        leave_order(t, i);
    }
    t->nodes[i].workers |= (uint64_t)1 << bit;
    join_order(t, i);
}

void prefix_tree_remove(struct prefix_tree *t, struct prefix_hash h,
                        uint32_t bit)
{
    uint32_t i = find(t, h);

    t->version++;
    if (i != NONE) {
        t->nodes[i].workers &= ~((uint64_t)1 << bit);
        if (t->nodes[i].workers == 0) {
            drop(t, i);
        }
    }
}

void prefix_tree_forget(struct prefix_tree *t, uint32_t bit)
{
    uint32_t i = t->oldest;

    t->version++;
    while (i != NONE) {
        uint32_t younger = t->nodes[i].younger;

        t->nodes[i].workers &= ~((uint64_t)1 << bit);
        if (t->nodes[i].workers == 0) {
            drop(t, i);
        }
        i = younger;
    }
}

void prefix_tree_match(struct prefix_tree *t, const struct prefix_hash *units,
                       uint32_t n_units, uint32_t depth[PREFIX_TREE_WORKERS])
{
    uint64_t seen = 0;

    memset(depth, 0, PREFIX_TREE_WORKERS * sizeof *depth);
    for (uint32_t u = n_units; u > 0 && t->n > 0; u--) {
        uint32_t i = find(t, units[u - 1]);
        uint64_t first;

        /* A worker may send any length for a hash: only the true one counts. */
        if (i == NONE || t->nodes[i].n_tokens != u * PREFIX_UNIT) {
            continue;
        }
        leave_order(t, i);
        join_order(t, i);
        first = t->nodes[i].workers & ~seen;
        seen |= first;
        for (uint32_t bit = 0; first != 0; bit++, first >>= 1) {
            depth[bit] = (first & 1) != 0 ? u * PREFIX_UNIT : depth[bit];
        }
    }
}

uint64_t prefix_tree_version(const struct prefix_tree *t)
{
    return t->version;
}

uint64_t prefix_tree_digest(const struct prefix_tree *t, uint32_t bit,
                            uint32_t *n)
{
    uint64_t sum = 0;

    *n = 0;
    for (uint32_t i = t->oldest; i != NONE; i = t->nodes[i].younger) {
        const struct node *x = &t->nodes[i];

        if ((x->workers >> bit & 1) != 0) {
            sum += prefix_hash_digest(x->hash, x->n_tokens);
            (*n)++;
        }
    }
    return sum;
}

uint32_t prefix_tree_count(const struct prefix_tree *t)
{
    return t->n;
}

#include "worker/sequence/sequence_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"

bool sequence_table_init(struct sequence_table *t,
                         const struct sequence_limits *l, struct pool *pool)
{
    uint32_t buckets = 16;

    memset(t, 0, sizeof *t);
    while (buckets < l->capacity) {
        buckets *= 2;
    }
    t->capacity = l->capacity;
    t->mask = buckets - 1;
    t->hash_seed = l->hash_seed;
    t->windows = l->windows;
    t->away_max = l->away;
    t->pool = pool;
    t->all.link = LIST_ALL;
    /* sequence_new() clears an entry, so that untouched ones cost no memory. */
    t->memory = malloc(l->capacity * sizeof *t->memory);
    t->keys = calloc(buckets, sizeof *t->keys);
    t->grants = calloc(buckets, sizeof *t->grants);
    t->lists = malloc(l->capacity * sizeof *t->lists * SAMPLING_LISTS);
    if (t->memory == NULL || t->keys == NULL || t->grants == NULL ||
        t->lists == NULL ||
        !slab_init(&t->slab, l->longest, l->values,
                   (l->windows.pages > 0 ? 3 : 2) * l->capacity) ||
        !logprobs_slab(&t->rings, l->n_rings)) {
        sequence_table_fini(t);
        return false;
    }
    return true;
}

void sequence_table_fini(struct sequence_table *t)
{
    free(t->memory);
    free(t->keys);
    free(t->grants);
    free(t->lists);
    slab_fini(&t->slab);
    slab_fini(&t->rings);
    memset(t, 0, sizeof *t);
}

struct sequence *sequence_new(struct sequence_table *t, uint32_t n_tokens,
                              uint32_t n_blocks)
{
    struct sequence *s = t->free_list;
    struct paged tokens, blocks;

    if (s == NULL && t->n_fresh == t->capacity) {
        return NULL;
    }
    /* All memory is reserved now, so that no step can fail for want of it. */
    if (!paged_make(&t->slab, &tokens, n_tokens)) {
        return NULL;
    }
    if (!paged_make(&t->slab, &blocks, n_blocks)) {
        paged_free(&t->slab, &tokens);
        return NULL;
    }
    if (s != NULL) {
        t->free_list = s->key_next;
    } else {
        s = &t->memory[t->n_fresh++];
    }
    /* Numbers are never reused, unlike entries: a log line names one sequence.
     */
    memset(s, 0, sizeof *s);
    s->number = ++t->next_number;
    s->state = SEQUENCE_RECEIVING;
    s->deadline_us = INT64_MAX;
    s->memory.slot = s->memory.rolling = s->memory.rolling_next = SLOT_NONE;
    s->reuse.node = PREFIX_NONE;
    s->memory.host = HOST_NONE;
    s->portable.cache = true;
    s->portable.tokens = tokens;
    s->memory.blocks = blocks;
    s->memory.windows.root = PAGE_NONE;
    t->in_state[SEQUENCE_RECEIVING]++;
    t->n_live++;
    sequence_push(&t->all, s);
    return s;
}

void sequence_free(struct sequence_table *t, struct sequence **s)
{
    struct sequence *gone = *s;

    *s = NULL;
    sequence_clear_key(t, gone);
    sequence_set_grant(t, gone, 0);
    for (int i = 0; i < SEQUENCE_LISTS; i++) {
        sequence_unlink(gone, (enum sequence_in)i);
    }
    paged_free(&t->slab, &gone->portable.tokens);
    paged_free(&t->slab, &gone->memory.blocks);
    paged_free(&t->slab, &gone->memory.windows);
    logprobs_free(&t->rings, &gone->portable.logprobs);
    t->in_state[gone->state]--;
    t->n_live--;
    t->n_growing -= suspension_grows(&gone->suspension);
    gone->key_next = t->free_list;
    t->free_list = gone;
}

/* ---- names ---- */

static struct sequence **key_bucket(const struct sequence_table *t,
                                    const struct sequence_key *key)
{
    /* Clients choose request ids, so the hash is seeded: none can force all of
     * them into one bucket. */
    uint64_t h = request_id_hash(key->request_id, t->hash_seed + key->choice);

    return &t->keys[h & t->mask];
}

/* Grants are consecutive numbers of the router, so they need no hash function.
 */
static struct sequence **grant_bucket(const struct sequence_table *t,
                                      uint64_t grant)
{
    return &t->grants[grant & t->mask];
}

bool sequence_key_equal(const struct sequence_key *a,
                        const struct sequence_key *b)
{
    return a->choice == b->choice &&
           memcmp(a->request_id, b->request_id, sizeof a->request_id) == 0;
}

struct sequence *sequence_by_key(const struct sequence_table *t,
                                 const struct sequence_key *key)
{
    struct sequence *s = *key_bucket(t, key);

    while (s != NULL && !sequence_key_equal(&s->key, key)) {
        s = s->key_next;
    }
    return s;
}

/* Messages between stages name grants: they are shorter than keys, and unique
 * in a session. */
struct sequence *sequence_by_grant(const struct sequence_table *t,
                                   uint64_t grant)
{
    struct sequence *s = *grant_bucket(t, grant);

    while (s != NULL && s->grant != grant) {
        s = s->grant_next;
    }
    return s;
}

void sequence_set_key(struct sequence_table *t, struct sequence *s,
                      const struct sequence_key *key)
{
    struct sequence **bucket = key_bucket(t, key);

    assert(!s->in_keys && sequence_by_key(t, key) == NULL);
    s->key = *key;
    s->in_keys = true;
    s->key_next = *bucket;
    *bucket = s;
}

void sequence_clear_key(struct sequence_table *t, struct sequence *s)
{
    struct sequence **at = key_bucket(t, &s->key);

    if (!s->in_keys) {
        return;
    }
    while (*at != s) {
        at = &(*at)->key_next;
    }
    *at = s->key_next;
    s->in_keys = false;
}

void sequence_set_grant(struct sequence_table *t, struct sequence *s,
                        uint64_t grant)
{
    struct sequence **at = grant_bucket(t, s->grant);

    if (s->grant != 0) {
        while (*at != s) {
            at = &(*at)->grant_next;
        }
        *at = s->grant_next;
    }
    s->grant = grant;
    if (grant != 0) {
        assert(sequence_by_grant(t, grant) == NULL);
        at = grant_bucket(t, grant);
        s->grant_next = *at;
        *at = s;
    }
}

bool sequence_set_sampling(struct sequence_table *t, struct sequence *s,
                           const struct sampling *sampling)
{
    s->portable.sampling = *sampling;
    /* The lists point into the message, which is freed after this turn. */
    if (!PLANT(LISTS_BORROWED)) {
        sampling_own(&s->portable.sampling,
                     t->lists + (size_t)(s - t->memory) * SAMPLING_LISTS);
    }
    return !sampling->logprobs ||
           logprobs_make(&t->rings, &s->portable.logprobs,
                         sampling->n_top_logprobs, s->portable.n_generated,
                         s->portable.max_tokens);
}

#include "worker/cache/sequence.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/base/state_machine.h"
#include "worker/cache/windows.h"

static const struct sm_row state_rows[SEQUENCE_STATES] = {
    [SEQUENCE_RECEIVING] = {"receiving", SM_TO(SEQUENCE_QUEUED) |
                                             SM_TO(SEQUENCE_SUSPENDED) |
                                             SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_QUEUED] = {"queued", SM_TO(SEQUENCE_PREFILL) |
                                       SM_TO(SEQUENCE_SUSPENDED) |
                                       SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_PREFILL] = {"prefill", SM_TO(SEQUENCE_DECODE) |
                                         SM_TO(SEQUENCE_SUSPENDED) |
                                         SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_DECODE] = {"decode", SM_TO(SEQUENCE_KEPT) |
                                       SM_TO(SEQUENCE_SUSPENDED) |
                                       SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_SUSPENDED] = {"suspended", SM_TO(SEQUENCE_QUEUED) |
                                             SM_TO(SEQUENCE_PREFILL) |
                                             SM_TO(SEQUENCE_DECODE) |
                                             SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_KEPT] = {"kept", SM_TO(SEQUENCE_RELEASING)},
    [SEQUENCE_RELEASING] = {"releasing", SM_TO(SEQUENCE_FINISHED)},
    [SEQUENCE_FINISHED] = {"finished", 0},
};

/* Numbers of proto's SequenceState.  RECEIVING is queued to the router, and
 * RELEASING and FINISHED are both finished.  A Submit that waits for room is
 * suspended from its start. */
static const int public_states[SEQUENCE_STATES] = {
    [SEQUENCE_RECEIVING] = 1, [SEQUENCE_QUEUED] = 1,
    [SEQUENCE_PREFILL] = 2,   [SEQUENCE_DECODE] = 3,
    [SEQUENCE_KEPT] = 4,      [SEQUENCE_RELEASING] = 5,
    [SEQUENCE_FINISHED] = 5,  [SEQUENCE_SUSPENDED] = 6,
};

const char *sequence_state_name(enum sequence_state s)
{
    return state_rows[s].name;
}

int sequence_public_state(const struct sequence *s)
{
    return public_states[s->state];
}

const char *sequence_name(const struct sequence_key *key,
                          char out[SEQUENCE_NAME])
{
    request_id_format(key->request_id, out);
    snprintf(out + REQUEST_ID_TEXT - 1, SEQUENCE_NAME - REQUEST_ID_TEXT + 1,
             "/%u", key->choice);
    return out;
}

void sequence_move(struct sequence_table *t, struct sequence *s,
                   enum sequence_state to)
{
    char name[SEQUENCE_NAME];

    /* Formatting the name costs more than the move, so only a log line does it.
     */
    sm_check(state_rows, s->state, to, "request",
             log_threshold <= LOG_DEBUG ? sequence_name(&s->key, name) : "");
    t->in_state[s->state]--;
    t->in_state[to]++;
    s->state = to;
}

/* ---- the table ---- */

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
    s->slot = s->rolling = s->rolling_next = SLOT_NONE;
    s->node = PREFIX_NONE;
    s->host = HOST_NONE;
    s->cache = true;
    s->tokens = tokens;
    s->blocks = blocks;
    s->windows.root = PAGE_NONE;
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
    paged_free(&t->slab, &gone->tokens);
    paged_free(&t->slab, &gone->blocks);
    paged_free(&t->slab, &gone->windows);
    logprobs_free(&t->rings, &gone->logprobs);
    t->in_state[gone->state]--;
    t->n_live--;
    t->n_growing -= gone->grows;
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

static bool key_equal(const struct sequence_key *a,
                      const struct sequence_key *b)
{
    return a->choice == b->choice &&
           memcmp(a->request_id, b->request_id, sizeof a->request_id) == 0;
}

struct sequence *sequence_by_key(const struct sequence_table *t,
                                 const struct sequence_key *key)
{
    struct sequence *s = *key_bucket(t, key);

    while (s != NULL && !key_equal(&s->key, key)) {
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

    if (s->in_grants) {
        while (*at != s) {
            at = &(*at)->grant_next;
        }
        *at = s->grant_next;
        s->in_grants = false;
    }
    s->grant = grant;
    if (grant != 0) {
        assert(sequence_by_grant(t, grant) == NULL);
        at = grant_bucket(t, grant);
        s->grant_next = *at;
        s->in_grants = true;
        *at = s;
    }
}

bool sequence_key_read(struct sequence_key *out,
                       const Sluice__V1__SequenceRef *ref, struct error *e)
{
    if (ref->request_id.len != REQUEST_ID_BYTES) {
        error_set(e, ST_INVALID_ARGUMENT,
                  "request_id has %zu bytes, it must have %d",
                  ref->request_id.len, REQUEST_ID_BYTES);
        return false;
    }
    if (request_id_is_zero(ref->request_id.data)) {
        error_set(e, ST_INVALID_ARGUMENT,
                  "request_id is all zero, it must be %d random bytes",
                  REQUEST_ID_BYTES);
        return false;
    }
    memcpy(out->request_id, ref->request_id.data, sizeof out->request_id);
    out->choice = PLANT(CHOICE_MIXED) ? 0 : ref->choice;
    return true;
}

bool sequence_set_sampling(struct sequence_table *t, struct sequence *s,
                           const struct sampling *sampling)
{
    s->sampling = *sampling;
    /* The lists point into the message, which is freed after this turn. */
    if (!PLANT(LISTS_BORROWED)) {
        sampling_own(&s->sampling,
                     t->lists + (size_t)(s - t->memory) * SAMPLING_LISTS);
    }
    return !sampling->logprobs ||
           logprobs_make(&t->rings, &s->logprobs, sampling->n_top_logprobs,
                         s->n_generated, s->max_tokens);
}

enum row_kind sequence_kind(const struct sequence *s, uint32_t at,
                            uint32_t *end)
{
    uint32_t to = 0;

    if (at >= s->n_prompt) {
        *end = UINT32_MAX;
        return ROW_GENERATED;
    }
    /* Spans alternate and begin with prompt rows; positions after the last one
     * came with the prompt of the continuation. */
    for (uint32_t i = 0; i < s->n_spans; i++) {
        to += s->spans[i];
        if (at < to) {
            *end = to;
            return i % 2 == 0 ? ROW_PROMPT : ROW_GENERATED;
        }
    }
    *end = s->n_prompt;
    return ROW_PROMPT;
}

/* ---- memory ---- */

void sequence_give_back(struct sequence_table *t, struct sequence *s)
{
    struct pool_need promised = s->need;
    bool leak = PLANT(CANCEL_LEAKS) && s->finish == FINISH_CANCELLED;

    for (uint32_t i = leak; i < s->n_blocks; i++) {
        uint32_t block = paged_get(&t->slab, &s->blocks, i);

        if (PLANT(REFERENCE_TWICE) && t->pool->blocks[block].refs > 1) {
            pool_release(t->pool, POOL_BLOCKS, block);
        }
        pool_release(t->pool, POOL_BLOCKS, block);
    }
    promised.n[POOL_BLOCKS] -= s->n_blocks;
    promised.n[POOL_WINDOWS] -= s->n_windows * t->windows.pages;
    windows_release(t, s);
    if (s->slot != SLOT_NONE) {
        pool_release(t->pool, POOL_SLOTS, s->slot);
        promised.n[POOL_SLOTS]--;
    }
    /* Memory that was granted and never taken is freed with the rest. */
    pool_ungrant(t->pool, &promised);
    s->need = (struct pool_need){0};
    s->n_blocks = 0;
    s->slot = SLOT_NONE;
}

void sequence_give_host(struct sequence_table *t, struct sequence *s)
{
    if (s->n_host > 0 && !PLANT(HOST_LEAKS)) {
        host_give(t->host, s->host);
    }
    s->host = HOST_NONE;
    s->n_host = s->n_host_windows = 0;
    t->n_away -= s->away;
    s->away = false;
}

void sequence_release(struct sequence_table *t, struct sequence *s)
{
    sequence_give_back(t, s);
    sequence_give_host(t, s);
    paged_free(&t->slab, &s->blocks);
    paged_free(&t->slab, &s->windows);
}

/* ---- lists ---- */

void sequence_insert(struct sequence_list *l, struct sequence *s,
                     struct sequence *at)
{
    struct sequence_node *n = &s->links[l->link];
    struct sequence *prev = at != NULL ? at->links[l->link].prev : l->tail;

    *n = (struct sequence_node){.prev = prev, .next = at, .list = l};
    if (prev != NULL) {
        prev->links[l->link].next = s;
    } else {
        l->head = s;
    }
    if (at != NULL) {
        at->links[l->link].prev = s;
    } else {
        l->tail = s;
    }
    l->n++;
}

void sequence_push(struct sequence_list *l, struct sequence *s)
{
    /* One push is a move: rows rotate, and a prefill becomes a decode. */
    if (s->links[l->link].list != NULL) {
        sequence_unlink(s, l->link);
    }
    sequence_insert(l, s, NULL);
}

void sequence_unlink(struct sequence *s, enum sequence_in link)
{
    struct sequence_node *n = &s->links[link];
    struct sequence_list *l = n->list;

    if (l == NULL) {
        return;
    }
    if (n->prev != NULL) {
        n->prev->links[link].next = n->next;
    } else {
        l->head = n->next;
    }
    if (n->next != NULL) {
        n->next->links[link].prev = n->prev;
    } else {
        l->tail = n->prev;
    }
    l->n--;
    *n = (struct sequence_node){0};
}

struct sequence *sequence_next(const struct sequence *s, enum sequence_in link)
{
    return s->links[link].next;
}

bool sequence_is_linked(const struct sequence *s, enum sequence_in link)
{
    return s->links[link].list != NULL;
}

/* vocab_trie.c - Sorted tokens to a trie in preorder. */
#include "text/grammar/vocab_trie.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    const char *bytes;
    size_t n;
    uint32_t id;
};

static int by_bytes(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);

    if (order != 0) {
        return order;
    }
    if (x->n != y->n) {
        return x->n < y->n ? -1 : 1;
    }
    return x->id < y->id ? -1 : 1;
}

static bool add_node(struct vocab_trie *t, uint8_t byte, size_t depth)
{
    if (t->n == t->cap) {
        uint32_t cap = t->cap == 0 ? 1024 : 2 * t->cap;
        struct trie_node *nodes = realloc(t->nodes, cap * sizeof *nodes);

        if (nodes == NULL) {
            return false;
        }
        t->nodes = nodes;
        t->cap = cap;
    }
    t->nodes[t->n++] = (struct trie_node){
        .token = VOCAB_NONE, .depth = (uint16_t)depth, .byte = byte};
    return true;
}

/* Adds a token behind all that sort before it.  path[d]: node at depth d. */

static bool add_entry(struct vocab_trie *t, const struct entry *x,
                      const struct entry *before, uint32_t *path)
{
    size_t common = 0;

    while (before != NULL && common < x->n && common < before->n &&
           x->bytes[common] == before->bytes[common]) {
        common++;
    }
    for (size_t d = common; d < x->n; d++) {
        path[d + 1] = t->n;
        if (!add_node(t, (uint8_t)x->bytes[d], d + 1)) {
            return false;
        }
    }
    t->same[x->id] = t->nodes[path[x->n]].token;
    t->nodes[path[x->n]].token = x->id;
    if (x->n > t->depth) {
        t->depth = (uint32_t)x->n;
    }
    return true;
}

/* The end of a node is the next node that is not deeper. */
static bool set_ends(struct vocab_trie *t)
{
    uint32_t *next = malloc(((size_t)t->depth + 2) * sizeof *next);

    if (next == NULL) {
        return false;
    }
    for (uint32_t d = 0; d <= t->depth + 1; d++) {
        next[d] = t->n;
    }
    for (uint32_t i = t->n; i-- > 0;) {
        uint32_t depth = t->nodes[i].depth;

        t->nodes[i].end = next[depth];
        for (uint32_t d = depth; d <= t->depth && next[d] != i; d++) {
            next[d] = i;
        }
    }
    free(next);
    return true;
}

/* Sorted tokens make the preorder: each shares a path with the one before. */
static enum status build(struct vocab_trie *t, struct entry *entries, size_t n,
                         struct error *e)
{
    uint32_t *path = calloc((1 << 16) + 1, sizeof *path);
    bool ok = path != NULL;

    qsort(entries, n, sizeof *entries, by_bytes);
    for (size_t i = 0; i < n && ok; i++) {
        ok = add_entry(t, &entries[i], i == 0 ? NULL : &entries[i - 1], path);
    }
    free(path);
    if (!ok || !set_ends(t)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "memory: trie of %u tokens",
                         t->n_vocab);
    }
    return ST_OK;
}

enum status vocab_trie_init(struct vocab_trie *t, uint32_t n_vocab,
                            vocab_token_fn *token, void *arg, struct error *e)
{
    struct entry *entries = calloc((size_t)n_vocab + 1, sizeof *entries);
    enum status st = ST_OK;
    size_t n = 0;

    *t = (struct vocab_trie){.n_vocab = n_vocab};
    t->same = malloc(((size_t)n_vocab + 1) * sizeof *t->same);
    if (entries == NULL || t->same == NULL) {
        st = error_set(e, ST_RESOURCE_EXHAUSTED, "memory: trie of %u tokens",
                       n_vocab);
    }
    for (uint32_t id = 0; st == ST_OK && id < n_vocab; id++) {
        struct entry x = {.id = id};

        x.n = token(arg, id, &x.bytes);
        if (x.n > UINT16_MAX) {
            st = error_set(e, ST_OUT_OF_RANGE,
                           "token %u has %zu bytes, at most %d are allowed", id,
                           x.n, UINT16_MAX);
        } else if (x.bytes != NULL && x.n > 0) {
            entries[n++] = x;
        }
    }
    if (st == ST_OK) {
        st = build(t, entries, n, e);
    }
    free(entries);
    if (st != ST_OK) {
        vocab_trie_fini(t);
    }
    return st;
}

void vocab_trie_fini(struct vocab_trie *t)
{
    free(t->nodes);
    free(t->same);
    *t = (struct vocab_trie){0};
}

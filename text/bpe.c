#include "text/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "text/byte_level.h"
#include "text/limits.h"

#define NONE UINT32_MAX

/* A run of bytes that is one token now; the first byte's place names it. */
struct bpe_symbol {
    uint32_t id;
    uint32_t prev, next; /* NONE at the ends */
    uint32_t rank;       /* of the merge with next; NONE: none, or absorbed */
    uint32_t merged;     /* what that merge makes */
};

enum status id_sink_put(struct id_sink *out, uint32_t id, struct error *e)
{
    if (out->n == out->cap) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the text has more than %zu tokens", out->cap);
    }
    out->ids[out->n++] = id;
    return ST_OK;
}

void bpe_work_fini(struct bpe_work *w)
{
    free(w->symbols);
    free(w->heap);
    *w = (struct bpe_work){0};
}

static bool work_reserve(struct bpe_work *w, size_t n)
{
    size_t cap = w->cap < 64 ? 64 : w->cap;

    if (n <= w->cap) {
        return true;
    }
    while (cap < n) {
        cap *= 2;
    }
    free(w->symbols);
    free(w->heap);
    w->cap = 0;
    w->symbols = malloc(cap * sizeof *w->symbols);
    w->heap = malloc(cap * 2 * sizeof *w->heap);
    if (w->symbols == NULL || w->heap == NULL) {
        return false;
    }
    w->cap = cap;
    return true;
}

enum status bpe_init(struct bpe *b, const struct vocab *vocab, size_t n,
                     uint64_t seed, struct error *e)
{
    char letter[2];

    *b = (struct bpe){.vocab = vocab};
    for (unsigned i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        size_t len = byte_level_spell(&byte, 1, letter);
        uint32_t id;

        if (!vocab_find(vocab, letter, len, &id) ||
            !(vocab_flags(vocab, id) & VOCAB_MODEL)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "vocab: no token for byte 0x%02X", i);
        }
        if (vocab_flags(vocab, id) & VOCAB_SPECIAL) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "vocab: the only token for byte 0x%02X is special",
                             i);
        }
        b->byte_id[i] = id;
    }
    return pair_map_init(&b->merges, n, seed)
               ? ST_OK
               : error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
}

void bpe_fini(struct bpe *b)
{
    pair_map_fini(&b->merges);
}

static enum status model_id(const struct bpe *b, const char *what,
                            const char *s, size_t n, uint32_t *id,
                            struct error *e)
{
    if (!vocab_find(b->vocab, s, n, id) ||
        !(vocab_flags(b->vocab, *id) & VOCAB_MODEL)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the %s is not in the vocabulary", what);
    }
    return ST_OK;
}

enum status bpe_add(struct bpe *b, uint32_t rank, const char *left,
                    size_t n_left, const char *right, size_t n_right,
                    struct error *e)
{
    char joined[2 * TEXT_TOKEN_BYTES];
    uint32_t l, r, id;
    enum status st;

    st = model_id(b, "left side", left, n_left, &l, e);
    if (st == ST_OK) {
        st = model_id(b, "right side", right, n_right, &r, e);
    }
    if (st != ST_OK) {
        return st;
    }
    /* Both are tokens, so neither is longer than TEXT_TOKEN_BYTES. */
    memcpy(joined, left, n_left);
    memcpy(joined + n_left, right, n_right);
    st = model_id(b, "result", joined, n_left + n_right, &id, e);
    if (st != ST_OK || (vocab_flags(b->vocab, id) & VOCAB_SPECIAL)) {
        return st;
    }
    if (!pair_map_put(&b->merges, l, r, rank, id)) {
        return error_set(e, ST_INVALID_ARGUMENT, "the pair is there twice");
    }
    return ST_OK;
}

/* --- the heap: keys (rank << 32 | position), smallest on top ------------- */

static void sift_down(struct bpe_work *w, size_t n, size_t i)
{
    uint64_t key = w->heap[i];

    for (;;) {
        size_t child = 2 * i + 1;

        w->steps++;
        if (child >= n) {
            break;
        }
        if (child + 1 < n && w->heap[child + 1] < w->heap[child]) {
            child++;
        }
        if (w->heap[child] >= key) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = key;
}

static void heap_push(struct bpe_work *w, size_t *n, uint64_t key)
{
    size_t i = (*n)++;

    assert(*n <= 2 * w->cap);
    while (i > 0 && w->heap[(i - 1) / 2] > key) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
        w->steps++;
    }
    w->heap[i] = key;
}

static uint64_t heap_pop(struct bpe_work *w, size_t *n)
{
    uint64_t top = w->heap[0];

    w->heap[0] = w->heap[--*n];
    if (*n > 0) {
        sift_down(w, *n, 0);
    }
    return top;
}

/* --- one word ------------------------------------------------------------ */

/* Look up the merge of symbol i with the one behind it. */
static bool pair_up(const struct bpe *b, struct bpe_symbol *s, uint32_t i)
{
    const struct pair_slot *m;

    s[i].rank = NONE;
    if (s[i].next == NONE) {
        return false;
    }
    m = pair_map_get(&b->merges, s[i].id, s[s[i].next].id);
    if (m == NULL) {
        return false;
    }
    s[i].rank = m->x;
    s[i].merged = m->y;
    return true;
}

static uint64_t key_of(const struct bpe_symbol *s, uint32_t i)
{
    return (uint64_t)s[i].rank << 32 | i;
}

/* One symbol per byte, and the heap of all neighbours that merge. */
static size_t spread(const struct bpe *b, struct bpe_work *w,
                     const uint8_t *word, uint32_t n)
{
    struct bpe_symbol *s = w->symbols;
    size_t n_heap = 0;

    for (uint32_t i = 0; i < n; i++) {
        s[i].id = b->byte_id[word[i]];
        s[i].prev = i == 0 ? NONE : i - 1;
        s[i].next = i + 1 == n ? NONE : i + 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (pair_up(b, s, i)) {
            w->heap[n_heap++] = key_of(s, i);
        }
    }
    for (size_t i = n_heap / 2; i-- > 0;) {
        sift_down(w, n_heap, i);
    }
    return n_heap;
}

/* Absorb the symbol behind i, and queue what i and its neighbours can do now.
 * A merge takes one key and adds two at most: n - 1 keys at first, n - 1
 * merges, so 2n is room enough. */
static void join(const struct bpe *b, struct bpe_work *w, size_t *n_heap,
                 uint32_t i)
{
    struct bpe_symbol *s = w->symbols;
    uint32_t gone = s[i].next;

    s[i].id = s[i].merged;
    s[i].next = s[gone].next;
    s[gone].rank = NONE;
    if (s[i].next != NONE) {
        s[s[i].next].prev = i;
    }
    if (pair_up(b, s, i)) {
        heap_push(w, n_heap, key_of(s, i));
    }
    if (s[i].prev != NONE && pair_up(b, s, s[i].prev)) {
        heap_push(w, n_heap, key_of(s, s[i].prev));
    }
}

static bool whole_word(const struct bpe *b, const uint8_t *word, size_t n,
                       uint32_t *id)
{
    char spelling[2 * TEXT_TOKEN_BYTES];
    unsigned flags;

    if (!b->ignore_merges || n > TEXT_TOKEN_BYTES) {
        return false;
    }
    if (!vocab_find(b->vocab, spelling, byte_level_spell(word, n, spelling),
                    id)) {
        return false;
    }
    flags = vocab_flags(b->vocab, *id);
    return (flags & VOCAB_MODEL) && !(flags & VOCAB_SPECIAL);
}

static enum status merge_word(const struct bpe *b, struct bpe_work *w,
                              const uint8_t *word, uint32_t n,
                              struct id_sink *out, struct error *e)
{
    const struct bpe_symbol *s;
    enum status st = ST_OK;
    size_t n_heap;

    if (!work_reserve(w, n)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    s = w->symbols;
    n_heap = spread(b, w, word, n);
    while (n_heap > 0) {
        uint64_t key = heap_pop(w, &n_heap);
        uint32_t i = (uint32_t)key;
        /* Symbols only grow, so a key is stale exactly if its rank is. */
        if (s[i].rank == key >> 32) {
            join(b, w, &n_heap, i);
        }
    }
    for (uint32_t i = 0; i != NONE && st == ST_OK; i = s[i].next) {
        st = id_sink_put(out, s[i].id, e);
    }
    return st;
}

enum status bpe_word(const struct bpe *b, struct bpe_work *w,
                     const uint8_t *word, size_t n, struct id_sink *out,
                     struct error *e)
{
    uint32_t id;

    assert(n < NONE / 2);
    if (n == 0) {
        return ST_OK;
    }
    if (n == 1) {
        return id_sink_put(out, b->byte_id[word[0]], e);
    }
    if (whole_word(b, word, n, &id)) {
        return id_sink_put(out, id, e);
    }
    return merge_word(b, w, word, (uint32_t)n, out, e);
}

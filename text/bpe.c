#include "text/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "text/byte_fallback.h"
#include "text/byte_level.h"
#include "text/text_limits.h"

#define NONE UINT32_MAX

/* A run of bytes that is one token now; the index of its first byte names
 * it. */
struct bpe_symbol {
    uint32_t id;
    uint32_t prev, next; /* NONE at the ends */
    uint32_t
        rank; /* rank of the merge with next; NONE: no merge, or absorbed */
};

/* A token at the end of a window. */
struct bpe_token {
    uint32_t id;
    uint32_t begin, end; /* bytes, counted from the start of the next window */
};

#define SINK_FIRST 256

static bool sink_grow(struct id_sink *out)
{
    size_t cap = out->cap < SINK_FIRST ? SINK_FIRST : 2 * out->cap;
    uint32_t *ids;

    if (out->cap >= out->most) {
        out->over = true;
        return false;
    }
    cap = cap < out->most ? cap : out->most;
    ids = realloc(out->ids, cap * sizeof *ids);
    if (ids == NULL) {
        return false;
    }
    out->ids = ids;
    out->cap = cap;
    return true;
}

enum status id_sink_put(struct id_sink *out, uint32_t id, struct error *e)
{
    if (out->n == out->cap && !sink_grow(out)) {
        return out->over
                   ? error_set(e, ST_RESOURCE_EXHAUSTED,
                               "the text has more than %zu tokens", out->cap)
                   : error_set(e, ST_RESOURCE_EXHAUSTED,
                               "no memory for %zu tokens", 2 * out->cap);
    }
    out->ids[out->n++] = id;
    return ST_OK;
}

void bpe_work_fini(struct bpe_work *w)
{
    free(w->symbols);
    w->symbols = NULL;
    w->cap = 0;
    merge_queue_fini(&w->queue);
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
    w->symbols = malloc(cap * sizeof *w->symbols);
    w->cap = w->symbols == NULL ? 0 : cap;
    return w->symbols != NULL;
}

/* Finds a token that text may become. */
static bool text_token(const struct vocab *v, const char *s, size_t n,
                       uint32_t *id)
{
    unsigned flags = vocab_find(v, s, n, id) ? vocab_flags(v, *id) : 0;

    return (flags & VOCAB_MODEL) != 0 && (flags & VOCAB_SPECIAL) == 0;
}

enum status bpe_init(struct bpe *b, const struct vocab *vocab, size_t n,
                     uint64_t seed, struct error *e)
{
    char letter[BYTE_FALLBACK_LEN];

    *b = (struct bpe){.vocab = vocab, .fallback = vocab->fallback};
    for (unsigned i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        size_t len = BYTE_FALLBACK_LEN;
        uint32_t id;

        if (b->fallback) {
            byte_fallback_spell(byte, letter);
        } else {
            len = byte_level_spell(&byte, 1, letter);
        }

        /* Every byte needs a token, so that no text is unknown. */
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
        if (b->fallback && i < 0x80 &&
            text_token(vocab, (const char *)&byte, 1, &id)) {
            b->byte_id[i] = id;
        }
    }
    b->made = malloc((n + 1) * sizeof *b->made);
    return b->made != NULL && pair_map_init(&b->merges, n, seed)
               ? ST_OK
               : error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
}

void bpe_fini(struct bpe *b)
{
    pair_map_fini(&b->merges);
    free(b->made);
    b->made = NULL;
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

/* Returns the bytes of the normalised text that a token covers. */
static const uint8_t *text_of(const struct bpe *b, uint32_t id, size_t *n)
{
    const char *s = vocab_spelling(b->vocab, id, n);

    return (const uint8_t *)(!b->fallback || byte_fallback_byte(s, *n) >= 0
                                 ? vocab_bytes(b->vocab, id, n)
                                 : s);
}

/* Records that the last byte of l may be joined with the first byte of r. */
static void note_join(struct bpe *b, uint32_t l, uint32_t r)
{
    size_t nl, nr;
    const uint8_t *left = text_of(b, l, &nl), *right = text_of(b, r, &nr);

    b->joins[left[nl - 1]][right[0] >> 3] |= (uint8_t)(1u << (right[0] & 7));
}

static bool may_join(const struct bpe *b, uint8_t x, uint8_t y)
{
    return (b->joins[x][y >> 3] >> (y & 7) & 1) != 0;
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
    /* Ignored, not refused: real files have such merges. */
    if (st != ST_OK || (vocab_flags(b->vocab, id) & VOCAB_SPECIAL)) {
        return st;
    }
    if (!pair_map_put(&b->merges, l, r, rank, id)) {
        return error_set(e, ST_INVALID_ARGUMENT, "the pair is there twice");
    }
    b->made[rank] = id;
    note_join(b, l, r);
    return ST_OK;
}

/* --- one word ------------------------------------------------------------ */

/* Looks up the merge of symbol i with the next one, and queues it. */
static bool pair_up(const struct bpe *b, struct bpe_work *w, uint32_t i)
{
    struct bpe_symbol *s = w->symbols;
    const struct pair_slot *m;

    s[i].rank = NONE;
    if (s[i].next == NONE) {
        return true;
    }
    m = pair_map_get(&b->merges, s[i].id, s[s[i].next].id);
    if (m == NULL) {
        return true;
    }
    s[i].rank = m->x;
    return merge_queue_push(&w->queue, m->x, i);
}

static bool continues(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Returns the length of the first symbol of word[0..n), and its id: that of a
 * byte or, with byte_fallback, of a character that is a token. */
static uint32_t first_symbol(const struct bpe *b, const uint8_t *word,
                             uint32_t n, uint32_t *id)
{
    uint32_t len = 1;

    if (b->fallback && word[0] >= 0xC0) {
        while (len < n && continues(word[len])) {
            len++;
        }
        if (text_token(b->vocab, (const char *)word, len, id)) {
            return len;
        }
    }
    *id = b->byte_id[word[0]];
    return 1;
}

/* Makes the first symbols, and a queue of all neighbours that merge. */
static bool spread(const struct bpe *b, struct bpe_work *w, const uint8_t *word,
                   uint32_t n)
{
    uint32_t prev = NONE, len;
    struct bpe_symbol *s;
    bool ok = work_reserve(w, n);

    s = w->symbols;
    merge_queue_reset(&w->queue);
    for (uint32_t i = 0; ok && i < n; i += len) {
        len = first_symbol(b, word + i, n - i, &s[i].id);
        s[i].prev = prev;
        s[i].next = i + len == n ? NONE : i + len;
        prev = i;
    }
    for (uint32_t i = 0; ok && i != NONE; i = s[i].next) {
        ok = pair_up(b, w, i);
    }
    return ok;
}

/* Absorbs the symbol after i, then looks up the new merges of i and of the
 * symbol before i. */
static bool join(const struct bpe *b, struct bpe_work *w, uint32_t i)
{
    struct bpe_symbol *s = w->symbols;
    uint32_t gone = s[i].next;

    s[i].id = b->made[s[i].rank];
    s[i].next = s[gone].next;
    /* .rank = NONE;] Marks queued pairs of the absorbed symbol as stale. */
    s[gone].rank = NONE;
    if (s[i].next != NONE) {
        s[s[i].next].prev = i;
    }
    return (s[i].prev == NONE || pair_up(b, w, s[i].prev)) && pair_up(b, w, i);
}

/* With ignore_merges, a word that is a token is that token, even if its
 * merges would lead elsewhere. */
static bool whole_word(const struct bpe *b, const uint8_t *word, size_t n,
                       uint32_t *id)
{
    char spelling[2 * TEXT_TOKEN_BYTES];

    if (!b->ignore_merges || n > TEXT_TOKEN_BYTES) {
        return false;
    }
    if (b->fallback) {
        return text_token(b->vocab, (const char *)word, n, id);
    }
    return text_token(b->vocab, spelling, byte_level_spell(word, n, spelling),
                      id);
}

/* Does all merges of word[0..n), n > 0.  The word's tokens are then the
 * symbols from 0 on. */
static bool merge(const struct bpe *b, struct bpe_work *w, const uint8_t *word,
                  uint32_t n)
{
    bool ok = spread(b, w, word, n);
    uint32_t rank, i;

    while (ok && merge_queue_pop(&w->queue, &rank, &i)) {
        /* Symbols only grow, so a queued pair is stale exactly if its rank
         * changed. */
        ok = w->symbols[i].rank != rank || join(b, w, i);
    }
    return ok;
}

/* Puts the symbols from i on that begin before end.  Sets *i to the first
 * that does not, or NONE. */
static enum status put_symbols(const struct bpe_work *w, uint32_t *i,
                               uint32_t end, struct id_sink *out,
                               struct error *e)
{
    enum status st = ST_OK;

    while (*i < end && st == ST_OK) {
        st = id_sink_put(out, w->symbols[*i].id, e);
        *i = w->symbols[*i].next;
    }
    return st;
}

/* --- a long word, in windows --------------------------------------------- */

static uint32_t end_of(const struct bpe_work *w, uint32_t i, uint32_t n)
{
    return w->symbols[i].next == NONE ? n : w->symbols[i].next;
}

/* Keeps the tokens of a window of n bytes from symbol first on, where the
 * next window begins. */
static void keep_tail(const struct bpe_work *w, struct bpe_cursor *c,
                      uint32_t first, uint32_t n)
{
    c->n_tail = 0;
    for (uint32_t i = first; i != NONE; i = w->symbols[i].next) {
        c->tail[c->n_tail++] = (struct bpe_token){w->symbols[i].id, i - first,
                                                  end_of(w, i, n) - first};
    }
}

/* Puts the tail's tokens before the first one that this window of n bytes has
 * too, and returns that symbol.  Returns false if there is none. */
static bool meet(const struct bpe_work *w, const struct bpe_cursor *c,
                 uint32_t n, uint32_t *at, struct id_sink *out)
{
    uint32_t i = 0;

    for (uint32_t k = 0; k < c->n_tail; k++) {
        const struct bpe_token *t = &c->tail[k];

        while (i != NONE && i < t->begin) {
            i = w->symbols[i].next;
        }
        if (i == NONE) {
            return false;
        }
        /* Same start and same end, hence the same token. */
        if (i == t->begin && end_of(w, i, n) == t->end) {
            *at = i;
            return true;
        }
        if (id_sink_put(out, t->id, NULL) != ST_OK) {
            return false;
        }
    }
    return false;
}

/* Encodes the next window of the cursor's part.  Returns false if it does not
 * meet the window before, memory is exhausted, or out is full.  Ids of the
 * part in out are then invalid. */
static bool merge_window(const struct bpe *b, struct bpe_work *w,
                         struct bpe_cursor *c, uint32_t window,
                         struct id_sink *out)
{
    /* A larger overlap makes windows meet more often and costs more repeated
     * work. */
    const uint32_t overlap = window / 16;
    const uint32_t left = (uint32_t)(c->end - c->at) - c->begin;
    const uint8_t *from = c->word + c->at + c->begin;
    uint32_t len = left < window ? left : window, i = 0;

    /* A character has four bytes, a window at least sixteen. */
    while (b->fallback && len < left && continues(from[len])) {
        len--;
    }

    if (c->tail == NULL) {
        c->tail = malloc(overlap * sizeof *c->tail);
    }
    if (c->tail == NULL || !merge(b, w, from, len)) {
        return false;
    }
    if (c->begin > 0) {
        if (!meet(w, c, len, &i, out)) {
            return false;
        }
        w->n_windows++;
    }
    if (len == left) {
        c->begin += left;
        return put_symbols(w, &i, len, out, NULL) == ST_OK;
    }
    if (put_symbols(w, &i, len - overlap, out, NULL) != ST_OK || i == NONE) {
        return false;
    }
    keep_tail(w, c, i, len);
    c->begin += i;
    return true;
}

static enum status merge_whole(const struct bpe *b, struct bpe_work *w,
                               struct bpe_cursor *c, struct id_sink *out,
                               struct error *e)
{
    uint32_t n = (uint32_t)(c->end - c->at), i = 0;

    if (!merge(b, w, c->word + c->at, n)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    c->at = c->end;
    c->begin = 0;
    return put_symbols(w, &i, n, out, e);
}

/* Encodes the part again as a whole. */
static enum status fall_back(const struct bpe *b, struct bpe_work *w,
                             struct bpe_cursor *c, struct id_sink *out,
                             struct error *e)
{
    if (c->end - c->at > TEXT_WHOLE_BYTES) {
        if (out->over) {
            return id_sink_put(out, 0, e);
        }
        return error_set(e, ST_OUT_OF_RANGE,
                         "a word of %zu bytes has to be encoded at once, at "
                         "most %d are allowed; put spaces into it",
                         c->end - c->at, TEXT_WHOLE_BYTES);
    }
    out->n = c->n_out;
    out->over = false;
    w->n_whole++;
    return merge_whole(b, w, c, out, e);
}

/* Sets the cursor's part: a run of bytes that merges may join.  Between other
 * bytes the word is cut, and each part is independent. */
static void find_part(const struct bpe *b, struct bpe_cursor *c)
{
    c->begin = 0;
    c->end = c->at + 1;
    while (c->end < c->n &&
           (may_join(b, c->word[c->end - 1], c->word[c->end]) ||
            (b->fallback && continues(c->word[c->end])))) {
        c->end++;
    }
}

/* Encodes the next window, or a part that is no longer than one. */
static enum status step(const struct bpe *b, struct bpe_work *w,
                        struct bpe_cursor *c, struct id_sink *out,
                        struct error *e)
{
    uint32_t window = w->window == 0 ? BPE_WINDOW : w->window;

    if (c->end <= c->at) {
        find_part(b, c);
        c->n_out = out->n;
    }
    if (c->end - c->at == 1) {
        return id_sink_put(out, b->byte_id[c->word[c->at++]], e);
    }
    if (c->end - c->at <= window) {
        return merge_whole(b, w, c, out, e);
    }
    if (!merge_window(b, w, c, window, out)) {
        return fall_back(b, w, c, out, e);
    }
    if (c->begin == c->end - c->at) {
        c->at = c->end;
        c->begin = 0;
    }
    return ST_OK;
}

void bpe_start(struct bpe_cursor *c, const uint8_t *word, size_t n)
{
    assert(n < NONE / 2);
    c->word = word;
    c->n = n;
    c->at = c->end = 0;
    c->begin = 0;
}

enum status bpe_step(const struct bpe *b, struct bpe_work *w,
                     struct bpe_cursor *c, size_t max_bytes,
                     struct id_sink *out, bool *done, struct error *e)
{
    size_t from = c->at + c->begin;
    enum status st = ST_OK;
    uint32_t id;

    if (from == 0 && whole_word(b, c->word, c->n, &id)) {
        c->at = c->n;
        *done = true;
        return id_sink_put(out, id, e);
    }
    while (st == ST_OK && c->at < c->n &&
           (c->at + c->begin == from || c->at + c->begin - from < max_bytes)) {
        st = step(b, w, c, out, e);
    }
    *done = c->at == c->n;
    return st;
}

void bpe_cursor_fini(struct bpe_cursor *c)
{
    free(c->tail);
    *c = (struct bpe_cursor){.word = NULL};
}

#include "text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "text/json_read.h"
#include "text/text_limits.h"
#include "text/unicode.h"

static enum status no_memory(struct error *e)
{
    return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
}

/* --- parsing ------------------------------------------------------------- */

static enum status parse_flags(struct added_token *t, const json_t *v,
                               struct error *e)
{
    const struct {
        const char *name;
        bool *flag;
    } rows[] = {
        {"special", &t->special},         {"normalized", &t->normalized},
        {"single_word", &t->single_word}, {"lstrip", &t->lstrip},
        {"rstrip", &t->rstrip},
    };
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < sizeof rows / sizeof *rows; i++) {
        st = json_read_bool(v, rows[i].name, rows[i].flag, e);
    }
    return st;
}

/* Enters the token; the model's vocabulary may already have it under the same
 * id. */
static enum status enter(const struct added_token *t, int64_t id,
                         struct vocab *vocab, struct error *e)
{
    unsigned flags = t->special ? VOCAB_SPECIAL : 0;
    uint32_t known;

    if (!vocab_find(vocab, t->content, t->n, &known)) {
        return vocab_add(vocab, t->content, t->n, id, flags, e);
    }
    if (known != id) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "id %lld, but the vocabulary has it as %u",
                         (long long)id, known);
    }
    /* Only a token of the model may be entered again, and once. */
    if (!(vocab_flags(vocab, known) & VOCAB_MODEL) ||
        (vocab_flags(vocab, known) & VOCAB_ADDED)) {
        return error_set(e, ST_INVALID_ARGUMENT, "the token is there twice");
    }
    vocab->entries[known].flags |= (uint8_t)(flags | VOCAB_ADDED);
    return ST_OK;
}

/* Returns whether a spelling is of a form that only control tokens have. */
static bool is_spelt_as_control(const char *s, size_t n)
{
    bool upper = n > 2 && s[0] == '[' && s[n - 1] == ']';

    if (n > 4 && memcmp(s, "<|", 2) == 0 && memcmp(s + n - 2, "|>", 2) == 0) {
        return true;
    }
    for (size_t i = 1; upper && i < n - 1; i++) {
        upper = (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_' || s[i] == '/';
    }
    return upper;
}

static enum status parse_token(struct added_token *t, const json_t *v,
                               struct vocab *vocab, struct error *e)
{
    const json_t *content, *id;
    enum status st = json_read_field(v, "content", JSON_STRING, &content, e);

    if (st == ST_OK) {
        st = json_read_field(v, "id", JSON_INTEGER, &id, e);
    }
    if (st == ST_OK) {
        st = parse_flags(t, v, e);
    }
    if (st != ST_OK) {
        return st;
    }
    t->content = json_string_value(content);
    t->n = json_string_length(content);
    if (t->n > TEXT_ADDED_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "content: %zu bytes long, at most %d are allowed",
                         t->n, TEXT_ADDED_BYTES);
    }
    st = enter(t, json_integer_value(id), vocab, e);
    t->id = (uint32_t)json_integer_value(id);
    t->structural = t->special || is_spelt_as_control(t->content, t->n);
    return st;
}

/* A normalized token is searched in normalised text, so its spelling is
 * normalised too. */
static enum status respell(struct added_token *t, const struct normalizer *z,
                           struct error *e)
{
    if (!t->normalized) {
        return ST_OK;
    }
    return normalizer_run(z, t->content, t->n, &t->content, &t->n, &t->owned,
                          e);
}

/* --- the tries ----------------------------------------------------------- */

/* Node 0 is the root, which is no child, so 0 means "no edge". */
static uint32_t trie_step(const struct added_trie *t, uint32_t node,
                          uint8_t byte)
{
    const struct pair_slot *s = pair_map_get(&t->edges, node, byte);

    return s == NULL ? 0 : s->x;
}

/* The trie is a map of (node, byte) pairs, which needs no array of 256
 * children per node. */
static void trie_put(struct added_trie *t, uint32_t *nodes,
                     const struct added_token *token, uint32_t index)
{
    uint32_t node = 0;

    for (size_t i = 0; i < token->n; i++) {
        uint8_t byte = (uint8_t)token->content[i];
        uint32_t next = trie_step(t, node, byte);
        if (next == 0) {
            next = (*nodes)++;
            (void)pair_map_put(&t->edges, node, byte, next, 0);
        }
        node = next;
    }
    if (node != 0) {
        t->first[(uint8_t)token->content[0]] = true;
        t->any = true;
        if (t->token[node] == 0) {
            t->token[node] = index + 1;
        }
    }
}

/* Special tokens are entered first: of two tokens with one spelling, the
 * first counts. */
static enum status trie_build(struct added_trie *t,
                              const struct added_tokens *a, bool normalized,
                              uint64_t seed, struct error *e)
{
    uint32_t nodes = 1;
    size_t bytes = 0;

    for (size_t i = 0; i < a->n; i++) {
        bytes += a->tokens[i].normalized == normalized ? a->tokens[i].n : 0;
    }
    /* A trie has at most one node per byte, plus the root. */
    t->token = calloc(bytes + 1, sizeof *t->token);
    if (t->token == NULL || !pair_map_init(&t->edges, bytes, seed)) {
        return no_memory(e);
    }
    for (int special = 1; special >= 0; special--) {
        for (uint32_t i = 0; i < a->n; i++) {
            const struct added_token *token = &a->tokens[i];
            if (token->normalized == normalized &&
                token->special == (special == 1)) {
                trie_put(t, &nodes, token, i);
            }
        }
    }
    return ST_OK;
}

static enum status parse_list(struct added_tokens *a, const json_t *list,
                              struct vocab *vocab, const struct normalizer *z,
                              struct error *e)
{
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < a->n; i++) {
        struct added_token *t = &a->tokens[i];
        st = parse_token(t, json_array_get(list, i), vocab, e);
        if (st == ST_OK) {
            st = respell(t, z, e);
        }
        a->longest = t->n > a->longest ? t->n : a->longest;
        a->strips = a->strips || t->lstrip || t->rstrip;
        if (st != ST_OK) {
            st = error_wrap(e, "added_tokens[%zu]", i);
        }
    }
    return st;
}

/* The file's strings are freed with the file; from here on only the tries are
 * used. */
static void forget_contents(struct added_tokens *a)
{
    for (size_t i = 0; i < a->n; i++) {
        free(a->tokens[i].owned);
        a->tokens[i].owned = NULL;
        a->tokens[i].content = NULL;
    }
}

enum status added_tokens_parse(struct added_tokens *a, const json_t *list,
                               struct vocab *vocab, const struct normalizer *z,
                               struct error *e)
{
    enum status st;

    *a = (struct added_tokens){.n = json_array_size(list)};
    if (a->n > TEXT_ADDED_TOKENS) {
        st = error_set(e, ST_OUT_OF_RANGE,
                       "added_tokens: %zu tokens, at most %d are allowed", a->n,
                       TEXT_ADDED_TOKENS);
        a->n = 0;
        return st;
    }
    a->tokens = calloc(a->n + 1, sizeof *a->tokens);
    if (a->tokens == NULL) {
        a->n = 0;
        return no_memory(e);
    }
    st = parse_list(a, list, vocab, z, e);
    if (st == ST_OK) {
        st = trie_build(&a->raw, a, false, vocab->seed, e);
    }
    if (st == ST_OK) {
        st = trie_build(&a->normalized, a, true, vocab->seed, e);
    }
    forget_contents(a);
    return st;
}

void added_tokens_fini(struct added_tokens *a)
{
    pair_map_fini(&a->raw.edges);
    pair_map_fini(&a->normalized.edges);
    free(a->raw.token);
    free(a->normalized.token);
    free(a->tokens);
    *a = (struct added_tokens){0};
}

/* --- protection ----------------------------------------------------------- */

#define PROTECT_BYTES 3

static bool is_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') &&
            !((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) {
            return false;
        }
    }
    return true;
}

/* The contents are forgotten, but the vocabulary has their spellings. */
void added_tokens_protect(struct added_tokens *a, const struct vocab *vocab,
                          const char *text, size_t n)
{
    for (size_t i = 0; i < a->n; i++) {
        size_t len = 0;
        const char *s = vocab_bytes(vocab, a->tokens[i].id, &len);

        if (s != NULL && len >= PROTECT_BYTES && !is_plain(s, len) &&
            memmem(text, n, s, len) != NULL) {
            a->tokens[i].structural = true;
        }
    }
}

/* --- searching ----------------------------------------------------------- */

void added_search_init(struct added_search *s, const struct added_tokens *a,
                       bool normalized, bool special, const char *text,
                       size_t n)
{
    *s = (struct added_search){
        .added = a,
        .trie = normalized ? &a->normalized : &a->raw,
        .text = text,
        .n = n,
        .special = special,
        .pause = SIZE_MAX,
    };
}

/* Returns how many bytes from s->at on a structural token may have.  Spans that
 * end before s->at are dropped, as the search only moves forward. */
static size_t trusted_bytes(struct added_search *s)
{
    size_t at = s->base + s->at;

    while (s->n_untrusted > 0 && s->untrusted->end <= at) {
        s->untrusted++;
        s->n_untrusted--;
    }
    if (s->n_untrusted == 0) {
        return s->n - s->at;
    }
    return s->untrusted->begin <= at ? 0 : s->untrusted->begin - at;
}

/* Returns the longest token that starts at s->at, and its length.  A structural
 * token that reaches into an untrusted span does not exist for it. */
static const struct added_token *longest(struct added_search *s, size_t *len)
{
    const struct added_token *best = NULL;
    size_t trusted = trusted_bytes(s);
    uint32_t node = 0;

    for (size_t i = s->at; i < s->n; i++) {
        node = trie_step(s->trie, node, (uint8_t)s->text[i]);
        if (node == 0) {
            break;
        }
        if (s->trie->token[node] != 0) {
            const struct added_token *t =
                &s->added->tokens[s->trie->token[node] - 1];

            if (!t->structural || i + 1 - s->at <= trusted) {
                best = t;
                *len = i + 1 - s->at;
            }
        }
    }
    return best;
}

/* A match that does not count is plain text; the search continues one byte
 * later. */
static bool counts(const struct added_search *s, const struct added_token *t,
                   size_t start, size_t end)
{
    size_t len;

    if ((t->special && !s->special) || (t->structural && s->all_untrusted)) {
        return false;
    }
    if (!t->single_word) {
        return true;
    }
    return !(start > 0 &&
             unicode_is_word(unicode_before(s->text, start, &len))) &&
           !(end < s->n &&
             unicode_is_word(unicode_at(s->text, s->n, end, &len)));
}

/* Stops at the previous token: its white space is already taken. */
static size_t strip_left(const struct added_search *s, size_t start)
{
    size_t len;

    while (start > s->gap &&
           unicode_is_space(unicode_before(s->text, start, &len))) {
        start -= len;
    }
    return start;
}

/* White space that was walked over is not walked again, which keeps the
 * search linear for any set of tokens. */
static size_t strip_right(struct added_search *s, size_t end)
{
    size_t len;

    if (end < s->space_end) {
        return s->space_end;
    }
    while (end < s->n &&
           unicode_is_space(unicode_at(s->text, s->n, end, &len))) {
        end += len;
    }
    s->space_end = end;
    return end;
}

bool added_search_paused(const struct added_search *s)
{
    return s->trie->any && s->at < s->n;
}

bool added_search_next(struct added_search *s, struct added_match *m)
{
    while (s->trie->any && s->at < s->n && s->at < s->pause) {
        const struct added_token *t;
        size_t start = s->at, len = 0;

        if (!s->trie->first[(uint8_t)s->text[s->at]]) {
            s->at++;
            continue;
        }
        t = longest(s, &len);
        s->at += t == NULL ? 1 : len;
        if (t == NULL || !counts(s, t, start, s->at)) {
            continue;
        }
        m->gap = s->gap;
        m->start = t->lstrip ? strip_left(s, start) : start;
        m->end = t->rstrip ? strip_right(s, s->at) : s->at;
        m->id = t->id;
        s->gap = m->end;
        return true;
    }
    return false;
}

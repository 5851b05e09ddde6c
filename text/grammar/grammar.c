/* grammar.c - Compilation, and the constraint of a sequence. */
#include "text/grammar/grammar.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/grammar_limits.h"
#include "text/grammar/mask.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema.h"

struct grammar_vocab {
    struct vocab_trie trie;
    struct mask_shared shared;
    vocab_token_fn *token;
    void *arg;
    uint32_t *ends; /* [n_ends] */
    size_t n_ends;
};

struct grammar {
    const struct grammar_vocab *vocab;
    pthread_mutex_t lock; /* machine and masks */
    struct machine machine;
    struct mask_cache masks;
};

/* Where a text was before a token. */
struct step {
    uint32_t state;
    size_t text_len;
};

struct constraint {
    struct grammar *g;
    uint32_t state;
    bool accepts;       /* of state */
    bool ended;         /* the last token was an end */
    struct step *steps; /* [n] */
    size_t n, cap;
    char *text; /* [text_len] */
    size_t text_len, text_cap;
};

/* ---- the vocabulary ---- */

enum status grammar_vocab_new(struct grammar_vocab **out, uint32_t n_vocab,
                              vocab_token_fn *token, void *arg,
                              const uint32_t *ends, size_t n_ends,
                              struct error *e)
{
    struct grammar_vocab *v = calloc(1, sizeof *v);
    enum status st;

    *out = NULL;
    if (v == NULL ||
        (v->ends = malloc((n_ends + 1) * sizeof *v->ends)) == NULL) {
        free(v);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "memory: vocabulary");
    }
    if (n_ends > 0) {
        memcpy(v->ends, ends, n_ends * sizeof *ends);
    }
    v->n_ends = n_ends;
    v->token = token;
    v->arg = arg;
    st = vocab_trie_init(&v->trie, n_vocab, token, arg, e);
    if (st == ST_OK) {
        st = mask_shared_init(&v->shared, &v->trie, e);
    }
    if (st != ST_OK) {
        grammar_vocab_free(&v);
    }
    *out = v;
    return st;
}

void grammar_vocab_free(struct grammar_vocab **v)
{
    if (*v != NULL) {
        mask_shared_fini(&(*v)->shared);
        vocab_trie_fini(&(*v)->trie);
        free((*v)->ends);
        free(*v);
        *v = NULL;
    }
}

size_t grammar_vocab_words(const struct grammar_vocab *v)
{
    return ((size_t)v->trie.n_vocab + 63) / 64;
}

static bool is_end(const struct grammar_vocab *v, uint32_t id)
{
    for (size_t i = 0; i < v->n_ends; i++) {
        if (v->ends[i] == id) {
            return true;
        }
    }
    return false;
}

/* ---- compilation ---- */

static enum status parse_json(json_t **out, const char *text, size_t n,
                              struct error *e)
{
    json_error_t why;

    if (n > GRAMMAR_SOURCE_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%zu bytes exceed GRAMMAR_SOURCE_MAX (%u)", n,
                         GRAMMAR_SOURCE_MAX);
    }
    *out = json_loadb(text, n, JSON_DECODE_ANY, &why);
    if (*out == NULL && json_error_code(&why) == json_error_null_character) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "U+0000 in a string or name is not supported");
    }
    if (*out == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "not JSON: %s, at line %d column %d", why.text,
                         why.line, why.column);
    }
    return ST_OK;
}

static enum status compile_json(struct machine *m, enum grammar_kind kind,
                                const char *text, size_t n, struct error *e)
{
    json_t *schema = NULL;
    enum status st = ST_OK;

    if (kind == GRAMMAR_OBJECT) {
        schema = json_pack("{s:s}", "type", "object");
    } else {
        st = parse_json(&schema, text, n, e);
    }
    if (st == ST_OK) {
        st = schema_compile(m, schema, e);
    }
    json_decref(schema);
    return st;
}

/* Makes a grammar of one rule. */
static enum status finish_one(struct machine *m, uint32_t body, struct error *e)
{
    uint32_t rule = machine_rule(m);

    if (expr_nullable(&m->pool, body)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the empty text matches; require at least one "
                         "character");
    }
    if (rule == UINT32_MAX) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the grammar exceeds GRAMMAR_BYTES_MAX");
    }
    machine_set_rule(m, rule, body);
    return machine_finish(m, rule, e);
}

static enum status compile_regex(struct machine *m, const char *text, size_t n,
                                 struct error *e)
{
    uint32_t body;
    enum status st =
        regex_compile(&m->pool, &m->chars, text, n, REGEX_WHOLE, &body, e);

    return st == ST_OK ? finish_one(m, body, e) : st;
}

static enum status compile_choice(struct machine *m, const char *text, size_t n,
                                  struct error *e)
{
    json_t *choices, *v;
    enum status st = parse_json(&choices, text, n, e);
    uint32_t body = EXPR_NONE;
    size_t i;

    if (st != ST_OK) {
        return st;
    }
    if (!json_is_array(choices) || json_array_size(choices) == 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "choices must be an array of at least one string");
    }
    json_array_foreach(choices, i, v)
    {
        if (!json_is_string(v)) {
            st =
                error_set(e, ST_INVALID_ARGUMENT, "choice %zu is no string", i);
            break;
        }
        body = expr_or(
            &m->pool, body,
            expr_text(&m->pool, json_string_value(v), json_string_length(v)));
    }
    json_decref(choices);
    return st == ST_OK ? finish_one(m, body, e) : st;
}

enum status grammar_compile(struct grammar **out, const struct grammar_vocab *v,
                            enum grammar_kind kind, const char *text, size_t n,
                            const struct grammar_style *style, struct error *e)
{
    struct grammar *g = calloc(1, sizeof *g);
    enum status st;

    *out = NULL;
    if (g == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "memory: grammar");
    }
    g->vocab = v;
    pthread_mutex_init(&g->lock, NULL);
    st = machine_init(&g->machine, style, GRAMMAR_BYTES_MAX, e);
    if (st == ST_OK) {
        st = kind == GRAMMAR_REGEX ? compile_regex(&g->machine, text, n, e)
             : kind == GRAMMAR_CHOICE
                 ? compile_choice(&g->machine, text, n, e)
                 : compile_json(&g->machine, kind, text, n, e);
    }
    if (st == ST_OK) {
        st = mask_cache_init(&g->masks, &g->machine, &v->trie, &v->shared, e);
    }
    if (st != ST_OK) {
        grammar_free(&g);
    }
    *out = g;
    return st;
}

void grammar_free(struct grammar **g)
{
    if (*g != NULL) {
        mask_cache_fini(&(*g)->masks);
        machine_fini(&(*g)->machine);
        pthread_mutex_destroy(&(*g)->lock);
        free(*g);
        *g = NULL;
    }
}

void grammar_sizes(struct grammar *g, struct grammar_sizes *out)
{
    pthread_mutex_lock(&g->lock);
    *out = (struct grammar_sizes){.bytes = g->machine.pool.budget.bytes,
                                  .mask_bytes = g->masks.budget.bytes,
                                  .rules = g->machine.n_rules,
                                  .states = g->machine.n_states};
    pthread_mutex_unlock(&g->lock);
}

/* ---- the constraint of a sequence ---- */

enum status constraint_new(struct constraint **out, struct grammar *g,
                           struct error *e)
{
    struct constraint *c = calloc(1, sizeof *c);

    *out = c;
    if (c == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "memory: constraint");
    }
    c->g = g;
    c->state = g->machine.start;
    return ST_OK;
}

void constraint_free(struct constraint **c)
{
    if (*c != NULL) {
        free((*c)->steps);
        free((*c)->text);
        free(*c);
        *c = NULL;
    }
}

enum status constraint_mask(struct constraint *c, uint64_t *bits,
                            struct error *e)
{
    const struct grammar_vocab *v = c->g->vocab;
    enum status st;

    if (c->ended) { /* the engine may still have a row in flight */
        memset(bits, 0, grammar_vocab_words(v) * sizeof *bits);
        return ST_OK;
    }
    pthread_mutex_lock(&c->g->lock);
    st = mask_of_state(&c->g->masks, c->state, bits, e);
    pthread_mutex_unlock(&c->g->lock);
    for (size_t i = 0; st == ST_OK && i < v->n_ends; i++) {
        uint64_t bit = (uint64_t)1 << (v->ends[i] % 64);

        if (v->ends[i] >= v->trie.n_vocab) {
            continue;
        }
        bits[v->ends[i] / 64] &= ~bit;
        bits[v->ends[i] / 64] |= c->accepts ? bit : 0;
    }
    return st;
}

/* Makes room for a step and for n bytes of text. */

static bool make_room(struct constraint *c, size_t n)
{
    if (c->n == c->cap) {
        size_t cap = c->cap == 0 ? 64 : 2 * c->cap;
        struct step *steps = realloc(c->steps, cap * sizeof *steps);

        if (steps == NULL) {
            return false;
        }
        c->steps = steps;
        c->cap = cap;
    }
    if (c->text_len + n > c->text_cap) {
        size_t cap = 2 * (c->text_len + n);
        char *text = realloc(c->text, cap);

        if (text == NULL) {
            return false;
        }
        c->text = text;
        c->text_cap = cap;
    }
    return true;
}

/* Returns the state after text[0..*n), and in *n the bytes that fit. */

static uint32_t state_after(struct constraint *c, const char *text, size_t *n,
                            bool *accepts, bool *failed)
{
    struct machine *m = &c->g->machine;
    uint32_t state = c->state;
    size_t i = 0;

    pthread_mutex_lock(&c->g->lock);
    for (; i < *n; i++) {
        uint32_t next = machine_step(m, state, (uint8_t)text[i]);

        if (next == MACHINE_DEAD) {
            break;
        }
        state = next;
    }
    *accepts = machine_accepts(m, state);
    *failed = m->pool.budget.failed;
    pthread_mutex_unlock(&c->g->lock);
    *n = i;
    return state;
}

enum status constraint_accept_text(struct constraint *c, const char *text,
                                   size_t n, size_t *n_taken, struct error *e)
{
    bool accepts, failed;
    uint32_t state;

    *n_taken = c->ended ? 0 : n;
    if (!make_room(c, n)) {
        *n_taken = 0;
        return error_set(e, ST_RESOURCE_EXHAUSTED, "memory: constraint");
    }
    state = state_after(c, text, n_taken, &accepts, &failed);
    if (failed) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the grammar exceeds GRAMMAR_BYTES_MAX");
    }
    if (*n_taken < n) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the text leaves the grammar at byte %zu",
                         c->text_len + *n_taken);
    }
    c->steps[c->n++] = (struct step){c->state, c->text_len};
    if (n > 0) {
        memcpy(c->text + c->text_len, text, n);
    }
    c->text_len += n;
    c->state = state;
    c->accepts = accepts;
    return ST_OK;
}

enum status constraint_accept(struct constraint *c, uint32_t id,
                              struct error *e)
{
    const struct grammar_vocab *v = c->g->vocab;
    const char *bytes = NULL;
    size_t n = 0, taken;

    if (is_end(v, id)) {
        if (!c->accepts || c->ended) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "token %u ends a text that is not complete", id);
        }
        if (!make_room(c, 0)) {
            return error_set(e, ST_RESOURCE_EXHAUSTED, "memory: constraint");
        }
        c->steps[c->n++] = (struct step){c->state, c->text_len};
        c->ended = true;
        return ST_OK;
    }
    n = id < v->trie.n_vocab ? v->token(v->arg, id, &bytes) : 0;
    if (n == 0 || bytes == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "token %u stands for no text",
                         id);
    }
    return constraint_accept_text(c, bytes, n, &taken, e);
}

void constraint_rollback(struct constraint *c, size_t n)
{
    n = n < c->n ? n : c->n;
    if (n == 0) {
        return;
    }
    c->n -= n;
    c->ended = false;
    c->state = c->steps[c->n].state;
    c->text_len = c->steps[c->n].text_len;
    pthread_mutex_lock(&c->g->lock);
    c->accepts = machine_accepts(&c->g->machine, c->state);
    pthread_mutex_unlock(&c->g->lock);
}

bool constraint_complete(const struct constraint *c)
{
    return c->accepts;
}

const char *constraint_text(const struct constraint *c, size_t *n)
{
    *n = c->text_len;
    return c->text == NULL ? "" : c->text;
}

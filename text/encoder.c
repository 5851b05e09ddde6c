#include "text/encoder.h"

#include <stdlib.h>

#include "common/base/utf8.h"
#include "text/text_limits.h"
#include "text/tokenizer_parts.h"

enum status encoder_init(struct encoder *c, const struct tokenizer *t,
                         struct error *e)
{
    *c = (struct encoder){.t = t};
    return pretokenizer_work_init(&c->words, e);
}

void encoder_fini(struct encoder *c)
{
    pretokenizer_work_fini(&c->words);
    bpe_work_fini(&c->bpe);
}

static enum status put_all(struct id_sink *out, const uint32_t *ids, size_t n,
                           struct error *e)
{
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < n; i++) {
        st = id_sink_put(out, ids[i], e);
    }
    return st;
}

static enum status encode_word(void *ctx, const char *s, size_t n,
                               struct error *e)
{
    struct encoder *c = ctx;

    return bpe_word(&c->t->bpe, &c->bpe, (const uint8_t *)s, n, c->out, e);
}

static enum status encode_plain(struct encoder *c, const char *s, size_t n,
                                struct error *e)
{
    return pretokenizer_run(&c->t->pretokenizer, &c->words, s, n, encode_word,
                            c, e);
}

typedef enum status (*plain_fn)(struct encoder *c, const char *s, size_t n,
                                struct error *e);

/* Puts the added tokens of one set, and passes the text between them to fn. */
static enum status encode_around(struct encoder *c, const char *s, size_t n,
                                 bool normalized, plain_fn fn, struct error *e)
{
    struct added_search search;
    struct added_match m;
    enum status st = ST_OK;

    added_search_init(&search, &c->t->added, normalized,
                      (c->flags & TOKENIZE_PARSE_SPECIAL) != 0, s, n);
    while (st == ST_OK && added_search_next(&search, &m)) {
        if (m.gap < m.start) {
            st = fn(c, s + m.gap, m.start - m.gap, e);
        }
        if (st == ST_OK) {
            st = id_sink_put(c->out, m.id, e);
        }
    }
    if (st == ST_OK && search.gap < n) {
        st = fn(c, s + search.gap, n - search.gap, e);
    }
    return st;
}

/* Normalised tokens are searched after normalisation, all others before it. */
static enum status encode_normalized(struct encoder *c, const char *s, size_t n,
                                     struct error *e)
{
    const char *text;
    char *owned;
    enum status st =
        normalizer_run(&c->t->normalizer, s, n, &text, &n, &owned, e);

    if (st == ST_OK) {
        st = encode_around(c, text, n, true, encode_plain, e);
    }
    free(owned);
    return st;
}

enum status encoder_run(struct encoder *c, const char *text, size_t len,
                        unsigned flags, struct id_sink *out, struct error *e)
{
    const struct post_processor *p = &c->t->post;
    bool around = (flags & TOKENIZE_ADD_SPECIAL) != 0;
    enum status st = ST_OK;
    size_t bad;

    /* Checked before any byte is read, so that a long text costs nothing. */
    if (len > TEXT_ENCODE_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "the text is %zu bytes long, at most %d are allowed",
                         len, TEXT_ENCODE_BYTES);
    }
    /* Every later step assumes valid UTF-8, PCRE2 included. */
    if (!utf8_valid(text, len, &bad)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the text is not UTF-8 at byte %zu", bad);
    }
    c->flags = flags;
    c->out = out;
    if (around) {
        st = put_all(out, p->before, p->n_before, e);
    }
    if (st == ST_OK) {
        st = encode_around(c, text, len, false, encode_normalized, e);
    }
    if (st == ST_OK && around) {
        st = put_all(out, p->after, p->n_after, e);
    }
    return st;
}

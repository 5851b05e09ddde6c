#include "text/encoder.h"

#include <stdlib.h>

#include "common/base/utf8.h"
#include "text/text_limits.h"
#include "text/tokenizer_parts.h"

enum status encoder_init(struct encoder *c, const struct tokenizer *t,
                         struct error *e)
{
    *c = (struct encoder){.t = t};
    return pattern_split_work_init(&c->words.split, e);
}

void encoder_pause(struct encoder *c)
{
    pattern_split_work_fini(&c->words.split);
    bpe_work_fini(&c->bpe);
}

void encoder_fini(struct encoder *c)
{
    encoder_pause(c);
    normalizer_cursor_fini(&c->normal);
    pretokenizer_cursor_fini(&c->pieces);
    bpe_cursor_fini(&c->word);
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

/* Returns the index of the first span that ends behind a byte. */
static size_t first_span(const struct encoder *c, size_t at)
{
    size_t low = 0, high = c->n_untrusted;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (c->untrusted[mid].end <= at) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static bool is_untrusted(const struct encoder *c, size_t begin, size_t end)
{
    size_t i = first_span(c, begin);

    return i < c->n_untrusted && c->untrusted[i].begin < end;
}

static void start_search(const struct encoder *c, struct encoder_search *x,
                         bool normalized, unsigned flags, const char *s,
                         size_t n)
{
    size_t first = first_span(c, c->base);

    *x = (struct encoder_search){.ended = false};
    added_search_init(&x->search, &c->t->added, normalized,
                      (flags & TOKENIZE_PARSE_SPECIAL) != 0, s, n);
    x->search.untrusted = c->n_untrusted == 0 ? NULL : c->untrusted + first;
    x->search.n_untrusted = c->n_untrusted - first;
    x->search.base = c->base;
}

/* Takes bytes off the step's budget; every step makes some progress. */
static void spend(size_t *left, size_t bytes)
{
    bytes = bytes == 0 ? 1 : bytes;
    *left -= bytes < *left ? bytes : *left;
}

/* Puts the token behind the last gap, and finds the next gap.  Sets *s to NULL
 * at the end, and *n to 0 if there is no gap here. */
static enum status next_gap(struct encoder *c, struct encoder_search *x,
                            size_t *left, const char **s, size_t *n,
                            struct error *e)
{
    size_t at = x->search.at;
    enum status st = ST_OK;

    *s = x->search.text;
    *n = 0;
    if (x->has_match) {
        st = id_sink_put(c->out, x->match.id, e);
    } else if (x->ended) {
        *s = NULL;
        return ST_OK;
    }
    x->search.pause = *left < SIZE_MAX - at ? at + *left : SIZE_MAX;
    x->has_match = added_search_next(&x->search, &x->match);
    if (x->has_match) {
        if (x->match.gap < x->match.start) {
            *s += x->match.gap;
            *n = x->match.start - x->match.gap;
        }
    } else if (!added_search_paused(&x->search)) {
        x->ended = true;
        *s += x->search.gap;
        *n = x->search.n - x->search.gap;
    }
    spend(left, x->search.at - at);
    return st;
}

/* Moves to a stage if a search has a gap for it, or back at its end. */
static void move(struct encoder *c, const char *s, size_t n,
                 enum encoder_stage inner, enum encoder_stage outer)
{
    if (s == NULL) {
        c->stage = outer;
    } else if (n > 0) {
        c->stage = inner;
    }
}

static enum status step_raw(struct encoder *c, size_t *left, struct error *e)
{
    const char *s;
    size_t n;
    enum status st = next_gap(c, &c->raw, left, &s, &n, e);

    move(c, s, n, ENCODER_NORMALIZE, ENCODER_AFTER);
    if (c->stage == ENCODER_NORMALIZE) {
        normalizer_start(&c->normal, &c->t->normalizer, s, n);
    }
    return st;
}

/* Normalised tokens are searched after normalisation, all others before it.
 * A changed piece has no offsets in the text; if it has untrusted bytes, no
 * structural token is searched in it. */
static enum status step_normalize(struct encoder *c, size_t *left,
                                  struct error *e)
{
    const struct normalizer_cursor *z = &c->normal;
    bool done = false;
    size_t base;
    enum status st = normalizer_step(&c->normal, left, &done, e);

    if (st != ST_OK || !done) {
        return st;
    }
    base = (size_t)(z->text - c->text);
    c->base = z->owned == NULL ? base : SIZE_MAX;
    start_search(c, &c->normalized, true, c->flags, z->out, z->n_out);
    c->normalized.search.all_untrusted =
        z->owned != NULL && is_untrusted(c, base, base + z->n);
    c->stage = ENCODER_SEARCH;
    return ST_OK;
}

static enum status step_search(struct encoder *c, size_t *left, struct error *e)
{
    const char *s;
    size_t n;
    enum status st = next_gap(c, &c->normalized, left, &s, &n, e);

    move(c, s, n, ENCODER_WORDS, ENCODER_RAW);
    if (st == ST_OK && c->stage == ENCODER_WORDS) {
        st = pretokenizer_start(&c->pieces, &c->t->pretokenizer, s, n, e);
    }
    return st;
}

static enum status step_words(struct encoder *c, size_t *left, struct error *e)
{
    const char *s;
    size_t n;
    enum status st = pretokenizer_next(&c->pieces, &c->words.split, &s, &n, e);

    spend(left, 0);
    if (st == ST_OK) {
        move(c, s, n, ENCODER_WORD, ENCODER_SEARCH);
    }
    if (st == ST_OK && c->stage == ENCODER_WORD) {
        bpe_start(&c->word, (const uint8_t *)s, n);
    }
    return st;
}

static enum status step_word(struct encoder *c, size_t *left, struct error *e)
{
    size_t at = c->word.at + c->word.begin;
    bool done = false;
    enum status st =
        bpe_step(&c->t->bpe, &c->bpe, &c->word, *left, c->out, &done, e);

    spend(left, c->word.at + c->word.begin - at);
    c->stage = done ? ENCODER_WORDS : ENCODER_WORD;
    return st;
}

enum status encoder_step(struct encoder *c, size_t bytes, bool *done,
                         struct error *e)
{
    static enum status (*const steps[])(struct encoder *, size_t *,
                                        struct error *) = {
        [ENCODER_RAW] = step_raw,       [ENCODER_NORMALIZE] = step_normalize,
        [ENCODER_SEARCH] = step_search, [ENCODER_WORDS] = step_words,
        [ENCODER_WORD] = step_word,
    };
    const struct post_processor *p = &c->t->post;
    enum status st = ST_OK;

    *done = false;
    if (c->words.split.data == NULL) { /* paused */
        st = pattern_split_work_init(&c->words.split, e);
    }
    while (st == ST_OK && bytes > 0 && c->stage != ENCODER_AFTER) {
        st = steps[c->stage](c, &bytes, e);
    }
    if (st == ST_OK && c->stage == ENCODER_AFTER) {
        *done = true;
        if ((c->flags & TOKENIZE_ADD_SPECIAL) != 0) {
            st = put_all(c->out, p->after, p->n_after, e);
        }
    }
    return st;
}

/* Offsets are added without overflow, as spans are inside the text. */
static enum status check_spans(const struct encoder *c, size_t len,
                               struct error *e)
{
    size_t end = 0;

    for (size_t i = 0; i < c->n_untrusted; i++) {
        const struct text_span *span = &c->untrusted[i];

        if (span->begin < end || span->end < span->begin || span->end > len) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "untrusted span %zu, bytes %zu to %zu, is out of "
                             "order or past the text's %zu bytes",
                             i, span->begin, span->end, len);
        }
        end = span->end;
    }
    return ST_OK;
}

enum status encoder_start(struct encoder *c, const char *text, size_t len,
                          unsigned flags, struct id_sink *out, struct error *e)
{
    const struct post_processor *p = &c->t->post;
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
    if (check_spans(c, len, e) != ST_OK) {
        return ST_INVALID_ARGUMENT;
    }
    c->flags = flags;
    c->out = out;
    c->text = text;
    c->base = 0;
    c->stage = ENCODER_RAW;
    start_search(c, &c->raw, false, flags, text, len);
    return (flags & TOKENIZE_ADD_SPECIAL) != 0
               ? put_all(out, p->before, p->n_before, e)
               : ST_OK;
}

enum status encoder_run(struct encoder *c, const char *text, size_t len,
                        unsigned flags, struct id_sink *out, struct error *e)
{
    enum status st = encoder_start(c, text, len, flags, out, e);
    bool done = false;

    while (st == ST_OK && !done) {
        st = encoder_step(c, SIZE_MAX, &done, e);
    }
    return st;
}

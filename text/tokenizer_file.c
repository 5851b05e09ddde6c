#include <string.h>

#include "common/base/quote.h"
#include "text/byte_fallback.h"
#include "text/json_read.h"
#include "text/text_limits.h"
#include "text/tokenizer_parts.h"

/* --- model --------------------------------------------------------------- */

/* Keys may contain NULs, so they are handled with their length. */
static enum status fill_vocab(struct tokenizer *t, const json_t *vocab,
                              struct error *e)
{
    const char *spelling;
    json_t *id;
    size_t n;

    /* Jansson's iteration macro requires an object that is not const. */
    json_object_keylen_foreach((json_t *)(uintptr_t)vocab, spelling, n, id)
    {
        enum status st = json_is_integer(id)
                             ? vocab_add(&t->vocab, spelling, n,
                                         json_integer_value(id), VOCAB_MODEL, e)
                             : error_set(e, ST_INVALID_ARGUMENT,
                                         "expected an integer, found %s",
                                         json_read_kind(id));
        if (st != ST_OK) {
            return error_wrap(e, "vocab[%s]", quote_bytes(spelling, n).text);
        }
    }
    return ST_OK;
}

/* Reads "left right" or ["left", "right"]. */
static enum status merge_sides(const json_t *v, const char *side[2],
                               size_t n[2], struct error *e)
{
    if (json_is_string(v)) {
        const char *s = json_string_value(v);
        size_t len = json_string_length(v);
        /* The older form separates the sides by a space; a second space would
         * be ambiguous. */
        const char *space = memchr(s, ' ', len);

        if (space == NULL ||
            memchr(space + 1, ' ', len - (size_t)(space + 1 - s)) != NULL) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "expected two tokens with one space between");
        }
        side[0] = s;
        n[0] = (size_t)(space - s);
        side[1] = space + 1;
        n[1] = len - n[0] - 1;
        return ST_OK;
    }
    if (!json_is_array(v) || json_array_size(v) != 2) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "expected a string or a pair of strings");
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *s = json_array_get(v, i);
        if (!json_is_string(s)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "expected a string, found %s", json_read_kind(s));
        }
        side[i] = json_string_value(s);
        n[i] = json_string_length(s);
    }
    return ST_OK;
}

/* The index of a merge is its rank. */
static enum status fill_merges(struct tokenizer *t, const json_t *merges,
                               uint64_t seed, struct error *e)
{
    size_t count = json_array_size(merges);
    enum status st;

    if (count > TEXT_MERGES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "merges: %zu merges, at most %d are allowed", count,
                         TEXT_MERGES);
    }
    st = bpe_init(&t->bpe, &t->vocab, count, seed, e);
    for (uint32_t i = 0; st == ST_OK && i < count; i++) {
        const char *side[2];
        size_t n[2];

        st = merge_sides(json_array_get(merges, i), side, n, e);
        if (st == ST_OK) {
            st = bpe_add(&t->bpe, i, side[0], n[0], side[1], n[1], e);
        }
        if (st != ST_OK) {
            st = error_wrap(e, "merges[%u]", i);
        }
    }
    return st;
}

/* Refuses fields that change the result and are not supported. */
/* An empty affix has no effect and is accepted. */
static enum status check_affixes(const json_t *model, struct error *e)
{
    static const char *const names[] = {"continuing_subword_prefix",
                                        "end_of_word_suffix"};
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < 2; i++) {
        const json_t *v;
        st = json_read_opt(model, names[i], JSON_STRING, &v, e);
        if (st == ST_OK && v != NULL && json_string_length(v) != 0) {
            st =
                error_set(e, ST_UNIMPLEMENTED, "%s is not supported", names[i]);
        }
    }
    return st;
}

/* unk_token and fuse_unk may have any value: all 256 bytes have tokens, so no
 * text is unknown. */
static enum status check_model(const json_t *model, bool *ignore_merges,
                               bool *fallback, struct error *e)
{
    const json_t *type, *dropout = json_object_get(model, "dropout");
    enum status st = json_read_opt(model, "type", JSON_STRING, &type, e);

    if (st == ST_OK && type != NULL &&
        strcmp(json_string_value(type), "BPE") != 0) {
        return error_set(
            e, ST_UNIMPLEMENTED, "type: %s is not supported",
            quote_bytes(json_string_value(type), json_string_length(type))
                .text);
    }
    if (st == ST_OK) {
        st = json_read_bool(model, "byte_fallback", fallback, e);
    }
    if (st == ST_OK) {
        st = json_read_bool(model, "ignore_merges", ignore_merges, e);
    }
    if (st == ST_OK) {
        st = check_affixes(model, e);
    }
    /* Dropout makes an encode random, which no served model wants; 0 means
     * none. */
    if (st == ST_OK && dropout != NULL && !json_is_null(dropout) &&
        !(json_is_number(dropout) && json_number_value(dropout) == 0)) {
        st = error_set(e, ST_UNIMPLEMENTED, "dropout is not supported");
    }
    return st;
}

struct model_fields {
    const json_t *vocab, *merges;
    bool ignore_merges, fallback;
};

static enum status model_fields(const json_t *model, struct model_fields *m,
                                struct error *e)
{
    enum status st = check_model(model, &m->ignore_merges, &m->fallback, e);

    if (st == ST_OK) {
        st = json_read_field(model, "vocab", JSON_OBJECT, &m->vocab, e);
    }
    if (st == ST_OK) {
        st = json_read_field(model, "merges", JSON_ARRAY, &m->merges, e);
    }
    return st;
}

/* --- decoder ------------------------------------------------------------- */

/* The parts of a decoder. */
struct decoder {
    bool fallback;     /* the vocabulary has byte_fallback */
    bool bytes;        /* ByteLevel, or ByteFallback */
    bool spaces, fuse; /* Replace, Fuse */
};

/* {"pattern": {"String": U+2581}, "content": " "} alone. */
static bool is_space(const json_t *v)
{
    const char *from = json_string_value(
        json_object_get(json_object_get(v, "pattern"), "String"));
    const char *to = json_string_value(json_object_get(v, "content"));

    return from != NULL && to != NULL &&
           strcmp(from, BYTE_FALLBACK_SPACE) == 0 && strcmp(to, " ") == 0;
}

/* The first space of a text, which Prepend put there: decoded ids follow a
 * prompt, so it stays. */
static bool is_strip(const json_t *v)
{
    const char *content = json_string_value(json_object_get(v, "content"));

    return content != NULL && strcmp(content, " ") == 0 &&
           json_integer_value(json_object_get(v, "start")) == 1 &&
           json_integer_value(json_object_get(v, "stop")) == 0;
}

/* Accepts each part once; Fuse has no effect here. */
static bool take_decoder(struct decoder *d, const json_t *v, const char *name)
{
    bool *part = NULL;

    if (strcmp(name, d->fallback ? "ByteFallback" : "ByteLevel") == 0) {
        part = &d->bytes;
    } else if (d->fallback && strcmp(name, "Replace") == 0 && is_space(v)) {
        part = &d->spaces;
    } else if (strcmp(name, "Fuse") == 0 && d->bytes) {
        part = &d->fuse;
    } else if (d->fallback && d->fuse && strcmp(name, "Strip") == 0) {
        return is_strip(v);
    }
    if (part == NULL || *part) {
        return false;
    }
    *part = true;
    return true;
}

static enum status check_decoder(const json_t *v, struct decoder *d, int depth,
                                 struct error *e)
{
    const json_t *type, *list;
    enum status st = json_read_field(v, "type", JSON_STRING, &type, e);
    const char *name;

    if (st != ST_OK) {
        return st;
    }
    name = json_string_value(type);
    if (take_decoder(d, v, name)) {
        return ST_OK;
    }
    if (strcmp(name, "Sequence") != 0 || depth == TEXT_NESTING) {
        return error_set(e, ST_UNIMPLEMENTED, "type: %s is not supported here",
                         quote_bytes(name, strlen(name)).text);
    }
    st = json_read_field(v, "decoders", JSON_ARRAY, &list, e);
    for (size_t i = 0; st == ST_OK && i < json_array_size(list); i++) {
        st = check_decoder(json_array_get(list, i), d, depth + 1, e);
        if (st != ST_OK) {
            st = error_wrap(e, "decoders[%zu]", i);
        }
    }
    return st;
}

/* The decoder must be the inverse of the byte letters, or of byte_fallback,
 * which is all that detokenizer.c does. */
static enum status decoder(const json_t *root, bool fallback, struct error *e)
{
    struct decoder d = {.fallback = fallback};
    const json_t *v;
    enum status st = json_read_field(root, "decoder", JSON_OBJECT, &v, e);

    if (st != ST_OK) {
        return st;
    }
    st = check_decoder(v, &d, 0, e);
    if (st == ST_OK && (!d.bytes || (fallback && !d.spaces))) {
        st = error_set(e, ST_UNIMPLEMENTED, "%s is missing",
                       !fallback ? "ByteLevel"
                       : d.bytes ? "Replace"
                                 : "ByteFallback");
    }
    return st == ST_OK ? ST_OK : error_wrap(e, "decoder");
}

/* --- the file ------------------------------------------------------------ */

static enum status component(const json_t *root, const char *name,
                             const json_t **v, struct error *e)
{
    return json_read_opt(root, name, JSON_OBJECT, v, e);
}

static enum status fill_normalizer(struct tokenizer *t, const json_t *root,
                                   struct error *e)
{
    const json_t *v;
    enum status st = component(root, "normalizer", &v, e);

    if (st != ST_OK) {
        return st;
    }
    st = normalizer_parse(&t->normalizer, v, e);
    return st == ST_OK ? ST_OK : error_wrap(e, "normalizer");
}

static enum status fill_pretokenizer(struct tokenizer *t, const json_t *root,
                                     bool fallback, struct error *e)
{
    const json_t *v;
    enum status st = component(root, "pre_tokenizer", &v, e);

    if (st != ST_OK) {
        return st;
    }
    st = pretokenizer_parse(&t->pretokenizer, v, !fallback, e);
    return st == ST_OK ? ST_OK : error_wrap(e, "pre_tokenizer");
}

static enum status fill_post_processor(struct tokenizer *t, const json_t *root,
                                       struct error *e)
{
    const json_t *v;
    enum status st = component(root, "post_processor", &v, e);

    if (st != ST_OK) {
        return st;
    }
    st = post_processor_parse(&t->post, v, &t->vocab, e);
    return st == ST_OK ? ST_OK : error_wrap(e, "post_processor");
}

/* Read early, as pre-tokenizer and decoder depend on it; check_model() reports
 * what is wrong with it. */
static bool is_fallback(const json_t *root)
{
    return json_is_true(
        json_object_get(json_object_get(root, "model"), "byte_fallback"));
}

/* Added tokens are read between vocabulary and merges: they decide which
 * tokens are special, and no merge may produce a special token. */
static enum status fill_tokens(struct tokenizer *t, const json_t *root,
                               uint64_t seed, struct error *e)
{
    const json_t *model, *added;
    struct model_fields m = {0};
    enum status st = json_read_field(root, "model", JSON_OBJECT, &model, e);

    if (st == ST_OK) {
        st = json_read_opt(root, "added_tokens", JSON_ARRAY, &added, e);
    }
    if (st != ST_OK) {
        return st;
    }
    st = model_fields(model, &m, e);
    if (st != ST_OK) {
        return error_wrap(e, "model");
    }
    st = vocab_init(
        &t->vocab, json_object_size(m.vocab) + json_array_size(added), seed, e);
    t->vocab.fallback = m.fallback;
    if (st == ST_OK) {
        st = fill_vocab(t, m.vocab, e);
        if (st != ST_OK) {
            return error_wrap(e, "model");
        }
        st = added_tokens_parse(&t->added, added, &t->vocab, &t->normalizer, e);
    }
    if (st == ST_OK) {
        st = fill_merges(t, m.merges, seed, e);
        t->bpe.ignore_merges = m.ignore_merges;
        if (st != ST_OK) {
            return error_wrap(e, "model");
        }
    }
    return st;
}

enum status tokenizer_fill(struct tokenizer *t, const json_t *root,
                           uint64_t seed, struct error *e)
{
    bool fallback = is_fallback(root);
    /* The normalizer comes first: added tokens are spelt with it. */
    enum status st = fill_normalizer(t, root, e);

    if (st == ST_OK) {
        st = fill_pretokenizer(t, root, fallback, e);
    }
    if (st == ST_OK) {
        st = decoder(root, fallback, e);
    }
    if (st == ST_OK) {
        st = fill_tokens(t, root, seed, e);
    }
    if (st == ST_OK) {
        st = fill_post_processor(t, root, e);
    }
    return st;
}

#include "text/post_processor.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/quote.h"
#include "text/json_read.h"

/* The ids of one template, before and after the sequence. */
struct around {
    struct post_processor ids;
    const json_t *special_tokens;
    const struct vocab *vocab;
    bool seen; /* the sequence was read: later ids come after it */
};

static enum status push(uint32_t *ids, size_t *n, uint32_t id, struct error *e)
{
    if (*n == TEXT_TEMPLATE_IDS) {
        return error_set(e, ST_OUT_OF_RANGE, "more than %d tokens on one side",
                         TEXT_TEMPLATE_IDS);
    }
    ids[(*n)++] = id;
    return ST_OK;
}

static enum status push_side(struct around *a, const json_t *id,
                             struct error *e)
{
    json_int_t v = json_integer_value(id);

    if (!json_is_integer(id)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "expected an integer, found %s", json_read_kind(id));
    }
    if (v < 0 || v >= MODEL_VOCAB_MAX ||
        vocab_flags(a->vocab, (uint32_t)v) == 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "id %lld is no token",
                         (long long)v);
    }
    return a->seen ? push(a->ids.after, &a->ids.n_after, (uint32_t)v, e)
                   : push(a->ids.before, &a->ids.n_before, (uint32_t)v, e);
}

/* Reads {"SpecialToken": {"id": name}}; the ids are
 * special_tokens[name].ids. */
/* Ids are checked against the vocabulary here, so that an encode cannot emit
 * an unknown one. */
static enum status special_token(struct around *a, const json_t *piece,
                                 struct error *e)
{
    const json_t *name, *row, *ids;
    enum status st = json_read_field(piece, "id", JSON_STRING, &name, e);

    if (st == ST_OK) {
        st = json_read_field(a->special_tokens, json_string_value(name),
                             JSON_OBJECT, &row, e);
        if (st != ST_OK) {
            return error_wrap(e, "special_tokens");
        }
        st = json_read_field(row, "ids", JSON_ARRAY, &ids, e);
    }
    for (size_t i = 0; st == ST_OK && i < json_array_size(ids); i++) {
        st = push_side(a, json_array_get(ids, i), e);
        if (st != ST_OK) {
            st = error_wrap(e, "ids[%zu]", i);
        }
    }
    return st;
}

/* Template "pair" and its sequence B are not used: sluice encodes single
 * texts. */
static enum status sequence(struct around *a, const json_t *piece,
                            struct error *e)
{
    const json_t *name;
    enum status st = json_read_field(piece, "id", JSON_STRING, &name, e);

    if (st != ST_OK) {
        return st;
    }
    if (a->seen || strcmp(json_string_value(name), "A") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a single template has sequence A once");
    }
    a->seen = true;
    return ST_OK;
}

static enum status template_piece(struct around *a, const json_t *v,
                                  struct error *e)
{
    const json_t *piece;
    enum status st = json_read_opt(v, "Sequence", JSON_OBJECT, &piece, e);

    if (st == ST_OK && piece != NULL) {
        return sequence(a, piece, e);
    }
    if (st == ST_OK) {
        st = json_read_field(v, "SpecialToken", JSON_OBJECT, &piece, e);
    }
    return st == ST_OK ? special_token(a, piece, e) : st;
}

/* Puts a around what p has so far. */
static enum status wrap(struct post_processor *p, const struct around *a,
                        struct error *e)
{
    /* The outermost component comes last, so its ids go around the others. */
    struct post_processor out = a->ids;
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < p->n_before; i++) {
        st = push(out.before, &out.n_before, p->before[i], e);
    }
    out.n_after = 0;
    for (size_t i = 0; st == ST_OK && i < p->n_after; i++) {
        st = push(out.after, &out.n_after, p->after[i], e);
    }
    for (size_t i = 0; st == ST_OK && i < a->ids.n_after; i++) {
        st = push(out.after, &out.n_after, a->ids.after[i], e);
    }
    *p = out;
    return st;
}

static enum status parse_template(struct post_processor *p, const json_t *v,
                                  const struct vocab *vocab, struct error *e)
{
    struct around a = {.vocab = vocab};
    const json_t *single;
    enum status st = json_read_field(v, "single", JSON_ARRAY, &single, e);

    if (st == ST_OK) {
        st = json_read_field(v, "special_tokens", JSON_OBJECT,
                             &a.special_tokens, e);
    }
    for (size_t i = 0; st == ST_OK && i < json_array_size(single); i++) {
        st = template_piece(&a, json_array_get(single, i), e);
        if (st != ST_OK) {
            st = error_wrap(e, "single[%zu]", i);
        }
    }
    if (st == ST_OK && !a.seen) {
        st = error_set(e, ST_INVALID_ARGUMENT, "single: without sequence A");
    }
    return st == ST_OK ? wrap(p, &a, e) : st;
}

struct reading {
    struct post_processor *p;
    const struct vocab *vocab;
};

static enum status parse(void *arg, const json_t *v, const char *type,
                         struct error *e)
{
    const struct reading *r = arg;

    if (strcmp(type, "TemplateProcessing") == 0) {
        return parse_template(r->p, v, r->vocab, e);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        /* The component moves offsets, which sluice does not report. */
        return ST_OK;
    }
    return error_set(e, ST_UNIMPLEMENTED, "type: %s is not supported",
                     quote(type).text);
}

enum status post_processor_parse(struct post_processor *p, const json_t *v,
                                 const struct vocab *vocab, struct error *e)
{
    struct reading r = {p, vocab};

    *p = (struct post_processor){0};
    return v == NULL ? ST_OK : json_read_parts(v, "processors", parse, &r, e);
}

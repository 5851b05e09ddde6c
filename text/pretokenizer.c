#include "text/pretokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"
#include "text/json_read.h"

static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                           " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* --- parsing ------------------------------------------------------------- */

static enum status add_stage(struct pretokenizer *p, struct stage **s,
                             struct error *e)
{
    if (p->n == TEXT_STAGES) {
        return error_set(e, ST_OUT_OF_RANGE, "more than %d steps", TEXT_STAGES);
    }
    *s = &p->stages[p->n++];
    return ST_OK;
}

static enum status add_split(struct pretokenizer *p, const char *pattern,
                             size_t n, bool literal, struct stage **s,
                             struct error *e)
{
    enum status st = add_stage(p, s, e);

    return st == ST_OK
               ? pattern_split_init(&(*s)->split, pattern, n, literal, e)
               : st;
}

/* Reads {"Regex": "..."} or {"String": "..."}. */
static enum status parse_pattern(struct pretokenizer *p, const json_t *v,
                                 struct stage **s, struct error *e)
{
    const json_t *pattern, *text;
    enum status st = json_read_field(v, "pattern", JSON_OBJECT, &pattern, e);
    bool literal;

    if (st != ST_OK) {
        return st;
    }
    /* Exactly one of the two keys is present in a valid file. */
    literal = json_object_get(pattern, "Regex") == NULL;
    st = json_read_field(pattern, literal ? "String" : "Regex", JSON_STRING,
                         &text, e);
    if (st == ST_OK) {
        st = add_split(p, json_string_value(text), json_string_length(text),
                       literal, s, e);
    }
    return st == ST_OK ? ST_OK : error_wrap(e, "pattern");
}

static enum status parse_split(struct pretokenizer *p, const json_t *v,
                               struct error *e)
{
    struct stage *s = NULL;
    const json_t *behaviour;
    enum status st = parse_pattern(p, v, &s, e);

    if (st == ST_OK) {
        st = json_read_field(v, "behavior", JSON_STRING, &behaviour, e);
    }
    if (st != ST_OK) {
        return st;
    }
    if (!pattern_split_behaviour_named(json_string_value(behaviour),
                                       &s->split.behaviour)) {
        return error_set(e, ST_UNIMPLEMENTED, "behavior: %s is not supported",
                         quote_bytes(json_string_value(behaviour),
                                     json_string_length(behaviour))
                             .text);
    }
    return json_read_bool(v, "invert", &s->split.invert, e);
}

/* The reference tests with is_numeric(), which is \p{N}. */
static enum status parse_digits(struct pretokenizer *p, const json_t *v,
                                struct error *e)
{
    bool individual = false;
    struct stage *s = NULL;
    enum status st = json_read_bool(v, "individual_digits", &individual, e);

    if (st == ST_OK) {
        st = add_split(p, "\\p{N}", 5, false, &s, e);
    }
    if (st == ST_OK) {
        s->split.behaviour =
            individual ? PATTERN_SPLIT_ISOLATED : PATTERN_SPLIT_CONTIGUOUS;
    }
    return st;
}

static enum status parse_byte_level(struct pretokenizer *p, const json_t *v,
                                    struct error *e)
{
    bool prefix = true, regex = true; /* the reference's defaults */
    struct stage *s = NULL;
    enum status st = json_read_bool(v, "add_prefix_space", &prefix, e);

    if (st == ST_OK) {
        st = json_read_bool(v, "use_regex", &regex, e);
    }
    if (st == ST_OK && prefix) {
        st = add_stage(p, &s, e);
        if (st == ST_OK) {
            s->prefix_space = true;
        }
    }
    if (st == ST_OK && regex) {
        st = add_split(p, gpt2, sizeof gpt2 - 1, false, &s, e);
    }
    p->byte_level = true;
    return st;
}

static enum status parse(void *arg, const json_t *v, const char *type,
                         struct error *e)
{
    struct pretokenizer *p = arg;

    /* The reference applies byte letters at this point, so later stages would
     * see them instead of text. */
    if (p->byte_level) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "type: %s behind ByteLevel is not supported",
                         quote(type).text);
    }
    if (strcmp(type, "Split") == 0) {
        return parse_split(p, v, e);
    }
    if (strcmp(type, "Digits") == 0) {
        return parse_digits(p, v, e);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        return parse_byte_level(p, v, e);
    }
    return error_set(e, ST_UNIMPLEMENTED, "type: %s is not supported",
                     quote(type).text);
}

enum status pretokenizer_parse(struct pretokenizer *p, const json_t *v,
                               struct error *e)
{
    enum status st = ST_OK;

    *p = (struct pretokenizer){0};
    if (v != NULL) {
        st = json_read_parts(v, "pretokenizers", parse, p, e);
    }
    if (st == ST_OK && !p->byte_level) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "only byte-level vocabularies are supported, and "
                         "ByteLevel is missing");
    }
    return st;
}

void pretokenizer_fini(struct pretokenizer *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        pattern_split_fini(&p->stages[i].split);
    }
    p->n = 0;
}

/* --- running ------------------------------------------------------------- */

enum status pretokenizer_work_init(struct pretokenizer_work *w, struct error *e)
{
    *w = (struct pretokenizer_work){0};
    return pattern_split_work_init(&w->split, e);
}

void pretokenizer_work_fini(struct pretokenizer_work *w)
{
    pattern_split_work_fini(&w->split);
    free(w->spaced);
    w->spaced = NULL;
}

/* The position of a piece in the chain. */
struct walk {
    const struct pretokenizer *p;
    struct pretokenizer_work *w;
    unsigned stage;
    piece_fn fn;
    void *ctx;
};

static enum status walk_piece(void *ctx, const char *s, size_t n,
                              struct error *e);

/* At most one stage adds spaces, so one buffer is enough. */
static enum status with_space(const struct walk *k, struct walk *next,
                              const char *s, size_t n, struct error *e)
{
    char *grown;

    /* == ' ') {] The reference adds no second space. */
    if (n == 0 || s[0] == ' ') {
        return walk_piece(next, s, n, e);
    }
    /* The old content is not needed, so this is no realloc(). */
    if (k->w->spaced_cap < n + 1) {
        grown = malloc(2 * (n + 1));
        if (grown == NULL) {
            return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
        }
        free(k->w->spaced);
        k->w->spaced = grown;
        k->w->spaced_cap = 2 * (n + 1);
    }
    k->w->spaced[0] = ' ';
    memcpy(k->w->spaced + 1, s, n);
    return walk_piece(next, k->w->spaced, n + 1, e);
}

static enum status walk_piece(void *ctx, const char *s, size_t n,
                              struct error *e)
{
    const struct walk *k = ctx;
    struct walk next = *k;
    const struct stage *stage;

    /* A piece that passed all stages is a word. */
    if (k->stage == k->p->n) {
        return n == 0 ? ST_OK : k->fn(k->ctx, s, n, e);
    }
    stage = &k->p->stages[k->stage];
    next.stage++;
    if (stage->prefix_space) {
        return with_space(k, &next, s, n, e);
    }
    return pattern_split_run(&stage->split, &k->w->split, s, n, walk_piece,
                             &next, e);
}

enum status pretokenizer_run(const struct pretokenizer *p,
                             struct pretokenizer_work *w, const char *text,
                             size_t n, piece_fn fn, void *ctx, struct error *e)
{
    struct walk k = {.p = p, .w = w, .fn = fn, .ctx = ctx};

    return walk_piece(&k, text, n, e);
}

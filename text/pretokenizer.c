#include "text/pretokenizer.h"

#include <limits.h>
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
    p->removes = p->removes || s->split.behaviour == PATTERN_SPLIT_REMOVED;
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
                               bool byte_level, struct error *e)
{
    enum status st = ST_OK;

    *p = (struct pretokenizer){0};
    if (v != NULL) {
        st = json_read_parts(v, "pretokenizers", parse, p, e);
    }
    if (st == ST_OK && p->byte_level && !byte_level) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "ByteLevel beside byte_fallback is not supported");
    }
    if (st == ST_OK && !p->byte_level && byte_level) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "only vocabularies that are byte-level or have "
                         "byte_fallback are supported, and ByteLevel is "
                         "missing");
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

/* Puts a space in front of c->text[0..n) unless it has one; the reference adds
 * no second space.  At most one stage adds spaces, so one buffer is enough. */
static enum status add_space(struct pretokenizer_cursor *c, const char **s,
                             size_t *n, struct error *e)
{
    if (*n == 0 || **s == ' ') {
        return ST_OK;
    }
    /* The old content is not needed, so this is no realloc(). */
    if (c->spaced_cap < *n + 1) {
        free(c->spaced);
        c->spaced_cap = 2 * (*n + 1);
        c->spaced = malloc(c->spaced_cap);
        if (c->spaced == NULL) {
            c->spaced_cap = 0;
            return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
        }
    }
    c->spaced[0] = ' ';
    memcpy(c->spaced + 1, *s, *n);
    *s = c->spaced;
    *n += 1;
    return ST_OK;
}

#define NO_STAGE UINT_MAX

/* Gives a piece to the first split from `stage` on, and sets *n to 0.  Leaves
 * *n above 0 if there is none: the piece is a word. */
static enum status enter(struct pretokenizer_cursor *c, unsigned stage,
                         const char **s, size_t *n, struct error *e)
{
    enum status st = ST_OK;

    if (stage < c->p->n && c->p->stages[stage].prefix_space) {
        st = add_space(c, s, n, e);
        stage++;
    }
    if (st == ST_OK && stage < c->p->n) {
        c->stage = stage;
        pattern_cursor_init(&c->at[stage], &c->p->stages[stage].split, *s, *n);
        *n = 0;
    }
    return st;
}

enum status pretokenizer_start(struct pretokenizer_cursor *c,
                               const struct pretokenizer *p, const char *text,
                               size_t n, struct error *e)
{
    c->p = p;
    c->word = text;
    c->n_word = n;
    c->stage = NO_STAGE;
    return enter(c, 0, &c->word, &c->n_word, e);
}

/* Returns to the split that the piece of this stage came from. */
static unsigned split_before(const struct pretokenizer *p, unsigned stage)
{
    while (stage-- > 0) {
        if (!p->stages[stage].prefix_space) {
            return stage;
        }
    }
    return NO_STAGE;
}

enum status pretokenizer_next(struct pretokenizer_cursor *c,
                              struct pattern_split_work *w, const char **s,
                              size_t *n, struct error *e)
{
    enum status st;

    *s = c->word;
    *n = c->n_word;
    c->n_word = 0;
    if (c->stage == NO_STAGE) {
        *s = *n > 0 ? *s : NULL;
        return ST_OK;
    }
    st = pattern_cursor_next(&c->at[c->stage], w, s, n, e);
    if (st == ST_OK && *s == NULL) {
        c->stage = split_before(c->p, c->stage);
        *s = c->word;
    } else if (st == ST_OK && *n > 0) {
        st = enter(c, c->stage + 1, s, n, e);
    }
    return st;
}

void pretokenizer_cursor_fini(struct pretokenizer_cursor *c)
{
    free(c->spaced);
    *c = (struct pretokenizer_cursor){.p = NULL};
}

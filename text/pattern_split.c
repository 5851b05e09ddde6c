#include "text/pattern_split.h"

#include <stdlib.h>
#include <string.h>

#include "text/pattern.h"
#include "text/text_limits.h"
#include "text/unicode.h"

#define JIT_STACK_MIN  (32u << 10)
#define JIT_STACK_MAX  (32u << 20)
#define HEAP_LIMIT_KIB (64u << 10)

bool pattern_split_behaviour_named(const char *name,
                                   enum pattern_split_behaviour *b)
{
    static const char *const names[] = {
        [PATTERN_SPLIT_ISOLATED] = "Isolated",
        [PATTERN_SPLIT_REMOVED] = "Removed",
        [PATTERN_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [PATTERN_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [PATTERN_SPLIT_CONTIGUOUS] = "Contiguous",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *b = (enum pattern_split_behaviour)i;
            return true;
        }
    }
    return false;
}

static enum status compile(struct pattern_split *s, const char *pattern,
                           size_t n, bool literal, struct error *e)
{
    uint32_t options = PCRE2_UTF | PCRE2_NO_UTF_CHECK;
    pcre2_compile_context *c = pcre2_compile_context_create(NULL);
    char message[120];
    PCRE2_SIZE at;
    int code;

    if (c == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    /* Oniguruma's ^ and $ match at lines, and its only newline is \n. */
    options |= literal ? PCRE2_LITERAL
                       : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    pcre2_set_newline(c, PCRE2_NEWLINE_LF);
    s->code = pcre2_compile((PCRE2_SPTR)pattern, n, options, &code, &at, c);
    pcre2_compile_context_free(c);
    if (s->code != NULL) {
        /* A failure is no error: matching without JIT is only slower. */
        (void)pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE);
        return ST_OK;
    }
    pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
    return error_set(e, ST_INVALID_ARGUMENT, "%s, at byte %zu of it", message,
                     (size_t)at);
}

enum status pattern_split_init(struct pattern_split *s, const char *pattern,
                               size_t n, bool literal, struct error *e)
{
    enum status st;
    char *out;
    size_t out_n;

    *s = (struct pattern_split){0};
    if (n == 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "the pattern is empty");
    }
    if (literal) {
        return n > TEXT_PATTERN_BYTES
                   ? error_set(e, ST_OUT_OF_RANGE,
                               "%zu bytes long, at most %d are allowed", n,
                               TEXT_PATTERN_BYTES)
                   : compile(s, pattern, n, true, e);
    }
    out = malloc(PATTERN_OUT_BYTES);
    if (out == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    st = pattern_rewrite(pattern, n, out, &out_n, e);
    if (st == ST_OK) {
        st = compile(s, out, out_n, false, e);
    }
    free(out);
    return st;
}

void pattern_split_fini(struct pattern_split *s)
{
    pcre2_code_free(s->code);
    s->code = NULL;
}

enum status pattern_split_work_init(struct pattern_split_work *w,
                                    struct error *e)
{
    *w = (struct pattern_split_work){0};
    w->data = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    w->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
    if (w->data == NULL || w->context == NULL) {
        pattern_split_work_fini(w);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (w->stack != NULL) {
        pcre2_jit_stack_assign(w->context, NULL, w->stack);
    }
    pcre2_set_heap_limit(w->context, HEAP_LIMIT_KIB);
    return ST_OK;
}

void pattern_split_work_fini(struct pattern_split_work *w)
{
    pcre2_match_data_free(w->data);
    pcre2_match_context_free(w->context);
    if (w->stack != NULL) {
        pcre2_jit_stack_free(w->stack);
    }
    *w = (struct pattern_split_work){0};
}

/* --- what the behaviour does with matches and gaps ------------------------ */

struct piece {
    size_t start, end;
};

static struct piece take_pending(struct pattern_cursor *c)
{
    struct piece p = {c->start, c->end};

    if (!c->pending) {
        p.end = p.start;
    }
    c->pending = false;
    return p;
}

/* Extends the pending piece by [start, end), or begins a new one with it and
 * returns the old one. */
static struct piece grow(struct pattern_cursor *c, bool joins, size_t start,
                         size_t end)
{
    struct piece p = {start, start};

    if (!joins || !c->pending) {
        p = take_pending(c);
        c->start = start;
    }
    c->end = end;
    c->pending = true;
    return p;
}

/* Takes a match or a gap, in order; together they are the text.  Returns the
 * piece that is now whole; an empty one if none is. */
static struct piece take_segment(struct pattern_cursor *c,
                                 struct pattern_segment g)
{
    const struct piece none = {g.start, g.start}, all = {g.start, g.end};
    bool before = c->matched, match = g.match != c->split->invert;

    c->matched = match;
    switch (c->split->behaviour) {
    case PATTERN_SPLIT_ISOLATED:
        return all;
    case PATTERN_SPLIT_REMOVED:
        return match ? none : all;
    case PATTERN_SPLIT_MERGED_WITH_PREVIOUS:
        return grow(c, match && !before, g.start, g.end);
    case PATTERN_SPLIT_MERGED_WITH_NEXT:
        return grow(c, !match && before, g.start, g.end);
    case PATTERN_SPLIT_CONTIGUOUS:
        return grow(c, match == before, g.start, g.end);
    }
    return none;
}

static enum status match_failed(int rc, size_t at, struct error *e)
{
    switch (rc) {
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
    case PCRE2_ERROR_JIT_STACKLIMIT:
        return error_set(e, ST_OUT_OF_RANGE,
                         "the split expression needs too much work at byte %zu"
                         " of a piece",
                         at);
    case PCRE2_ERROR_NOMEMORY:
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    default:
        return error_set(e, ST_INTERNAL, "the split expression failed: %d", rc);
    }
}

uint32_t pattern_split_steps(size_t n)
{
    uint64_t steps = (uint64_t)TEXT_SPLIT_STEPS * n + TEXT_SPLIT_FLOOR;

    return steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps;
}

/* Finds the next match at or after *at, as Oniguruma's iterator does: an
 * empty match right after the last match does not count.  *found is false at
 * the end. */
static enum status next_match(const struct pattern_split *s,
                              struct pattern_split_work *w, const char *text,
                              size_t n, size_t *at, size_t last_end,
                              bool *found, struct error *e)
{
    const PCRE2_SIZE *m = pcre2_get_ovector_pointer(w->data);
    size_t len;

    *found = false;
    while (*at <= n) {
        /* The text is valid already; a check in each call would make the
         * split quadratic. */
        int rc = pcre2_match(s->code, (PCRE2_SPTR)text, n, *at,
                             PCRE2_NO_UTF_CHECK, w->data, w->context);
        w->matches++;
        if (rc == PCRE2_ERROR_NOMATCH) {
            return ST_OK;
        }
        if (rc < 0) {
            return match_failed(rc, *at, e);
        }
        if (m[0] != m[1] || m[0] != last_end) {
            *found = true;
            return ST_OK;
        }
        len = 1;
        if (*at < n) {
            (void)unicode_at(text, n, *at, &len);
        }
        *at += len;
    }
    return ST_OK;
}

void pattern_cursor_init(struct pattern_cursor *c,
                         const struct pattern_split *s, const char *text,
                         size_t n)
{
    *c = (struct pattern_cursor){.split = s,
                                 .text = text,
                                 .n = n,
                                 .last_end = SIZE_MAX,
                                 .ended = n == 0};
}

static void add_segment(struct pattern_cursor *c, size_t start, size_t end,
                        bool match)
{
    if (start < end || match) {
        c->segments[c->n_segments++] =
            (struct pattern_segment){start, end, match};
    }
}

/* Finds the next match, and the gap before it or at the end. */
static enum status find_segments(struct pattern_cursor *c,
                                 struct pattern_split_work *w, struct error *e)
{
    const PCRE2_SIZE *m = pcre2_get_ovector_pointer(w->data);
    bool found = false;
    enum status st;

    /* Other splits use the same context meanwhile, with other limits. */
    pcre2_set_match_limit(w->context, pattern_split_steps(c->n));
    st = next_match(c->split, w, c->text, c->n, &c->at, c->last_end, &found, e);
    c->n_segments = c->i_segment = 0;
    if (st == ST_OK && found) {
        add_segment(c, c->done, m[0], false);
        add_segment(c, m[0], m[1], true);
        c->at = c->done = c->last_end = m[1];
    } else if (st == ST_OK) {
        add_segment(c, c->done, c->n, false);
        c->ended = true;
    }
    return st;
}

enum status pattern_cursor_next(struct pattern_cursor *c,
                                struct pattern_split_work *w, const char **s,
                                size_t *n, struct error *e)
{
    struct piece p = {0, 0};

    *s = c->text;
    *n = 0;
    if (c->i_segment == c->n_segments && !c->ended) {
        enum status st = find_segments(c, w, e);

        if (st != ST_OK) {
            return st;
        }
    }
    if (c->i_segment < c->n_segments) {
        p = take_segment(c, c->segments[c->i_segment++]);
    } else if (c->pending) {
        p = take_pending(c);
    } else {
        *s = NULL;
        return ST_OK;
    }
    *s = c->text + p.start;
    *n = p.end - p.start;
    return ST_OK;
}

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

/* A run over one text, with the piece that may still grow. */
struct run {
    const struct pattern_split *split;
    const char *text;
    piece_fn fn;
    void *ctx;
    struct error *e;
    size_t start, end; /* the pending piece */
    bool pending;      /* a piece is pending */
    bool matched;      /* the previous segment was a match */
};

static enum status emit(struct run *r, size_t start, size_t end)
{
    return start == end ? ST_OK
                        : r->fn(r->ctx, r->text + start, end - start, r->e);
}

static enum status flush(struct run *r)
{
    bool had = r->pending;

    r->pending = false;
    return had ? emit(r, r->start, r->end) : ST_OK;
}

/* Extends the pending piece by [start, end), or begins a new one with it. */
static enum status grow(struct run *r, bool joins, size_t start, size_t end)
{
    enum status st = ST_OK;

    if (!joins || !r->pending) {
        st = flush(r);
        r->start = start;
    }
    r->end = end;
    r->pending = true;
    return st;
}

/* Takes a match or a gap, in order; together they are the text. */
static enum status segment(struct run *r, size_t start, size_t end, bool match)
{
    bool before = r->matched;

    match = match != r->split->invert;
    r->matched = match;
    switch (r->split->behaviour) {
    case PATTERN_SPLIT_ISOLATED:
        return emit(r, start, end);
    case PATTERN_SPLIT_REMOVED:
        return match ? ST_OK : emit(r, start, end);
    case PATTERN_SPLIT_MERGED_WITH_PREVIOUS:
        return grow(r, match && !before, start, end);
    case PATTERN_SPLIT_MERGED_WITH_NEXT:
        return grow(r, !match && before, start, end);
    case PATTERN_SPLIT_CONTIGUOUS:
        return grow(r, match == before, start, end);
    }
    return ST_INTERNAL;
}

static enum status match_failed(int rc, size_t at, struct error *e)
{
    switch (rc) {
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
    case PCRE2_ERROR_JIT_STACKLIMIT:
    case PCRE2_ERROR_NOMEMORY:
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the split expression needs too much work at byte %zu"
                         " of a piece",
                         at);
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

enum status pattern_split_run(const struct pattern_split *s,
                              struct pattern_split_work *w, const char *text,
                              size_t n, piece_fn fn, void *ctx, struct error *e)
{
    struct run r = {.split = s, .text = text, .fn = fn, .ctx = ctx, .e = e};
    const PCRE2_SIZE *m = pcre2_get_ovector_pointer(w->data);
    size_t at = 0, done = 0, last_end = SIZE_MAX;
    enum status st = ST_OK;
    bool found = n > 0;

    pcre2_set_match_limit(w->context, pattern_split_steps(n));
    while (st == ST_OK && found) {
        st = next_match(s, w, text, n, &at, last_end, &found, e);
        if (st != ST_OK || !found) {
            break;
        }
        /* fn may run another split on the same work, so m is read first. */
        size_t start = m[0], end = m[1];
        if (start > done) {
            st = segment(&r, done, start, false);
        }
        if (st == ST_OK) {
            st = segment(&r, start, end, true);
        }
        pcre2_set_match_limit(w->context, pattern_split_steps(n));
        at = done = last_end = end;
    }
    if (st == ST_OK && done < n) {
        st = segment(&r, done, n, false);
    }
    return st == ST_OK ? flush(&r) : st;
}

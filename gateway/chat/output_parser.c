#include "gateway/chat/output_parser.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/chat/output_parts.h"

const struct limit_row output_limits[] = {
#define X(name, value, unit, what) LIMIT_ROW(name, unit, what),
    OUTPUT_LIMIT_MAP(X)
#undef X
        LIMIT_ROW(OUTPUT_JSON_DEPTH, "levels", "arguments of a call")};

const size_t output_limits_n = sizeof output_limits / sizeof *output_limits;

_Static_assert(sizeof(struct output_parser) <= 1024, "an idle parser is small");

/* ---- plain text ---- */

static void plain_step(struct output_parser *p, const char *text, size_t n)
{
    output_give(p, OUTPUT_CONTENT, text, n);
}

static void plain_finish(struct output_parser *p)
{
    (void)p;
}

const struct output_state output_plain = {plain_step, plain_finish};

/* ---- reasoning ---- */

enum { OPEN, CLOSE };

static const char *const think_markers[] = {"<think>", "</think>", NULL};
static const char *const close_marker[] = {"</think>", NULL};

static const struct output_state think_inside, think_after;

/* Newlines at both ends of the block are dropped, as chat templates drop them
 * when the answer becomes history. */
static void inside_out(struct output_parser *p, const char *text, size_t n)
{
    while (p->newlines > 0) {
        output_give(p, OUTPUT_REASONING, "\n", 1);
        p->newlines--;
    }
    output_give(p, OUTPUT_REASONING, text, n);
}

static void inside_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, close_marker, text, n);

    if (m == OUTPUT_MARK_PART) {
        return;
    }
    if (m == 0) {
        p->state = &think_after;
    } else if (p->n_mark > 0) {
        inside_out(p, p->mark, p->n_mark);
        p->n_mark = 0;
        output_feed(p, text, n);
    } else if (*text == '\n') {
        p->newlines++;
    } else {
        inside_out(p, text, n);
    }
}

static void inside_finish(struct output_parser *p)
{
    if (p->n_mark > 0) {
        inside_out(p, p->mark, p->n_mark);
    }
}

static const struct output_state think_inside = {inside_step, inside_finish};

/* Drops newlines, then goes to the state of the format. */
static void after_step(struct output_parser *p, const char *text, size_t n)
{
    if (*text != '\n') {
        p->state = p->text;
        output_feed(p, text, n);
    }
}

static const struct output_state think_after = {after_step, plain_finish};

/* The prompt has opened the block: a repeated marker is dropped. */
static void open_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, think_markers, text, n);

    if (m == OUTPUT_MARK_PART || (*text == '\n' && p->n_mark == 0)) {
        return;
    }
    if (m == OPEN) {
        return;
    }
    p->state = m == CLOSE ? &think_after : &think_inside;
    if (m == OUTPUT_MARK_NONE) {
        inside_out(p, p->mark, p->n_mark);
        p->n_mark = 0;
        output_feed(p, text, n);
    }
}

const struct output_state output_think_open = {open_step, inside_finish};

/* Passes withheld text to the format. */
static void start_leave(struct output_parser *p)
{
    char text[OUTPUT_SPACE_BYTES + OUTPUT_MARK_BYTES];
    size_t n = p->n_space;

    memcpy(text, p->space, n);
    memcpy(text + n, p->mark, p->n_mark);
    n += p->n_mark;
    p->n_space = p->n_mark = 0;
    p->state = p->text;
    output_feed_all(p, text, n);
}

/* An answer that begins with </think> has an empty block, which the prompt
 * opened and perhaps closed. */
static void start_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, think_markers, text, n);

    if (m == OUTPUT_MARK_PART) {
        return;
    }
    if (m != OUTPUT_MARK_NONE) {
        p->n_space = 0;
        p->state = m == OPEN ? &output_think_open : &think_after;
    } else if (p->n_mark == 0 && output_is_space(text, n) &&
               p->n_space < OUTPUT_SPACE_BYTES) {
        p->space[p->n_space++] = *text;
    } else {
        start_leave(p);
        output_feed(p, text, n);
    }
}

static void start_finish(struct output_parser *p)
{
    start_leave(p);
    p->state->finish(p);
}

const struct output_state output_think_start = {start_step, start_finish};

/* ---- the parser ---- */

/* Without tools a call is content, so nothing is searched for.  The special
 * tokens of llama3 and gpt-oss are no content in any case. */
static const struct output_state *text_state(const struct output_parser *p)
{
    enum output_format format = p->options.format;

    if (format == OUTPUT_HARMONY) {
        return &output_harmony_start;
    }
    if (format == OUTPUT_LLAMA3) {
        return &output_llama3_text;
    }
    if (!p->options.tools || format == OUTPUT_PLAIN) {
        return &output_plain;
    }
    return format == OUTPUT_HERMES ? &output_hermes_text : &output_xml_text;
}

struct output_parser *
output_parser_new(const struct output_parser_options *options)
{
    struct output_parser *p = calloc(1, sizeof *p);

    if (p == NULL) {
        return NULL;
    }
    p->options = *options;
    /* White space alone is no answer. */
    p->fresh = true;
    p->state = p->text = text_state(p);
    if (options->format != OUTPUT_HARMONY) {
        p->state = options->in_reasoning ? &output_think_open
                   : options->reasoning  ? &output_think_start
                                         : p->text;
    }
    return p;
}

void output_parser_free(struct output_parser **p)
{
    if (*p != NULL) {
        output_drop_held(*p);
        free((*p)->kept);
        free(*p);
        *p = NULL;
    }
}

void output_parser_push(struct output_parser *p, const char *text, size_t n,
                        output_fn *fn, void *arg)
{
    struct output_gather out;

    out.fn = fn;
    out.arg = arg;
    out.event.n = 0;
    p->out = &out;
    for (size_t i = 0, k; i < n; i += k) {
        k = output_char(text + i, n - i);
        if (p->committed) {
            output_keep(p, text + i, k);
        }
        output_feed(p, text + i, k);
    }
    output_flush(&out);
    p->out = NULL;
}

void output_parser_finish(struct output_parser *p, output_fn *fn, void *arg)
{
    struct output_gather out;

    out.fn = fn;
    out.arg = arg;
    out.event.n = 0;
    p->out = &out;
    p->state->finish(p);
    output_flush(&out);
    p->out = NULL;
    p->state = &output_plain;
}

bool output_parser_called(const struct output_parser *p)
{
    return p->ended && !p->cut;
}

bool output_parser_done(const struct output_parser *p)
{
    return p->ended && p->options.one_call;
}

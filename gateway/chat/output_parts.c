#include "gateway/chat/output_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call's name and keys fit, so most calls allocate once. */
#define HELD_FIRST 256

void output_feed(struct output_parser *p, const char *text, size_t n)
{
    p->state->step(p, text, n);
}

/* ---- events ---- */

void output_flush(struct output_gather *out)
{
    if (out->event.n > 0) {
        out->event.text = out->buf;
        out->fn(out->arg, &out->event);
        out->event.n = 0;
    }
}

void output_give(struct output_parser *p, enum output_kind kind,
                 const char *text, size_t n)
{
    struct output_gather *out = p->out;

    if (output_parser_done(p)) {
        return;
    }
    while (n > 0) {
        size_t room = sizeof out->buf - out->event.n;
        size_t k = n < room ? n : room;

        /* A character is not cut: text begins and ends with whole ones. */
        while (k < n && k > 0 && ((uint8_t)text[k] & 0xc0) == 0x80) {
            k--;
        }
        if (out->event.n > 0 && (out->event.kind != kind || k == 0)) {
            output_flush(out);
            continue;
        }
        memcpy(out->buf + out->event.n, text, k);
        out->event.kind = kind;
        out->event.tool = kind == OUTPUT_TOOL_ARGUMENTS ? p->n_calls - 1 : 0;
        out->event.n += k;
        text += k;
        n -= k;
    }
}

/* Gives an event of its own.  It keeps its order with the gathered text. */
static void give_alone(struct output_parser *p, enum output_kind kind,
                       const char *text, size_t n)
{
    struct output_event event = {kind, p->n_calls - 1, text, n};

    if (output_parser_done(p)) {
        return;
    }
    output_flush(p->out);
    p->out->fn(p->out->arg, &event);
}

void output_content(struct output_parser *p, const char *text, size_t n)
{
    output_give(p, OUTPUT_CONTENT, p->space, p->n_space);
    output_give(p, OUTPUT_CONTENT, text, n);
    p->fresh = p->fresh && p->n_space + n == 0;
    p->n_space = 0;
}

/* ---- withheld text ---- */

size_t output_char(const char *text, size_t n)
{
    size_t k = 1;

    while (k < n && ((uint8_t)text[k] & 0xc0) == 0x80) {
        k++;
    }
    return k;
}

bool output_is_space(const char *text, size_t n)
{
    return n == 1 &&
           (*text == ' ' || *text == '\t' || *text == '\n' || *text == '\r');
}

void output_trim(const char **text, size_t *n)
{
    while (*n > 0 && output_is_space(*text, 1)) {
        ++*text;
        --*n;
    }
    while (*n > 0 && output_is_space(*text + *n - 1, 1)) {
        --*n;
    }
}

void output_hold_space(struct output_parser *p, char c)
{
    if (p->n_space == OUTPUT_SPACE_BYTES) {
        output_content(p, "", 0);
    }
    p->space[p->n_space++] = c;
}

bool output_hold(struct output_parser *p, const char *text, size_t n)
{
    if (n > OUTPUT_HELD_BYTES - p->n_held) {
        return false;
    }
    if (p->held == NULL || p->n_held + n > p->held_size) {
        uint32_t size = p->held_size == 0 ? HELD_FIRST : 2 * p->held_size;
        char *held = realloc(p->held, size);

        if (held == NULL) {
            return false;
        }
        p->held = held;
        p->held_size = size;
    }
    memcpy(p->held + p->n_held, text, n);
    p->n_held += (uint32_t)n;
    return true;
}

void output_drop_held(struct output_parser *p)
{
    free(p->held);
    p->held = NULL;
    p->n_held = p->held_size = 0;
}

/* The three parts are in the order in which the model wrote them. */
void output_release(struct output_parser *p)
{
    output_content(p, p->held, p->n_held);
    output_content(p, p->mark, p->n_mark);
    output_drop_held(p);
    p->n_mark = 0;
    p->state = p->text;
}

/* No marker contains its own first character again.  After a mismatch, the
 * mark therefore contains no start of another marker, and a search needs no
 * automaton such as that of text/stop_strings.h. */
int output_mark(struct output_parser *p, const char *const *markers,
                const char *text, size_t n)
{
    for (int i = 0; n == 1 && markers[i] != NULL; i++) {
        const char *m = markers[i];

        if (strncmp(m, p->mark, p->n_mark) != 0 || m[p->n_mark] != *text) {
            continue;
        }
        if (m[p->n_mark + 1] == '\0') {
            p->n_mark = 0;
            return i;
        }
        p->mark[p->n_mark++] = *text;
        return OUTPUT_MARK_PART;
    }
    return OUTPUT_MARK_NONE;
}

void output_feed_all(struct output_parser *p, const char *text, size_t n)
{
    for (size_t i = 0, k; i < n; i += k) {
        k = output_char(text + i, n - i);
        output_feed(p, text + i, k);
    }
}

int output_text(struct output_parser *p, const char *const *markers,
                const char *text, size_t n)
{
    int m = output_mark(p, markers, text, n);

    /* A withheld character is handled, as far as the caller is concerned. */
    if (m != OUTPUT_MARK_NONE) {
        return m == OUTPUT_MARK_PART ? OUTPUT_MARK_NONE : m;
    }
    if (p->n_mark > 0) {
        output_content(p, p->mark, p->n_mark);
        p->n_mark = 0;
        output_feed(p, text, n);
    } else if (output_is_space(text, n)) {
        output_hold_space(p, *text);
    } else {
        output_content(p, text, n);
    }
    return OUTPUT_MARK_NONE;
}

void output_text_finish(struct output_parser *p)
{
    /* White space after the last call is no content. */
    if (!p->fresh || p->n_mark > 0) {
        output_content(p, p->mark, p->n_mark);
    }
}

/* ---- calls ---- */

void output_keep(struct output_parser *p, const char *text, size_t n)
{
    size_t need = p->n_kept + n;
    char *kept;

    if (!p->options.keep || n == 0 || p->n_kept > OUTPUT_HELD_BYTES) {
        return;
    }
    if (need > p->kept_size && need <= OUTPUT_HELD_BYTES) {
        uint32_t size =
            (uint32_t)(2 * need < HELD_FIRST ? HELD_FIRST : 2 * need);

        kept = realloc(p->kept, size);
        if (kept == NULL) {
            p->n_kept = OUTPUT_HELD_BYTES + 1;
            return;
        }
        p->kept = kept;
        p->kept_size = size;
    }
    if (need <= OUTPUT_HELD_BYTES) {
        memcpy(p->kept + p->n_kept, text, n);
        p->n_kept = (uint32_t)need;
    } else {
        p->n_kept = OUTPUT_HELD_BYTES + 1;
    }
}

void output_begin_call(struct output_parser *p, const char *name, size_t n)
{
    p->n_kept = 0;
    output_keep(p, p->space, p->n_space);
    p->n_space = 0;
    p->n_calls++;
    p->committed = true;
    give_alone(p, OUTPUT_TOOL_BEGIN, name, n);
}

void output_argument(struct output_parser *p, const char *text, size_t n,
                     bool in_string)
{
    char escaped[8];
    uint8_t c = (uint8_t)*text;

    if (!in_string || c >= 0x20) {
        output_give(p, OUTPUT_TOOL_ARGUMENTS, text, n);
        return;
    }
    if (c == '\n' || c == '\t' || c == '\r') {
        snprintf(escaped, sizeof escaped, "\\%c",
                 c == '\n'   ? 'n'
                 : c == '\t' ? 't'
                             : 'r');
    } else {
        snprintf(escaped, sizeof escaped, "\\u%04x", c);
    }
    output_give(p, OUTPUT_TOOL_ARGUMENTS, escaped, strlen(escaped));
}

static void close_call(struct output_parser *p)
{
    output_drop_held(p);
    p->committed = false;
    p->fresh = true;
    p->state = p->text;
}

void output_end_call(struct output_parser *p)
{
    give_alone(p, OUTPUT_TOOL_END, "", 0);
    p->ended = true;
    close_call(p);
}

/* Removes from text[0..n) the special tokens at its end that end a turn. */
static size_t without_turn_end(const char *text, size_t n)
{
    for (const char *const *m = output_llama3_ends; *m != NULL; m++) {
        size_t k = strlen(*m);

        if (n >= k && memcmp(text + n - k, *m, k) == 0) {
            return n - k;
        }
    }
    return n;
}

void output_cut_call(struct output_parser *p, size_t after)
{
    size_t n = p->n_kept > after && p->n_kept <= OUTPUT_HELD_BYTES
                   ? p->n_kept - after
                   : 0;

    if (p->options.format == OUTPUT_LLAMA3 && n > 0) {
        n = without_turn_end(p->kept, n);
    }
    p->cut = p->cut || !output_parser_done(p);
    give_alone(p, OUTPUT_TOOL_CUT, n > 0 ? p->kept : "", n);
    close_call(p);
}

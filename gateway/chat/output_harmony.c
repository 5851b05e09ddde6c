/* Messages of gpt-oss: <|channel|>NAME to=WHOM<|message|>TEXT<|end|>. */
#include <string.h>

#include "common/base/affix.h"
#include "gateway/chat/output_parts.h"

static const struct output_state harmony_header, harmony_body, harmony_call;

/* The end of a message, and the markers that begin a header. */
enum { END, RETURN, CALL, START, CHANNEL, MESSAGE, TO };

static const char *const start_markers[] = {
    "<|end|>",     "<|return|>",  "<|call|>", "<|start|>",
    "<|channel|>", "<|message|>", "to=",      NULL};
static const char *const body_markers[] = {
    "<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>", NULL};
static const char *const header_markers[] = {"<|message|>", NULL};

/* ---- headers ---- */

/* Finds word in the header.  Sets *value and *n to what follows it, up to
 * white space or a marker. */
static bool header_value(const struct output_parser *p, const char *word,
                         const char **value, size_t *n)
{
    size_t k = strlen(word), i = 0;
    const char *at =
        p->n_held == 0 ? NULL : memmem(p->held, p->n_held, word, k);

    if (at == NULL) {
        return false;
    }
    *value = at + k;
    *n = p->n_held - (size_t)(*value - p->held);
    while (i < *n && (*value)[i] != '<' && !output_is_space(*value + i, 1)) {
        i++;
    }
    *n = i;
    return true;
}

/* Cuts the namespace of functions from the recipient.  Returns false if the
 * message is for no function. */
static bool recipient(const struct output_parser *p, const char **name,
                      size_t *n)
{
    static const char space[] = "functions.";
    size_t k = sizeof space - 1;

    if (!p->options.tools || !header_value(p, "to=", name, n)) {
        return false;
    }
    if (*n >= k && memcmp(*name, space, k) == 0) {
        *name += k;
        *n -= k;
    }
    return *n > 0 && *n <= OUTPUT_NAME_BYTES &&
           !equals_n(*name, *n, "assistant");
}

/* Begins the message whose header is held. */
static void begin_message(struct output_parser *p)
{
    const char *channel = "", *name;
    size_t n = 0, k;

    p->n_space = 0;
    (void)header_value(p, "<|channel|>", &channel, &n);
    p->body =
        equals_n(channel, n, "analysis") ? OUTPUT_REASONING : OUTPUT_CONTENT;
    /* Models address functions in the analysis channel too, never in the
     * final one. */
    if (!equals_n(channel, n, "final") && recipient(p, &name, &k)) {
        /* held becomes the name, until the arguments begin. */
        memmove(p->held, name, k);
        p->n_held = (uint32_t)k;
        p->state = &harmony_call;
        return;
    }
    output_drop_held(p);
    p->state = &harmony_body;
}

/* A header that is too long is text. */
static void break_header(struct output_parser *p)
{
    p->body = OUTPUT_CONTENT;
    output_release(p);
    p->state = &harmony_body;
}

static void hold_header(struct output_parser *p, const char *text, size_t n)
{
    if (p->n_held + n > OUTPUT_HEADER_BYTES || !output_hold(p, text, n)) {
        break_header(p);
        output_content(p, text, n);
    }
}

static void header_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, header_markers, text, n);

    if (m == OUTPUT_MARK_PART) {
        return;
    }
    if (m == 0) {
        begin_message(p);
    } else if (p->n_mark > 0) {
        char mark[OUTPUT_MARK_BYTES];
        size_t k = p->n_mark;

        memcpy(mark, p->mark, k);
        p->n_mark = 0;
        hold_header(p, mark, k);
        output_feed(p, text, n);
    } else {
        hold_header(p, text, n);
    }
}

/* A header that the end of the answer cuts is no text.  Text that only looks
 * like a recipient is. */
static void header_finish(struct output_parser *p)
{
    if (p->n_held > 0 && *p->held == 't') {
        output_release(p);
    }
}

static const struct output_state harmony_header = {header_step, header_finish};

/* ---- between messages ---- */

static void begin_header(struct output_parser *p, int marker)
{
    if (marker != TO) {
        p->n_space = 0;
    }
    p->state = marker >= START ? &harmony_header : &output_harmony_start;
    if (marker == MESSAGE) {
        begin_message(p);
    } else if (marker >= START) {
        hold_header(p, start_markers[marker], strlen(start_markers[marker]));
    }
}

static void start_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, start_markers, text, n);

    if (m == OUTPUT_MARK_PART) {
        return;
    }
    if (m != OUTPUT_MARK_NONE) {
        begin_header(p, m);
    } else if (p->n_mark == 0 && output_is_space(text, n)) {
        output_hold_space(p, *text);
    } else {
        break_header(p);
        output_feed(p, text, n);
    }
}

const struct output_state output_harmony_start = {start_step,
                                                  output_text_finish};

/* ---- messages ---- */

static void body_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, body_markers, text, n);

    if (m == OUTPUT_MARK_PART) {
        return;
    }
    if (m != OUTPUT_MARK_NONE) {
        p->fresh = true;
        begin_header(p, m);
    } else if (p->n_mark > 0) {
        output_give(p, p->body, p->mark, p->n_mark);
        p->n_mark = 0;
        output_feed(p, text, n);
    } else {
        output_give(p, p->body, text, n);
    }
}

static void body_finish(struct output_parser *p)
{
    output_give(p, p->body, p->mark, p->n_mark);
}

static const struct output_state harmony_body = {body_step, body_finish};

/* ---- calls ---- */

static const struct output_state call_arguments;

/* Waits for the arguments.  Without any, the call ends with its message. */
static void call_step(struct output_parser *p, const char *text, size_t n)
{
    int m = output_mark(p, body_markers, text, n);

    if (m == OUTPUT_MARK_PART || (p->n_mark == 0 && output_is_space(text, n))) {
        return;
    }
    if (m == OUTPUT_MARK_NONE && (p->n_mark > 0 || *text != '{')) {
        /* Text that is no object is content; its header is not. */
        output_drop_held(p);
        p->body = OUTPUT_CONTENT;
        p->state = &harmony_body;
        body_finish(p);
        p->n_mark = 0;
        output_feed(p, text, n);
        return;
    }
    output_begin_call(p, p->held, p->n_held);
    output_drop_held(p);
    if (m != OUTPUT_MARK_NONE) {
        output_give(p, OUTPUT_TOOL_ARGUMENTS, "{}", 2);
        output_end_call(p);
        begin_header(p, m);
        return;
    }
    p->scan = (struct json_scan){0};
    p->state = &call_arguments;
    output_keep(p, text, n);
    output_feed(p, text, n);
}

static void call_finish(struct output_parser *p)
{
    (void)p;
}

static const struct output_state harmony_call = {call_step, call_finish};

static void arguments_step(struct output_parser *p, const char *text, size_t n)
{
    bool in_string = json_scan_in_string(&p->scan);
    enum json_scan_verdict v = json_scan_step(&p->scan, *text);

    if (v == JSON_SCAN_BAD) {
        /* A marker may follow, so the start state decides. */
        output_cut_call(p, n);
        output_feed(p, text, n);
        return;
    }
    output_argument(p, text, n, in_string);
    if (v == JSON_SCAN_DONE) {
        output_end_call(p);
    }
}

static void arguments_finish(struct output_parser *p)
{
    output_cut_call(p, 0);
}

static const struct output_state call_arguments = {arguments_step,
                                                   arguments_finish};

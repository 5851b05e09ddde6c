#include "client/load/drive/http_answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/load/drive/http_scan.h"
#include "common/base/quote.h"

#define ERROR_BODY_MAX (64u << 10) /* the rest of an error is not kept */

void http_answer_begin(struct http_answer *a, uint32_t n_choices,
                       http_output_fn *fn, void *arg)
{
    struct sse sse = a->sse;
    struct http_text body = a->body, text = a->text;

    sse.line.n = 0;
    sse.data.n = 0;
    *a = (struct http_answer){.n_choices = n_choices > 0 ? n_choices : 1,
                              .sse = {.line = sse.line, .data = sse.data},
                              .body = {.bytes = body.bytes, .size = body.size},
                              .text = {.bytes = text.bytes, .size = text.size},
                              .fn = fn,
                              .arg = arg};
}

void http_answer_head(struct http_answer *a, int status, bool streams)
{
    a->status = status;
    a->streams = streams && status >= 200 && status < 300;
}

/* Keeps the first failure. */
static void fail(struct http_answer *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fail(struct http_answer *a, const char *format, ...)
{
    va_list args;

    if (!a->failed) {
        a->failed = true;
        va_start(args, format);
        vsnprintf(a->why, sizeof a->why, format, args);
        va_end(args);
    }
}

/* ---- members of a chunk ---- */

static void take_string(struct http_answer *a, struct scan *s)
{
    struct scan_slice string;

    if (scan_string(s, &string)) {
        scan_text(&string, &a->text);
    }
}

/* Calls of tools are output, too: their JSON stands for the text. */
static void take_tools(struct http_answer *a, struct scan *s)
{
    char c = scan_peek(s);
    const char *from = s->at;

    scan_skip(s);
    if (c == '[' && !s->bad && s->at - from > 2) {
        http_text_put(&a->text, from, (size_t)(s->at - from));
    }
}

/* Servers in transition send one text as "reasoning" and as
 * "reasoning_content". */
static void take_delta(struct http_answer *a, struct scan *s)
{
    struct scan_slice key;
    bool has_reasoning = false;

    if (!scan_object(s)) {
        return;
    }
    while (scan_member(s, &key)) {
        bool reasoning =
            scan_is(&key, "reasoning_content") || scan_is(&key, "reasoning");

        if (scan_is(&key, "content") || (reasoning && !has_reasoning)) {
            size_t before = a->text.n;

            take_string(a, s);
            has_reasoning |= reasoning && a->text.n > before;
        } else if (scan_is(&key, "tool_calls")) {
            take_tools(a, s);
        } else {
            scan_skip(s);
        }
    }
}

static void take_choice(struct http_answer *a, struct scan *s)
{
    struct scan_slice key, ignored;

    if (!scan_object(s)) {
        return;
    }
    while (scan_member(s, &key)) {
        if (scan_is(&key, "text")) {
            take_string(a, s);
        } else if (scan_is(&key, "delta") || scan_is(&key, "message")) {
            take_delta(a, s);
        } else if (scan_is(&key, "finish_reason")) {
            a->n_finished += scan_string(s, &ignored);
        } else {
            scan_skip(s);
        }
    }
}

/* Passes on the output of a choice of a chunk. */
static void put_out(struct http_answer *a)
{
    if (a->text.n > 0 && !a->stopped) {
        a->n_events++;
        a->fn(a->arg, 1, a->text.bytes, a->text.n);
    }
    a->text.n = 0;
}

static void take_choices(struct http_answer *a, struct scan *s)
{
    if (!scan_array(s)) {
        return;
    }
    while (scan_element(s)) {
        take_choice(a, s);
        if (a->streams && !s->bad) {
            put_out(a);
        }
    }
}

static void take_count(struct scan *s, uint32_t *out)
{
    uint64_t v;

    if (scan_u64(s, &v)) {
        *out = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
    }
}

static void take_details(struct http_answer *a, struct scan *s)
{
    struct scan_slice key;

    if (!scan_object(s)) {
        return;
    }
    while (scan_member(s, &key)) {
        if (scan_is(&key, "cached_tokens")) {
            take_count(s, &a->n_cached);
        } else {
            scan_skip(s);
        }
    }
}

static void take_usage(struct http_answer *a, struct scan *s)
{
    struct scan_slice key;

    if (!scan_object(s)) {
        return;
    }
    while (scan_member(s, &key)) {
        if (scan_is(&key, "prompt_tokens")) {
            take_count(s, &a->n_prompt);
        } else if (scan_is(&key, "completion_tokens")) {
            take_count(s, &a->n_output);
        } else if (scan_is(&key, "prompt_tokens_details")) {
            take_details(a, s);
        } else {
            scan_skip(s);
        }
    }
}

/* ---- errors ---- */

static void take_message(struct http_answer *a, const struct scan_slice *text)
{
    struct http_text out = {0};

    scan_text(text, &out);
    fail(a, "%s", quote_bytes(out.bytes, out.n).text);
    http_text_fini(&out);
}

/* {"message": ..}, a string, or null. */
static void take_error(struct http_answer *a, struct scan *s)
{
    struct scan_slice key, text;
    char c = scan_peek(s);

    if (c == '"' && scan_string(s, &text)) {
        take_message(a, &text);
    } else if (c == '{') {
        scan_object(s);
        while (scan_member(s, &key)) {
            if (!scan_is(&key, "message")) {
                scan_skip(s);
            } else if (scan_string(s, &text)) {
                take_message(a, &text);
            }
        }
        fail(a, "an error without a message");
    } else {
        scan_skip(s);
    }
}

/* Some servers put the message at the top: {"object": "error", "message": ..},
 * or {"detail": ..}. */
static bool is_message(const struct scan_slice *key)
{
    return scan_is(key, "message") || scan_is(key, "detail");
}

static void take_root(struct http_answer *a, struct scan *s, bool is_error)
{
    struct scan_slice key, text, message = {0};

    if (scan_peek(s) != '{') {
        s->bad = true;
        return;
    }
    scan_object(s);
    while (scan_member(s, &key)) {
        if (scan_is(&key, "choices")) {
            take_choices(a, s);
        } else if (scan_is(&key, "usage")) {
            take_usage(a, s);
        } else if (scan_is(&key, "error")) {
            take_error(a, s);
        } else if (scan_is(&key, "object")) {
            is_error |= scan_string(s, &text) && scan_is(&text, "error");
        } else if (!is_message(&key)) {
            scan_skip(s);
        } else if (scan_string(s, &text)) {
            message = text;
        }
    }
    if (is_error && message.n > 0) {
        take_message(a, &message);
    }
}

/* ---- bodies ---- */

static void take_json(struct http_answer *a, const char *data, size_t n,
                      bool is_error)
{
    struct scan s;

    scan_begin(&s, data, n);
    take_root(a, &s, is_error);
    if (s.bad && !is_error) {
        fail(a, "the server sent broken JSON: %s", quote_bytes(data, n).text);
    }
}

static void on_event(void *arg, const char *data, size_t n)
{
    struct http_answer *a = arg;

    if (a->stopped || a->failed) {
        return;
    }
    if (n == 6 && memcmp(data, "[DONE]", 6) == 0) {
        a->done = true;
    } else {
        take_json(a, data, n, false);
    }
}

static bool is_good(const struct http_answer *a)
{
    return a->status >= 200 && a->status < 300;
}

void http_answer_bytes(struct http_answer *a, const char *bytes, size_t n)
{
    size_t most = is_good(a) ? HTTP_BODY_MAX : ERROR_BODY_MAX;

    if (a->stopped || a->failed) {
        return;
    }
    if (a->streams) {
        if (!sse_push(&a->sse, bytes, n, on_event, a)) {
            fail(a, "an event of the stream is longer than 1 MiB");
        }
    } else if (n <= most - a->body.n) {
        http_text_put(&a->body, bytes, n);
    } else if (is_good(a)) {
        fail(a, "the answer is longer than 64 MiB");
    } else {
        http_text_put(&a->body, bytes, most - a->body.n);
    }
}

void http_answer_stop(struct http_answer *a)
{
    a->stopped = true;
}

/* Reads a body that is no stream. */
static void end_body(struct http_answer *a)
{
    if (a->failed) {
        return;
    }
    a->text.n = 0;
    take_json(a, a->body.n > 0 ? a->body.bytes : "", a->body.n, !is_good(a));
    if (is_good(a) && !a->failed && a->text.n > 0 && !a->stopped) {
        a->n_events++;
        a->fn(a->arg, a->n_output > 0 ? a->n_output : 1, a->text.bytes,
              a->text.n);
    }
}

static bool is_complete(const struct http_answer *a)
{
    return a->streams && (a->done || a->n_finished >= a->n_choices);
}

static void end_stream(struct http_answer *a)
{
    if (!is_complete(a)) {
        fail(a,
             "the stream ended after %u chunks, without [DONE] and "
             "finish_reason",
             a->n_events);
    }
}

static void wrap_status(struct http_answer *a)
{
    char text[SAMPLE_WHY] = "no message";

    if (a->failed) {
        memcpy(text, a->why, sizeof text);
    }
    a->failed = false;
    fail(a, "HTTP %d: %s", a->status, text);
}

bool http_answer_counts_chunks(const struct http_answer *a)
{
    return a->n_output == 0 && a->n_events > 0;
}

void http_answer_end(struct http_answer *a, const char *broken,
                     struct call_end *out)
{
    if (broken != NULL && !is_complete(a)) {
        fail(a, "%s", broken);
    } else if (a->streams) {
        end_stream(a);
    } else {
        end_body(a);
    }
    if (a->status != 0 && !is_good(a) && broken == NULL) {
        wrap_status(a);
    }
    *out = (struct call_end){.outcome = !a->failed ? OUTCOME_OK
                                        : a->status == 429 || a->status == 503
                                            ? OUTCOME_REFUSED
                                            : OUTCOME_FAILED,
                             .code = (uint16_t)a->status,
                             .why = a->failed ? a->why : NULL,
                             .n_prompt = a->n_prompt,
                             .n_output = a->n_output,
                             .n_cached = a->n_cached,
                             .chunks = http_answer_counts_chunks(a),
                             .queue_us = SAMPLE_NEVER};
}

void http_answer_fini(struct http_answer *a)
{
    sse_fini(&a->sse);
    http_text_fini(&a->body);
    http_text_fini(&a->text);
}

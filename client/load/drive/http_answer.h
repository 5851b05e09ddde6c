/* http_answer.h - The content of a response of an OpenAI-compatible server.
 *
 * Takes the body of a response, split anywhere: a stream of events, a whole
 * answer, or an error.  Events are scanned without a tree, because 100,000 of
 * them come in a second.
 *
 * A response is complete if it is a whole answer, or if its stream had [DONE]
 * or a finish_reason for every choice.
 *
 * Threading: none.  Memory: buffers are kept from one response to the next.
 * Pure.  Limits: HTTP_BODY_MAX, SSE_EVENT_BYTES_MAX. */
#ifndef CLIENT_LOAD_DRIVE_HTTP_ANSWER_H
#define CLIENT_LOAD_DRIVE_HTTP_ANSWER_H

#include "client/load/drive/http_text.h"
#include "client/load/drive/target.h"
#include "common/base/sse.h"

#define HTTP_BODY_MAX (64u << 20) /* bytes of a whole answer */

/* Receives output: n tokens of a whole answer, 1 of an event. */
typedef void http_output_fn(void *arg, uint32_t n, const char *text,
                            size_t n_text);

struct http_answer {
    int status; /* 0: no head yet */
    bool streams;
    uint32_t n_choices, n_finished;
    uint32_t n_events; /* that had output */
    bool done;         /* [DONE] came */
    bool stopped;      /* nothing more is passed on */
    bool failed;
    char why[SAMPLE_WHY]; /* if failed */
    uint32_t n_prompt, n_output, n_cached;
    struct sse sse;
    struct http_text body, text;
    http_output_fn *fn;
    void *arg;
};

/* Begins a response with n_choices. */
void http_answer_begin(struct http_answer *a, uint32_t n_choices,
                       http_output_fn *fn, void *arg);

/* Takes the status, and whether the body is text/event-stream. */
void http_answer_head(struct http_answer *a, int status, bool streams);

/* Takes bytes of the body.  fn may stop the answer. */
void http_answer_bytes(struct http_answer *a, const char *bytes, size_t n);

/* Passes no more output on. */
void http_answer_stop(struct http_answer *a);

/* Ends the response and fills *out; out->why lives as long as *a.  broken: why
 * the connection failed, NULL if the response was received to its end. */
void http_answer_end(struct http_answer *a, const char *broken,
                     struct call_end *out);

/* Returns whether there is output whose tokens the server has not counted. */
bool http_answer_counts_chunks(const struct http_answer *a);

void http_answer_fini(struct http_answer *a);

#endif

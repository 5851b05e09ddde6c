#include "gateway/http/request.h"

#include <inttypes.h>
#include <string.h>

#include "gateway/http/http_limits.h"
#include "gateway/http/target.h"

void http_request_init(struct http_request *q, struct memory_budget *budget,
                       size_t body_max)
{
    memset(q, 0, sizeof *q);
    http_head_init(&q->head, budget, false);
    http_head_init(&q->trailers, budget, true);
    q->body.budget = budget;
    q->body_max = body_max;
}

void http_request_fini(struct http_request *q)
{
    http_head_fini(&q->head);
    http_head_fini(&q->trailers);
    http_buffer_fini(&q->body);
}

static bool put(struct http_request *q, const char *data, size_t n,
                struct http_refusal *r)
{
    return http_buffer_append(&q->body, data, n) ||
           http_refuse(r, 503,
                       "the server is out of memory for requests; "
                       "retry later");
}

/* The NUL lets a parser of text read the body in place. */
static bool end(struct http_request *q, struct http_refusal *r)
{
    q->phase = HTTP_PHASE_DONE;
    return q->body.n == 0 || put(q, "", 1, r);
}

/* Refuses a body before it is read if there is no memory for the request, which
 * takes HTTP_BODY_WEIGHT times as much.  Nothing is reserved: a client that
 * announces a body and sends none would hold what others need. */
static bool check_memory(struct http_request *q, struct http_refusal *r)
{
    const struct memory_budget *b = q->body.budget;
    uint64_t need = HTTP_BODY_WEIGHT * q->framing.length;
    size_t used = b != NULL ? b->used : 0;

    if (b == NULL || q->framing.chunked || need == 0) {
        return true;
    }
    if (need > b->max) {
        return http_refuse(r, 413,
                           "a body of %" PRIu64 " bytes needs about %" PRIu64
                           " bytes of memory, and the server has %zu for all "
                           "requests; send a smaller request",
                           q->framing.length, need, b->max);
    }
    q->body.expected = (size_t)q->framing.length + 1; /* end() adds a NUL */
    return (used <= b->max && need <= b->max - used) ||
           http_refuse(r, 503,
                       "the server is out of memory for requests; "
                       "retry later");
}

/* The target is decoded only here, once the head is whole: an error in a later
 * header is then found in any split. */
static bool push_head(struct http_request *q, const char *data, size_t n,
                      size_t *used, struct http_refusal *r)
{
    const struct http_field *host;
    size_t query;

    if (!http_head_push(&q->head, data, n, used, r)) {
        return false;
    }
    if (!http_head_done(&q->head)) {
        return true;
    }
    host = http_head_find(&q->head, "host", 0);
    if (!http_target_cut_host(
            q->head.bytes.data,
            host != NULL ? http_head_text(&q->head, host->value) : NULL, r)) {
        return false;
    }
    if (!http_target_parse(q->head.bytes.data, q->names_under, &query, r) ||
        !http_framing_read(&q->framing, &q->head, q->body_max, r) ||
        !check_memory(q, r)) {
        return false;
    }
    q->head.query = (uint16_t)query;
    q->phase = HTTP_PHASE_BODY;
    return q->framing.has_body || end(q, r);
}

static bool push_plain(struct http_request *q, const char *data, size_t n,
                       size_t *used, struct http_refusal *r)
{
    uint64_t left = q->framing.length - q->body.n;

    *used = n < left ? n : (size_t)left;
    if (!put(q, data, *used, r)) {
        return false;
    }
    return *used < left || end(q, r);
}

/* A chunk's size is checked before its data arrives. */
static bool check_chunk(const struct http_request *q, struct http_refusal *r)
{
    return q->chunked.left <= q->body_max - q->body.n ||
           http_refuse(r, 413,
                       "the chunked body is longer than %zu bytes; "
                       "send a smaller request",
                       q->body_max);
}

static bool push_chunked(struct http_request *q, const char *data, size_t n,
                         size_t *used, struct http_refusal *r)
{
    struct http_chunked *c = &q->chunked;

    if (c->state == HTTP_CHUNK_DATA) {
        *used = n < c->left ? n : (size_t)c->left;
        if (!put(q, data, *used, r)) {
            return false;
        }
        http_chunked_took(c, *used);
        return true;
    }
    if (!http_chunked_push(c, data, n, used, r)) {
        return false;
    }
    if (c->state == HTTP_CHUNK_END) {
        q->phase = HTTP_PHASE_TRAILERS;
    }
    return c->state != HTTP_CHUNK_DATA || check_chunk(q, r);
}

static bool push_trailers(struct http_request *q, const char *data, size_t n,
                          size_t *used, struct http_refusal *r)
{
    if (!http_head_push(&q->trailers, data, n, used, r)) {
        return false;
    }
    return !http_head_done(&q->trailers) || end(q, r);
}

static bool push_one(struct http_request *q, const char *data, size_t n,
                     size_t *used, struct http_refusal *r)
{
    if (q->phase == HTTP_PHASE_HEAD) {
        return push_head(q, data, n, used, r);
    }
    if (q->phase == HTTP_PHASE_TRAILERS) {
        return push_trailers(q, data, n, used, r);
    }
    return q->framing.chunked ? push_chunked(q, data, n, used, r)
                              : push_plain(q, data, n, used, r);
}

bool http_request_push(struct http_request *q, const char *data, size_t n,
                       size_t *used, struct http_refusal *r)
{
    /* The caller must see the end of the head before the body is parsed. */
    enum http_phase begun = q->phase;
    bool ok = true;

    *used = 0;
    while (ok && *used < n && q->phase != HTTP_PHASE_DONE &&
           (begun != HTTP_PHASE_HEAD || q->phase == HTTP_PHASE_HEAD)) {
        size_t more = 0;

        ok = push_one(q, data + *used, n - *used, &more, r);
        *used += more;
    }
    return ok;
}

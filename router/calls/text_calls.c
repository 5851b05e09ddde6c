/* text_calls.c - Text jobs in flight, for prompts and for Tokenize and
 * Detokenize. */
#include <stdlib.h>

#include "router/base/request_memory.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/requests/request.h"

#define TEXT_OF_ID 16 /* bytes of text, with room for long tokens */

/* A call of Tokenize or Detokenize whose job is not done. */
struct text_wait {
    struct pending call;
    struct table_node by_tag;
};

static void text_wait_free(struct router_core *r, struct text_wait *x)
{
    pending_close(&r->fleet, &x->call);
    table_remove(&r->requests.jobs, &x->by_tag);
    free(x);
}

static void text_dropped(void *room, struct pending *c, bool gone)
{
    (void)gone;
    text_wait_free(room, LIST_OF(c, struct text_wait, call));
}

/* Returns the ids that a reply of Tokenize has room for.  They take at most 4
 * bytes each on the wire. */
static uint32_t tokenize_ids_max(void)
{
    return (method_find(METHOD_INFERENCE_TOKENIZE)->reply_cap - 16) / 4;
}

enum status text_submit(struct router_core *r, struct text_job **j,
                        size_t bytes, struct error *e)
{
    struct text_seam *t = r->base.options.text;

    if (request_memory_take(&r->base, bytes, e) != ST_OK) {
        return e->code;
    }
    (*j)->counted = bytes;
    if (t->ops->submit(t, j) != ST_OK) {
        request_memory_give(&r->base, bytes);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "too many texts wait to be encoded or decoded");
    }
    r->requests.n_jobs++;
    return ST_OK;
}

/* Returns the bytes that a job holds at most: an id has a byte of text or more,
 * and the text of an id is short. */
static size_t bytes_of(const struct text_job *j)
{
    size_t n =
        j->max_ids > 0 && j->max_ids < j->n_text ? j->max_ids : j->n_text;

    return j->kind == TEXT_ENCODE ? j->n_text + n * sizeof *j->ids
                                  : j->n_ids * (sizeof *j->ids + TEXT_OF_ID);
}

void text_call(struct router_core *r, const struct incoming *in,
               struct text_job **j)
{
    uint64_t tag = JOB_TAG(++r->requests.last_number, JOB_CALL);
    struct text_wait *x;
    struct error e;

    (*j)->tag = tag;
    (*j)->job.turn.client = in->peer->id.v;
    if ((*j)->kind == TEXT_ENCODE) {
        (*j)->max_ids = tokenize_ids_max();
    }
    x = calloc(1, sizeof *x);
    error_set(&e, ST_RESOURCE_EXHAUSTED,
              MEMORY_SENTENCE "the router has none left");
    if (x == NULL || text_submit(r, j, bytes_of(*j), &e) != ST_OK) {
        free(x);
        text_job_free(j);
        peer_fail(in->peer->peer, in->call, &e, RETRY_MS_MIN);
        return;
    }
    pending_init(&x->call);
    pending_open(&r->fleet, &x->call, in->peer, in->call, text_dropped, r);
    table_add(&r->requests.jobs, &x->by_tag, tag);
}

static void tokenized(struct router_core *r, struct pending *c,
                      const struct text_job *j)
{
    Sluice__V1__TokenizeReply m = SLUICE__V1__TOKENIZE_REPLY__INIT;

    m.tokens = j->ids;
    m.n_tokens = j->n_ids;
    pending_end(&r->fleet, c, &m.base);
}

static void detokenized(struct router_core *r, struct pending *c,
                        const struct text_job *j)
{
    Sluice__V1__DetokenizeReply m = SLUICE__V1__DETOKENIZE_REPLY__INIT;

    m.text.data = (uint8_t *)j->text;
    m.text.len = j->n_text;
    pending_end(&r->fleet, c, &m.base);
}

/* Returns true, with an error in j, if the reply exceeds its size cap. */
static bool too_large(struct text_job *j)
{
    size_t bytes = j->kind == TEXT_ENCODE ? 4 * j->n_ids : j->n_text;
    const struct method_row *row =
        method_find(j->kind == TEXT_ENCODE ? METHOD_INFERENCE_TOKENIZE
                                           : METHOD_INFERENCE_DETOKENIZE);

    if (j->over) {
        j->status =
            error_set(&j->error, ST_OUT_OF_RANGE,
                      "the text has more than %u tokens, the most that a "
                      "reply may have; send a part of the text",
                      tokenize_ids_max());
        return true;
    }
    if (j->status != ST_OK || bytes + 16 <= row->reply_cap) {
        return false;
    }
    j->status = error_set(&j->error, ST_OUT_OF_RANGE,
                          "the reply would take %zu bytes, at most %u are "
                          "allowed; send a part of the input",
                          bytes, row->reply_cap);
    return true;
}

static void call_done(struct router_core *r, struct text_wait *x,
                      struct text_job *j)
{
    if (too_large(j) || j->status != ST_OK) {
        if (j->status == ST_RESOURCE_EXHAUSTED) {
            error_wrap(&j->error, MEMORY_WORD);
        }
        j->error.code = j->status;
        pending_fail(&r->fleet, &x->call, &j->error, 0);
    } else if (j->kind == TEXT_ENCODE) {
        tokenized(r, &x->call, j);
    } else {
        detokenized(r, &x->call, j);
    }
    text_wait_free(r, x);
}

static void job_done(struct router_core *r, struct text_job *j)
{
    struct table_node *n = table_find(&r->requests.jobs, j->tag);

    if (n == NULL) {
        return; /* its call has ended */
    }
    if (j->tag == JOB_TAG(j->tag >> 1, JOB_CALL)) {
        call_done(r, LIST_OF(n, struct text_wait, by_tag), j);
    } else {
        table_remove(&r->requests.jobs, n);
        generate_encoded(r, LIST_OF(n, struct request, by_tag), j);
    }
}

void text_poll(struct router_core *r)
{
    struct text_seam *t = r->base.options.text;
    struct text_job *j;

    while (t != NULL && r->requests.n_jobs > 0 &&
           (j = t->ops->poll(t)) != NULL) {
        r->requests.n_jobs--;
        job_done(r, j);
        request_memory_give(&r->base, j->counted);
        text_job_free(&j);
    }
}

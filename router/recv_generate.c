#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/plant.h"
#include "common/request_id.h"
#include "common/sampling_message.h"
#include "router/admission.h"
#include "router/recv.h"
#include "router/router.h"

typedef Sluice__V1__GenerateRequest generate_message;

static bool check_prompt(const struct incoming *in, const generate_message *m)
{
    if (m->has_text && m->n_tokens > 0) {
        refuse(in, ST_INVALID_ARGUMENT,
               "the prompt is given as text and as ids, only one is allowed");
        return false;
    }
    if (m->n_tokens == 0 && (!m->has_text || m->text.len == 0)) {
        refuse(in, ST_INVALID_ARGUMENT, "the prompt is empty");
        return false;
    }
    if (m->has_text && !wire_text_ok(m->text, 1, m->text.len)) {
        refuse(in, ST_INVALID_ARGUMENT,
               "the prompt is not UTF-8, or has a NUL in it");
        return false;
    }
    return true;
}

static bool check_fields(const struct incoming *in, const generate_message *m)
{
    if (!check_request_id(in, m->request_id) || !check_prompt(in, m)) {
        return false;
    }
    if (!wire_text_ok(m->model, 0, MODEL_NAME_MAX)) {
        refuse(in, ST_INVALID_ARGUMENT,
               "the model's name must be at most %d bytes of UTF-8",
               MODEL_NAME_MAX);
        return false;
    }
    if (m->has_max_tokens && m->max_tokens == 0) {
        refuse(in, ST_INVALID_ARGUMENT,
               "max_tokens is 0, at least 1 is "
               "needed");
        return false;
    }
    if (m->keep_ms > KEEP_MS_LIMIT) {
        refuse(in, ST_INVALID_ARGUMENT,
               "keep_ms is %" PRIu32 ", at most %d is possible", m->keep_ms,
               KEEP_MS_LIMIT);
        return false;
    }
    return true;
}

static bool check_open(struct router_core *r, const struct incoming *in,
                       const generate_message *m)
{
    const struct request *q =
        request_find(r, m->request_id.data, m->request_id.len);

    if (q != NULL) {
        refuse(in, ST_ALREADY_EXISTS, "a request of this id is %s",
               q->kept ? "kept: remove it first"
                       : request_state_name(q->state));
        return false;
    }
    if (r->n_requests >= r->options.max_requests) {
        struct error e;
        error_set(&e, ST_RESOURCE_EXHAUSTED,
                  "%" PRIu32 " requests are open, at most %" PRIu32 " may be",
                  r->n_requests, r->options.max_requests);
        peer_fail(in->peer->peer, in->call, &e, RETRY_MS_MIN);
        return false;
    }
    return true;
}

static struct model *find_model(struct router_core *r,
                                const struct incoming *in,
                                ProtobufCBinaryData name)
{
    struct text_seam *t = r->options.text;
    struct model *m = model_find(r, name.data, name.len);
    uint32_t unused;

    if (m != NULL && m->n_workers > 0) {
        return m;
    }
    if (name.len == 0) {
        refuse(in, r->n_workers == 0 ? ST_UNAVAILABLE : ST_INVALID_ARGUMENT,
               r->n_workers == 0 ? "no worker is up"
                                 : "several models are served, name one");
    } else if (m != NULL || (t != NULL && t->ops->find(t, (char *)name.data,
                                                       name.len, &unused))) {
        refuse(in, ST_UNAVAILABLE, "no worker of model %.*s is up",
               (int)name.len, (const char *)name.data);
    } else {
        refuse(in, ST_NOT_FOUND, "model %.*s is not served here", (int)name.len,
               (const char *)name.data);
    }
    return NULL;
}

/* Before the prompt is encoded: what is refused must cost little. */
static bool check_place(struct router_core *r, const struct incoming *in,
                        const struct model *m, const generate_message *g)
{
    uint32_t retry_ms = 0;
    struct error e;

    if (g->has_text && !m->has_text) {
        error_set(&e, ST_FAILED_PRECONDITION,
                  "this router has no tokenizer for model %s: give the "
                  "prompt as ids",
                  m->name);
    } else if (g->has_want_text && g->want_text && !m->has_text) {
        error_set(&e, ST_FAILED_PRECONDITION,
                  "this router has no tokenizer for model %s: set want_text "
                  "to false",
                  m->name);
    } else if ((g->sampling == NULL ||
                sampling_check(g->sampling, m->vocab, &e) == ST_OK) &&
               admission_queue(r, m, &retry_ms, &e) == ST_OK) {
        return true;
    }
    peer_fail(in->peer->peer, in->call, &e, retry_ms);
    return false;
}

static void take_fields(struct request *q, const generate_message *m)
{
    sampling_read(&q->sampling, m->sampling);
    q->has_seed = m->sampling != NULL && m->sampling->has_seed;
    q->sampling_lists = malloc(sampling_bytes(&q->sampling) + 1);
    assert(q->sampling_lists != NULL);
    sampling_own(&q->sampling, q->sampling_lists);
    q->max_tokens = m->has_max_tokens ? m->max_tokens : 0;
    q->keep_ms = m->keep_ms;
    q->wants_text = m->want_text && q->model->has_text;
}

static void encode(struct router_core *r, struct request *q,
                   const generate_message *m)
{
    struct text_seam *t = r->options.text;
    struct text_job *j =
        text_job_new(TEXT_ENCODE, JOB_TAG(q->number, JOB_PROMPT));
    struct error e;

    j->model = q->model->text;
    j->parse_special = m->parse_special;
    j->text = malloc(m->text.len);
    assert(j->text != NULL);
    memcpy(j->text, m->text.data, m->text.len);
    j->n_text = m->text.len;
    if (t->ops->submit(t, &j) != ST_OK) {
        text_job_free(&j);
        error_set(&e, ST_RESOURCE_EXHAUSTED,
                  "too many texts wait to be encoded");
        request_refuse(r, q, &e, RETRY_MS_MIN);
        return;
    }
    table_add(&r->jobs, &q->by_tag, JOB_TAG(q->number, JOB_PROMPT));
    r->n_jobs++;
}

void recv_generate(struct router_core *r, const struct incoming *in)
{
    const generate_message *m = (const void *)in->message;
    struct model *model = NULL;
    struct request *q;

    r->metrics.requests++;
    if (!check_fields(in, m) || !check_open(r, in, m) ||
        (model = find_model(r, in, m->model)) == NULL ||
        !check_place(r, in, model, m)) {
        r->metrics.refused++;
        return;
    }
    model = model_take(r, (const uint8_t *)model->name, strlen(model->name));
    q = request_new(r, m->request_id.data, model);
    q->deadline_us = in->deadline_us;
    pending_open(r, &q->call, PENDING_GENERATE, in->peer, in->call);
    take_fields(q, m);
    if (m->has_text) {
        encode(r, q, m);
        return;
    }
    request_reserve(q, (uint32_t)m->n_tokens);
    memcpy(q->ids, m->tokens, m->n_tokens * sizeof *q->ids);
    q->n_prompt = (uint32_t)m->n_tokens;
    request_enqueue(r, q);
}

void generate_encoded(struct router_core *r, struct request *q,
                      struct text_job *j)
{
    if (j->status != ST_OK) {
        error_wrap(&j->error, "prompt");
        j->error.code = j->status;
        request_refuse(r, q, &j->error, 0);
        return;
    }
    if (j->n_ids > SHARD_CONTEXT_MAX) {
        error_set(&j->error, ST_INVALID_ARGUMENT,
                  "the prompt has %zu tokens, at most %d are possible",
                  j->n_ids, SHARD_CONTEXT_MAX);
        request_refuse(r, q, &j->error, 0);
        return;
    }
    free(q->ids);
    q->ids = j->ids; /* taken over */
    q->ids_size = q->n_prompt = (uint32_t)j->n_ids;
    j->ids = NULL;
    j->n_ids = 0;
    request_enqueue(r, q);
}

void generate_dropped(struct router_core *r, struct pending *c, bool gone)
{
    struct request *q = LIST_OF(c, struct request, call);

    list_remove(&q->ready);
    if (q->state == REQUEST_ENDED) {
        request_settle(r, q);
    } else if (gone && PLANT(CLIENT_GONE_IGNORED)) {
        return;
    } else if (gone) {
        removal_wanted(r, q, SLUICE__V1__CANCEL_REASON__CANCEL_CLIENT_GONE);
    } else if (r->now_us >= q->deadline_us) {
        removal_wanted(r, q, SLUICE__V1__CANCEL_REASON__CANCEL_DEADLINE);
    } else {
        removal_wanted(r, q, SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT);
    }
}

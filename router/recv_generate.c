#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/failpoint.h"
#include "common/plant.h"
#include "common/sampling_message.h"
#include "router/admission.h"
#include "router/recv.h"
#include "router/resume.h"
#include "router/router.h"
#include "text/stop_strings.h"

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
    if (m->n == 0 || m->n > CHOICES_MAX) {
        refuse(in, ST_INVALID_ARGUMENT, "n is %" PRIu32 ", must be 1..%d", m->n,
               CHOICES_MAX);
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

/* Of its first choice that has not ended. */
static const char *is_what(const struct generation *g)
{
    bool kept = false;

    for (uint32_t c = 0; c < g->n_choices; c++) {
        if (g->choices[c].state != REQUEST_ENDED) {
            return request_state_name(g->choices[c].state);
        }
        kept = kept || g->choices[c].kept;
    }
    return kept ? "kept: remove it first" : request_state_name(REQUEST_ENDED);
}

/* Is the id free, or becomes so for one that is resumed? */
static bool check_id(struct router_core *r, const struct incoming *in,
                     const generate_message *m)
{
    struct generation *g =
        generation_find(r, m->request_id.data, m->request_id.len);
    const char *state;
    uint32_t retry_ms = 0;
    struct error e;

    if (g == NULL) {
        return early_check_id(r, in, m);
    }
    state = is_what(g);
    if (resume_asked(m) && resume_make_way(r, g, in, &retry_ms)) {
        return true;
    }
    error_set(&e, ST_ALREADY_EXISTS, "a request of this id is %s", state);
    peer_fail(in->peer->peer, in->call, &e, retry_ms);
    return false;
}

/* Is there a place for every choice? */
static bool check_open(struct router_core *r, const struct incoming *in,
                       const generate_message *m)
{
    uint32_t max = r->options.max_requests;
    struct error e;

    if (m->n <= max && r->n_requests <= max - m->n) {
        return true;
    }
    error_set(&e, ST_RESOURCE_EXHAUSTED,
              "%" PRIu32 " sequences are open, at most %" PRIu32
              " may be, and these would be %" PRIu32 " more",
              r->n_requests, max, m->n);
    peer_fail(in->peer->peer, in->call, &e, m->n <= max ? RETRY_MS_MIN : 0);
    return false;
}

static struct model *find_model(struct router_core *r,
                                const struct incoming *in,
                                const generate_message *g)
{
    ProtobufCBinaryData name = g->model;
    struct text_seam *t = r->options.text;
    struct model *m = model_find(r, name.data, name.len);
    uint32_t unused;
    struct error e;

    if (m != NULL && model_waits(m)) {
        return m;
    }
    if (m != NULL) {
        admission_absent(m, &e);
        peer_fail(in->peer->peer, in->call, &e, RETRY_MS_ABSENT);
    } else if (resume_asked(g) && (name.len > 0 || r->n_workers == 0)) {
        error_set(&e, ST_UNAVAILABLE, "no worker of model %.*s is up yet",
                  (int)name.len, (const char *)name.data);
        peer_fail(in->peer->peer, in->call, &e, RETRY_MS_MIN);
    } else if (name.len == 0) {
        refuse(in, r->n_workers == 0 ? ST_UNAVAILABLE : ST_INVALID_ARGUMENT,
               r->n_workers == 0 ? "no worker is up"
                                 : "several models are served, name one");
    } else if (t != NULL &&
               t->ops->find(t, (char *)name.data, name.len, &unused)) {
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
               resume_check(g, m->vocab, &e) == ST_OK &&
               admission_queue(r, m, g->n, &retry_ms, &e) == ST_OK) {
        return true;
    }
    peer_fail(in->peer->peer, in->call, &e, retry_ms);
    return false;
}

/* Its stop strings as a machine; *out is NULL if it has none. */
static bool check_stop(struct router_core *r, const struct incoming *in,
                       const struct model *m, const generate_message *g,
                       struct stop_strings **out)
{
    struct stop_string strings[STOP_STRINGS_MAX];
    struct text_seam *t = r->options.text;
    struct error e;

    *out = NULL;
    if (g->n_stop == 0) {
        return true;
    }
    if (!m->has_text || t->ops->tokenizer(t, m->text) == NULL) {
        refuse(in, ST_FAILED_PRECONDITION,
               "this router has no tokenizer for model %s: it cannot look for "
               "stop strings",
               m->name);
        return false;
    }
    for (size_t i = 0; i < g->n_stop && i < STOP_STRINGS_MAX; i++) {
        strings[i] =
            (struct stop_string){(const char *)g->stop[i].data, g->stop[i].len};
    }
    if (stop_strings_new(out, strings, g->n_stop, &e) != ST_OK) {
        peer_fail(in->peer->peer, in->call, &e, 0);
        return false;
    }
    return true;
}

static void take_fields(struct router_core *r, struct generation *g,
                        const generate_message *m)
{
    sampling_read(&g->sampling, m->sampling);
    if (m->sampling == NULL || !m->sampling->has_seed) {
        g->sampling.seed = PLANT(SEED_FORGOTTEN) && resume_asked(m)
                               ? r->io->random(r->io)
                               : sampling_seed(g->id);
    }
    g->sampling_lists = malloc(sampling_bytes(&g->sampling) + 1);
    assert(g->sampling_lists != NULL);
    sampling_own(&g->sampling, g->sampling_lists);
    g->max_tokens = m->has_max_tokens ? m->max_tokens : 0;
    g->keep_ms = m->keep_ms;
    g->wants_text = m->want_text && g->model->has_text;
}

static void take_ids(struct generation *g, const generate_message *m)
{
    g->prompt = malloc(m->n_tokens * sizeof *g->prompt);
    assert(g->prompt != NULL);
    memcpy(g->prompt, m->tokens, m->n_tokens * sizeof *g->prompt);
    g->n_prompt = (uint32_t)m->n_tokens;
}

static void encode(struct router_core *r, struct generation *g,
                   const generate_message *m)
{
    struct text_seam *t = r->options.text;
    uint64_t tag = JOB_TAG(g->choices[0].number, JOB_PROMPT);
    struct text_job *j = text_job_new(TEXT_ENCODE, tag);
    struct error e;

    j->model = g->model->text;
    j->parse_special = m->parse_special;
    j->text = malloc(m->text.len);
    assert(j->text != NULL);
    memcpy(j->text, m->text.data, m->text.len);
    j->n_text = m->text.len;
    if (t->ops->submit(t, &j) != ST_OK) {
        text_job_free(&j);
        error_set(&e, ST_RESOURCE_EXHAUSTED,
                  "too many texts wait to be encoded");
        generation_refuse(r, g, &e, RETRY_MS_MIN);
        return;
    }
    table_add(&r->jobs, &g->by_tag, tag);
    r->n_jobs++;
}

/* Its model is there. */
static void take(struct router_core *r, const struct incoming *in,
                 const generate_message *m, struct model *model,
                 struct stop_strings *stop)
{
    struct generation *g;

    model = model_take(r, (const uint8_t *)model->name, strlen(model->name));
    g = generation_new(r, m->request_id.data, model, m->n);
    g->deadline_us = in->deadline_us;
    pending_open(r, &g->call, PENDING_GENERATE, in->peer, in->call);
    take_fields(r, g, m);
    g->stop_strings = stop; /* taken over */
    if (!resume_take(r, g, m)) {
        return;
    }
    if (m->has_text) {
        encode(r, g, m);
    } else {
        take_ids(g, m);
        generation_enqueue(r, g);
    }
}

void generate_judge(struct router_core *r, const struct incoming *in)
{
    const generate_message *m = (const void *)in->message;
    struct stop_strings *stop = NULL;
    struct model *model;

    if (!check_fields(in, m) || !check_id(r, in, m) || !check_open(r, in, m)) {
        r->metrics.refused++;
    } else if (early_waits(r, m->model)) {
        r->metrics.refused += !early_hold(r, in, m);
    } else if ((model = find_model(r, in, m)) != NULL &&
               check_place(r, in, model, m) &&
               check_stop(r, in, model, m, &stop)) {
        take(r, in, m, model, stop);
    } else {
        r->metrics.refused++;
    }
}

void recv_generate(struct router_core *r, const struct incoming *in)
{
    r->metrics.requests++;
    FP(ROUTER_GENERATE);
    generate_judge(r, in);
}

void generate_encoded(struct router_core *r, struct generation *g,
                      struct text_job *j)
{
    if (j->status != ST_OK) {
        error_wrap(&j->error, "prompt");
        j->error.code = j->status;
        generation_refuse(r, g, &j->error, 0);
        return;
    }
    if (j->n_ids > SHARD_CONTEXT_MAX) {
        error_set(&j->error, ST_INVALID_ARGUMENT,
                  "the prompt has %zu tokens, at most %d are possible",
                  j->n_ids, SHARD_CONTEXT_MAX);
        generation_refuse(r, g, &j->error, 0);
        return;
    }
    g->prompt = j->ids; /* taken over */
    g->n_prompt = (uint32_t)j->n_ids;
    j->ids = NULL;
    j->n_ids = 0;
    generation_enqueue(r, g);
}

static Sluice__V1__CancelReason
why_dropped(const struct router_core *r, const struct generation *g, bool gone)
{
    if (gone) {
        return SLUICE__V1__CANCEL_REASON__CANCEL_CLIENT_GONE;
    }
    return r->now_us >= g->deadline_us
               ? SLUICE__V1__CANCEL_REASON__CANCEL_DEADLINE
               : SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT;
}

void generate_dropped(struct router_core *r, struct pending *c, bool gone)
{
    struct generation *g = LIST_OF(c, struct generation, call);

    if (gone && PLANT(CLIENT_GONE_IGNORED)) {
        for (uint32_t i = 0; i < g->n_choices; i++) {
            list_remove(&g->choices[i].ready);
        }
        generation_settle(r, g);
        return;
    }
    generation_cancel(r, g, why_dropped(r, g, gone));
}

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "common/sampling/sampling_message.h"
#include "router/base/request_memory.h"
#include "router/calls/arrivals.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/requests/continuation.h"
#include "router/requests/leases.h"
#include "router/requests/request_end.h"
#include "router/requests/request_enqueue.h"
#include "router/requests/request_log.h"
#include "router/requests/request_record.h"
#include "router/requests/resume.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

typedef Sluice__V1__GenerateRequest generate_message;

/* A kept sequence may go on without a prompt.  Ids and text together would need
 * a rule for which one counts, and a client that sends both has a fault. */
static bool check_prompt(const struct incoming *in, const generate_message *m)
{
    if (m->has_text && m->n_tokens > 0) {
        refuse(in, ST_INVALID_ARGUMENT,
               "the prompt is given both as text and as ids; send only one");
        return false;
    }
    if (m->n_tokens == 0 && !arrival_has_text(m) && m->continue_from == NULL) {
        refuse(in, ST_INVALID_ARGUMENT, "the prompt is empty");
        return false;
    }
    if (arrival_has_text(m) && !wire_text_ok(m->text, 1, m->text.len)) {
        refuse(in, ST_INVALID_ARGUMENT,
               "the prompt is not valid UTF-8 or contains a NUL byte");
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
    if (m->has_tenant && !wire_text_ok(m->tenant, 1, TENANT_NAME_MAX)) {
        refuse(in, ST_INVALID_ARGUMENT,
               "tenant must be 1 to %d bytes of UTF-8 without a NUL byte",
               TENANT_NAME_MAX);
        return false;
    }
    if (m->has_route && !wire_text_ok(m->route, 1, ROUTE_NAME_MAX)) {
        refuse(in, ST_INVALID_ARGUMENT,
               "route must be 1 to %d bytes of UTF-8 without a NUL byte",
               ROUTE_NAME_MAX);
        return false;
    }
    if (m->has_max_tokens && m->max_tokens == 0) {
        refuse(in, ST_INVALID_ARGUMENT, "max_tokens is 0, must be at least 1");
        return false;
    }
    if (m->n == 0 || m->n > CHOICES_MAX) {
        refuse(in, ST_INVALID_ARGUMENT, "n is %" PRIu32 ", must be 1..%d", m->n,
               CHOICES_MAX);
        return false;
    }
    if (m->has_cache_salt && m->cache_salt.len > CACHE_SALT_MAX) {
        refuse(in, ST_INVALID_ARGUMENT,
               "cache_salt has %zu bytes, at most %d are allowed",
               m->cache_salt.len, CACHE_SALT_MAX);
        return false;
    }
    if (m->continue_from != NULL &&
        !check_request_id(in, m->continue_from->request_id)) {
        return false;
    }
    if (m->drafts > DRAFTS_MAX) {
        refuse(in, ST_INVALID_ARGUMENT,
               "drafts is %" PRIu32 ", at most %d is allowed", m->drafts,
               DRAFTS_MAX);
        return false;
    }
    if (m->keep_ms > KEEP_MS_MAX) {
        refuse(in, ST_INVALID_ARGUMENT,
               "keep_ms is %" PRIu32 ", at most %d is allowed", m->keep_ms,
               KEEP_MS_MAX);
        return false;
    }
    return true;
}

/* Returns the state of request, for an error: that of its first choice that has
 * not ended. */
static const char *state_text(const struct request *request)
{
    bool kept = false;

    for (uint32_t c = 0; c < request->n_choices; c++) {
        if (request->choices[c].state != CHOICE_ENDED) {
            return choice_state_name(request->choices[c].state);
        }
        kept = kept || lease_is_on(&request->choices[c]);
    }
    return kept ? "kept; remove it first" : choice_state_name(CHOICE_ENDED);
}

/* Checks that the id is free, or makes it free for a request that is resumed.
 * Returns false if it refused the call. */
static bool check_id(struct router_core *r, const struct incoming *in,
                     const generate_message *m)
{
    struct request *request =
        request_find(&r->requests, m->request_id.data, m->request_id.len);
    const char *state;
    uint32_t retry_ms = 0;
    struct error e;

    if (request == NULL) {
        return early_check_id(r, in, m);
    }
    /* resume_make_way() may free request. */
    state = state_text(request);
    if (resume_asked(m) &&
        resume_make_way(&r->requests, request, in->peer, &retry_ms)) {
        return true;
    }
    error_set(&e, ST_ALREADY_EXISTS,
              "a request with this id exists; its state is %s", state);
    refuse_with(in, &e, retry_ms);
    return false;
}

/* Checks that max_requests leaves room for every choice. */
static bool check_open(struct router_core *r, const struct incoming *in,
                       const generate_message *m)
{
    uint32_t max = r->base.options.max_requests;
    struct error e;

    while (m->n <= max && r->requests.n_choices > max - m->n &&
           leases_shed(&r->requests)) {
    }
    if (m->n <= max && r->requests.n_choices <= max - m->n) {
        return true;
    }
    error_set(&e, ST_RESOURCE_EXHAUSTED,
              "%" PRIu32 " sequences are open, at most %" PRIu32
              " may be, and the request adds %" PRIu32,
              r->requests.n_choices, max, m->n);
    refuse_with(in, &e, m->n <= max ? RETRY_MS_MIN : 0);
    return false;
}

/* Writes the names of the models that workers serve, as many as fit, and then
 * "...".  Returns how many it wrote. */
static uint32_t served_names(const struct fleet *fleet, char *out, size_t cap)
{
    size_t used = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < fleet->n_models; i++) {
        const struct model *m = fleet->models[i];
        const char *next = m->name;

        if (m->n_places == 0) {
            continue;
        }
        if (used + strlen(next) + sizeof ", , ..." > cap) {
            next = "...";
        }
        used += (size_t)snprintf(out + used, cap - used, "%s%s",
                                 n > 0 ? ", " : "", next);
        n++;
        if (next != m->name) {
            break;
        }
    }
    return n;
}

void refuse_unnamed(struct router_core *r, const struct incoming *in)
{
    char names[ERROR_TEXT / 2];

    if (r->fleet.n_workers == 0) {
        refuse(in, ST_UNAVAILABLE, "no worker is up");
    } else if (served_names(&r->fleet, names, sizeof names) < 2) {
        refuse(in, ST_INVALID_ARGUMENT,
               "name the model (--model NAME): no model is served whole");
    } else {
        refuse(in, ST_INVALID_ARGUMENT,
               "several models are served: %s; name one of them (--model NAME)",
               names);
    }
}

static struct model *find_model(struct router_core *r,
                                const struct incoming *in,
                                const generate_message *request)
{
    ProtobufCBinaryData name = request->model;
    struct text_seam *t = r->base.options.text;
    struct model *m = model_find(&r->fleet, name.data, name.len);
    uint32_t unused;
    struct error e;

    /* The error depends on what may help: wait for a worker, name a model, or
     * correct the name. */
    if (m != NULL && model_waits(m)) {
        return m;
    }
    if (m != NULL) {
        admission_absent(m, &e);
        refuse_with(in, &e, RETRY_MS_ABSENT);
    } else if (resume_asked(request) &&
               (name.len > 0 || r->fleet.n_workers == 0)) {
        error_set(&e, ST_UNAVAILABLE, "no worker of model %.*s is up yet",
                  (int)name.len, (const char *)name.data);
        refuse_with(in, &e, RETRY_MS_MIN);
    } else if (name.len == 0) {
        refuse_unnamed(r, in);
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

/* Checks m against the model and the queue.  This happens before the prompt is
 * encoded, so that a refusal costs little. */
static bool check_place(struct router_core *r, const struct incoming *in,
                        const struct model *m, const generate_message *request)
{
    struct arrival a = arrival_of(r, m, request, in->deadline_us);
    uint32_t retry_ms = 0;
    struct error e;

    if (request->has_text && !m->has_text) {
        error_set(&e, ST_FAILED_PRECONDITION,
                  "this router has no tokenizer for model %s: give the "
                  "prompt as ids",
                  m->name);
    } else if (request->has_want_text && request->want_text && !m->has_text) {
        error_set(&e, ST_FAILED_PRECONDITION,
                  "this router has no tokenizer for model %s: set want_text "
                  "to false",
                  m->name);
    } else if ((request->sampling == NULL ||
                sampling_check(request->sampling, m->vocab, &e) == ST_OK) &&
               resume_check(request, m->vocab, &e) == ST_OK &&
               admission_queue(&r->schedule, m, a.tenant, request->n, &retry_ms,
                               &e) == ST_OK &&
               arrival_check(r, &a, request, &retry_ms, &e) == ST_OK) {
        return true;
    }
    request_record_refused(&r->requests, m, request, &a, e.code);
    refuse_with(in, &e, retry_ms);
    return false;
}

/* Finds the kept sequence that m continues; *kept is NULL if there is none.
 * Returns false if it refused the call. */
static bool check_kept(struct router_core *r, const struct incoming *in,
                       const struct model *m, const generate_message *request,
                       struct choice **kept)
{
    struct error e;

    if (continuation_find(&r->requests, m, request, kept, &e) == ST_OK) {
        return true;
    }
    refuse_with(in, &e, e.code == ST_UNAVAILABLE ? RETRY_MS_MIN : 0);
    return false;
}

/* Builds the automaton of the stop strings; *out is NULL if there are none.
 * Returns false if it refused the call. */
static bool check_stop(struct router_core *r, const struct incoming *in,
                       const struct model *m, const generate_message *request,
                       struct stop_strings **out)
{
    struct stop_string strings[STOP_STRINGS_MAX];
    struct text_seam *t = r->base.options.text;
    struct error e;

    *out = NULL;
    if (request->n_stop == 0) {
        return true;
    }
    if (!m->has_text || t->ops->tokenizer(t, m->text) == NULL) {
        refuse(in, ST_FAILED_PRECONDITION,
               "this router has no tokenizer for model %s: it cannot look for "
               "stop strings",
               m->name);
        return false;
    }
    for (size_t i = 0; i < request->n_stop && i < STOP_STRINGS_MAX; i++) {
        strings[i] = (struct stop_string){(const char *)request->stop[i].data,
                                          request->stop[i].len};
    }
    if (stop_strings_new(out, strings, request->n_stop, &e) != ST_OK) {
        if (e.code == ST_RESOURCE_EXHAUSTED) {
            error_wrap(&e, MEMORY_WORD);
        }
        refuse_with(in, &e, memory_is_short(&e) ? RETRY_MS_MIN : 0);
        return false;
    }
    return true;
}

/* Returns false without memory. */
static bool take_fields(struct router_core *r, struct request *request,
                        const generate_message *m)
{
    const struct arrival a =
        arrival_of(r, request->model, m, request->deadline_us);

    sampling_read(&request->sampling, m->sampling);
    if (m->sampling == NULL || !m->sampling->has_seed) {
        /* Derived from the id, so that a request resumed at another router
         * samples the same tokens. */
        request->sampling.seed = PLANT(SEED_FORGOTTEN) && resume_asked(m)
                                     ? r->base.io->random(r->base.io)
                                     : sampling_seed(request->id);
    }
    request->sampling_lists = malloc(sampling_bytes(&request->sampling) + 1);
    if (request->sampling_lists == NULL) {
        return false;
    }
    /* The message is freed when the handler returns. */
    sampling_own(&request->sampling, request->sampling_lists);
    request->max_tokens = m->has_max_tokens ? m->max_tokens : 0;
    request->keep_ms = m->keep_ms;
    request->wants_text = m->want_text && request->model->has_text;
    request->special_text = m->special_text;
    request->scope.tenant = a.tenant;
    r->base.tenants[request->scope.tenant].tenant_requests++;
    request->scope.n_tenant = m->has_tenant ? (uint32_t)m->tenant.len : 0;
    if (request->scope.n_tenant > 0) {
        memcpy(request->scope.tenant_name, m->tenant.data,
               request->scope.n_tenant);
    }
    request->scope.n_salt = m->has_cache_salt ? (uint32_t)m->cache_salt.len : 0;
    if (request->scope.n_salt > 0) {
        memcpy(request->scope.salt, m->cache_salt.data, request->scope.n_salt);
    }
    request->scope.route = a.route;
    request->scope.tier = a.tier;
    request->scope.guaranteed = m->guaranteed;
    request->scope.uncached = !m->cache;
    request->has_drafts = m->has_drafts;
    request->drafts = m->drafts;
    return true;
}

static bool take_ids(struct request *request, const generate_message *m)
{
    request->prompt.ids =
        malloc((m->n_tokens + 1) * sizeof *request->prompt.ids);
    if (request->prompt.ids == NULL) {
        return false;
    }
    if (m->n_tokens > 0) {
        memcpy(request->prompt.ids, m->tokens,
               m->n_tokens * sizeof *request->prompt.ids);
    }
    request->prompt.n = (uint32_t)m->n_tokens;
    return true;
}

static void refuse_memory(struct router_core *r, struct request *request)
{
    struct error e;

    error_set(&e, ST_RESOURCE_EXHAUSTED,
              MEMORY_SENTENCE "the router has none left");
    request_refuse(&r->requests, request, &e, RETRY_MS_MIN);
}

/* Returns the ids that the context leaves to the prompt.  With a max_tokens
 * that leaves none, the error of check_length() has both figures. */
static uint32_t prompt_room(const struct request *request)
{
    uint32_t context = request->model->context;
    uint32_t more = request->max_tokens == 0 ? 1 : request->max_tokens;

    return more < context ? context - more : context;
}

/* Sets the error of a prompt that has `how` tokens. */
static void too_long(const struct request *request, const char *how,
                     struct error *e)
{
    uint32_t more = request->max_tokens == 0 ? 1 : request->max_tokens;

    error_set(e, ST_INVALID_ARGUMENT,
              "the prompt has %s, but the context of %s is %" PRIu32
              " and must also hold %" PRIu32
              " new token%s; shorten the prompt%s",
              how, request->model->name, request->model->context, more,
              more == 1 ? "" : "s",
              request->max_tokens == 0 ? "" : " or lower max_tokens");
}

/* Checks the bytes of a prompt, so that one which is far too long is not
 * encoded. */
static bool check_bytes(struct router_core *r, struct request *request,
                        const generate_message *m, const struct tokenizer *t)
{
    size_t fewest =
        tokenizer_fewest(t, (const char *)m->text.data, m->text.len);
    char how[96];
    struct error e;

    if (fewest <= prompt_room(request)) {
        return true;
    }
    snprintf(how, sizeof how, "%zu bytes, thus %zu tokens or more", m->text.len,
             fewest);
    too_long(request, how, &e);
    request_refuse(&r->requests, request, &e, 0);
    return false;
}

static void encode(struct router_core *r, struct request *request,
                   const generate_message *m)
{
    struct text_seam *t = r->base.options.text;
    const struct tokenizer *tokenizer =
        t->ops->tokenizer(t, request->model->text);
    uint64_t tag = JOB_TAG(request->choices[0].entry.turn.number, JOB_PROMPT);
    struct text_job *j;
    struct error e;

    if (tokenizer != NULL && !check_bytes(r, request, m, tokenizer)) {
        return;
    }
    j = text_job_new(TEXT_ENCODE, tag);
    if (j == NULL || !text_job_put(j, m->text.data, m->text.len)) {
        text_job_free(&j);
        refuse_memory(r, request);
        return;
    }
    j->job.turn.client = request->call.peer->id.v;
    j->max_ids = request->model->context;
    j->model = request->model->text;
    j->parse_special = m->parse_special;
    if (text_submit(r, &j, m->text.len, &e) != ST_OK) {
        text_job_free(&j);
        request_refuse(&r->requests, request, &e, RETRY_MS_MIN);
        return;
    }
    table_add(&r->requests.jobs, &request->by_tag, tag);
}

static Sluice__V1__CancelReason why_dropped(const struct router_core *r,
                                            const struct request *request,
                                            bool gone)
{
    if (gone) {
        return SLUICE__V1__CANCEL_REASON__CANCEL_CLIENT_GONE;
    }
    return r->base.now_us >= request->deadline_us
               ? SLUICE__V1__CANCEL_REASON__CANCEL_DEADLINE
               : SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT;
}

static void generate_dropped(void *room, struct pending *c, bool gone)
{
    struct router_core *r = room;
    struct request *request = LIST_OF(c, struct request, call);

    if (gone && PLANT(CLIENT_GONE_IGNORED)) {
        for (uint32_t i = 0; i < request->n_choices; i++) {
            list_remove(&request->choices[i].out.ready);
        }
        request_settle(&r->requests, request);
        return;
    }
    request_cancel(&r->requests, request, why_dropped(r, request, gone));
}

/* Returns the bytes that the request of m holds at most: its prompt as ids,
 * with the hashes of its prefixes, and the tokens of its choices.  Their arrays
 * grow as tokens come, but an answer that ran out of memory could not be
 * completed. */
static size_t bytes_of(const generate_message *m, const struct model *model,
                       const struct choice *kept)
{
    size_t n = m->has_text ? min_u32((uint32_t)m->text.len, model->context)
                           : m->n_tokens;
    uint32_t most = m->has_max_tokens && m->max_tokens > 0
                        ? min_u32(m->max_tokens, model->context)
                        : model->context;

    n += kept != NULL ? choice_n_ids(kept) : 0;
    return sizeof(struct request) + m->n * choice_bytes(most) +
           n * (sizeof(uint32_t) + 1) +
           n / PREFIX_UNIT * sizeof(struct prefix_hash);
}

/* Creates the request of m, which has passed all checks, and encodes or
 * enqueues it.  Returns false if it refused the call. */
static bool create_request(struct router_core *r, const struct incoming *in,
                           const generate_message *m, struct model *model,
                           struct stop_strings *stop, struct choice *kept)
{
    size_t bytes = bytes_of(m, model, kept);
    struct request *request;
    struct error e;

    if (request_memory_take(&r->base, bytes, &e) != ST_OK) {
        stop_strings_free(&stop);
        refuse_with(in, &e, request_memory_retry_ms(&r->base, bytes));
        return false;
    }
    model = model_take(&r->fleet, (const uint8_t *)model->name,
                       strlen(model->name));
    request = request_new(&r->requests, m->request_id.data, model, m->n);
    if (request == NULL) {
        request_memory_give(&r->base, bytes);
        model_release(&r->fleet, &model);
        stop_strings_free(&stop);
        refuse(in, ST_RESOURCE_EXHAUSTED,
               MEMORY_SENTENCE "the router has none left");
        return false;
    }
    request->bytes = bytes;
    request->deadline_us = in->deadline_us;
    memcpy(request->scope.client, in->peer->name, sizeof request->scope.client);
    pending_open(&r->fleet, &request->call, in->peer, in->call,
                 generate_dropped, r);
    request->stop_strings = stop; /* taken over */
    if (!take_fields(r, request, m) ||
        (kept != NULL && !continuation_claim(&r->requests, request, kept))) {
        refuse_memory(r, request);
        return true;
    }
    if (!resume_take(&r->requests, request, m)) {
        return true;
    }
    if (arrival_has_text(m)) {
        encode(r, request, m);
    } else if (take_ids(request, m)) {
        request_enqueue(&r->requests, request);
    } else {
        refuse_memory(r, request);
    }
    return true;
}

/* Creates or holds the request of m.  Returns false if it refused the call. */
static bool judge(struct router_core *r, const struct incoming *in,
                  const generate_message *m)
{
    struct stop_strings *stop = NULL;
    struct choice *kept = NULL;
    struct model *model;

    if (!check_fields(in, m) || !check_id(r, in, m) || !check_open(r, in, m)) {
        return false;
    }
    if (early_waits(r, m->model)) {
        return early_hold(r, in, m);
    }
    model = find_model(r, in, m);
    if (model == NULL || !check_place(r, in, model, m) ||
        !check_kept(r, in, model, m, &kept) ||
        !check_stop(r, in, model, m, &stop)) {
        return false;
    }
    return create_request(r, in, m, model, stop, kept);
}

void generate_judge(struct router_core *r, const struct incoming *in,
                    const generate_message *m)
{
    struct error why = {.code = ST_UNKNOWN};
    struct incoming watched = *in;

    watched.refused = &why;
    if (!judge(r, &watched, m)) {
        base_refused(&r->base,
                     model_slot(&r->fleet, m->model.data, m->model.len),
                     why.code);
        request_log_refused(in->peer->name, m, &why);
    }
}

void recv_generate(struct router_core *r, const struct incoming *in,
                   const generate_message *m)
{
    r->base.metrics.requests++;
    r->base.models[model_slot(&r->fleet, m->model.data, m->model.len)]
        .model_requests++;
    FP(ROUTER_GENERATE);
    generate_judge(r, in, m);
}

void generate_encoded(struct router_core *r, struct request *request,
                      struct text_job *j)
{
    if (j->over) {
        char how[48];

        snprintf(how, sizeof how, "more than %zu tokens", j->max_ids);
        too_long(request, how, &j->error);
        request_refuse(&r->requests, request, &j->error, 0);
        return;
    }
    if (j->status != ST_OK) {
        error_wrap(&j->error,
                   j->status == ST_RESOURCE_EXHAUSTED ? MEMORY_WORD : "prompt");
        j->error.code = j->status;
        request_refuse(&r->requests, request, &j->error,
                       memory_is_short(&j->error) ? RETRY_MS_MIN : 0);
        return;
    }
    if (j->n_ids > MODEL_CONTEXT_MAX) {
        error_set(&j->error, ST_INVALID_ARGUMENT,
                  "the prompt has %zu tokens, at most %d are allowed", j->n_ids,
                  MODEL_CONTEXT_MAX);
        request_refuse(&r->requests, request, &j->error, 0);
        return;
    }
    overload_learn(request->model, j->n_text, (uint32_t)j->n_ids);
    request->prompt.ids = j->ids; /* taken over */
    request->prompt.n = (uint32_t)j->n_ids;
    j->ids = NULL;
    j->n_ids = 0;
    request_enqueue(&r->requests, request);
}

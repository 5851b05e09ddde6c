/* generation_start.c - From a request of the API to Generate calls. */
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "common/sampling/sampling_message.h"
#include "gateway/calls/generation.h"

/* Takes a default of the model unless the request sets the value.  A value out
 * of range would make the router refuse every request, so it is left out. */
static void take(float *value, bool given, bool has, double v, double least,
                 double most)
{
    if (!given && has && v >= least && v <= most) {
        *value = (float)v;
    }
}

/* Sets the values that the request leaves open to the model's own defaults. */
static struct sampling values_of(const struct generation *g)
{
    const struct openai_given *given = &g->request->given;
    struct sampling s = g->request->sampling;
    const struct text_defaults *d =
        g->model != NULL ? text_assets_defaults(g->model->assets) : NULL;

    if (d == NULL) {
        return s;
    }
    take(&s.temperature, given->temperature, d->has_temperature, d->temperature,
         0, (double)TEMPERATURE_MAX);
    if (d->has_do_sample && !d->do_sample && !given->temperature) {
        s.temperature = 0;
    }
    take(&s.top_p, given->top_p, d->has_top_p, d->top_p, 1e-6, 1);
    take(&s.min_p, given->min_p, d->has_min_p, d->min_p, 0, 1);
    take(&s.repetition_penalty, given->repetition_penalty,
         d->has_repetition_penalty, d->repetition_penalty,
         (double)REPETITION_PENALTY_MIN, (double)REPETITION_PENALTY_MAX);
    if (!given->top_k && d->has_top_k && d->top_k >= 0 &&
        d->top_k <= UINT32_MAX) {
        s.top_k = (uint32_t)d->top_k;
    }
    return s;
}

uint32_t generation_tokens(const struct service *c, const struct dialect *d,
                           const struct openai_request *r)
{
    if (r->has_max_tokens) {
        return r->max_tokens;
    }
    if (d->is_raw) {
        return SERVICE_COMPLETION_TOKENS;
    }
    return c->options.chat_tokens != 0 ? c->options.chat_tokens
                                       : GENERATION_UNLIMITED;
}

uint32_t generation_context(const struct generation *g)
{
    const struct model_row *row =
        model_list_find(&g->service->list, g->request->model);

    return row != NULL ? row->context : MODEL_CONTEXT_MAX;
}

/* Sets max_tokens of a prompt.  Returns false and the error if prompt and
 * max_tokens together exceed the context.  The router checks this too; here
 * the error names the field. */
static bool fit(const struct generation *g, struct generation_prompt *p,
                struct openai_error *e)
{
    const struct openai_request *r = g->request;
    uint64_t context = generation_context(g);
    uint64_t most = generation_tokens(g->service, g->dialect, r);

    if (!r->has_max_tokens) {
        most = p->n_ids < context ? min_u64(most, context - p->n_ids) : 1;
    }
    p->max_tokens = (uint32_t)most;
    if (p->n_ids + most <= context) {
        return true;
    }
    openai_error_set(e, 400, g->dialect->input, "context_length_exceeded",
                     "the model's context is %llu tokens; the request needs "
                     "%llu: %zu for the prompt and %llu for the answer. "
                     "Shorten the prompt or lower max_tokens",
                     (unsigned long long)context,
                     (unsigned long long)(p->n_ids + most), p->n_ids,
                     (unsigned long long)most);
    return false;
}

/* Returns whether the parser reads special tokens.  gpt-oss marks its channels
 * with them, also in answers without calls. */
static bool needs_special(const struct generation *g)
{
    enum output_format format = g->format.format;

    return output_needs_special(format) &&
           (g->request->template.tools != NULL || format == OUTPUT_HARMONY);
}

/* Fills in the message of a prompt's call.  It borrows from p and g. */
static void write_message(struct generation *g, struct generation_prompt *p,
                          const struct sampling *values)
{
    const struct openai_request *r = g->request;
    Sluice__V1__GenerateRequest *m = &p->message;
    const char *tenant = tenant_name(g->tenant);
    const char *route = gateway_route_name(g->route);

    sluice__v1__generate_request__init(m);
    sampling_write(values, &p->sampling);
    p->sampling.has_seed = r->has_seed;
    m->sampling = &p->sampling;
    m->request_id = (ProtobufCBinaryData){sizeof p->request_id, p->request_id};
    m->model =
        (ProtobufCBinaryData){strlen(r->model), (uint8_t *)(uintptr_t)r->model};
    if (p->ids != NULL) {
        m->tokens = p->ids;
        m->n_tokens = p->n_ids;
    } else {
        m->has_text = m->has_parse_special = m->parse_special = true;
        m->text = (ProtobufCBinaryData){
            r->prompts[p->index].n_text,
            (uint8_t *)(uintptr_t)r->prompts[p->index].text};
    }
    m->has_max_tokens = true;
    m->max_tokens = p->max_tokens;
    m->has_want_text = m->want_text = true;
    m->has_special_text = true;
    m->special_text = r->keep_special || needs_special(g);
    m->stop = g->stops;
    m->n_stop = r->n_stops;
    m->has_n = true;
    m->n = r->n;
    m->has_cache = !r->cache_prompt;
    m->cache = r->cache_prompt;
    m->has_cache_salt = r->salt.n > 0;
    m->cache_salt =
        (ProtobufCBinaryData){r->salt.n, (uint8_t *)(uintptr_t)r->salt.text};
    m->has_drafts = r->drafts.given;
    m->drafts = r->drafts.n;
    m->has_guaranteed = m->guaranteed = r->turn.guaranteed;
    m->has_tier = r->turn.tier != OPENAI_TIER_DEFAULT;
    m->tier =
        r->turn.tier == OPENAI_TIER_PRIORITY ? SLUICE__V1__TIER__TIER_PRIORITY
        : r->turn.tier == OPENAI_TIER_FLEX   ? SLUICE__V1__TIER__TIER_FLEX
                                             : SLUICE__V1__TIER__TIER_DEFAULT;
    m->has_route = true;
    m->route =
        (ProtobufCBinaryData){strlen(route), (uint8_t *)(uintptr_t)route};
    m->has_tenant = true;
    m->tenant =
        (ProtobufCBinaryData){strlen(tenant), (uint8_t *)(uintptr_t)tenant};
}

static bool copy_stops(struct generation *g)
{
    const struct openai_request *r = g->request;

    g->stops = calloc(r->n_stops + 1, sizeof *g->stops);
    for (size_t i = 0; g->stops != NULL && i < r->n_stops; i++) {
        g->stops[i] = (ProtobufCBinaryData){
            r->stops[i].n, (uint8_t *)(uintptr_t)r->stops[i].text};
    }
    return g->stops != NULL;
}

static bool make_parsers(struct generation *g, struct generation_prompt *p)
{
    const struct openai_request *r = g->request;
    struct output_parser_options o = {.format = g->format.format,
                                      .tools = r->template.tools != NULL,
                                      .reasoning = g->format.has_reasoning,
                                      .in_reasoning = p->in_reasoning,
                                      .keep = !r->stream,
                                      .one_call =
                                          !r->template.parallel_tool_calls,
                                      .tool_list = r->template.tools};
    bool plain =
        g->dialect->is_raw || (o.format == OUTPUT_PLAIN && !o.reasoning);

    for (uint32_t i = 0; !plain && i < r->n; i++) {
        p->choices[i].parser = output_parser_new(&o);
        p->choices[i].reasoning = p->in_reasoning;
        if (p->choices[i].parser == NULL) {
            return false;
        }
    }
    return true;
}

/* Sets the time that the request has left; 0: it has no limit.  Returns false
 * if none is left. */
static bool time_left(const struct generation *g, uint32_t *ms)
{
    int64_t us = g->began_us + (int64_t)g->request->timeout_ms * 1000 -
                 service_now_us(g->service);

    *ms = 0;
    if (g->request->timeout_ms == 0) {
        return true;
    }
    *ms = us > 0 ? (uint32_t)((us + 999) / 1000) : 0;
    return us > 0;
}

/* Sends the call of a prompt.  Returns false and the error if there is no
 * place for it, or if it is too large. */
static bool send(struct generation *g, struct generation_prompt *p,
                 struct openai_error *e)
{
    struct upstream *u = g->service->upstream;
    struct resumable_options o = {
        .io = upstream_io(u),
        .ops = &generation_stream_ops,
        .arg = p,
        .resume_ms = PLANT(GATEWAY_NO_RESUME) ? 0 : SERVICE_RESUME_MS};
    struct error why;
    enum status st = ST_RESOURCE_EXHAUSTED;

    if (!time_left(g, &o.deadline_ms)) {
        (void)error_set(&why, ST_DEADLINE_EXCEEDED,
                        "the timeout of %.3f s passed before the prompt was "
                        "encoded",
                        (double)g->request->timeout_ms / 1000);
        openai_error_of_status(e, why.code, &why);
        return false;
    }
    p->core = upstream_take(u);
    if (p->core != NULL) {
        p->begun = true;
        st = resumable_begin(&p->stream, p->core, &p->message, &o);
    }
    if (st == ST_OK) {
        return true;
    }
    if (p->core != NULL) {
        upstream_give(u, p->core);
        p->core = NULL;
    }
    if (st == ST_INVALID_ARGUMENT) {
        openai_error_set(e, 413, g->dialect->input, NULL,
                         "the prompt is too long for one message to the "
                         "router; shorten it");
    } else {
        (void)error_set(&why, st,
                        "the gateway has no place for another request; try "
                        "again");
        openai_error_of_status(e, st, &why);
    }
    return false;
}

static bool all_encoded(const struct generation *g)
{
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        if (g->prompts[i].ids == NULL) {
            return false;
        }
    }
    return true;
}

/* Answers without any token, and without the router. */
static void answer_nothing(struct generation *g)
{
    struct openai_error e;

    if (!all_encoded(g)) {
        openai_error_set(&e, 400, "max_tokens", NULL,
                         "with max_tokens 0 the gateway counts the prompt, "
                         "and it has no tokenizer for this model; use 1");
        generation_fail(g, &e, 0);
        return;
    }
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        g->usage.prompt += g->prompts[i].n_ids;
    }
    generation_finish_empty(g);
}

void generation_start(struct generation *g)
{
    struct sampling values;
    struct openai_error e;

    if (g->state != GENERATION_ENCODING) {
        return;
    }
    g->state = GENERATION_RUNNING;
    if (!copy_stops(g)) {
        generation_short(g);
        return;
    }
    values = values_of(g);
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        if (!fit(g, &g->prompts[i], &e)) {
            generation_fail(g, &e, 0);
            return;
        }
    }
    if (generation_tokens(g->service, g->dialect, g->request) == 0) {
        answer_nothing(g);
        return;
    }
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        struct generation_prompt *p = &g->prompts[i];

        if (!make_parsers(g, p)) {
            generation_short(g);
            return;
        }
        write_message(g, p, &values);
        if (!send(g, p, &e)) {
            generation_fail(g, &e, e.http == 504 ? 0 : 1000);
            return;
        }
        p->counted = true;
        g->usage.prompt += p->n_ids;
    }
    if (all_encoded(g) && !g->request->echo) {
        openai_request_drop_input(g->request);
    }
}

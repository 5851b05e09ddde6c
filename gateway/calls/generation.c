/* generation.c - From the request of a tenant to a generation. */
#include "gateway/calls/generation.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "common/base/quote.h"
#include "gateway/calls/respond.h"

/* Returns whether the model can serve the request, as far as is known here. */
static bool check_model(const struct service *c, const struct openai_request *r,
                        const struct served_model *m, struct openai_error *e)
{
    bool text = served_tokenizer(m) != NULL;
    bool echo_ids = r->echo && r->n_prompts > 0 && r->prompts[0].text == NULL;

    if (m == NULL && c->list.known &&
        model_list_find(&c->list, r->model) == NULL) {
        openai_error_no_model(e, r->model);
    } else if (r->messages != NULL && (!text || m->chat == NULL)) {
        openai_error_set(e, 400, "model", NULL,
                         "the gateway has no chat template for this model; "
                         "use /v1/completions, or start the gateway with "
                         "--model and a directory that has one");
    } else if (!text && (r->sampling.logprobs || echo_ids)) {
        openai_error_set(e, 400, echo_ids ? "echo" : "logprobs", NULL,
                         "the gateway has no tokenizer for this model, so "
                         "it cannot show the text of tokens");
    } else {
        return r->template.tools == NULL || service_takes_tools(c, m, true, e);
    }
    return false;
}

/* Returns the tokens that the tenant is charged now.  The exact number of the
 * prompt is known later; the end of the request settles the difference. */
static uint64_t charge(const struct service *c, const struct dialect *d,
                       const struct openai_request *r)
{
    uint64_t each = generation_tokens(c, d, r);

    if (each == GENERATION_UNLIMITED) {
        each = SERVICE_CHAT_TOKENS;
    }
    return r->body_bytes / 4 + each * openai_request_choices(r);
}

/* Returns NULL without memory; r is then the caller's. */
static struct generation *generation_new(struct service *c,
                                         struct http_exchange *x,
                                         struct openai_request *r)
{
    uint32_t n_prompts = r->messages != NULL ? 1 : (uint32_t)r->n_prompts;
    struct node_io *io = upstream_io(c->upstream);
    struct generation *g =
        calloc(1, sizeof *g + n_prompts * sizeof g->prompts[0]);

    if (g == NULL) {
        return NULL;
    }
    g->waiter = (struct waiter){generation_gone, generation_encoded};
    g->service = c;
    g->x = x;
    g->request = r;
    g->model = served_model_find(c->options.models, r->model);
    g->began_us = g->last_us = service_now_us(c);
    g->n_prompts = n_prompts;
    for (uint32_t i = 0; i < n_prompts; i++) {
        struct generation_prompt *p = &g->prompts[i];
        uint64_t id[2] = {io->random(io), io->random(io)};

        p->g = g;
        p->index = i;
        memcpy(p->request_id, id, sizeof p->request_id);
        p->request_id[0] |= 1; /* never all zero */
        p->choices = calloc(r->n, sizeof *p->choices);
        if (p->choices == NULL) {
            g->request = NULL;
            generation_free(g);
            return NULL;
        }
    }
    if (g->model != NULL && r->messages != NULL) {
        g->format = service_format(c, g->model);
    }
    return g;
}

/* Keeps what the answer needs of the request's head, which is freed now. */
static bool keep_head(struct generation *g)
{
    struct respond_headers h;

    respond_headers_init(&h, g->service, g->x);
    g->route = h.route;
    http_client(g->x, g->client);
    if (h.n > 0) {
        g->cors = strdup(h.lines);
    }
    return h.n == 0 || g->cors != NULL;
}

static void begin(struct generation *g)
{
    struct service *c = g->service;
    bool kept;

    list_insert(&c->generations, &g->node);
    c->n_open++;
    http_set_user(g->x, &g->waiter);
    kept = keep_head(g);
    http_body_free(g->x);
    timer_set(&c->timers, &g->timer, g->began_us + SERVICE_OPEN_US);
    if (!kept || !generation_answer_new(g)) {
        generation_short(g);
        return;
    }
    generation_prepare(g);
}

/* Returns the figures of a model that a request names.  A name that nothing
 * serves gets none of its own. */
static struct gateway_model_counts *figures(const struct service *c,
                                            const char *model)
{
    bool served = served_model_find(c->options.models, model) != NULL ||
                  model_list_find(&c->list, model) != NULL;

    return gateway_metrics_model(c->metrics, model, served);
}

/* Refuses a request for this model. */
static void refuse(struct service *c, struct http_exchange *x,
                   const char *model, const struct openai_error *e)
{
    struct respond_headers h;

    figures(c, model)->model_refused++;
    respond_headers_init(&h, c, x);
    h.model = model;
    respond_error(c, x, e, &h, 0);
}

static void refuse_tenant(struct service *c, struct http_exchange *x,
                          const char *model, struct tenant *tenant,
                          const struct tenant_refusal *r)
{
    struct respond_headers h;
    struct openai_error e;
    char text[256];

    gateway_metrics_tenant(c->metrics, tenant_name(tenant))->tenant_refused++;
    figures(c, model)->model_refused++;
    tenant_refusal_text(r, text, sizeof text);
    if (r->limit == TENANT_GUARANTEED && r->max == 0) {
        openai_error_set(&e, 403, "guaranteed", NULL, "%s", text);
    } else {
        openai_error_set(&e, 429, NULL, "rate_limit_exceeded", "%s", text);
    }
    respond_headers_init(&h, c, x);
    h.model = model;
    respond_limits(&h, tenant, service_now_us(c));
    respond_error(c, x, &e, &h, r->max == 0 ? 0 : r->retry_after_ms);
}

/* Reads seconds with at most three decimals that count, "2.5".  Returns false
 * for another text, and for a time that no timeout may have. */
static bool read_seconds(const char *text, uint32_t *ms)
{
    uint64_t v = 0, unit = 1000;
    bool fraction = false;

    for (; *text != '\0' && v <= UINT32_MAX; text++) {
        if (*text == '.' && !fraction && text[1] != '\0') {
            fraction = true;
        } else if (*text < '0' || *text > '9') {
            return false;
        } else if (!fraction) {
            v = v * 10 + (uint64_t)(*text - '0') * 1000;
        } else {
            unit /= 10;
            v += (uint64_t)(*text - '0') * unit;
        }
    }
    *ms = (uint32_t)v;
    return v >= 1 && v <= (uint64_t)OPENAI_TIMEOUT_S * 1000;
}

/* Reads the header x-request-timeout, in seconds as the field timeout: of two
 * limits the shorter one holds.  Returns false and the error if it is no such
 * number. */
static bool take_timeout(const struct http_exchange *x,
                         struct openai_request *r, struct openai_error *e)
{
    const char *text = http_header(x, "x-request-timeout", NULL);
    uint32_t ms;

    if (text == NULL) {
        return true;
    }
    if (!read_seconds(text, &ms)) {
        openai_error_set(e, 400, NULL, NULL,
                         "the header x-request-timeout must be a number of "
                         "seconds from 0.001 to %d, but is %s",
                         OPENAI_TIMEOUT_S, quote(text).text);
        return false;
    }
    r->timeout_ms = r->timeout_ms == 0 ? ms : min_u32(r->timeout_ms, ms);
    return true;
}

/* Returns the guarantees that r asks for. */
static uint32_t guarantees(const struct openai_request *r)
{
    return r->turn.guaranteed ? openai_request_choices(r) : 0;
}

/* Charges the tenant of r, which asks for n_tokens.  Returns false and fills
 * *refusal if its limits refuse it. */
static bool begin_tenant(struct service *c, struct tenant *tenant,
                         const struct openai_request *r, uint64_t n_tokens,
                         struct tenant_refusal *refusal)
{
    if (!tenant_begin(tenant, service_now_us(c), n_tokens, refusal)) {
        return false;
    }
    if (!tenant_guarantee(tenant, guarantees(r), refusal)) {
        tenant_end(tenant, service_now_us(c), n_tokens, 0);
        return false;
    }
    return true;
}

void generation_begin(struct service *c, struct http_exchange *x,
                      struct tenant *tenant, struct openai_request **pr)
{
    const struct dialect *d = route_find(&c->routes, http_path(x))->dialect;
    struct openai_request *r = *pr;
    struct tenant_refusal refusal;
    struct openai_error e;
    struct generation *g;
    uint64_t asked;

    *pr = NULL;
    asked = charge(c, d, r);
    if (!take_timeout(x, r, &e) ||
        !check_model(c, r, served_model_find(c->options.models, r->model),
                     &e)) {
        refuse(c, x, r->model, &e);
        openai_request_free(&r);
        return;
    }
    if (!begin_tenant(c, tenant, r, asked, &refusal)) {
        refuse_tenant(c, x, r->model, tenant, &refusal);
        openai_request_free(&r);
        return;
    }
    g = generation_new(c, x, r);
    if (g == NULL) {
        tenant_release(tenant, guarantees(r));
        tenant_end(tenant, service_now_us(c), asked, 0);
        openai_request_free(&r);
        respond_memory(c, x);
        return;
    }
    g->dialect = d;
    g->tenant = tenant;
    g->asked.tokens = asked;
    g->asked.n_guaranteed = guarantees(r);
    gateway_metrics_tenant(c->metrics, tenant_name(tenant))->tenant_requests++;
    figures(c, g->request->model)->model_requests++;
    begin(g);
}

/* route_tokenize.c - /tokenize, /detokenize, /apply-template, and routes of
 * dialects that count tokens. */
#include <stdlib.h>

#include "gateway/calls/parse_body.h"
#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"
#include "gateway/calls/tokenize.h"
#include "gateway/openai/models.h"
#include "text/tokenizer.h"

/* A request that waits for its one job. */
struct text_call {
    struct waiter waiter; /* first */
    struct service *service;
    struct http_exchange *x; /* NULL: its client has gone */
    const struct served_model *model;
    bool wants_texts; /* return_token_strs */
    bool wants_pieces;
    struct openai_ignored ignored;
};

static void on_gone(struct waiter *w)
{
    ((struct text_call *)w)->x = NULL; /* freed when the job returns */
}

static void answer(struct text_call *t, const struct prompt_job *j)
{
    const struct model_row *row =
        model_list_find(&t->service->list, t->model->name);
    struct openai_vocab vocab = {tokenizer_token_of,
                                 (void *)(uintptr_t)served_tokenizer(t->model)};
    struct json_out body = {0};
    struct respond_headers h;
    struct openai_error e;

    respond_headers_init(&h, t->service, t->x);
    respond_ignored(&h, &t->ignored);
    h.model = t->model->name;
    if (j->status != ST_OK) {
        service_job_error(&e, j);
        respond_error(t->service, t->x, &e, &h,
                      e.http == 503 ? RESPOND_MEMORY_MS : 0);
        return;
    }
    if (h.dialect != NULL) {
        h.dialect->counted(&body, j->n_ids);
    } else if (j->chat.renders) {
        openai_prompt_body(&body, j->text, j->n_text);
    } else if (t->wants_pieces) {
        openai_pieces_body(&body, j->ids, j->n_ids, &vocab);
    } else if (j->kind == PROMPT_DECODE) {
        openai_detokenize_body(&body, j->text, j->n_text);
    } else {
        openai_tokenize_body(&body, j->ids, j->n_ids,
                             row != NULL ? row->context : 0,
                             t->wants_texts ? &vocab : NULL);
    }
    respond_body(t->service, t->x, 200, &h, &body);
}

static void on_encoded(struct waiter *w, struct prompt_job *j)
{
    struct text_call *t = (struct text_call *)w;

    t->service->n_open--;
    if (t->x != NULL) {
        answer(t, j);
    }
    prompt_job_free(&j);
    free(t);
}

static void submit(struct service *c, struct http_exchange *x,
                   const struct tenant *tenant, const struct openai_request *r,
                   const struct served_model *m, struct prompt_job *j)
{
    struct text_call *t = j != NULL ? calloc(1, sizeof *t) : NULL;
    struct openai_error e;

    if (t == NULL) {
        prompt_job_free(&j);
        respond_memory(c, x);
        return;
    }
    *t = (struct text_call){.waiter = {on_gone, on_encoded},
                            .service = c,
                            .x = x,
                            .model = m,
                            .wants_texts = r->return_token_strs,
                            .wants_pieces = r->values.pieces,
                            .ignored = r->values.ignored};
    http_set_user(x, &t->waiter);
    if (service_submit(c, &t->waiter, x, tenant, &j) == ST_OK) {
        c->n_open++;
        return;
    }
    http_set_user(x, NULL);
    free(t);
    openai_error_set(&e, 503, NULL, NULL,
                     "too many texts wait to be encoded; try again");
    respond_error(c, x, &e, NULL, 1000);
}

/* Returns NULL without memory. */
static struct prompt_job *job_of(const struct service *c,
                                 struct openai_request *r,
                                 const struct served_model *m)
{
    struct prompt_job *j;

    if (r->messages == NULL && r->n_prompts == 0) { /* ids */
        j = prompt_job_new(PROMPT_DECODE);
    } else if (r->messages != NULL) {
        j = prompt_job_new(PROMPT_CHAT);
    } else {
        j = prompt_job_text(r->prompts[0].text, r->prompts[0].n_text,
                            r->template.add_special);
    }
    if (j == NULL) {
        return NULL;
    }
    if (j->kind == PROMPT_DECODE) {
        j->ids = r->tokens;
        j->n_ids = r->n_tokens;
        r->tokens = NULL;
        r->n_tokens = 0;
    } else if (j->kind == PROMPT_CHAT) {
        j->chat = (struct prompt_chat){
            .messages = r->messages,
            .tools = r->template.tools,
            .kwargs = r->template.kwargs,
            .add_generation_prompt = r->template.add_generation_prompt,
            .continue_final = r->template.continue_final_message,
            .renders = r->values.renders,
            .now_unix = c->options.unix_s(c->options.unix_arg)};
        r->messages = r->template.tools = r->template.kwargs = NULL;
    }
    j->model = m;
    return j;
}

/* Returns false, and the error, if m cannot encode what r holds. */
static bool can_encode(const struct service *c, const struct openai_request *r,
                       const struct served_model *m, struct openai_error *e)
{
    if (served_tokenizer(m) != NULL &&
        (r->messages == NULL || m->chat != NULL)) {
        return r->template.tools == NULL || service_takes_tools(c, m, false, e);
    }
    if (served_tokenizer(m) != NULL) {
        openai_error_set(e, 400, "messages", NULL,
                         "the model has no chat template; send a prompt");
    } else if (model_list_find(&c->list, r->model) != NULL) {
        openai_error_set(e, 400, "model", NULL,
                         "the gateway has no tokenizer for this model; start "
                         "the gateway with --model and a directory that has "
                         "one");
    } else if (!c->list.known) {
        openai_error_no_router(e);
    } else {
        openai_error_no_model(e, r->model);
    }
    return false;
}

/* llama.cpp serves one model, so that its clients name none.  Returns false,
 * and the error, if r names none of several. */
static bool choose_model(const struct service *c, struct openai_request *r,
                         struct openai_error *e)
{
    const struct served_models *models = c->options.models;

    if (r->model == NULL && models->n == 1) {
        r->model = models->models[0].name;
    }
    if (r->model == NULL) {
        openai_error_set(e, 400, "model", NULL,
                         "'model' is required: the gateway has the tokenizers "
                         "of %u models",
                         models->n);
    }
    return r->model != NULL;
}

void tokenize_begin(struct service *c, struct http_exchange *x,
                    struct tenant *tenant, struct openai_request **r)
{
    const struct served_model *m;
    struct respond_headers h;
    struct openai_error e;

    if (!choose_model(c, *r, &e)) {
        respond_error(c, x, &e, NULL, 0);
        openai_request_free(r);
        return;
    }
    m = served_model_find(c->options.models, (*r)->model);
    if (can_encode(c, *r, m, &e)) {
        submit(c, x, tenant, *r, m, job_of(c, *r, m));
    } else {
        respond_headers_init(&h, c, x);
        h.model = (*r)->model;
        respond_error(c, x, &e, &h, e.http == 503 ? RESPOND_ROUTER_MS : 0);
    }
    openai_request_free(r);
}

void route_tokenize(struct service *c, struct http_exchange *x,
                    struct tenant *tenant)
{
    parse_body(c, x, tenant, openai_parse_tokenize, tokenize_begin);
}

void route_detokenize(struct service *c, struct http_exchange *x,
                      struct tenant *tenant)
{
    parse_body(c, x, tenant, openai_parse_detokenize, tokenize_begin);
}

void route_apply_template(struct service *c, struct http_exchange *x,
                          struct tenant *tenant)
{
    parse_body(c, x, tenant, openai_parse_apply, tokenize_begin);
}

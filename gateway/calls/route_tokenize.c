/* route_tokenize.c - /tokenize and /detokenize. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/calls/parse_body.h"
#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"
#include "gateway/openai/models.h"
#include "text/tokenizer.h"

/* A request that waits for its one job. */
struct text_call {
    struct waiter waiter; /* first */
    struct service *service;
    struct http_exchange *x; /* NULL: its client has gone */
    const struct served_model *model;
    bool wants_texts; /* return_token_strs */
};

static void on_gone(struct waiter *w)
{
    ((struct text_call *)w)->x = NULL; /* freed when the job returns */
}

static size_t token_bytes(void *arg, uint32_t token, const char **bytes)
{
    size_t n = 0;

    *bytes = tokenizer_token(arg, token, &n);
    return *bytes != NULL ? n : 0;
}

static void answer(struct text_call *t, const struct prompt_job *j)
{
    const struct model_row *row =
        model_list_find(&t->service->list, t->model->name);
    struct openai_vocab vocab = {token_bytes,
                                 (void *)(uintptr_t)served_tokenizer(t->model)};
    struct json_out body = {0};
    struct openai_error e;

    if (j->status != ST_OK) {
        openai_error_of_status(&e, j->status, &j->error);
        respond_error(t->service, t->x, &e, NULL, 0);
        return;
    }
    if (j->kind == PROMPT_DECODE) {
        openai_detokenize_body(&body, j->text, j->n_text);
    } else {
        openai_tokenize_body(&body, j->ids, j->n_ids,
                             row != NULL ? row->context : 0,
                             t->wants_texts ? &vocab : NULL);
    }
    respond_json(t->service, t->x, 200, &body);
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
                   struct prompt_job *j)
{
    struct text_call *t = calloc(1, sizeof *t);
    struct openai_error e;

    assert(t != NULL);
    *t = (struct text_call){.waiter = {on_gone, on_encoded},
                            .service = c,
                            .x = x,
                            .model = j->model,
                            .wants_texts = r->return_token_strs};
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

static struct prompt_job *job_of(const struct service *c,
                                 struct openai_request *r,
                                 const struct served_model *m)
{
    struct prompt_job *j;

    if (r->kind == OPENAI_DETOKENIZE) {
        j = prompt_job_new(PROMPT_DECODE);
        j->ids = r->tokens;
        j->n_ids = r->n_tokens;
        r->tokens = NULL;
        r->n_tokens = 0;
    } else if (r->messages != NULL) {
        j = prompt_job_new(PROMPT_CHAT);
        j->chat = (struct prompt_chat){
            .messages = r->messages,
            .tools = r->tools,
            .kwargs = r->template_kwargs,
            .add_generation_prompt = r->add_generation_prompt,
            .continue_final = r->continue_final_message,
            .now_unix = c->options.unix_s(c->options.unix_arg)};
        r->messages = r->tools = r->template_kwargs = NULL;
    } else {
        j = prompt_job_new(PROMPT_TEXT);
        j->n_text = r->prompts[0].n_text;
        j->text = malloc(j->n_text + 1);
        assert(j->text != NULL);
        memcpy(j->text, r->prompts[0].text, j->n_text);
        j->parse_special = true;
        j->add_special = r->add_special;
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
        return true;
    }
    if (served_tokenizer(m) != NULL) {
        openai_error_set(e, 400, "messages", NULL,
                         "the model has no chat template; send a prompt");
    } else if (model_list_find(&c->list, r->model) != NULL) {
        openai_error_set(e, 400, "model", NULL,
                         "the gateway has no tokenizer for this model; start "
                         "the gateway with --model and a directory that has "
                         "one");
    } else {
        openai_error_no_model(e, r->model);
    }
    return false;
}

static void begin(struct service *c, struct http_exchange *x,
                  struct tenant *tenant, struct openai_request **r)
{
    const struct served_model *m =
        served_model_find(c->options.models, (*r)->model);
    struct openai_error e;

    if (can_encode(c, *r, m, &e)) {
        submit(c, x, tenant, *r, job_of(c, *r, m));
    } else {
        respond_error(c, x, &e, NULL, 0);
    }
    openai_request_free(r);
}

void route_tokenize(struct service *c, struct http_exchange *x,
                    struct tenant *tenant)
{
    parse_body(c, x, tenant, OPENAI_TOKENIZE, begin);
}

void route_detokenize(struct service *c, struct http_exchange *x,
                      struct tenant *tenant)
{
    parse_body(c, x, tenant, OPENAI_DETOKENIZE, begin);
}

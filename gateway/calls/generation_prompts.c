/* generation_prompts.c - From the input of a request to ids, on threads. */
#include <stdlib.h>
#include <string.h>

#include "gateway/calls/generation.h"

static void submit(struct generation *g, uint32_t index, struct prompt_job *j)
{
    struct openai_error e;
    enum status st;

    j->model = g->model;
    j->index = index;
    j->context = generation_context(g);
    j->answer = g->request->has_max_tokens ? g->request->max_tokens : 1;
    g->n_jobs++;
    st = service_submit(g->service, &g->waiter, g->x, g->tenant, &j);
    if (st != ST_OK) {
        g->n_jobs--;
        openai_error_set(&e, 503, NULL, NULL,
                         "too many prompts wait to be encoded; try again");
        generation_fail(g, &e, 1000);
    }
}

/* The job gets the conversation alone: another thread reads it. */
static void submit_chat(struct generation *g)
{
    struct openai_request *r = g->request;
    struct prompt_job *j = prompt_job_new(PROMPT_CHAT);
    json_t *tools = j != NULL && r->template.tools != NULL
                        ? json_deep_copy(r->template.tools)
                        : NULL;

    if (j == NULL || (tools == NULL && r->template.tools != NULL)) {
        prompt_job_free(&j);
        generation_short(g);
        return;
    }
    j->chat = (struct prompt_chat){
        .messages = r->messages,
        .tools = tools,
        .kwargs = r->template.kwargs,
        .add_generation_prompt = r->template.add_generation_prompt,
        .continue_final = r->template.continue_final_message,
        .now_unix = g->service->options.unix_s(g->service->options.unix_arg)};
    r->messages = NULL;
    r->template.kwargs = NULL;
    submit(g, 0, j);
}

static uint32_t *copy_ids(const uint32_t *ids, size_t n)
{
    uint32_t *copy = malloc((n > 0 ? n : 1) * sizeof *copy);

    return copy != NULL ? memcpy(copy, ids, n * sizeof *copy) : NULL;
}

/* Returns a job that makes the text of a prompt's ids; NULL without memory. */
static struct prompt_job *decode_job(const struct openai_prompt *given)
{
    struct prompt_job *j = prompt_job_new(PROMPT_DECODE);

    if (j != NULL) {
        j->ids = copy_ids(given->ids, given->n_ids);
        j->n_ids = given->n_ids;
        if (j->ids == NULL) {
            prompt_job_free(&j);
        }
    }
    return j;
}

/* Starts the job that a prompt of a completion needs, if any. */
static void prepare_prompt(struct generation *g, uint32_t i)
{
    const struct openai_request *r = g->request;
    const struct openai_prompt *given = &r->prompts[i];
    struct generation_prompt *p = &g->prompts[i];
    struct prompt_job *j = NULL;

    if (given->text == NULL) {
        p->n_ids = given->n_ids;
        if (!r->echo) {
            p->ids = copy_ids(given->ids, given->n_ids);
        } else {
            j = decode_job(given);
        }
    } else if (served_tokenizer(g->model) != NULL) {
        j = prompt_job_text(given->text, given->n_text,
                            r->template.add_special);
    } else {
        return; /* the router encodes it */
    }
    if (j != NULL) {
        submit(g, i, j);
    } else if (p->ids == NULL) {
        generation_short(g);
    }
}

void generation_prepare(struct generation *g)
{
    if (g->request->messages != NULL) {
        submit_chat(g);
        return;
    }
    /* A refused job ends the generation: the others are not started. */
    for (uint32_t i = 0; i < g->n_prompts && g->state != GENERATION_OVER; i++) {
        prepare_prompt(g, i);
    }
    if (g->n_jobs == 0 && g->state != GENERATION_OVER) {
        generation_start(g);
    }
}

void generation_encoded(struct waiter *w, struct prompt_job *j)
{
    struct generation *g = (struct generation *)w;
    struct generation_prompt *p = &g->prompts[j->index];

    g->n_jobs--;
    if (g->state == GENERATION_OVER) {
        prompt_job_free(&j);
        return;
    }
    if (j->status != ST_OK) {
        g->service->metrics->counts.template_errors += j->kind == PROMPT_CHAT;
        generation_fail_job(g, j);
    } else if (j->kind == PROMPT_DECODE) {
        p->echo = j->text;
        p->n_echo = j->n_text;
        j->text = NULL;
        /* The ids went with the job, and come back with it. */
        p->ids = j->ids;
        j->ids = NULL;
    } else {
        p->ids = j->ids;
        p->n_ids = j->n_ids;
        p->in_reasoning = j->in_reasoning;
        j->ids = NULL;
    }
    prompt_job_free(&j);
    if (g->n_jobs == 0) {
        generation_start(g);
    }
}

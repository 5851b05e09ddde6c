/* generation_end.c - The end of a request: complete, failed, or without its
 * client. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "gateway/calls/call_log.h"
#include "gateway/calls/generation.h"
#include "gateway/calls/respond.h"

#define CLIENT_GONE 499 /* as nginx logs it; no client receives it */

void generation_fail(struct generation *g, const struct openai_error *e,
                     uint32_t retry_after_ms)
{
    struct respond_headers h;

    g->failed = true;
    if (g->x != NULL && g->state == GENERATION_ANSWERING &&
        g->request->stream) {
        openai_answer_fail(g->answer, e);
        generation_end_stream(g);
    } else if (g->x != NULL) {
        generation_headers(g, &h);
        g->status = respond_status(&h, e);
        respond_error(g->service, g->x, e, &h, retry_after_ms);
        g->x = NULL;
    }
    generation_over(g);
}

void generation_fail_job(struct generation *g, const struct prompt_job *j)
{
    struct openai_error e;

    service_job_error(&e, j);
    if (e.http == 400) {
        snprintf(e.param, sizeof e.param, "%s", g->dialect->input);
    }
    generation_fail(g, &e, e.http == 503 ? RESPOND_MEMORY_MS : 0);
}

void generation_short(struct generation *g)
{
    struct openai_error e;

    openai_error_memory(&e);
    generation_fail(g, &e, RESPOND_MEMORY_MS);
}

bool generation_whole(struct generation *g)
{
    if (g->state != GENERATION_OVER && openai_answer_broken(g->answer)) {
        generation_short(g);
    }
    return g->state != GENERATION_OVER;
}

void generation_gone(struct waiter *w)
{
    struct generation *g = (struct generation *)w;
    struct gateway_counts *m = &g->service->metrics->counts;

    if (PLANT(GATEWAY_KEEPS_CALL)) {
        timer_clear(&g->service->timers, &g->timer); /* it writes to x */
        g->x = NULL;
        return;
    }
    g->gone = true;
    g->service->again = true;
    *(g->stalled ? &m->slow_readers : &m->disconnects) += 1;
    g->x = NULL;
    generation_over(g);
}

/* A client over output_bytes_max is reported gone in the server's next tick,
 * when g may be freed: the exchange forgets g here. */
void generation_end_stream(struct generation *g)
{
    g->service->metrics->counts.slow_readers += g->stalled;
    if (!PLANT(GATEWAY_GONE_LATE)) {
        http_set_user(g->x, NULL);
    }
    if (openai_answer_broken(g->answer)) {
        http_stream_cut(g->x); /* not even the error found memory */
    } else {
        http_stream_end(g->x);
    }
    g->x = NULL;
}

/* Counts what a request used.  Requests that never began cost nothing. */
static void count(struct generation *g)
{
    struct gateway_metrics *m = g->service->metrics;
    struct gateway_tenant_counts *t =
        gateway_metrics_tenant(m, tenant_name(g->tenant));
    struct gateway_model_counts *of =
        gateway_metrics_model(m, g->request->model, false);

    of->model_failed += g->failed;
    of->model_prompt_tokens += g->usage.prompt;
    of->model_cached_tokens += g->usage.cached;
    of->model_tokens += g->usage.completion;
    m->counts.prompt_tokens += g->usage.prompt;
    m->counts.cached_tokens += g->usage.cached;
    m->counts.tokens += g->usage.completion;
    t->tenant_prompt_tokens += g->usage.prompt;
    t->tenant_tokens += g->usage.completion;
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        m->counts.resumed += g->prompts[i].stream.n_resumes;
    }
    gateway_metrics_times(m, of, g->began_us, g->first_us,
                          service_now_us(g->service), g->usage.completion);
}

static void log_end(const struct generation *g)
{
    int64_t us = service_now_us(g->service) - g->began_us;
    bool gone = g->status == 0 || g->gone;
    char id[RESPOND_ID_TEXT], figures[128];

    if (!log_wants_request(g->failed)) {
        return;
    }
    respond_id_text(id, g->prompts[0].request_id);
    snprintf(figures, sizeof figures,
             "ms=%.1f prompt=%" PRIu64 " tokens=%" PRIu64 " stream=%d end=%s",
             (double)us / 1e3, (uint64_t)g->usage.prompt,
             (uint64_t)g->usage.completion, g->request->stream,
             g->failed              ? "failed"
             : gone                 ? "gone"
             : generation_is_cut(g) ? "cut"
                                    : "done");
    call_log_generation(
        &(struct call_line){.method = HTTP_POST,
                            .route = g->route,
                            .status = g->status != 0 ? g->status : CLIENT_GONE,
                            .client = g->client,
                            .tenant = tenant_name(g->tenant),
                            .model = g->request->model,
                            .id = id},
        figures);
}

void generation_over(struct generation *g)
{
    struct service *c = g->service;
    uint64_t used = g->usage.prompt + g->usage.completion;

    if (g->state == GENERATION_OVER) {
        return;
    }
    /* The state changes first: cancelled calls end within resumable_cancel().
     */
    g->state = GENERATION_OVER;
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        struct generation_prompt *p = &g->prompts[i];

        if (p->core == NULL) {
            continue;
        }
        /* A call that waits for a router has reached none. */
        if (!p->answered && p->stream.state == RESUMABLE_WAITING) {
            generation_uncount(p);
        }
        resumable_cancel(&p->stream);
    }
    count(g);
    log_end(g);
    if (!PLANT(GATEWAY_TENANT_LEAK) || g->n_ended == g->n_prompts) {
        tenant_release(g->tenant, g->asked.n_guaranteed);
        tenant_end(g->tenant, service_now_us(c), g->asked.tokens, used);
    }
    timer_clear(&c->timers, &g->timer);
    list_remove(&g->node);
    list_insert(&c->ended, &g->node);
    c->n_open--;
}

static void prompt_fini(struct generation_prompt *p, uint32_t n)
{
    if (p->begun) {
        resumable_fini(&p->stream);
    }
    for (uint32_t i = 0; p->choices != NULL && i < n; i++) {
        output_parser_free(&p->choices[i].parser);
    }
    free(p->choices);
    free(p->ids);
    free(p->echo);
}

void generation_free(struct generation *g)
{
    for (uint32_t i = 0; i < g->n_prompts; i++) {
        prompt_fini(&g->prompts[i], g->request != NULL ? g->request->n : 0);
    }
    openai_answer_free(&g->answer);
    openai_request_free(&g->request);
    free(g->stops);
    free(g->cors);
    free(g);
}

#include "router/generation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/request_id.h"
#include "router/admission.h"
#include "router/resume.h"
#include "router/router.h"
#include "router/stream.h"
#include "text/stop_strings.h"

static uint64_t id_key(const struct router_core *r, const uint8_t *id)
{
    return request_id_hash(id, r->seed);
}

struct generation *generation_find(const struct router_core *r,
                                   const uint8_t *id, size_t n)
{
    struct table_node *at =
        n == 16 ? table_find(&r->generations, id_key(r, id)) : NULL;

    for (; at != NULL; at = table_next(at)) {
        struct generation *g = LIST_OF(at, struct generation, by_id);
        if (memcmp(g->id, id, 16) == 0) {
            return g;
        }
    }
    return NULL;
}

struct generation *generation_new(struct router_core *r, const uint8_t id[16],
                                  struct model *m, uint32_t n)
{
    struct generation *g = calloc(1, sizeof *g + n * sizeof g->choices[0]);

    assert(g != NULL && n >= 1 && n <= CHOICES_MAX);
    memcpy(g->id, id, 16);
    g->model = m;
    g->arrived_us = r->now_us;
    pending_init(&g->call);
    list_init(&g->waiters);
    g->n_choices = g->n_open = g->n_unsent = n;
    for (uint32_t c = 0; c < n; c++) {
        request_init(r, &g->choices[c], g, c);
    }
    table_add(&r->generations, &g->by_id, id_key(r, id));
    r->n_requests += n;
    return g;
}

static void generation_free(struct router_core *r, struct generation *g)
{
    assert(g->n_open == 0 && list_empty(&g->waiters));
    pending_close(r, &g->call);
    table_remove(&r->generations, &g->by_id);
    table_remove(&r->jobs, &g->by_tag);
    for (uint32_t c = 0; c < g->n_choices; c++) {
        request_fini(r, &g->choices[c]);
    }
    r->n_requests -= g->n_choices;
    model_release(r, &g->model);
    stop_strings_free(&g->stop_strings);
    free(g->sampling_lists);
    free(g->prompt);
    free(g);
}

static bool is_over(const struct generation *g)
{
    bool over = g->n_open == 0 && !pending_is_open(&g->call) &&
                list_empty(&g->waiters) && !g->held;

    for (uint32_t c = 0; over && c < g->n_choices; c++) {
        over = g->choices[c].worker == NULL;
    }
    return over;
}

void generation_settle(struct router_core *r, struct generation *g)
{
    if (is_over(g)) {
        generation_free(r, g);
    }
}

void generation_enqueue(struct router_core *r, struct generation *g)
{
    struct error e;
    uint32_t retry_ms = 0;

    if (admission_check(r, g, &retry_ms, &e) != ST_OK ||
        resume_check_length(g, &e) != ST_OK) {
        generation_refuse(r, g, &e,
                          retry_ms != 0 ? retry_ms : resume_retry_ms(g, &e));
        return;
    }
    resume_taken(r, g);
    for (uint32_t c = 0; c < g->n_choices; c++) {
        if (g->choices[c].state == REQUEST_ENCODING) {
            request_enqueue(r, &g->choices[c]);
        }
    }
}

void generation_refuse(struct router_core *r, struct generation *g,
                       const struct error *e, uint32_t retry_after_ms)
{
    r->metrics.refused++;
    pending_fail(r, &g->call, e, retry_after_ms);
    for (uint32_t c = 0; c < g->n_choices; c++) {
        request_refuse(r, &g->choices[c]);
    }
    generation_settle(r, g);
}

void generation_cancel(struct router_core *r, struct generation *g,
                       Sluice__V1__CancelReason reason)
{
    assert(!pending_is_open(&g->call) && !g->held);
    g->held = true;
    for (uint32_t c = 0; c < g->n_choices; c++) {
        struct request *q = &g->choices[c];
        list_remove(&q->ready);
        removal_wanted(r, q, reason);
        request_settle(r, q);
    }
    g->held = false;
    generation_settle(r, g);
}

void generation_release(struct router_core *r, struct generation *g)
{
    assert(!g->held);
    g->held = true;
    for (uint32_t c = 0; c < g->n_choices; c++) {
        removal_release(r, &g->choices[c]);
    }
    g->held = false;
    generation_settle(r, g);
}

static void abandon(struct router_core *r, struct generation *g,
                    const struct error *e)
{
    waiters_fail(r, g, e);
    pending_close(r, &g->call); /* the end of the session ends it */
    for (uint32_t c = 0; c < g->n_choices; c++) {
        request_abandon(r, &g->choices[c]);
    }
    generation_free(r, g);
}

void generations_abandon(struct router_core *r, const struct error *e)
{
    while (!list_empty(&r->all_requests)) {
        abandon(r,
                LIST_OF(r->all_requests.next, struct request, all)->generation,
                e);
    }
}

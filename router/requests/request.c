#include "router/requests/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/request_id.h"
#include "router/base/request_memory.h"
#include "router/requests/request_log.h"
#include "text/stop_strings.h"

static uint64_t id_key(const struct requests *r, const uint8_t *id)
{
    /* Seeded, so that no client can choose ids that collide. */
    return request_id_hash(id, r->base->seed);
}

struct request *request_find(const struct requests *r, const uint8_t *id,
                             size_t n)
{
    struct table_node *at =
        n == 16 ? table_find(&r->by_id, id_key(r, id)) : NULL;

    for (; at != NULL; at = table_next(at)) {
        struct request *request = LIST_OF(at, struct request, by_id);
        if (memcmp(request->id, id, 16) == 0) {
            return request;
        }
    }
    return NULL;
}

struct request *request_new(struct requests *r, const uint8_t id[16],
                            struct model *m, uint32_t n)
{
    struct request *request =
        calloc(1, sizeof *request + n * sizeof request->choices[0]);

    assert(n >= 1 && n <= CHOICES_MAX);
    if (request == NULL) {
        return NULL;
    }
    memcpy(request->id, id, 16);
    request->model = m;
    request->arrived_us = r->base->now_us;
    pending_init(&request->call);
    list_init(&request->waiters);
    list_init(&request->wait.node);
    request->n_choices = request->n_open = request->n_unsent = n;
    for (uint32_t c = 0; c < n; c++) {
        choice_init(r, &request->choices[c], request, c);
    }
    table_add(&r->by_id, &request->by_id, id_key(r, id));
    r->n_choices += n;
    return request;
}

void request_free(struct requests *r, struct request *request)
{
    assert(request->n_open == 0 && list_empty(&request->waiters));
    pending_close(r->fleet, &request->call);
    list_remove(&request->wait.node);
    request_memory_give(r->base, request->bytes);
    table_remove(&r->by_id, &request->by_id);
    table_remove(&r->jobs, &request->by_tag);
    for (uint32_t c = 0; c < request->n_choices; c++) {
        choice_fini(r, &request->choices[c]);
    }
    r->n_choices -= request->n_choices;
    model_release(r->fleet, &request->model);
    stop_strings_free(&request->stop_strings);
    free(request->sampling_lists);
    prefix_prompt_fini(&request->prompt.prefix);
    free(request->prompt.before);
    free(request->prompt.spans);
    free(request->prompt.ids);
    free(request);
}

static bool is_over(const struct request *request)
{
    bool over = request->n_open == 0 && !pending_is_open(&request->call) &&
                list_empty(&request->waiters) && !request->held;

    /* An ended choice may still be kept, or wait for the receipt of its stop
     * string. */
    for (uint32_t c = 0; over && c < request->n_choices; c++) {
        over = request->choices[c].grant.worker == NULL &&
               !lease_is_on(&request->choices[c]);
    }
    return over;
}

void request_settle(struct requests *r, struct request *request)
{
    if (request->n_open == 0 && !pending_is_open(&request->call)) {
        request_log_end(r, request, NULL);
    }
    if (is_over(request)) {
        request_free(r, request);
    }
}

uint32_t request_retry_ms(const struct request *request, const struct error *e)
{
    return request->resumed && e->code == ST_RESOURCE_EXHAUSTED
               ? RETRY_MS_MIN
               : admission_retry_ms(e);
}

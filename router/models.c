#include "router/models.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "router/router.h"

#define RETRY_MS_UNKNOWN 1000 /* nothing has been measured yet */
#define INTERVAL_SHIFT   3    /* the newest interval weighs an eighth */

static struct model *only_one(struct router_core *r)
{
    struct model *found = NULL;

    for (uint32_t i = 0; i < r->n_models; i++) {
        if (r->models[i]->n_workers > 0) {
            if (found != NULL) {
                return NULL;
            }
            found = r->models[i];
        }
    }
    return found;
}

struct model *model_find(struct router_core *r, const uint8_t *name, size_t n)
{
    if (n == 0) {
        return only_one(r);
    }
    for (uint32_t i = 0; i < r->n_models; i++) {
        struct model *m = r->models[i];
        if (strlen(m->name) == n && memcmp(m->name, name, n) == 0) {
            return m;
        }
    }
    return NULL;
}

static struct model *model_new(struct router_core *r, const uint8_t *name,
                               size_t n)
{
    struct text_seam *t = r->options.text;
    struct model *m = calloc(1, sizeof *m);

    assert(m != NULL && n <= MODEL_NAME_MAX);
    memcpy(m->name, name, n);
    m->has_text = t != NULL && t->ops->find(t, m->name, n, &m->text);
    list_init(&m->waiting);
    list_init(&m->dirty);
    r->models[r->n_models++] = m;
    return m;
}

struct model *model_take(struct router_core *r, const uint8_t *name, size_t n)
{
    struct model *m = model_find(r, name, n);

    if (m == NULL) {
        if (r->n_models == ROUTER_MODELS_MAX) {
            return NULL;
        }
        m = model_new(r, name, n);
    }
    m->references++;
    return m;
}

void model_release(struct router_core *r, struct model **m)
{
    struct model *gone = *m;
    uint32_t i = 0;

    *m = NULL;
    if (gone == NULL || --gone->references > 0) {
        return;
    }
    while (r->models[i] != gone) {
        i++;
    }
    r->models[i] = r->models[--r->n_models];
    list_remove(&gone->dirty);
    free(gone);
}

void model_touch(struct router_core *r, struct model *m)
{
    if (!list_linked(&m->dirty)) {
        list_append(&r->dirty_models, &m->dirty);
    }
}

void model_ended(struct router_core *r, struct model *m)
{
    if (m->last_end_us != 0) {
        int64_t d = r->now_us - m->last_end_us;
        m->end_interval_us +=
            m->end_interval_us == 0
                ? d
                : (d - m->end_interval_us) / (1 << INTERVAL_SHIFT);
    }
    m->last_end_us = r->now_us;
}

uint32_t model_retry_ms(const struct model *m)
{
    int64_t ms = m->end_interval_us * ((int64_t)m->n_waiting + 1) / 1000;

    if (m->end_interval_us == 0) {
        return RETRY_MS_UNKNOWN;
    }
    return ms < RETRY_MS_MIN   ? RETRY_MS_MIN
           : ms > RETRY_MS_MAX ? RETRY_MS_MAX
                               : (uint32_t)ms;
}

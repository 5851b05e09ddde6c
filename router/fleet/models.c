#include "router/fleet/models.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "router/router_state.h"

#define RETRY_MS_UNKNOWN 1000 /* nothing has been measured yet */
#define INTERVAL_SHIFT   3    /* the newest interval weighs an eighth */

/* The only one with a place, or else the only one that is absent. */
static struct model *only_one(struct router_core *r)
{
    struct model *up = NULL, *absent = NULL;
    uint32_t n_up = 0, n_absent = 0;

    for (uint32_t i = 0; i < r->n_models; i++) {
        struct model *m = r->models[i];

        if (m->n_places > 0) {
            up = m;
            n_up++;
        } else if (m->presence == MODEL_ABSENT) {
            absent = m;
            n_absent++;
        }
    }
    return n_up == 1 ? up : n_up == 0 && n_absent == 1 ? absent : NULL;
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

/* What waited for it ends. */
static void gone(struct router_core *r, struct model *m)
{
    if (m->n_waiting > 0) {
        log_warn("model-gone", "model=%s waiting=%" PRIu32, m->name,
                 m->n_waiting);
    }
    m->presence = MODEL_GONE;
    choices_recheck(r, m);
}

static void absence_fire(struct router_core *r, struct event *e)
{
    struct model *m = EVENT_OF(e, struct model, absence);

    gone(r, m);
    model_release(r, &m);
}

static void absence_end(struct router_core *r, struct model *m)
{
    if (m->presence == MODEL_ABSENT) {
        event_clear(r, &m->absence);
        m->presence = MODEL_PRESENT;
        model_release(r, &m);
    }
}

void model_look(struct router_core *r, struct model *m)
{
    if (drain_model_present(r, m)) {
        absence_end(r, m);
        m->presence = MODEL_PRESENT;
    } else if (m->presence != MODEL_PRESENT || r->stopping) {
        return;
    } else if (r->options.worker_wait_us == 0) {
        gone(r, m);
    } else {
        m->presence = MODEL_ABSENT;
        m->references++;
        event_set(r, &m->absence, r->now_us + r->options.worker_wait_us);
    }
}

void models_fini(struct router_core *r)
{
    for (uint32_t i = r->n_models; i > 0; i--) {
        absence_end(r, r->models[i - 1]);
    }
}

static struct model *model_new(struct router_core *r, const uint8_t *name,
                               size_t n)
{
    struct text_seam *t = r->options.text;
    struct model *m = calloc(1, sizeof *m);

    assert(m != NULL && n <= MODEL_NAME_MAX);
    memcpy(m->name, name, n);
    m->has_text = t != NULL && t->ops->find(t, m->name, n, &m->text);
    m->absence.fire = absence_fire;
    deaths_init(&m->deaths);
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
    event_clear(r, &gone->pause);
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

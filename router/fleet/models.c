#include "router/fleet/models.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "router/fleet/fleet.h"

#define RETRY_MS_UNKNOWN 1000 /* before an interval was measured */
#define INTERVAL_SHIFT   3    /* the newest interval weighs an eighth */

/* Finds the model for a request that names none.  An absent model counts only
 * if no model has a place: a client that names no model should not wait for a
 * worker while another model could serve it. */
static struct model *find_unnamed(struct fleet *fleet)
{
    struct model *up = NULL, *absent = NULL;
    uint32_t n_up = 0, n_absent = 0;

    for (uint32_t i = 0; i < fleet->n_models; i++) {
        struct model *m = fleet->models[i];

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

struct model *model_find(struct fleet *fleet, const uint8_t *name, size_t n)
{
    if (n == 0) {
        return find_unnamed(fleet);
    }
    for (uint32_t i = 0; i < fleet->n_models; i++) {
        struct model *m = fleet->models[i];
        if (strlen(m->name) == n && memcmp(m->name, name, n) == 0) {
            return m;
        }
    }
    return NULL;
}

size_t model_slot(struct fleet *fleet, const uint8_t *name, size_t n)
{
    const struct metric_names *names = &fleet->base->model_names;
    const struct model *m = model_find(fleet, name, n);

    return m != NULL ? m->slot
           : n > 0   ? metric_slot_of(names, (const char *)name, n)
           : names->n == 1
               ? metric_slot_of(names, names->name[0], strlen(names->name[0]))
               : METRIC_OTHER;
}

/* The callback ends the requests that wait for m. */
static void set_gone(struct fleet *fleet, struct model *m)
{
    if (m->n_waiting > 0) {
        log_warn("model-gone", "model=%s waiting=%" PRIu32, m->name,
                 m->n_waiting);
    }
    m->presence = MODEL_GONE;
    fleet->events->model_gone(fleet->above, m);
}

static void absence_fire(void *room, struct event *e)
{
    struct fleet *fleet = room;
    struct model *m = EVENT_OF(e, struct model, absence);

    set_gone(fleet, m);
    model_release(fleet, &m);
}

static void absence_end(struct fleet *fleet, struct model *m)
{
    if (m->presence == MODEL_ABSENT) {
        event_clear(fleet->base, &m->absence);
        m->presence = MODEL_PRESENT;
        model_release(fleet, &m);
    }
}

void model_set_present(struct fleet *fleet, struct model *m, bool present)
{
    if (present) {
        absence_end(fleet, m);
        m->presence = MODEL_PRESENT;
    } else if (m->presence != MODEL_PRESENT || fleet->base->stopping) {
        /* Absent or gone already; or workers leave because the router stops. */
        return;
    } else if (fleet->base->options.worker_wait_us == 0) {
        set_gone(fleet, m);
    } else {
        m->presence = MODEL_ABSENT;
        m->references++; /* the event's; absence_end() or the event drops it */
        event_set(fleet->base, &m->absence,
                  fleet->base->now_us + fleet->base->options.worker_wait_us);
    }
}

void models_fini(struct fleet *fleet)
{
    /* Backwards: a model that is freed moves the last one to its index. */
    for (uint32_t i = fleet->n_models; i > 0; i--) {
        absence_end(fleet, fleet->models[i - 1]);
    }
}

static struct model *model_new(struct fleet *fleet, const uint8_t *name,
                               size_t n)
{
    struct text_seam *t = fleet->base->options.text;
    struct model *m = parts_alloc(&fleet->model_parts, sizeof *m,
                                  offsetof(struct model, parts));

    assert(n <= MODEL_NAME_MAX);
    if (m == NULL) {
        return NULL;
    }
    memcpy(m->name, name, n);
    m->slot = metric_slot_of(&fleet->base->model_names, m->name, n);
    m->has_text = t != NULL && t->ops->find(t, m->name, n, &m->text);
    event_init(&m->absence, absence_fire, fleet);
    list_init(&m->waiting);
    list_init(&m->dirty);
    fleet->models[fleet->n_models++] = m;
    return m;
}

struct model *model_take(struct fleet *fleet, const uint8_t *name, size_t n)
{
    struct model *m = model_find(fleet, name, n);

    if (m == NULL) {
        if (fleet->n_models == ROUTER_MODELS_MAX) {
            return NULL;
        }
        m = model_new(fleet, name, n);
        if (m == NULL) {
            return NULL;
        }
    }
    m->references++;
    return m;
}

void model_release(struct fleet *fleet, struct model **m)
{
    struct model *freed = *m;
    uint32_t i = 0;

    *m = NULL;
    if (freed == NULL || --freed->references > 0) {
        return;
    }
    while (fleet->models[i] != freed) {
        i++;
    }
    fleet->models[i] = fleet->models[--fleet->n_models];
    list_remove(&freed->dirty);
    event_clear(fleet->base, &freed->pause);
    free(freed);
}

void model_touch(struct fleet *fleet, struct model *m)
{
    if (!list_linked(&m->dirty)) {
        list_append(&fleet->dirty_models, &m->dirty);
    }
}

void model_ended(struct fleet *fleet, struct model *m)
{
    if (m->last_end_us != 0) {
        int64_t interval_us = fleet->base->now_us - m->last_end_us;

        /* The first interval is the average; later ones move it. */
        m->end_interval_us +=
            m->end_interval_us == 0
                ? interval_us
                : (interval_us - m->end_interval_us) / (1 << INTERVAL_SHIFT);
    }
    m->last_end_us = fleet->base->now_us;
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

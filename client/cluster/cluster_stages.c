#include "client/cluster/cluster_stages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/quote.h"

bool cluster_layers_parse(const char *text, struct layer_range *out)
{
    size_t n = strspn(text, "0123456789");
    size_t m = text[n] == '-' ? strspn(text + n + 1, "0123456789") : 0;

    if (n == 0 || n > 6 || m == 0 || m > 6 || text[n + 1 + m] != '\0') {
        return false;
    }
    out->begin = (uint32_t)strtoul(text, NULL, 10);
    out->end = (uint32_t)strtoul(text + n + 1, NULL, 10);
    return out->begin < out->end && out->end <= MODEL_LAYERS_MAX;
}

static bool same_model(const struct cluster_worker *a,
                       const struct cluster_worker *b)
{
    return a->model.text != NULL && b->model.text != NULL &&
           strcmp(a->model.text, b->model.text) == 0;
}

/* Returns whether layers from 0 to `to` can be held without a gap by workers of
 * the model of w; of the workers with stages, none count. */
static void reach(const struct cluster *c, const struct cluster_worker *w,
                  bool reached[MODEL_LAYERS_MAX + 1])
{
    struct layer_range r;
    bool more = true;

    memset(reached, 0, (MODEL_LAYERS_MAX + 1) * sizeof *reached);
    reached[0] = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < c->n_workers; i++) {
            const struct cluster_worker *v = &c->workers[i];

            if (same_model(v, w) && v->layers.text != NULL &&
                cluster_layers_parse(v->layers.text, &r) && reached[r.begin] &&
                !reached[r.end]) {
                reached[r.end] = true;
                more = true;
            }
        }
    }
}

/* Returns the last layer that a worker of the model of w names. */
static uint32_t last_layer(const struct cluster *c,
                           const struct cluster_worker *w)
{
    struct layer_range r;
    uint32_t last = 0;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *v = &c->workers[i];

        if (same_model(v, w) && v->layers.text != NULL &&
            cluster_layers_parse(v->layers.text, &r) && r.end > last) {
            last = r.end;
        }
    }
    return last;
}

/* Returns whether a worker of the same model begins where r ends. */
static bool is_continued(const struct cluster *c,
                         const struct cluster_worker *w,
                         const struct layer_range *r)
{
    struct layer_range next;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *v = &c->workers[i];

        if (same_model(v, w) && v->layers.text != NULL &&
            cluster_layers_parse(v->layers.text, &next) &&
            next.begin == r->end) {
            return true;
        }
    }
    return false;
}

static void check_layers(const struct cluster *c,
                         const struct cluster_worker *w, struct faults *f)
{
    bool reached[MODEL_LAYERS_MAX + 1];
    struct layer_range r;

    if (!cluster_layers_parse(w->layers.text, &r)) {
        faults_add(f, w->layers.at,
                   "layers %s: A-B is required, with A < B and B at most %d; "
                   "0-12 are layers 0 to 11",
                   quote(w->layers.text).text, MODEL_LAYERS_MAX);
        return;
    }
    if (w->model.text == NULL) {
        return;
    }
    reach(c, w, reached);
    if (!reached[r.begin]) {
        faults_add(f, w->layers.at,
                   "layers %s of model %s: no worker's layers end at %u, so no "
                   "replica has all layers",
                   w->layers.text, w->model.text, r.begin);
    } else if (r.end != last_layer(c, w) && !is_continued(c, w, &r)) {
        faults_add(f, w->layers.at,
                   "layers %s of model %s: no worker's layers begin at %u, so "
                   "no replica has all layers",
                   w->layers.text, w->model.text, r.end);
    }
}

/* Reports a model with too few workers once, at the first of them. */
static void check_stages(const struct cluster *c,
                         const struct cluster_worker *w, struct faults *f)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *v = &c->workers[i];

        if (same_model(v, w) && v->stages.v == w->stages.v) {
            if (n == 0 && v != w) {
                return;
            }
            n += v->count.v;
        }
    }
    if (n % w->stages.v != 0) {
        faults_add(f, w->stages.at,
                   "stages %" PRIu64 " of model %s: %" PRIu64 " worker%s form "
                   "no whole number of replicas; add %" PRIu64 " or change "
                   "stages",
                   w->stages.v, w->model.text, n, n == 1 ? "" : "s",
                   w->stages.v - n % w->stages.v);
    }
}

void cluster_stages_check(const struct cluster *c, struct faults *f)
{
    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *w = &c->workers[i];

        if (w->layers.text != NULL) {
            check_layers(c, w, f);
        } else if (w->stages.v > 1 && w->model.text != NULL) {
            check_stages(c, w, f);
        }
    }
}

/* ---- places ---- */

static bool is_of(const struct cluster_worker *w, const struct cluster_model *m)
{
    return w->model.text != NULL && strcmp(w->model.text, m->name.text) == 0;
}

/* Takes the longest worker of m that begins at *at and is left, and moves *at
 * to its end.  Returns false if there is none. */
static bool take_next(const struct cluster *c, const struct cluster_model *m,
                      uint64_t *left, uint32_t *at)
{
    uint32_t end = *at;
    size_t best = 0;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *w = &c->workers[i];
        struct layer_range r;

        if (left[i] > 0 && is_of(w, m) && w->layers.text != NULL &&
            cluster_layers_parse(w->layers.text, &r) && r.begin == *at &&
            r.end > end) {
            best = i;
            end = r.end;
        }
    }
    if (end == *at) {
        return false;
    }
    left[best]--;
    *at = end;
    return true;
}

/* Counts replicas of workers with layers: one after the other takes workers
 * from layer 0 to the last one. */
static uint64_t count_layered(const struct cluster *c,
                              const struct cluster_model *m,
                              const struct cluster_worker *any)
{
    uint64_t *left = memory_must(calloc(c->n_workers, sizeof *left)), n = 0;
    uint32_t last = last_layer(c, any), at = 0;

    for (size_t i = 0; i < c->n_workers; i++) {
        left[i] = c->workers[i].count.v;
    }
    while (last > 0 && take_next(c, m, left, &at)) {
        n += at == last;
        at = at == last ? 0 : at;
    }
    free(left);
    return n;
}

/* Counts replicas of the workers with the stages of w, at the first of them. */
static uint64_t count_staged(const struct cluster *c,
                             const struct cluster_worker *w)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *v = &c->workers[i];

        if (same_model(v, w) && v->layers.text == NULL &&
            v->stages.v == w->stages.v) {
            if (n == 0 && v != w) {
                return 0;
            }
            n += v->count.v;
        }
    }
    return n / w->stages.v;
}

uint64_t cluster_places(const struct cluster *c, const struct cluster_model *m)
{
    const struct cluster_worker *layered = NULL;
    uint64_t n = 0;

    for (size_t i = 0; i < c->n_workers; i++) {
        const struct cluster_worker *w = &c->workers[i];

        if (!is_of(w, m)) {
            continue;
        }
        if (w->layers.text != NULL) {
            layered = w;
        } else {
            n += w->stages.v > 1 ? count_staged(c, w) : w->count.v;
        }
    }
    return layered != NULL ? n + count_layered(c, m, layered) : n;
}

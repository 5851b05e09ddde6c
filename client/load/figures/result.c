#include "client/load/figures/result.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

static void run_fini(struct run *r)
{
    free(r->plan);
    free(r->started);
    tally_free(&r->tally);
}

void result_fini(struct result *r)
{
    for (uint32_t i = 0; i < r->n_runs; i++) {
        run_fini(&r->runs[i]);
    }
    free(r->runs);
    free(r->title);
    free(r->target);
    free(r->model);
    free(r->command);
    free(r->host);
    memset(r, 0, sizeof *r);
}

struct run *result_add(struct result *r)
{
    struct run *run;

    /* Full at each power of two: a run is large, so few copies. */
    if ((r->n_runs & (r->n_runs - 1)) == 0) {
        size_t room = r->n_runs == 0 ? 1 : 2 * (size_t)r->n_runs;

        r->runs = memory_must(realloc(r->runs, room * sizeof *r->runs));
    }
    run = &r->runs[r->n_runs++];
    memset(run, 0, sizeof *run);
    return run;
}

static void thin(struct run *r)
{
    for (uint32_t i = 0; 2 * i < r->n_points; i++) {
        r->points[i] = r->points[2 * i];
    }
    r->n_points = (r->n_points + 1) / 2;
    r->stride *= 2;
}

struct draft_counts run_drafts(const struct run *r)
{
    return (struct draft_counts){.rows = r->draft_rows,
                                 .verified = r->drafts_verified,
                                 .accepted = r->drafts_accepted};
}

void run_point(struct run *r, const struct cluster_point *p)
{
    r->stride = r->stride == 0 ? 1 : r->stride;
    if (r->n_offered++ % r->stride != 0) {
        return;
    }
    if (r->n_points == RESULT_POINTS) {
        thin(r); /* point RESULT_POINTS * stride is even: it stays */
    }
    r->points[r->n_points++] = *p;
}

/* The exit of a command replaces its start. */
static struct load_event *event_of(struct run *r, const struct load_event *e)
{
    for (uint32_t i = 0; i < r->n_events; i++) {
        struct load_event *old = &r->events[i];

        if (old->exit_code == -1 && old->at_us == e->at_us &&
            strcmp(old->text, e->text) == 0) {
            return old;
        }
    }
    return NULL;
}

void run_event(struct run *r, const struct load_event *e)
{
    struct load_event *old = e->exit_code != -1 ? event_of(r, e) : NULL;

    if (old != NULL) {
        *old = *e;
        return;
    }
    if (r->n_events < RESULT_EVENTS) {
        r->events[r->n_events++] = *e;
    }
}

#include "client/load/report/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/report/cell.h"
#include "common/base/memory.h"

/* Trials of a search are short and at many loads: only the confirming runs
 * measure its result. */
static bool is_shown(const struct result *r, const struct run *run)
{
    if (run->tally == NULL) {
        return false;
    }
    if (r->searched) {
        return run->role == RUN_CONFIRM &&
               run->load == search_result(&r->search);
    }
    return run->role == RUN_PLAIN || run->role == RUN_REPEAT;
}

static struct group *group_of(struct groups *g, const struct run *run,
                              const struct objectives *o)
{
    struct group *new;

    for (uint32_t i = 0; i < g->n; i++) {
        if (g->group[i].load == run->load &&
            g->group[i].closed == run->closed) {
            return &g->group[i];
        }
    }
    g->group = memory_must(realloc(g->group, (g->n + 1) * sizeof *g->group));
    new = &g->group[g->n++];
    *new = (struct group){
        .load = run->load, .closed = run->closed, .tally = tally_new(o)};
    return new;
}

void groups_init(struct groups *g, const struct result *r)
{
    memset(g, 0, sizeof *g);
    for (uint32_t i = 0; i < r->n_runs; i++) {
        const struct run *run = &r->runs[i];
        struct group *to;

        if (!is_shown(r, run)) {
            continue;
        }
        to = group_of(g, run, &r->objectives);
        to->runs =
            memory_must(realloc(to->runs, (to->n_runs + 1) * sizeof *to->runs));
        to->runs[to->n_runs++] = run;
        tally_merge(to->tally, run->tally);
    }
}

void groups_fini(struct groups *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        tally_free(&g->group[i].tally);
        free(g->group[i].runs);
    }
    free(g->group);
    memset(g, 0, sizeof *g);
}

uint32_t group_values(const struct group *g, group_figure_fn figure,
                      double out[GROUP_VALUES])
{
    uint32_t n = g->n_runs < GROUP_VALUES ? g->n_runs : GROUP_VALUES;

    for (uint32_t i = 0; i < n; i++) {
        out[i] = figure(g->runs[i]->tally);
    }
    return n;
}

double group_mean(const struct group *g, group_figure_fn figure)
{
    double sum = 0;

    for (uint32_t i = 0; i < g->n_runs; i++) {
        sum += figure(g->runs[i]->tally);
    }
    return g->n_runs == 0 ? 0 : sum / g->n_runs;
}

struct group_name group_name(double load, bool closed)
{
    struct group_name name;

    if (load <= 0) {
        snprintf(name.text, sizeof name.text, "the plan's own load");
    } else if (closed) {
        snprintf(name.text, sizeof name.text, "%.0f at once", load);
    } else {
        snprintf(name.text, sizeof name.text, "%.24s requests/s",
                 cell_load(load).text);
    }
    return name;
}

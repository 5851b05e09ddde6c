/* group.h - The runs of a result that are shown together: repeats of one load.
 *
 * A search has one group: the confirming runs of its result.
 *
 * Threading: none.  Memory: owns merged tallies; borrows runs. */
#ifndef CLIENT_LOAD_REPORT_GROUP_H
#define CLIENT_LOAD_REPORT_GROUP_H

#include "client/load/figures/result.h"

struct group {
    double load;
    bool closed;
    struct tally *tally;     /* all runs together */
    const struct run **runs; /* [n_runs] */
    uint32_t n_runs;
};

struct groups {
    struct group *group; /* [n], in the order of their first runs */
    uint32_t n;
};

void groups_init(struct groups *g, const struct result *r);
void groups_fini(struct groups *g);

/* Fills one figure of each run; returns their number, at most GROUP_VALUES. */
#define GROUP_VALUES 128
typedef double (*group_figure_fn)(const struct tally *t);
uint32_t group_values(const struct group *g, group_figure_fn figure,
                      double out[GROUP_VALUES]);

/* Returns the mean over the runs: rates of merged runs are sums. */
double group_mean(const struct group *g, group_figure_fn figure);

/* Returns "20 requests/s", "8 at once" or "the trace". */
struct group_name {
    char text[48];
};
struct group_name group_name(double load, bool closed);

#endif

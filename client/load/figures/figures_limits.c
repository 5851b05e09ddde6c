#include "client/load/figures/figures_limits.h"

#include "client/load/figures/histogram.h"
#include "client/load/figures/result.h"
#include "client/load/figures/search.h"
#include "client/load/figures/tally.h"

const struct limit_row figures_limits[] = {
    LIMIT_ROW(HISTOGRAM_MAX, "", "the largest value of a histogram"),
    LIMIT_ROW(HISTOGRAM_COUNT_MAX, "values", "a histogram that is read"),
    LIMIT_ROW(TALLY_ROWS, "rows", "figures over time"),
    LIMIT_ROW(TALLY_WHYS, "reasons", "distinct failures"),
    LIMIT_ROW(RESULT_POINTS, "points", "figures of the cluster"),
    LIMIT_ROW(RESULT_EVENTS, "events", "a run"),
    LIMIT_ROW(SEARCH_TRIALS, "trials", "a search"),
};

const size_t figures_limits_n =
    sizeof figures_limits / sizeof figures_limits[0];

#include "client/load/report/report_limits.h"

#include "client/load/report/report.h"

const struct limit_row report_limits[] = {
    LIMIT_ROW(REPORT_BYTES_MAX, "bytes", "a result that is read"),
    LIMIT_ROW(REPORT_VALUES_MAX, "values", "a result that is read"),
    LIMIT_ROW(REPORT_DEPTH_MAX, "levels", "a result that is read"),
    LIMIT_ROW(REPORT_RUNS_MAX, "runs", "a result"),
};

const size_t report_limits_n = sizeof report_limits / sizeof report_limits[0];

#include "common/base/limit.h"

#include <inttypes.h>

#include "common/base/job_threads.h"
#include "common/base/log.h"
#include "common/base/log_gate.h"
#include "common/base/metric_names.h"
#include "common/base/near.h"
#include "common/base/notify.h"
#include "common/base/option.h"
#include "common/base/option_sources.h"

const struct limit_row base_limits[] = {
    LIMIT_ROW(OPTION_LIST_MAX, "", "uses of an option that may be repeated"),
    LIMIT_ROW(OPTION_ROWS_MAX, "", "options of a daemon"),
    LIMIT_ROW(OPTION_FILE_BYTES_MAX, "bytes", "a configuration file"),
    LIMIT_ROW(OPTION_LINE_BYTES_MAX, "bytes", "a line of such a file"),
    LIMIT_ROW(NEAR_WORD_MAX, "bytes", "a mistyped word with a suggestion"),
    LIMIT_ROW(LOG_LINE, "bytes", "a line of the log"),
    LIMIT_ROW(JOB_THREADS_MAX, "threads", "templates and tokenizers"),
    LIMIT_ROW(LOG_GATE_US, "us",
              "time in which repeated log lines are counted"),
    LIMIT_ROW(METRIC_NAMES_MAX, "", "tenants that metrics name"),
    LIMIT_ROW(NOTIFY_STATUS_MAX, "bytes",
              "a status text for the service manager, with its NUL"),
    LIMIT_ROW(NOTIFY_PENDING, "",
              "messages that wait for room at the service manager"),
    LIMIT_ROW(NOTIFY_STATUS_US, "us",
              "time between two status texts for the service manager"),
    LIMIT_ROW(NOTIFY_START_US, "us",
              "extension of a start's time limit, renewed by the loop"),
    LIMIT_ROW(NOTIFY_STOP_US, "us",
              "extension of a stop's time limit, renewed by the loop"),
};

const size_t base_limits_n = sizeof base_limits / sizeof base_limits[0];

void limits_print(FILE *to, const struct limit_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "  %-28s %10" PRIu64 " %-7s %s\n", rows[i].name,
                rows[i].value, rows[i].unit, rows[i].what);
    }
}

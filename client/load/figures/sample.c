#include "client/load/figures/sample.h"

const char *const outcome_names[OUTCOMES] = {
    [OUTCOME_OK] = "ok",
    [OUTCOME_REFUSED] = "refused",
    [OUTCOME_FAILED] = "failed",
    [OUTCOME_TIMEOUT] = "timeout",
    [OUTCOME_CANCELLED] = "cancelled",
    [OUTCOME_DISCONNECTED] = "disconnected",
    [OUTCOME_UNSENT] = "unsent",
    [OUTCOME_SKIPPED] = "skipped",
};

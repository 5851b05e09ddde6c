#include "common/model/model_limits.h"

const struct limit_row model_limits[] = {
#define X(name, value, unit, what) LIMIT_ROW(name, unit, what),
    MODEL_LIMITS(X)
#undef X
};

const size_t model_limits_n = sizeof model_limits / sizeof model_limits[0];

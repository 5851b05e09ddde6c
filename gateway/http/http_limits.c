#include "gateway/http/http_limits.h"

/* Defaults are listed too: they hold unless an option changes them. */
const struct limit_row http_limits[] = {
#define X(name, value, unit, what) LIMIT_ROW(name, unit, what),
    HTTP_LIMITS(X)
#undef X
};

const size_t http_limits_n = sizeof http_limits / sizeof http_limits[0];

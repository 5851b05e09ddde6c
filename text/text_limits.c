#include "text/text_limits.h"

const struct limit_row text_limits[] = {
#define X(name, value, unit, what) LIMIT_ROW(name, unit, what),
    TEXT_LIMIT_MAP(X)
#undef X
};

const size_t text_limits_n = sizeof text_limits / sizeof *text_limits;

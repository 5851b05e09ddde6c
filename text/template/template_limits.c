#include "text/template/template_limits.h"

const struct limit_row template_limits[] = {
#define X(name, value, unit, what) LIMIT_ROW(name, unit, what),
    TEMPLATE_LIMIT_MAP(X)
#undef X
};

const size_t template_limits_n =
    sizeof template_limits / sizeof *template_limits;

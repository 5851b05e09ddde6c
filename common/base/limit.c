#include "common/base/limit.h"

#include <inttypes.h>

#include "common/base/option.h"

const struct limit_row base_limits[] = {
    LIMIT_ROW(OPTION_LIST_MAX, "", "uses of an option that may be repeated"),
};

const size_t base_limits_n = sizeof base_limits / sizeof base_limits[0];

void limits_print(FILE *to, const struct limit_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "  %-24s %12" PRIu64 " %-7s %s\n", rows[i].name,
                rows[i].value, rows[i].unit, rows[i].what);
    }
}

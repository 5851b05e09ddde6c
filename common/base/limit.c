#include "common/base/limit.h"

#include <inttypes.h>

void limits_print(FILE *to, const struct limit_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "  %-24s %12" PRIu64 " %-7s %s\n", rows[i].name,
                rows[i].value, rows[i].unit, rows[i].what);
    }
}

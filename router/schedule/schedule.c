#include "router/schedule/schedule.h"

#include "router/schedule/forecast.h"

struct model_scheduling *scheduling_of(const struct model *m)
{
    struct model_scheduling *x = m->parts[PART_SCHEDULE];

    if (!x->begun) {
        x->begun = true;
        x->margin = FORECAST_FIRST;
        length_groups_init(&x->lengths);
    }
    return x;
}

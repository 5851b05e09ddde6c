#include "client/load/plan/arrivals.h"

#include <string.h>

#include "client/load/plan/spread.h"
#include "common/base/quote.h"

static bool parse_cv(struct arrivals *a, const char *text)
{
    if (strncmp(text, "gamma:", 6) != 0) {
        return false;
    }
    text += 6;
    a->kind = ARRIVALS_GAMMA;
    return spread_number(&text, &a->cv) && *text == '\0' &&
           a->cv >= ARRIVALS_CV_MIN && a->cv <= ARRIVALS_CV_MAX;
}

enum status arrivals_parse(struct arrivals *out, const char *text,
                           struct error *e)
{
    memset(out, 0, sizeof *out);
    if (strcmp(text, "constant") == 0) {
        out->kind = ARRIVALS_CONSTANT;
    } else if (strcmp(text, "poisson") == 0) {
        out->kind = ARRIVALS_POISSON;
    } else if (parse_cv(out, text)) {
        out->shape = 1 / (out->cv * out->cv);
    } else {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--arrivals %s is no process; give constant, "
                         "poisson, or gamma:CV with a coefficient of variation "
                         "in %g..%g",
                         quote(text).text, ARRIVALS_CV_MIN, ARRIVALS_CV_MAX);
    }
    return ST_OK;
}

void arrivals_begin(struct arrivals *a, uint64_t seed)
{
    draw_seed(&a->draw, seed);
    pace_begin(&a->cursor, &a->pace);
    a->number = 0;
    a->at = 0;
}

bool arrivals_next(struct arrivals *a, int64_t *us)
{
    if (a->kind == ARRIVALS_CONSTANT) {
        a->at = (double)a->number;
    } else if (a->kind == ARRIVALS_POISSON) {
        a->at += draw_exp(&a->draw);
    } else {
        a->at += draw_gamma(&a->draw, a->shape);
    }
    a->number++;
    return pace_reach(&a->cursor, a->at, us);
}

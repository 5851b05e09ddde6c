/* arrivals.h - The times at which sessions start.
 *
 * A process of rate 1 is mapped through the inverse of the integral of the
 * rate.  Ramps, steps and bursts therefore have their exact expected counts.
 *
 *     constant    evenly, from time 0
 *     poisson     exponential gaps
 *     gamma:CV    gamma gaps with this coefficient of variation
 *
 * Threading: none.  Memory: the caller's. */
#ifndef CLIENT_LOAD_PLAN_ARRIVALS_H
#define CLIENT_LOAD_PLAN_ARRIVALS_H

#include "client/load/plan/draw.h"
#include "client/load/plan/pace.h"

#define ARRIVALS_CV_MIN 0.01
#define ARRIVALS_CV_MAX 100.0

enum arrivals_kind { ARRIVALS_CONSTANT, ARRIVALS_POISSON, ARRIVALS_GAMMA };

struct arrivals {
    enum arrivals_kind kind;
    double cv, shape; /* gamma's */
    struct pace pace;
    struct pace_cursor cursor;
    struct draw draw;
    uint64_t number;
    double at; /* on the scale of rate 1 */
};

/* Parses the name of a process.  Returns ST_INVALID_ARGUMENT and a sentence
 * that names the option and a valid value. */
MUST_CHECK enum status arrivals_parse(struct arrivals *out, const char *text,
                                      struct error *e);

/* Begins at time 0.  The pace is set. */
void arrivals_begin(struct arrivals *a, uint64_t seed);

/* Sets *us to the next start.  Returns false if there is none. */
bool arrivals_next(struct arrivals *a, int64_t *us);

#endif

/* recording.h - A recording (router/record/record.h) in memory.
 *
 * Every field of every line is checked: kinds, counts, ranges, order of times
 * and numbers, and that a line refers to what an earlier one has named.  Lines
 * after a gap ("l") may refer to what is lost; they are left out.  A last line
 * without a newline is left out too: its router was killed.
 *
 * Threading: none.  Memory: the recording's; recording_free() frees all.
 * Limits: RECORDING_*_MAX, RECORD_LINE_MAX. */
#ifndef ROUTER_REPLAY_RECORDING_H
#define ROUTER_REPLAY_RECORDING_H

#include <stdio.h>

#include "common/base/limit.h"
#include "common/base/status.h"
#include "proto/limits.h"
#include "router/record/record.h"

#define RECORDING_REQUESTS_MAX 1048576
#define RECORDING_CHOICES_MAX  4194304
#define RECORDING_PLACES_MAX   4096
#define RECORDING_COSTS_MAX    1048576
#define RECORDING_NAMES_MAX    4096 /* tenants, models, routes */
#define RECORDING_WEIGHTS_MAX  64
#define RECORDING_US_MAX       (INT64_C(1) << 50)

#define RECORDING_NEVER (-1)

/* Costs of the steps of a place from a time on. */
struct recorded_cost {
    int64_t at_us;
    uint32_t place; /* index */
    struct record_cost cost;
};

struct recorded_place {
    const char *name, *model;
    int64_t from_us, until_us; /* until: RECORDING_NEVER: to the end */
    struct record_place shape; /* without session, name and model; pages 0: its
                                * line is lost */
};

/* Times since the begin of the recording. */
struct recorded_choice {
    int64_t granted_us, first_us, end_us;  /* RECORDING_NEVER: not */
    uint32_t n_tokens, n_suspended, place; /* place: index, if granted */
    uint32_t n_restored;
    enum record_end how;
};

struct recorded_request {
    const char *model, *tenant, *route;
    int64_t at_us, deadline_us;
    uint32_t n_prompt, max_tokens, n_choices;
    uint32_t like, shared; /* like: index of a request; shared 0: none */
    bool cache, guaranteed;
    enum record_tier tier;
    bool lost; /* its arrival is not in the recording */
    bool refused;
    int64_t refused_us;
    uint32_t choices; /* index of its first choice */
};

struct recorded_weight {
    const char *tenant;
    uint32_t weight;
};

struct recording {
    struct record_options options;
    struct recorded_weight *weights;   /* [n_weights] */
    struct recorded_place *places;     /* [n_places] */
    struct recorded_cost *costs;       /* [n_costs], in order of time */
    struct recorded_request *requests; /* [n_requests] */
    struct recorded_choice *choices;   /* [n_choices] */
    char **names;                      /* [n_names] */
    uint32_t n_weights, n_places, n_costs, n_requests, n_choices, n_names;
    uint32_t weights_size, places_size, costs_size, requests_size, choices_size;
    uint32_t names_size;
    uint64_t n_lines, n_lost; /* lost: lines */
    int64_t end_us;           /* time of the last line */
};

extern const struct limit_row recording_limits[];
extern const size_t recording_limits_n;

/* Reads a recording.  Returns ST_INVALID_ARGUMENT with a sentence that names
 * the line, ST_RESOURCE_EXHAUSTED without memory.  *out is NULL then. */
MUST_CHECK enum status recording_read(struct recording **out, FILE *from,
                                      struct error *e);

/* Frees a recording and sets *r to NULL. */
void recording_free(struct recording **r);

#endif

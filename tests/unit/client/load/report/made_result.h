/* made_result.h - Results for the tests of reports.
 *
 * Memory: results are for result_fini(). */
#ifndef TESTS_UNIT_CLIENT_LOAD_REPORT_MADE_RESULT_H
#define TESTS_UNIT_CLIENT_LOAD_REPORT_MADE_RESULT_H

#include <stdio.h>

#include "client/load/figures/result.h"

/* Returns a result without runs. */
struct result made_result(void);

/* Adds a run of n requests at 100 a second, with failures of all kinds if
 * mixed; slow multiplies its times. */
struct run *made_run(struct result *r, enum run_role role, double load,
                     uint64_t n, double slow, bool mixed);

/* Adds points, events and an audit to a run. */
void made_cluster(struct run *run);

/* Searches a server with a capacity of 30 and adds its runs. */
void made_search(struct result *r);

/* Returns the text that a report prints, for free(). */
char *made_text(void (*print)(FILE *to, const struct result *r),
                const struct result *r);

#endif

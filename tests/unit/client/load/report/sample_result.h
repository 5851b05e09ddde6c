/* sample_result.h - Results of made-up runs, as a cluster might give them: for
 * tests of reports and for looking at the page.
 *
 * Always the same figures: no clock and no randomness but a fixed seed. */
#ifndef TESTS_UNIT_CLIENT_LOAD_REPORT_SAMPLE_RESULT_H
#define TESTS_UNIT_CLIENT_LOAD_REPORT_SAMPLE_RESULT_H

#include "client/load/figures/result.h"

/* 60 s at 16 requests/s; one of two workers dies at 30 s, and no token comes
 * for 2.5 s. */
void sample_result_kill(struct result *out);

/* A search for the largest rate, with its confirmation. */
void sample_result_search(struct result *out);

/* Markup, control characters and separators in every text; failures. */
void sample_result_hostile(struct result *out);

/* A run in which nothing was measured. */
void sample_result_empty(struct result *out);

#endif

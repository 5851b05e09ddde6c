/* load_series.h - The runs of a series: one, repeats, a sweep or a search, and
 * before them the outputs of each content alone.
 *
 * Threading: one thread. */
#ifndef CLIENT_LOAD_LOAD_SERIES_H
#define CLIENT_LOAD_LOAD_SERIES_H

#include "client/load/load_run.h"

/* Runs the series and adds its runs to *r, also those before an error. */
MUST_CHECK enum status load_series(struct load_job *j, struct result *r,
                                   struct error *e);

#endif

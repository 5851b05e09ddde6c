/* dataset_row.h - One row of a dataset.
 *
 * Threading: none.  Memory: entries are appended to the dataset. */
#ifndef CLIENT_LOAD_PLAN_DATASET_ROW_H
#define CLIENT_LOAD_PLAN_DATASET_ROW_H

#include "client/load/plan/dataset.h"

/* Parses text[0..n), one JSON object, and appends it.  Errors are as
 * dataset_parse()'s, without the line. */
MUST_CHECK enum status dataset_row_add(struct dataset *d, const char *text,
                                       size_t n, struct error *e);

#endif

/* metrics_reply.h - The metrics of a StatusReply, as text for Prometheus and
 * as JSON.
 *
 * The rows are the router's, so that sluicectl needs no table of its own.  A
 * row is left out if Prometheus does not allow its name.  A table is left out
 * if its label names, labels or values do not fit its rows.
 *
 * Threading: no state.  Memory: the JSON is the caller's, json_decref(). */
#ifndef CLIENT_CTL_METRICS_REPLY_H
#define CLIENT_CTL_METRICS_REPLY_H

#include <stdio.h>

#include <jansson.h>

#include "proto/admin.pb-c.h"

/* Prints the rows in the text exposition format (metric_page.h), with this
 * prefix before each name.  Help and labels are escaped for a terminal. */
void metrics_reply_print(const Sluice__V1__StatusReply *m, const char *prefix,
                         FILE *to);

/* Returns an object with each row by its name.  The value of a counter or a
 * gauge is a number; of a histogram an object with count, sum and buckets, by
 * upper bound; of a row with labels an array of objects, each with the labels
 * and `value`. */
json_t *metrics_reply_json(const Sluice__V1__StatusReply *m);

#endif

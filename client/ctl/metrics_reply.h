/* metrics_reply.h - The metrics of a StatusReply, as text for Prometheus and
 * as JSON.
 *
 * The rows are the router's, so that sluicectl needs no table of its own.  A
 * row is left out if Prometheus does not allow its name.
 *
 * Threading: no state.  Memory: the JSON is the caller's, json_decref(). */
#ifndef CLIENT_CTL_METRICS_REPLY_H
#define CLIENT_CTL_METRICS_REPLY_H

#include <stdio.h>

#include <jansson.h>

#include "proto/admin.pb-c.h"

/* Prints the rows in the text exposition format (metric_print()), with this
 * prefix before each name.  Help is escaped for a terminal. */
void metrics_reply_print(const Sluice__V1__StatusReply *m, const char *prefix,
                         FILE *to);

/* Returns an object with the value of each row by its name. */
json_t *metrics_reply_json(const Sluice__V1__StatusReply *m);

#endif

/* overview.h - Tables of models, replicas and stages for sluicectl status.
 *
 *   - A worker with all layers is a replica of one stage.
 *   - A worker with some of the layers is a stage of a replica, or waits for
 *     workers with the other layers.
 *   - A worker without layers offers itself to the router.
 *
 * Models and replicas are printed in the order in which their first worker was
 * added, stages in the order of their layers.
 *
 * Threading: none.  Memory: the rows, on the heap; aborts without memory. */
#ifndef CLIENT_CTL_OVERVIEW_H
#define CLIENT_CTL_OVERVIEW_H

#include <stdio.h>

#include <jansson.h>

#include "proto/admin.pb-c.h"

struct overview;

/* Creates an empty overview. */
struct overview *overview_new(void);
void overview_free(struct overview **o);

/* Adds a copy of a worker's row of ListWorkers, in the order of the list. */
void overview_add(struct overview *o, const Sluice__V1__WorkerRow *w);

/* Adds a copy of an offer's row of ListWorkers. */
void overview_add_offer(struct overview *o, const Sluice__V1__OfferRow *w);

/* Prints one table per model. */
void overview_print(struct overview *o, FILE *to);

/* Sets the fields `replicas`, `waiting` and `offers` of the JSON object j. */
void overview_json(struct overview *o, json_t *j);

#endif

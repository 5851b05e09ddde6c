/* overview.h - models, their replicas and stages, as sluicectl status draws
 * them.
 *
 * A worker of all layers is a replica of one stage; one of some layers is a
 * stage of a replica, or waits for workers of the others; one without layers
 * offers itself.  Models stand in the order in which their first worker came,
 * replicas too, stages in theirs.
 *
 * Threading: none.  Memory: grows with the rows, on the heap. */
#ifndef CLIENT_CTL_OVERVIEW_H
#define CLIENT_CTL_OVERVIEW_H

#include <stdio.h>

#include <jansson.h>

#include "proto/admin.pb-c.h"

struct overview;

struct overview *overview_new(void);
void overview_free(struct overview **o);

/* A row of ListWorkers, in the order of the list; copied. */
void overview_add(struct overview *o, const Sluice__V1__WorkerRow *w);

void overview_add_offer(struct overview *o, const Sluice__V1__OfferRow *w);

/* For people: a table a model. */
void overview_print(struct overview *o, FILE *to);

/* The same as `replicas`, `waiting` and `offers`, into j. */
void overview_json(struct overview *o, json_t *j);

#endif

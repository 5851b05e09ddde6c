/* model_list.h - The models that the router serves, asked for once a second.
 *
 * Threading: one thread.  Memory: the caller's storage.  Limits: MODEL_LIST_MAX
 * models, as a ListModels reply has at most. */
#ifndef GATEWAY_CALLS_MODEL_LIST_H
#define GATEWAY_CALLS_MODEL_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/upstream/upstream.h"
#include "proto/limits.h"

#define MODEL_LIST_MAX       LIST_ROWS_MAX
#define MODEL_LIST_PERIOD_US 1000000
#define MODEL_LIST_SOON_US   100000 /* while no model has a worker */

struct model_row {
    char name[MODEL_NAME_MAX + 1];
    uint32_t n_workers; /* 0: its last worker is lost */
    uint32_t context, vocab;
    int64_t since_unix; /* first seen */
};

struct model_list {
    struct upstream *upstream;
    struct model_row rows[MODEL_LIST_MAX]; /* [n] */
    uint32_t n;
    bool known; /* the router has answered once */
    bool asking;
    int64_t due_us, now_unix;
};

void model_list_init(struct model_list *l, struct upstream *u);

/* Asks the router if it is time.  Returns when it must run next. */
int64_t model_list_tick(struct model_list *l, int64_t now_us, int64_t now_unix);

/* Returns the row of this name, NULL if the router has no such model. */
const struct model_row *model_list_find(const struct model_list *l,
                                        const char *name);

/* Returns whether a session is up and a model has a worker. */
bool model_list_ready(const struct model_list *l);

#endif

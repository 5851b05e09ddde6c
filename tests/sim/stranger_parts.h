/* stranger_parts.h - Parts of strangers at the router: the shard in their
 * Hello, and the router's state before and after it.
 *
 * A stranger's Hello is given to the router at a moment when nothing else is
 * due.  Any change after it is then its effect. */
#ifndef SIM_STRANGER_PARTS_H
#define SIM_STRANGER_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/registry.pb-c.h"
#include "router/router_core.h"

struct sim;

#define SEEN_WORKERS 64 /* limit on compared workers, more than exist */

struct stranger_shard {
    Sluice__V1__WorkerShard m;
    Sluice__V1__Ledger ledger;
    Sluice__V1__ClassLedger classes[4];
};

/* Fills a shard with all layers of a model; its weights are those of the
 * cluster.  model is borrowed. */
void stranger_shard_init(struct stranger_shard *x, const char *model);

struct router_seen {
    uint32_t n;
    struct router_worker_view of[SEEN_WORKERS];
    struct router_metrics counts;
};

/* Looks at the router's workers, their sequences and the counts of choices. */
void stranger_look(const struct sim *s, struct router_seen *x);

/* Fails the run if any of these differ from before.  who names the stranger. */
void stranger_compare(struct sim *s, const char *who,
                      const struct router_seen *before);

/* Returns whether the router takes frames now. */
bool stranger_may_come(const struct sim *s);

/* Runs everything that is due now at the router.  Returns false if it does not
 * come to an end. */
bool stranger_settle(struct sim *s);

#endif

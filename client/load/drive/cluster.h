/* cluster.h - The router's own figures beside a run: Status, twice a second,
 * and the Audit after it.
 *
 * Opened after the generator processes have been forked, and closed before the
 * next ones: it has a ZeroMQ context.
 *
 * Threading: one thread. */
#ifndef CLIENT_LOAD_DRIVE_CLUSTER_H
#define CLIENT_LOAD_DRIVE_CLUSTER_H

#include "client/load/figures/draft_sum.h"
#include "client/load/figures/sample.h"
#include "common/base/status.h"

struct cluster;

struct cluster_router {
    const char *endpoint;
    const char *key, *trust; /* struct client_config */
};

/* Connects to a router as administrator. */
MUST_CHECK enum status cluster_open(struct cluster **out,
                                    const struct cluster_router *router,
                                    struct error *e);
void cluster_close(struct cluster **c);

/* Runs the connection for at most wait_us.  Returns true and fills *out if a
 * new point has come; at_us is monotonic. */
bool cluster_turn(struct cluster *c, int64_t wait_us,
                  struct cluster_point *out);

/* Returns whether the router denies its figures to this key: it has no role
 * admin.  There are no points and no audit then. */
bool cluster_denied(const struct cluster *c);

/* Returns what the router counted since the first point.  After
 * cluster_audit(), that includes the last tokens of the run. */
struct draft_counts cluster_drafts(const struct cluster *c);

/* Waits until no sequence is held, at most wait_us, and audits every worker.
 * Fills a sentence: what was found, how much is held.  Returns whether every
 * block and slot is accounted for and none is held by an ended request. */
bool cluster_audit(struct cluster *c, int64_t wait_us, char *text, size_t size);

#endif

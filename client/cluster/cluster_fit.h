/* cluster_fit.h - Whether workers can hold what the file gives them.
 *
 * Reads config.json of each model that is on this machine (`here`, or `path`),
 * and counts with the functions of `sluicectl plan` (common/split,
 * common/model).  A worker without `memory` in the file is not compared.
 * Scratch counts one compute thread if `threads` is not set, so every fault is
 * certain, but a worker without a fault may still need more.
 *
 * Threading: none.  Memory: about 5 MB while it runs. */
#ifndef CLIENT_CLUSTER_CLUSTER_FIT_H
#define CLIENT_CLUSTER_CLUSTER_FIT_H

#include "client/cluster/cluster_layout.h"

struct fit_where {
    const char *base; /* folder of the cluster file, for `here` */
    bool models_here; /* every model must be on this machine */
};

/* Adds a fault for each worker or replica that does not fit, and each model
 * that is not valid; a note for each model that was not found. */
void cluster_fit_check(const struct layout *l, const struct fit_where *where,
                       struct faults *f, struct faults *notes);

#endif

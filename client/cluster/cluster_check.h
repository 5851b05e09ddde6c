/* cluster_check.h - Faults of a cluster file that depend on several values.
 *
 * cluster_check() reads no file.  It finds unknown hosts and models, two
 * daemons of one name, ports that clash on a host, addresses that are invalid
 * or that need keys, and layers that no worker holds.
 *
 * cluster_fit.h compares workers with their models, cluster_keys.h reads the
 * certificates.
 *
 * Threading: none.  Memory: pure. */
#ifndef CLIENT_CLUSTER_CLUSTER_CHECK_H
#define CLIENT_CLUSTER_CLUSTER_CHECK_H

#include "client/cluster/cluster_layout.h"

/* Adds every fault. */
void cluster_check(const struct layout *l, struct faults *f);

/* Adds what is no fault, but worth a line: hosts and models that are unused. */
void cluster_notes(const struct layout *l, struct faults *notes);

#endif

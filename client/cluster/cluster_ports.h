/* cluster_ports.h - The ports that daemons of one host would share.
 *
 * Ports of a host are compared by number alone, because an address of one of
 * them may be that of all interfaces.
 *
 * Threading: none.  Memory: pure. */
#ifndef CLIENT_CLUSTER_CLUSTER_PORTS_H
#define CLIENT_CLUSTER_CLUSTER_PORTS_H

#include "client/cluster/cluster_layout.h"

/* Adds a fault for each port that is there twice, or that is none, and for each
 * gateway that others reach without API keys. */
void cluster_ports_check(const struct layout *l, struct faults *f);

/* Writes the value of an option of an instance: the port of `metrics` counts up
 * with the instances of a worker.  Returns out or the value itself. */
const char *cluster_option_value(char out[TREE_TEXT_MAX + 16],
                                 const struct cluster_pair *option,
                                 uint32_t number);

#endif

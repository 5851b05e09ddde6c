/* cluster_conf.h - The configuration files and drop-ins of the daemons.
 *
 * common/base/option_file.h defines the form of a configuration file.  Options
 * stand in a fixed order, those of the cluster file's `options` last.
 *
 * Threading: none.  Memory: each function returns a text for the caller to
 * free; aborts without memory. */
#ifndef CLIENT_CLUSTER_CLUSTER_CONF_H
#define CLIENT_CLUSTER_CLUSTER_CONF_H

#include <stddef.h>

#include "client/cluster/cluster_layout.h"

char *cluster_conf_router(const struct layout *l);
char *cluster_conf_gateway(const struct layout *l,
                           const struct cluster_gateway *g);
char *cluster_conf_worker(const struct layout *l, const struct instance *in);

/* Returns the drop-in of a unit, or NULL if the file sets nothing for it. */
char *cluster_conf_unit(const struct cluster_unit *u);

#endif

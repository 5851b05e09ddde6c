/* cluster_render.h - From a cluster file to one bundle a host.
 *
 * The file must have no fault, and its keys must exist (cluster_keys_make(),
 * cluster_tenants_make()).
 *
 * A host's trust has those certificates only that its daemons need:
 *
 *     router             gateways, workers and admins
 *     gateway, worker    the router
 *     worker with some of the layers    the workers of its model, too
 *
 * All certificates of a name are included, so that old and new keys overlap
 * during a rotation.  The secret key is the newest.
 *
 * Threading: none.  Memory: bundles are the caller's to free. */
#ifndef CLIENT_CLUSTER_CLUSTER_RENDER_H
#define CLIENT_CLUSTER_CLUSTER_RENDER_H

#include "client/cluster/bundle.h"
#include "client/cluster/cluster_keys.h"

struct render {
    const struct layout *layout;
    const char *keys_dir; /* NULL: the cluster has no keys */
    const struct certificate_list *keys, *certs;
    const char *api_keys; /* NULL: no tenants */
};

/* Returns whether a host runs any daemon. */
bool cluster_render_has(const struct layout *l, const struct cluster_host *h);

/* Makes the bundle of a host.  Returns errors of reading a key. */
MUST_CHECK enum status cluster_render(struct bundle *out,
                                      const struct render *r,
                                      const struct cluster_host *h,
                                      struct error *e);

#endif

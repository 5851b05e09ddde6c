/* cluster_tenants.h - API keys of the tenants, for the gateways.
 *
 * The keys' folder on the admin's machine has TENANT.apikey, mode 0600, with
 * the key itself.  Hosts get /etc/sluice/api-keys with hashes and limits
 * (gateway/keys/keys.h).
 *
 * Threading: none.  Memory: texts for the caller to free. */
#ifndef CLIENT_CLUSTER_CLUSTER_TENANTS_H
#define CLIENT_CLUSTER_CLUSTER_TENANTS_H

#include "client/cluster/cluster_file.h"

/* Makes the keys that are missing in dir; made() is called with the path of
 * each. */
MUST_CHECK enum status
cluster_tenants_make(const struct cluster *c, const char *dir,
                     void (*made)(void *arg, const char *path), void *arg,
                     struct error *e);

/* Writes the file of the gateways; the caller frees *text. */
MUST_CHECK enum status cluster_tenants_text(const struct cluster *c,
                                            const char *dir, char **text,
                                            struct error *e);

#endif

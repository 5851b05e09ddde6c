/* bundle_diff.h - How one bundle differs from an earlier one.
 *
 *     + etc/sluice/worker-w2.conf
 *     ~ etc/sluice/router.conf
 *         - max-rows = 64
 *         + max-rows = 32
 *     - etc/sluice/worker-w1.conf
 *
 * Contents of keys are never printed.
 *
 * Threading: none.  Memory: none. */
#ifndef CLIENT_CLUSTER_BUNDLE_DIFF_H
#define CLIENT_CLUSTER_BUNDLE_DIFF_H

#include <stdio.h>

#include "client/cluster/bundle.h"

/* Prints the difference and returns the number of files that differ.  old may
 * be a manifest alone, or have no files. */
size_t bundle_diff(FILE *to, const struct bundle *old,
                   const struct bundle *new_one);

#endif

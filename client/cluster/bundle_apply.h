/* bundle_apply.h - Installs a bundle on its host.
 *
 * Files are replaced one by one, each in one step.  Files of the earlier apply
 * that the bundle no longer has are removed.  The manifest is kept as
 * /etc/sluice/cluster.manifest for the next apply.
 *
 * An apply may be killed, or fail, at any point.  Before anything else is
 * written, the manifest gets the files and units of both bundles, with a hash
 * that no file has for each file that changes.  So the next apply, of this
 * bundle or another, removes what has to go and restarts what has to restart.
 *
 * No path leaves the root: every folder on the way is opened without following
 * links.  A file that an earlier apply did not write is kept as FILE.orig.
 *
 * Keys get the group `sluice` of the root (its /etc/group), which the packages
 * create.  Without the rights of root, owners stay as they are; that is allowed
 * for a root other than / only.
 *
 * Threading: none.  Memory: none is kept. */
#ifndef CLIENT_CLUSTER_BUNDLE_APPLY_H
#define CLIENT_CLUSTER_BUNDLE_APPLY_H

#include "client/cluster/bundle.h"

#define BUNDLE_INSTALLED "etc/sluice/cluster.manifest"

enum apply_change { APPLY_NEW, APPLY_CHANGED, APPLY_REMOVED };

struct apply {
    const char *root;
    bool dry_run;
    /* Receives each file that changes, before it does. */
    void (*changed)(void *arg, enum apply_change what, const char *path);
    void *arg;
};

/* Reads the manifest of the earlier apply; without one, an empty bundle.
 * Returns ST_INVALID_ARGUMENT if it is damaged. */
MUST_CHECK enum status bundle_installed(struct bundle *out, const char *root,
                                        struct error *e);

/* Installs b over `old`, the earlier apply, and marks in old each file that was
 * not on disk as in b.  Returns ST_PERMISSION_DENIED without the rights of
 * root, ST_FAILED_PRECONDITION if the group is missing, a folder is a link, or
 * the earlier bundle was of another host or cluster. */
MUST_CHECK enum status bundle_apply(const struct bundle *b, struct bundle *old,
                                    const struct apply *how, struct error *e);

/* Ends an apply after the units have followed its files: until then, the next
 * apply finds what is left to do in the manifest. */
MUST_CHECK enum status bundle_apply_done(const struct bundle *b,
                                         const struct apply *how,
                                         struct error *e);

/* Returns whether the unit must restart: its configuration or drop-in differs,
 * or the key of a port at which it listens.  Other keys are read again without
 * a restart. */
bool bundle_unit_differs(const struct bundle *b, const struct bundle *old,
                         const char *unit);

#endif

/* ctl_cluster.h - A cluster file and its faults, as the verb cluster has it.
 *
 * Threading: one thread.  Memory: the struct is on the heap. */
#ifndef CLIENT_CTL_CTL_CLUSTER_H
#define CLIENT_CTL_CTL_CLUSTER_H

#include "client/cluster/bundle.h"
#include "client/cluster/cluster_keys.h"
#include "client/cluster/cluster_layout.h"
#include "client/ctl/ctl.h"

struct ctl_cluster {
    const char *path;
    char base[CERTIFICATE_PATH_MAX]; /* folder of the file */
    char keys_dir[CERTIFICATE_PATH_MAX];
    struct cluster cluster;
    struct layout layout;
    struct key_needs needs;
    struct faults faults, notes;
};

/* Reads and checks a file.  *out must be closed, also after an error, which
 * means that the file cannot be read. */
MUST_CHECK enum status ctl_cluster_open(struct ctl_cluster **out,
                                        const char *path, bool models_here,
                                        struct error *e);
void ctl_cluster_close(struct ctl_cluster **x);

/* Prints the faults.  Returns CTL_OK if there are none. */
int ctl_cluster_faults(const struct ctl *c, const struct ctl_cluster *x);

/* Installs the bundle in a file. */
int ctl_cluster_apply(struct ctl *c, const char *path);

#endif

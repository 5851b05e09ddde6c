/* cluster_layout.h - The daemons of a cluster file, their hosts and endpoints.
 *
 * A worker with `count: 3` is three instances, NAME-1 to NAME-3.  An instance
 * with layers or stages has a port for the previous stage: stage_port and those
 * after it, or the next free one of its host from CLUSTER_STAGE_PORT on.
 *
 * Instances of a host with `device: opencl` take its GPUs in the order of the
 * file: the first one the first GPU, and so on.
 *
 * A host listens at `bind`, by default at its address if that is an IP address,
 * else at every address.  Others reach it at `address`.
 *
 * Rows of the file that have no name or an unknown host are left out: the
 * check reports them.
 *
 * Threading: none.  Memory: the layout borrows from the cluster; aborts without
 * memory. */
#ifndef CLIENT_CLUSTER_CLUSTER_LAYOUT_H
#define CLIENT_CLUSTER_CLUSTER_LAYOUT_H

#include "client/cluster/cluster_file.h"
#include "proto/limits.h"

#define LAYOUT_INSTANCE_MAX 64 /* bytes of an instance's name, with its NUL */
#define LAYOUT_DEVICE_MAX   32 /* bytes of "opencl:N", with its NUL */

struct instance {
    char name[LAYOUT_INSTANCE_MAX];
    const struct cluster_worker *worker;
    const struct cluster_host *host;
    uint32_t number;     /* from 0 */
    uint32_t stage_port; /* 0: the worker has all layers */
    uint32_t gpu; /* with device opencl: the workers of a host take its GPUs in
                   * the order of the file */
};

struct layout {
    const struct cluster *cluster;
    const struct cluster_host *router_host; /* NULL: unknown */
    struct instance *instances;             /* [n] in the order of the file */
    size_t n;
};

void cluster_layout_make(struct layout *out, const struct cluster *c);
void cluster_layout_free(struct layout *l);

/* Writes a path of the file, which is relative to the file's folder. */
void cluster_path(char *out, size_t size, const char *base, const char *path);

/* Returns the host of that name, or NULL; name may be NULL. */
const struct cluster_host *cluster_host_find(const struct cluster *c,
                                             const char *name);

/* Returns the model of that name, or NULL; name may be NULL. */
const struct cluster_model *cluster_model_find(const struct cluster *c,
                                               const char *name);

/* Returns whether a worker has only some of the layers. */
bool cluster_worker_is_stage(const struct cluster_worker *w);

/* Returns the device of an instance, in out if it is the GPU that it takes. */
const char *cluster_device(char out[LAYOUT_DEVICE_MAX],
                           const struct instance *in);

/* Returns whether text is an IPv4 or IPv6 address, without brackets. */
bool cluster_is_ip(const char *text);

/* Returns whether an address stands for this machine only: 127.0.0.0/8, ::1 or
 * localhost. */
bool cluster_is_loopback(const char *address);

/* Writes "tcp://HOST:PORT" for others to connect to, and to listen at.  out has
 * ENDPOINT_MAX bytes; a longer one is cut, and the check reports it. */
void cluster_endpoint(char out[ENDPOINT_MAX], const struct cluster_host *h,
                      uint64_t port);
void cluster_listen_at(char out[ENDPOINT_MAX], const struct cluster_host *h,
                       uint64_t port);

/* Writes HOST:PORT of a gateway: `listen` if it has a host part, else its host
 * and that port, by default CLUSTER_LISTEN_PORT. */
void cluster_gateway_listen(char out[ENDPOINT_MAX],
                            const struct cluster_gateway *g,
                            const struct cluster_host *h);

#endif

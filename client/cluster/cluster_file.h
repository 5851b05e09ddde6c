/* cluster_file.h - The cluster file: hosts, daemons, models and keys.
 *
 * docs/cluster.md describes the fields; deploy/cluster/cluster.yaml is an
 * example.  Each section is a table of fields in cluster_file.c.  The reader is
 * strict: unknown keys, values of another kind and values out of range are
 * faults, with the nearest known key.  It checks each value alone;
 * cluster_check.h checks what depends on several.
 *
 * Options of daemons have the daemons' own names and are checked against the
 * daemons' own tables (daemon_options.h).
 *
 * Threading: none.  Memory: struct cluster owns everything that it points to;
 * aborts without memory.  Limits: the constants below and those of
 * yaml_tree.h. */
#ifndef CLIENT_CLUSTER_CLUSTER_FILE_H
#define CLIENT_CLUSTER_CLUSTER_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cluster/faults.h"
#include "client/cluster/yaml_tree.h"
#include "common/base/limit.h"
#include "common/base/status.h"

#define CLUSTER_HOSTS_MAX    256
#define CLUSTER_MODELS_MAX   64
#define CLUSTER_GATEWAYS_MAX 64
#define CLUSTER_WORKERS_MAX  1024 /* processes: the sum of all counts */
#define CLUSTER_NAMES_MAX    256  /* admins, and tenants */
#define CLUSTER_NAME_MAX     32   /* a name is the name of a key */

#define CLUSTER_WORKERS_PORT 7070
#define CLUSTER_CLIENTS_PORT 7071
#define CLUSTER_LISTEN_PORT  8000
#define CLUSTER_STAGE_PORT   7080 /* the first of a host */

/* A text with its place; NULL: absent. */
struct cluster_text {
    const char *text;
    struct place at;
};

struct cluster_number {
    uint64_t v; /* 0 if absent */
    struct place at;
    bool given;
};

/* Names with values, in the order of the file. */
struct cluster_pairs {
    struct cluster_pair {
        struct cluster_text name, value;
    } * item; /* [n] */
    size_t n;
};

struct cluster_host {
    struct cluster_text name, address, bind;
    struct cluster_number memory; /* bytes */
};

struct cluster_model {
    struct cluster_text name, path, here;
};

/* Settings of the unit of a daemon. */
struct cluster_unit {
    struct cluster_number memory_max; /* bytes */
    struct cluster_text cpus;
    struct cluster_pairs environment, options;
};

struct cluster_router {
    struct place at;
    bool given;
    struct cluster_text name, host;
    struct cluster_number workers_port, clients_port;
    struct cluster_unit unit;
};

struct cluster_gateway {
    struct cluster_text name, host, listen;
    struct cluster_unit unit;
};

struct cluster_worker {
    struct cluster_text name, host, model, device, memory, layers;
    struct cluster_number count, stages, stage_port;
    struct cluster_unit unit;
};

struct cluster_tenant {
    struct cluster_text name;
    struct cluster_number requests, tokens, streams;
};

struct cluster {
    struct tree_node *tree;
    struct cluster_text name;
    struct place keys_at;
    struct cluster_text keys_dir; /* NULL: no keys */
    struct cluster_router router;
    struct cluster_host *hosts;
    struct cluster_model *models;
    struct cluster_gateway *gateways;
    struct cluster_worker *workers;
    struct cluster_tenant *tenants;
    struct cluster_text *admins;
    size_t n_hosts, n_models, n_gateways, n_workers, n_tenants, n_admins;
};

extern const struct limit_row cluster_limits[];
extern const size_t cluster_limits_n;

/* Reads bytes[0..n).  Fills *out as far as the file is valid, and adds every
 * fault.  cluster_free() frees it in either case. */
void cluster_parse(struct cluster *out, const char *bytes, size_t n,
                   struct faults *faults);

/* Reads a file.  Returns ST_NOT_FOUND or ST_UNAVAILABLE if it cannot be read;
 * faults of its contents are in *faults. */
MUST_CHECK enum status cluster_load(struct cluster *out, const char *path,
                                    struct faults *faults, struct error *e);

void cluster_free(struct cluster *c);

/* Checks a name of a daemon, an admin or a tenant: 1 to CLUSTER_NAME_MAX of
 * [A-Za-z0-9._-], the first a letter or a digit.  Returns ST_INVALID_ARGUMENT
 * and a sentence. */
MUST_CHECK enum status cluster_name_check(const char *name, struct error *e);

#endif

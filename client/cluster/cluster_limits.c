/* The limits of all modules of this room, which sluicectl --limits prints. */
#include "client/cluster/bundle.h"
#include "client/cluster/certificate.h"
#include "client/cluster/cluster_file.h"
#include "client/cluster/cluster_layout.h"
#include "client/cluster/faults.h"
#include "client/cluster/yaml_tree.h"

const struct limit_row cluster_limits[] = {
    LIMIT_ROW(TREE_BYTES_MAX, "bytes", "a cluster file"),
    LIMIT_ROW(TREE_NODES_MAX, "", "keys and values of a cluster file"),
    LIMIT_ROW(TREE_DEPTH_MAX, "", "levels of a cluster file"),
    LIMIT_ROW(TREE_TEXT_MAX, "bytes", "a value of a cluster file"),
    LIMIT_ROW(FAULTS_MAX, "", "faults that cluster check lists"),
    LIMIT_ROW(CLUSTER_HOSTS_MAX, "", "hosts of a cluster file"),
    LIMIT_ROW(CLUSTER_MODELS_MAX, "", "models of a cluster file"),
    LIMIT_ROW(CLUSTER_GATEWAYS_MAX, "", "gateways of a cluster file"),
    LIMIT_ROW(CLUSTER_WORKERS_MAX, "", "workers of a cluster file"),
    LIMIT_ROW(CLUSTER_NAMES_MAX, "", "admins, and tenants, of a cluster file"),
    LIMIT_ROW(CLUSTER_NAME_MAX, "bytes", "a name in a cluster file"),
    LIMIT_ROW(LAYOUT_INSTANCE_MAX, "bytes", "a worker's instance, with a NUL"),
    LIMIT_ROW(LAYOUT_DEVICE_MAX, "bytes", "a worker's GPU, with a NUL"),
    LIMIT_ROW(BUNDLE_FILES_MAX, "files", "a host's bundle"),
    LIMIT_ROW(BUNDLE_BYTES_MAX, "bytes", "a host's bundle"),
    LIMIT_ROW(BUNDLE_PATH_MAX, "bytes", "a path in a bundle"),
    LIMIT_ROW(BUNDLE_NAME_MAX, "bytes", "a unit's name in a bundle"),
    LIMIT_ROW(CERTIFICATE_NUMBER_MAX, "", "the number of a name's newest key"),
};
const size_t cluster_limits_n = sizeof cluster_limits / sizeof *cluster_limits;

/* cluster_stages.h - Layers and stages: whether workers form whole replicas.
 *
 * Workers with `layers` form replicas if some of them, one after the other,
 * hold all layers of their model.  Workers with `stages: N` form replicas of N.
 *
 * Threading: none.  Memory: pure. */
#ifndef CLIENT_CLUSTER_CLUSTER_STAGES_H
#define CLIENT_CLUSTER_CLUSTER_STAGES_H

#include "client/cluster/cluster_layout.h"

struct layer_range {
    uint32_t begin, end;
};

/* Parses "0-20" as layers 0 to 19.  Returns false if text is not of that
 * form. */
bool cluster_layers_parse(const char *text, struct layer_range *out);

/* Returns the places that the workers of a model form: those with all layers,
 * and replicas. */
uint64_t cluster_places(const struct cluster *c, const struct cluster_model *m);

/* Adds a fault for each worker with layers that is in no whole replica, and for
 * each model with fewer workers than stages.  The number of layers is not
 * known here: cluster_fit.h compares the last layer with the model. */
void cluster_stages_check(const struct cluster *c, struct faults *f);

#endif

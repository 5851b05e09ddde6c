#include "router/schedule/prefixes.h"

#include <stdlib.h>

#include "router/placement/placement.h"
#include "router/schedule/schedule.h"

void prefix_prompt_init(struct prefix_prompt *p, const struct prefix_key *key,
                        ProtobufCBinaryData scope, const uint32_t *ids,
                        uint32_t n)
{
    uint32_t n_units = (n - 1) / PREFIX_UNIT; /* the last token is computed */
    struct prefix_hash h = prefix_hash_root(key, scope.data, scope.len);

    if (n_units == 0) {
        return;
    }
    p->units = malloc(n_units * sizeof *p->units);
    if (p->units == NULL) {
        return; /* nothing is found again: that costs time alone */
    }
    for (; p->n_units < n_units; p->n_units++) {
        h = prefix_hash_next(key, h, ids + p->n_units * PREFIX_UNIT);
        p->units[p->n_units] = h;
    }
}

void prefix_prompt_fini(struct prefix_prompt *p)
{
    free(p->units);
    p->units = NULL;
}

uint32_t prefixes_restorable(struct schedule *s, const struct queue_entry *e,
                             const struct worker *w)
{
    struct prefix_prompt *p = e->prompt;
    struct prefix_tree *tree;
    uint32_t bit;

    if (e->keeper == w) {
        return e->continued.n_kept;
    }
    /* Its choices are twins: the place computes the prompt once for all. */
    if (p->mate == w->peer->session && e->n_generated == 0 && !e->uncached) {
        return e->n_prompt - 1;
    }
    tree = prefix_feed_tree(s->placement, w->model);
    bit = placement_of(w)->feed.bit;
    if (p->units == NULL || tree == NULL || bit == PREFIX_BIT_NONE) {
        return 0;
    }
    /* Many workers are judged for one prompt: one walk serves all of them as
     * long as the tree is the same. */
    if (p->version != prefix_tree_version(tree)) {
        prefix_tree_match(tree, p->units, p->n_units, p->depth);
        p->version = prefix_tree_version(tree);
    }
    return p->depth[bit];
}

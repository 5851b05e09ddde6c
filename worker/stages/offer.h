/* offer.h - a worker that has no layers yet: it says what layers would cost
 * it, and waits until the router gives it some.
 *
 *     Hello {offer} --up--> waits --Assign--> End OK, Goodbye: ASSIGNED
 *       ^  |                  |
 *       |  +--refused for good: REFUSED
 *       +-----lost, refused otherwise: back off, say Hello again
 *
 * Refused for good: what it says can never be right (INVALID_ARGUMENT), or the
 * router does not know of offers (UNIMPLEMENTED).  Any other refusal may pass,
 * as a router may be started anew: it is logged, once for each absence, and
 * Hello is said again.
 *
 * It is a node of its own, in the place of worker/worker_core.h: once it is
 * assigned, its layers are loaded, and a worker core is made that says Hello
 * with them.
 *
 * Threading: one thread.  Memory: one allocation, and what a session takes. */
#ifndef WORKER_STAGES_OFFER_H
#define WORKER_STAGES_OFFER_H

#include "common/split/layer_split.h"
#include "common/wire/node_io.h"

/* Strings are borrowed and outlive the offer. */
struct offer_options {
    const char *name, *lineage;
    const char *model;
    uint8_t fingerprint[16];
    const char *stage_endpoint;
    uint32_t n_stages; /* wanted, 2 or more */
    uint64_t budget_bytes, scratch_bytes;
    uint64_t speed; /* bytes of weights that it reads in a second */
    uint32_t block_tokens, context, max_rows;
    const struct split_model *costs; /* copied */
};

struct offer;

/* NULL: no memory, or fewer than 2 stages or layers. */
struct offer *offer_new(const struct offer_options *o, struct node_io *io);
void offer_free(struct offer **f);

/* The node is the struct offer; its tick answers NODE_STOP at the end. */
extern const struct node_ops offer_node_ops;

/* Say Goodbye; the next tick answers NODE_STOP.  What it was given since the
 * last one it does not load. */
void offer_stop(struct offer *f);

enum offer_end { OFFER_OPEN, OFFER_ASSIGNED, OFFER_REFUSED, OFFER_STOPPED };

/* ASSIGNED: layers [*begin, *end); REFUSED: *e is why. */
enum offer_end offer_ended(const struct offer *f, uint32_t *begin,
                           uint32_t *end, struct error *e);

#endif

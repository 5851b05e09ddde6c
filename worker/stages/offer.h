/* offer.h - A worker without layers: it reports what layers would cost it, and
 * waits until the router assigns some.
 *
 *     Hello {offer} --up--> waits --Assign--> End OK, Goodbye: ASSIGNED
 *       ^  |                  |
 *       |  +--refused for good: REFUSED
 *       +-----lost, or refused otherwise: back off, send Hello again
 *
 * A refusal is final if the offer can never be right (INVALID_ARGUMENT), or if
 * the router does not support offers (UNIMPLEMENTED).  Any other refusal may
 * pass, for example after a restart of the router.  It is logged once for each
 * absence, and Hello is sent again.
 *
 * The offer is a node of its own, before worker/worker_core.h: after Assign,
 * the program loads the layers and makes a worker core, which sends Hello with
 * them.
 *
 * Threading: one thread.  Memory: one allocation, and that of a session. */
#ifndef WORKER_STAGES_OFFER_H
#define WORKER_STAGES_OFFER_H

#include "common/split/layer_split.h"
#include "common/wire/node_io.h"

/* Strings are borrowed and outlive the offer. */
struct offer_options {
    const char *name, *lineage;
    const char *model;
    const char *kv_format;  /* NULL: not compared */
    const char *arithmetic; /* NULL or "": likewise */
    uint8_t fingerprint[16];
    const char *stage_endpoint;
    uint32_t n_stages; /* in the replica, at least 2 */
    uint64_t budget_bytes, scratch_bytes;
    uint64_t speed; /* read bandwidth of weights, bytes a second */
    uint32_t block_tokens, context, max_rows;
    uint32_t window_tokens, chunk_tokens; /* not read without window layers */
    const struct split_model *costs;      /* copied */
};

struct offer;

/* Makes an offer.  io is borrowed.  Returns NULL if memory runs out, or if
 * there are fewer than 2 stages or layers. */
struct offer *offer_new(const struct offer_options *o, struct node_io *io);
void offer_free(struct offer **f);

/* The node is the struct offer; its tick returns NODE_STOP at the end. */
extern const struct node_ops offer_node_ops;

/* Stops the offer: sends Goodbye, and the next tick returns NODE_STOP.  Layers
 * that were assigned since the last tick are not loaded. */
void offer_stop(struct offer *f);

enum offer_end { OFFER_OPEN, OFFER_ASSIGNED, OFFER_REFUSED, OFFER_STOPPED };

/* Returns how the offer ended.  OFFER_ASSIGNED: layers [*begin, *end);
 * OFFER_REFUSED: *e has the reason. */
enum offer_end offer_ended(const struct offer *f, uint32_t *begin,
                           uint32_t *end, struct error *e);

#endif

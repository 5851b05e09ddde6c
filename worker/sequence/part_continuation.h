/* part_continuation.h - A sequence that takes over the memory of a kept
 * one.
 *
 *     kept <--from-- heir     from the heir's Submit to its first row, or to
 *     kept --heir--> heir     the end of either
 *
 * Used by: worker/sequences/continue, worker/plan/take_over.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_CONTINUATION_H
#define WORKER_SEQUENCE_PART_CONTINUATION_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/sequence/key.h"

struct sequence;

struct sequence_continuation {
    struct sequence *from; /* KEPT: its memory will be taken over; or NULL */
    struct sequence *heir; /* takes this KEPT one over; or NULL */
    struct sequence_key from_key; /* zero: the Submit named none */
};

/* Returns whether the memory of another sequence will be taken over. */
static inline bool continuation_pends(const struct sequence_continuation *p)
{
    return p->from != NULL;
}

/* Returns whether another sequence takes this one over. */
static inline bool continuation_has_heir(const struct sequence_continuation *p)
{
    return p->heir != NULL;
}

#endif

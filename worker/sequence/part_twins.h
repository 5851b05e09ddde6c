/* part_twins.h - Choices of one request that share the computation of
 * their prompt.
 *
 * Used by: worker/plan/twins.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_TWINS_H
#define WORKER_SEQUENCE_PART_TWINS_H

#include <stdbool.h>
#include <stdint.h>

struct sequence;

struct sequence_twins {
    struct sequence *leader; /* computes the prompt for this one; or NULL */
    uint32_t n_waiting;      /* twins that wait for this one */
};

/* Returns whether others wait for the prompt of the sequence. */
static inline bool twins_wait(const struct sequence_twins *p)
{
    return p->n_waiting > 0;
}

#endif

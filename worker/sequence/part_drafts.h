/* part_drafts.h - The drafts of a sequence, and what rows with drafts have
 * taught.
 *
 * Used by: worker/plan/draft_rows, worker/sequences/draft_results,
 * worker/plan/proposer.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_DRAFTS_H
#define WORKER_SEQUENCE_PART_DRAFTS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/base/engine.h"

struct sequence_drafts {
    uint32_t most; /* in a row; 0: none */
    uint32_t k;    /* that its next row may have */
    uint32_t n;    /* ids[n] that follow the known ids */
    uint32_t ids[DRAFTS_MAX];
    uint32_t searched; /* the known ids that the text was searched with */
    uint32_t untried;  /* rows since the last one with drafts, */
    uint32_t idle;     /* and since the last one that was no probe */
    bool probe;        /* its next row is one */
    float accepts[DRAFTS_MAX]; /* worker/plan/drafts.h */
    uint8_t proposer;          /* enum proposer: its own; */
    uint8_t source;            /* that of ids, or of the row in flight */
    bool urgent;               /* its call has a deadline */
    bool begun;                /* it had a row */
    bool mtp;                  /* its rows are computed by the MTP layer too */
    bool hole;                 /* some of its positions were not */
};

/* Sets how many drafts a row may have, and whether the call has a deadline. */
static inline void drafts_open(struct sequence_drafts *p, uint32_t most,
                               bool urgent)
{
    p->most = most;
    p->urgent = urgent;
}

/* Returns whether the call has a deadline. */
static inline bool drafts_are_urgent(const struct sequence_drafts *p)
{
    return p->urgent;
}

static inline bool drafts_have_hole(const struct sequence_drafts *p)
{
    return p->hole;
}

/* Counts positions that were not computed here; hole: some of them were not
 * computed by the MTP layer. */
static inline void drafts_add_hole(struct sequence_drafts *p, bool hole)
{
    p->hole = p->hole || hole;
}

/* Takes the positions of `from` over. */
static inline void drafts_copy_hole(struct sequence_drafts *p,
                                    const struct sequence_drafts *from)
{
    p->hole = from->hole;
}

#endif

/* rig_internal.h - Shared by the files of the rig. */
#ifndef TESTS_UNIT_WORKER_RIG_INTERNAL_H
#define TESTS_UNIT_WORKER_RIG_INTERNAL_H

#include "tests/unit/worker/rig.h"

/* Called before and after the worker runs. */
static inline void rig_within(const struct rig *r, bool in)
{
    if (r->within != NULL) {
        r->within(in);
    }
}

/* rig_engine.c */
void rig_engine_new(struct rig *r);
void rig_engine_free(struct rig *r);

/* Returns the token with an index whose ids before it have the hash h. */
uint32_t rig_token(const struct rig *r, const struct plan_row *row, uint64_t h,
                   uint32_t index);

/* rig_drafts.c */
struct rig_memory;
/* Checks what a row and its plan have for drafts. */
void rig_drafts_check(const struct rig *r, const struct plan *p);
/* Computes row i, which has drafts, to the last that is accepted.  Returns the
 * hash of the ids up to it. */
uint64_t rig_drafts_verify(struct rig *r, struct rig_memory *m,
                           const struct plan *p, uint32_t i,
                           struct plan_result *out);
/* At a leader: computes all of row i, and puts the token behind each of its
 * tokens, and those that would follow, into x [n_tokens, RING_HIDDEN]. */
uint64_t rig_drafts_pass(struct rig *r, struct rig_memory *m,
                         const struct plan *p, uint32_t i, float *x);
void rig_drafts_hide(const struct rig *r, const struct rig_memory *m,
                     const struct plan_row *row, uint64_t h, uint32_t index,
                     float *x);
/* Computes the MTP layer for row i, which is computed: h is the hash of its
 * ids. */
void rig_drafts_propose(struct rig *r, struct rig_memory *m,
                        const struct plan *p, uint32_t i, uint64_t h,
                        struct plan_result *out);

/* rig_router.c: takes the frame. */
void rig_router_recv(struct rig *r, struct frame *f);
/* rig_index.c */
void rig_index_hear(struct rig *r, const Sluice__V1__IndexMessage *m);

uint64_t rig_mix(uint64_t h, uint32_t id);

#endif

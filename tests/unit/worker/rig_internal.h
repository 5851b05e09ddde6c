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

/* rig_router.c: takes the frame. */
void rig_router_recv(struct rig *r, struct frame *f);
/* rig_index.c */
void rig_index_hear(struct rig *r, const Sluice__V1__IndexMessage *m);

uint64_t rig_mix(uint64_t h, uint32_t id);

#endif

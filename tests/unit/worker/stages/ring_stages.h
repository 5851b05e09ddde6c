/* ring_stages.h - The accounts of the later stages of a ring: each a pool, with
 * sequences and what is kept, that change as those of a real stage do.
 *
 * A message that does not fit, or names what is not there, fails the test. */
#ifndef TESTS_UNIT_WORKER_RING_STAGES_H
#define TESTS_UNIT_WORKER_RING_STAGES_H

#include "proto/stage.pb-c.h"
#include "worker/base/options.h"
#include "worker/stages/mirror.h"

struct ring_stages;

struct ring_stages *ring_stages_new(const struct worker_options *o,
                                    const struct mirror_stage *shapes,
                                    uint32_t n);
void ring_stages_free(struct ring_stages *g);
/* Drops everything, as the end of an assembly does. */
void ring_stages_clear(struct ring_stages *g);

const struct mirror_stage *ring_stages_shape(const struct ring_stages *g,
                                             uint32_t stage);
struct pool_account ring_stages_pages(const struct ring_stages *g,
                                      uint32_t stage);

void ring_stages_open(struct ring_stages *g, const Sluice__V1__StageOpen *m);
void ring_stages_forward(struct ring_stages *g,
                         const Sluice__V1__StageForward *m);
void ring_stages_restore(struct ring_stages *g,
                         const Sluice__V1__StageRestore *m);
void ring_stages_keep(struct ring_stages *g, const Sluice__V1__StageKeep *m);
void ring_stages_gone(struct ring_stages *g, const Sluice__V1__StageGone *m);
void ring_stages_remove(struct ring_stages *g, uint64_t grant);

#endif

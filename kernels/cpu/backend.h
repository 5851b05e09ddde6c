/* backend.h - the cpu backend as a whole.
 *
 * Threading, memory: as cpu.h. */
#ifndef KERNELS_CPU_BACKEND_H
#define KERNELS_CPU_BACKEND_H

#include "kernels/kernels.h"

/* Creates a cpu backend, as backend_new() does. */
MUST_CHECK enum status cpu_new(struct kernels **out,
                               const struct shard_weights *w,
                               const struct kernels_options *o,
                               struct error *e);

/* Returns whether this processor and build have an instruction set. */
bool cpu_has_isa(const char *name);

#endif

/* pack.h - Packs the weights of a shard for integer products.
 *
 * Without it products have the same bits, but each packs its weights again.
 *
 * Threading: starts and joins its own threads. */
#ifndef KERNELS_CPU_PACK_H
#define KERNELS_CPU_PACK_H

#include "common/base/status.h"
#include "common/model/weights.h"

/* Packs the quantised matrices of products in place (kernels/isa/pack.h), on
 * n_threads threads, 0: as many as CPUs.  Only the cpu backend with
 * PRODUCTS_INT8 reads them afterwards.  Packed matrices stay as they are.
 * Matrices of experts whose rows are no whole groups stay as stored.  Returns
 * ST_RESOURCE_EXHAUSTED, with nothing packed, if memory or threads are
 * short. */
MUST_CHECK enum status cpu_pack(struct shard_weights *w, uint32_t n_threads,
                                struct error *e);

#endif

/* backend.h - chooses the backend that computes for a shard.
 *
 * Threading, memory, limits: kernels/kernels.h. */
#ifndef KERNELS_BACKENDS_BACKEND_H
#define KERNELS_BACKENDS_BACKEND_H

#include "kernels/kernels.h"

/* Checks the shape and the options against the limits of kernels.h, creates
 * the backend that o->device names and allocates all its scratch.  The caller
 * frees *out with kernels_free(); *out is NULL after an error.
 *
 *     ST_INVALID_ARGUMENT    a shape or option that no backend computes, or an
 *                            unknown device
 *     ST_UNIMPLEMENTED       this processor lacks o->isa
 *     ST_NOT_FOUND           there is no such device
 *     ST_RESOURCE_EXHAUSTED  there is not enough memory
 *     ST_UNAVAILABLE         the device fails
 *     ST_INTERNAL            the device's compiler rejects a kernel */
MUST_CHECK enum status backend_new(struct kernels **out,
                                   const struct shard_weights *w,
                                   const struct kernels_options *o,
                                   struct error *e);

/* Puts the weights of a shard into the order that the backend of o reads
 * fastest, in place: those of integer products on the CPU.  Only backends with
 * the same options read them afterwards.  Returns ST_RESOURCE_EXHAUSTED, with
 * nothing changed, if memory or threads are short. */
MUST_CHECK enum status backend_pack(struct shard_weights *w,
                                    const struct kernels_options *o,
                                    struct error *e);

/* Returns whether the CPU and the build have an instruction set. */
bool backend_has_isa(const char *name);

#endif

/* memory.h - device memory: arenas of tensors, and transfers.
 *
 * An arena is asked for tensors, one after the other; then it is made, in as
 * few cl_mem as the device's largest allocation allows, and each tensor gets
 * its place.  No tensor crosses a cl_mem; each begins at a multiple of
 * OPENCL_ALIGN.  There are three: the shard's, the scratch, the pool.
 *
 * Scratch.  What lives only inside one operator asks for a part: parts lie
 * over each other.  OPENCL_KEEP is not shared.
 *
 * Transfers go through pinned memory in pieces; nothing is allocated after
 * opencl_new().  The queue is in order: what was launched before an upload
 * sees the old bytes, what is launched after it the new ones.
 *
 * Threading: as opencl.h.  Memory: the arenas' own. */
#ifndef KERNELS_OPENCL_MEMORY_H
#define KERNELS_OPENCL_MEMORY_H

#include "kernels/opencl/opencl.h"

#define OPENCL_ALIGN 256

enum opencl_part {
    OPENCL_KEEP,
    OPENCL_IN_ATTENTION,
    OPENCL_IN_DELTANET,
    OPENCL_IN_MLP,
    OPENCL_IN_HEAD, /* and sample */
    OPENCL_PARTS
};

/* In a _setup: *out is filled in when all setups are done.  rows * cols of
 * item bytes; nothing if that is 0.  Its contents are undefined. */
void opencl_scratch(struct opencl *c, enum opencl_part part,
                    struct opencl_tensor *out, size_t rows, size_t cols,
                    size_t item);

/* Returns when `from` may be changed; the device sees it in order.  `at` and
 * bytes are of the tensor. */
void opencl_upload(struct opencl *c, const struct opencl_tensor *to, size_t at,
                   const void *from, size_t bytes);

/* Waits for all that was asked for before, then for the bytes. */
void opencl_download(struct opencl *c, const struct opencl_tensor *from,
                     size_t at, void *to, size_t bytes);

#endif

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
#ifndef KERNELS_OPENCL_HOST_MEMORY_H
#define KERNELS_OPENCL_HOST_MEMORY_H

#include "kernels/opencl/host/opencl.h"

#define OPENCL_ALIGN 256

enum opencl_part {
    OPENCL_KEEP,
    OPENCL_IN_ATTENTION,
    OPENCL_IN_DELTANET,
    OPENCL_IN_MLP,
    OPENCL_IN_HEAD, /* and sample */
    OPENCL_PARTS
};

/* Pinned memory and the kernels that fill; before any setup.  meta_ints: of
 * c->meta_host. */
MUST_CHECK enum status opencl_memory_new(struct opencl *c, struct error *e);
void opencl_memory_free(struct opencl *c);

/* In a _setup: *out is filled in when all setups are done.  rows * cols of
 * item bytes; nothing if that is 0.  Its contents are undefined. */
void opencl_scratch(struct opencl *c, enum opencl_part part,
                    struct opencl_tensor *out, size_t rows, size_t cols,
                    size_t item);

/* All that opencl_scratch() asked for, once. */
MUST_CHECK enum status opencl_scratch_make(struct opencl *c, struct error *e);

/* Bytes of it, pinned memory included. */
uint64_t opencl_scratch_bytes(const struct opencl *c);

struct opencl_arena;

/* what: "weights", for sentences. */
struct opencl_arena *opencl_arena_new(const char *what);

/* Releases its memory and sets what it gave to absent. */
void opencl_arena_free(struct opencl_arena **a);

/* As opencl_scratch(); also when there is no memory: make says so. */
void opencl_arena_add(struct opencl_arena *a, struct opencl_tensor *out,
                      size_t rows, size_t cols, size_t item);

/* Allocates, and has the device touch it, so that it is there.
 * ST_RESOURCE_EXHAUSTED: there is no room, or a tensor is larger than the
 * device allocates at once. */
MUST_CHECK enum status
opencl_arena_make(struct opencl *c, struct opencl_arena *a, struct error *e);
uint64_t opencl_arena_bytes(const struct opencl_arena *a);

/* Bytes of a tensor := 0; at and bytes are even. */
void opencl_zero(struct opencl *c, const struct opencl_tensor *t, size_t at,
                 size_t bytes);

/* Bytes from one place of a tensor to another. */
void opencl_move(struct opencl *c, const struct opencl_tensor *t, size_t to,
                 size_t from, size_t bytes);

/* Returns when `from` may be changed; the device sees it in order.  `at` and
 * bytes are of the tensor. */
void opencl_upload(struct opencl *c, const struct opencl_tensor *to, size_t at,
                   const void *from, size_t bytes);

/* Waits for all that was asked for before, then for the bytes. */
void opencl_download(struct opencl *c, const struct opencl_tensor *from,
                     size_t at, void *to, size_t bytes);

/* Waits for all that was asked for; then pinned memory is free again. */
void opencl_settle(struct opencl *c);

/* Uploads the first meta_used ints of meta_host unless they are on the device
 * already.  meta_host must not change until the next wait. */
void opencl_upload_meta(struct opencl *c);

#endif

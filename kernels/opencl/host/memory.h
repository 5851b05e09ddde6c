/* memory.h - device memory: arenas of tensors, and transfers.
 *
 * Callers add tensors to an arena one after the other.  The arena is then made
 * in as few cl_mem as the device's largest allocation allows, and each tensor
 * gets its place.  No tensor crosses a cl_mem; each begins at a multiple of
 * OPENCL_ALIGN.  There are three arenas: the shard's weights, scratch, the
 * pool.
 *
 * Scratch.  Tensors used only inside one operator belong to that operator's
 * part; parts overlap each other.  OPENCL_KEEP is not shared.
 *
 * Transfers go through pinned memory in pieces; nothing is allocated after
 * opencl_new().  The queue is in order: commands enqueued before an upload see
 * the old bytes, later ones the new bytes.
 *
 * Threading: as opencl.h.
 * Memory: arenas own their tensors' memory. */
#ifndef KERNELS_OPENCL_HOST_MEMORY_H
#define KERNELS_OPENCL_HOST_MEMORY_H

#include "kernels/opencl/host/opencl.h"

#define OPENCL_ALIGN 256

/* Returns the bytes that so many take in an arena: kernels load vectors, which
 * must be aligned, from element 0 on. */
static inline size_t opencl_aligned(size_t bytes)
{
    return (bytes + OPENCL_ALIGN - 1) / OPENCL_ALIGN * OPENCL_ALIGN;
}

enum opencl_part {
    OPENCL_KEEP,
    OPENCL_IN_ATTENTION,
    OPENCL_IN_DELTANET,
    OPENCL_IN_MLP,
    OPENCL_IN_HEAD, /* and sample */
    OPENCL_PARTS
};

/* Allocates pinned memory and chooses the fill kernels; before any _setup.
 * c->meta.ints gives the size of c->meta.host. */
MUST_CHECK enum status opencl_memory_new(struct opencl *c, struct error *e);
void opencl_memory_free(struct opencl *c);

/* Requests scratch, in a _setup; *out is filled in when all setups are done.
 * The tensor has rows * cols elements of item bytes; nothing happens if that is
 * 0.  Its contents are undefined. */
void opencl_scratch(struct opencl *c, enum opencl_part part,
                    struct opencl_tensor *out, size_t rows, size_t cols,
                    size_t item);

/* Allocates all that opencl_scratch() requested, once. */
MUST_CHECK enum status opencl_scratch_make(struct opencl *c, struct error *e);

/* Returns the bytes of all scratch, pinned memory included. */
uint64_t opencl_scratch_bytes(const struct opencl *c);

struct opencl_arena;

/* Creates an empty arena; NULL if memory is short.  what: a name such as
 * "weights", for error texts. */
struct opencl_arena *opencl_arena_new(const char *what);

/* Releases the arena's memory, sets its tensors to absent and nulls *a. */
void opencl_arena_free(struct opencl_arena **a);

/* Adds a tensor, as opencl_scratch() does.  If memory is short, or a is NULL,
 * opencl_arena_make() reports the error. */
void opencl_arena_add(struct opencl_arena *a, struct opencl_tensor *out,
                      size_t rows, size_t cols, size_t item);

/* Allocates the arena and has the device touch it, so that the memory is there.
 * Returns ST_RESOURCE_EXHAUSTED if there is no room, or if a tensor is larger
 * than the device's largest allocation. */
MUST_CHECK enum status
opencl_arena_make(struct opencl *c, struct opencl_arena *a, struct error *e);
/* Returns the bytes allocated so far. */
uint64_t opencl_arena_bytes(const struct opencl_arena *a);

/* Sets bytes of a tensor to a repeated value, whose halves are equal; at and
 * bytes are even. */
void opencl_fill(struct opencl *c, const struct opencl_tensor *t, size_t at,
                 size_t bytes, uint32_t value);

/* Sets bytes of a tensor to 0; at and bytes are even. */
void opencl_zero(struct opencl *c, const struct opencl_tensor *t, size_t at,
                 size_t bytes);

/* Copies bytes from one place of a tensor to another. */
void opencl_move(struct opencl *c, const struct opencl_tensor *t, size_t to,
                 size_t from, size_t bytes);

/* Uploads bytes to place `at` of the tensor.  The caller may change `from` on
 * return; the device sees the bytes in queue order. */
void opencl_upload(struct opencl *c, const struct opencl_tensor *to, size_t at,
                   const void *from, size_t bytes);

/* Waits for all earlier commands and downloads the bytes. */
void opencl_download(struct opencl *c, const struct opencl_tensor *from,
                     size_t at, void *to, size_t bytes);

/* Waits for all commands; pinned memory is free again afterwards. */
void opencl_settle(struct opencl *c);

/* Uploads the first meta.used ints of meta.host unless they are on the device
 * already.  meta.host must not change until the next wait. */
void opencl_upload_meta(struct opencl *c);

#endif

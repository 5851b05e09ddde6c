/* copies.h - the copy queue: copies between the pool and the host that run
 * beside steps.
 *
 * A second in-order queue of the device.  Its copies read and write pages of
 * the pool; the only other commands that do are in the steps' queue.  Two rules
 * order the queues, so results are those of one queue in program order:
 *
 * - A copy begins after all commands that the steps' queue had when the copy
 *   was enqueued: a marker of the steps' queue is in its wait list.  Earlier
 *   commands thus never meet a later copy.
 * - Each page has the number of its last copy.  Before a command of the steps'
 *   queue that may use a page, a barrier makes that queue wait for the page's
 *   last copy, and with it, as copies end in order, for all copies before it.
 *   Later commands thus never meet an earlier copy of their pages.
 *
 * Both rules take any use of a page for a write, so no pair of conflicting
 * commands is left unordered.  Host pages are used by copies only, and copies
 * are in order.  Waiting is decided while commands are enqueued, from numbers
 * of pages alone; no timing changes the result.
 *
 * OpenCL leaves commands undefined that use one buffer from two queues at a
 * time only where they use the same bytes; on a context of one device there is
 * no other copy of the buffer that a driver would have to merge.
 *
 * Errors: a failed copy fails the device.  opencl_wait() reports it if the
 * steps' queue waited for that copy or a later one; otherwise a later call
 * does.
 *
 * Threading: as opencl.h.
 * Memory: opencl_copies_new() allocates.
 * Limits: OPENCL_COPIES_MAX copies that have not ended; one more waits for the
 * oldest. */
#ifndef KERNELS_OPENCL_HOST_COPIES_H
#define KERNELS_OPENCL_HOST_COPIES_H

#include "kernels/opencl/host/opencl.h"

#define OPENCL_COPIES_MAX 8192

/* A copy between `bytes` of the pool, from `at` of mem, and the host. */
struct opencl_copy {
    cl_mem mem;
    uint64_t at, bytes;
    void *host; /* pinned; used by copies only until they have ended */
    bool out;   /* to the host */
};

/* Counts since opencl_copies_new(), for tests and benches. */
struct opencl_copy_counts {
    uint64_t copies;  /* enqueued */
    uint64_t markers; /* copies that wait for the steps' queue */
    uint64_t waits;   /* barriers in the steps' queue */
};

/* Creates the copy queue in c->copies, for a pool of c->cache.n_pages pages.
 * Returns the driver's code; nothing is left to free after an error. */
MUST_CHECK cl_int opencl_copies_new(struct opencl *c);

/* Waits for the copies and frees the queue.  c->copies may be NULL in this and
 * all other calls but opencl_copies_add(). */
void opencl_copies_free(struct opencl *c);

/* Enqueues a copy of n pages from `page` on, or of a part of them. */
void opencl_copies_add(struct opencl *c, const struct opencl_copy *copy,
                       uint32_t page, uint32_t n);

/* Submits what was added to the device. */
void opencl_copies_flush(struct opencl *c);

/* Notes that the next commands of the steps' queue use n pages from `page` on.
 * Pages behind the pool are ignored. */
void opencl_copies_use(struct opencl *c, uint32_t page, uint32_t n);

/* Makes the next commands of the steps' queue wait for the copies of the pages
 * that opencl_copies_use() noted. */
void opencl_copies_order(struct opencl *c);

/* Returns whether a copy has not been seen to end.  Without one, the two calls
 * above do nothing. */
bool opencl_copies_pending(const struct opencl *c);

/* Retires the copies that have ended, without waiting. */
void opencl_copies_poll(struct opencl *c);

/* Waits for the copies that the steps' queue waits for. */
void opencl_copies_wait(struct opencl *c);

/* Waits for all copies. */
void opencl_copies_finish(struct opencl *c);

struct opencl_copy_counts opencl_copies_counts(const struct opencl *c);

#endif

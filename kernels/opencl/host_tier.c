#include "kernels/opencl/host_tier.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/minmax.h"
#include "kernels/opencl/host/copies.h"
#include "kernels/opencl/host/queue.h"
#include "kernels/opencl/operators.h"

struct piece {
    cl_mem mem;
    char *map; /* NULL: not mapped */
};

struct opencl_tier {
    uint32_t n_pages;                    /* in each area */
    uint32_t per_piece[PAGE_LAYERS_MAX]; /* pages of a piece, by group */
    uint32_t first[PAGE_LAYERS_MAX + 1]; /* the group's first piece */
    struct piece *pieces;
};

static uint64_t most_bytes = OPENCL_TIER_PIECE;

void opencl_tier_set_piece(uint64_t bytes)
{
    most_bytes = bytes;
}

/* ---- made and freed ---- */

void opencl_tier_free(struct opencl *c)
{
    struct opencl_tier *t = opencl_operators(c)->tier;

    if (t == NULL) {
        return;
    }
    opencl_copies_free(c);
    for (uint32_t i = 0; i < t->first[c->cache.pages.n_groups]; i++) {
        if (t->pieces[i].map != NULL) {
            clEnqueueUnmapMemObject(opencl_queue_id(c), t->pieces[i].mem,
                                    t->pieces[i].map, 0, NULL, NULL);
        }
    }
    clFinish(opencl_queue_id(c));
    for (uint32_t i = 0; i < t->first[c->cache.pages.n_groups]; i++) {
        if (t->pieces[i].mem != NULL) {
            clReleaseMemObject(t->pieces[i].mem);
        }
    }
    free(t->pieces);
    free(t);
    opencl_operators(c)->tier = NULL;
}

/* Cuts each area into pieces.  Returns false if memory is short. */
static bool cut_areas(const struct opencl *c, struct opencl_tier *t)
{
    t->first[0] = 0;
    for (uint32_t i = 0; i < c->cache.pages.n_groups; i++) {
        uint64_t n = most_bytes / c->cache.pages.groups[i].page_bytes;

        n = n > 0 ? n : 1;
        t->per_piece[i] = n < t->n_pages ? (uint32_t)n : t->n_pages;
        t->first[i + 1] = t->first[i] + t->n_pages / t->per_piece[i] +
                          (t->n_pages % t->per_piece[i] != 0);
    }
    t->pieces = calloc(t->first[c->cache.pages.n_groups], sizeof *t->pieces);
    return t->pieces != NULL;
}

/* Pages of the host cannot be swapped out by the system from here on. */
static cl_int pin_piece(struct opencl *c, struct piece *p, uint64_t bytes)
{
    cl_int code;

    p->mem =
        clCreateBuffer(c->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                       bytes, NULL, &code);
    if (p->mem != NULL) {
        p->map = clEnqueueMapBuffer(opencl_queue_id(c), p->mem, CL_TRUE,
                                    CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                                    NULL, NULL, &code);
    }
    return code;
}

static cl_int pin_areas(struct opencl *c, struct opencl_tier *t)
{
    cl_int code = CL_SUCCESS;

    for (uint32_t i = 0; i < c->cache.pages.n_groups; i++) {
        uint32_t left = t->n_pages;

        for (uint32_t k = t->first[i];
             k < t->first[i + 1] && code == CL_SUCCESS; k++) {
            uint32_t n = left < t->per_piece[i] ? left : t->per_piece[i];

            code = pin_piece(c, &t->pieces[k],
                             n * (uint64_t)c->cache.pages.groups[i].page_bytes);
            left -= n;
        }
    }
    return code;
}

enum status opencl_alloc_host(struct kernels *k, uint32_t n_pages,
                              struct error *e)
{
    struct opencl *c = opencl_of(k);
    cl_int code = CL_OUT_OF_HOST_MEMORY;
    char name[64];

    opencl_tier_free(c);
    if (n_pages == 0) {
        return ST_OK;
    }
    opencl_operators(c)->tier = calloc(1, sizeof *opencl_operators(c)->tier);
    if (opencl_operators(c)->tier != NULL) {
        opencl_operators(c)->tier->n_pages = n_pages;
    }
    if (opencl_operators(c)->tier == NULL ||
        !cut_areas(c, opencl_operators(c)->tier)) {
        free(opencl_operators(c)->tier);
        opencl_operators(c)->tier = NULL;
    } else {
        code = opencl_copies_new(c);
        code =
            code == CL_SUCCESS ? pin_areas(c, opencl_operators(c)->tier) : code;
    }
    if (code != CL_SUCCESS) {
        opencl_tier_free(c);
        return error_set(
            e, ST_RESOURCE_EXHAUSTED,
            "pin a host tier of %u pages of %llu bytes for %s: %s; lower "
            "--host-memory",
            n_pages, (unsigned long long)c->cache.pages.page_bytes,
            c->device.name, opencl_error_name(code, name, sizeof name));
    }
    return ST_OK;
}

/* ---- copies ---- */

/* Copies between pages of a group, piece after piece. */
static void copy_group(struct opencl *c, uint32_t group, uint32_t page,
                       uint32_t host, uint32_t n, bool out)
{
    const struct opencl_tier *t = opencl_operators(c)->tier;
    uint64_t bytes = c->cache.pages.groups[group].page_bytes;
    uint32_t per = t->per_piece[group];

    while (n > 0) {
        uint32_t at = host % per, k = per - at < n ? per - at : n;
        struct opencl_copy copy = {
            .mem = c->cache.groups[group].mem,
            .at = c->cache.groups[group].at + page * bytes,
            .bytes = k * bytes,
            .host = t->pieces[t->first[group] + host / per].map + at * bytes,
            .out = out};

        opencl_copies_add(c, &copy, page, k);
        page += k;
        host += k;
        n -= k;
    }
}

static void copy_pages(struct opencl *c, uint32_t page, uint32_t host,
                       uint32_t n, bool out)
{
    uint32_t n_host = opencl_operators(c)->tier != NULL
                          ? opencl_operators(c)->tier->n_pages
                          : 0;

    assert(in_range_u32(page, n, c->cache.n_pages) &&
           in_range_u32(host, n, n_host));
    (void)n_host;
    for (uint32_t i = 0; i < c->cache.pages.n_groups && n > 0; i++) {
        copy_group(c, i, page, host, n, out);
    }
    opencl_copies_flush(c);
}

void opencl_page_out(struct kernels *k, uint32_t page, uint32_t host,
                     uint32_t n)
{
    copy_pages(opencl_of(k), page, host, n, true);
}

void opencl_page_in(struct kernels *k, uint32_t host, uint32_t page, uint32_t n)
{
    copy_pages(opencl_of(k), page, host, n, false);
}

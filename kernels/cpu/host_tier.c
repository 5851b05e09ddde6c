/* host_tier.c - the host tier's memory.  The pool is host memory too, so the
 * tier only gives more of it. */
#include "common/base/minmax.h"
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

static size_t area_bytes(const struct cpu *c, uint32_t group)
{
    return c->host.n_pages * (size_t)c->pages.groups[group].page_bytes;
}

/* host.n_pages gives the mapped sizes, so it is cleared last. */
void cpu_release_host(struct cpu *c)
{
    for (uint32_t i = 0; i < c->pages.n_groups; i++) {
        if (c->host.groups[i] != NULL) {
            munmap(c->host.groups[i], area_bytes(c, i));
        }
        c->host.groups[i] = NULL;
    }
    c->host.n_pages = 0;
}

enum status cpu_alloc_host(struct kernels *k, uint32_t n_pages, struct error *e)
{
    struct cpu *c = cpu_of(k);

    cpu_release_host(c);
    c->host.n_pages = n_pages;
    for (uint32_t i = 0; i < c->pages.n_groups && n_pages > 0; i++) {
        void *p = mmap(NULL, area_bytes(c, i), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED) {
            cpu_release_host(c);
            return error_set(
                e, ST_RESOURCE_EXHAUSTED,
                "not enough memory for a host tier of %u pages of %llu bytes; "
                "lower --host-memory",
                n_pages, (unsigned long long)c->pages.page_bytes);
        }
        c->host.groups[i] = p;
    }
    return ST_OK;
}

/* Both directions, so that they cannot differ in layout. */
static void copy(struct cpu *c, uint32_t page, uint32_t host, uint32_t n,
                 bool out)
{
    assert(in_range_u32(page, n, c->n_pages) &&
           in_range_u32(host, n, c->host.n_pages));
    cpu_settle(c);
    for (uint32_t i = 0; i < c->pages.n_groups && n > 0; i++) {
        size_t bytes = c->pages.groups[i].page_bytes;
        char *inside = c->groups[i] + page * bytes;
        char *outside = c->host.groups[i] + host * bytes;

        memcpy(out ? outside : inside, out ? inside : outside, n * bytes);
        cpu_tick(c);
    }
}

void cpu_page_out(struct kernels *k, uint32_t page, uint32_t host, uint32_t n)
{
    copy(cpu_of(k), page, host, n, true);
}

void cpu_page_in(struct kernels *k, uint32_t host, uint32_t page, uint32_t n)
{
    copy(cpu_of(k), page, host, n, false);
}

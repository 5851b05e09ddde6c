/* group.c - work-items as coroutines; see emulator.h. */
#include <sanitizer/common_interface_defs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/kernels/nv_emulator/emulator.h"

#define STACK ((size_t)256 << 10)
#define GUARD ((size_t)4 << 10) /* bytes of guard below a stack */

enum { READY, YIELDED, WAITING, DONE };

/* Work-items that have reached a point where all must arrive. */
struct meeting {
    uint32_t n;
    nv_together_fn fn;
};

struct nv_group {
    size_t id[3];
    uint32_t left; /* work-items that have not finished */
    uint32_t at_barrier;
    struct meeting warps[NV_ITEMS_MAX / NV_WARP];
    struct meeting warpgroups[NV_ITEMS_MAX / NV_WARPGROUP];
    struct nv_item items[NV_ITEMS_MAX];
};

static struct nv_group groups[NV_GROUPS];
static struct nv_item *now;
static struct {
    void *sp;
    const void *stack;
    size_t stack_bytes;
    size_t n_groups[3];
    uint32_t items;
    nv_body_fn body;
    void *arg;
} host;

_Noreturn void nv_fail(const char *why)
{
    fprintf(stderr, "nv_emulator: %s\n", why);
    if (now) {
        fprintf(stderr, "nv_emulator: work-item %u of group %zu %zu %zu\n",
                now->id, now->group->id[0], now->group->id[1],
                now->group->id[2]);
    }
    abort();
}

struct nv_item *nv_now(void)
{
    return now;
}

/* ---- from one stack to another ---- */

/* Saves the registers that a function must preserve, stores the stack pointer
 * in *from and continues where `to` was left. */
void nv_switch(void **from, void *to);
__asm__(".text\n"
        ".globl nv_switch\n"
        ".type nv_switch, @function\n"
        "nv_switch:\n"
        "  push %rbp\n"
        "  push %rbx\n"
        "  push %r12\n"
        "  push %r13\n"
        "  push %r14\n"
        "  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n"
        "  pop %r14\n"
        "  pop %r13\n"
        "  pop %r12\n"
        "  pop %rbx\n"
        "  pop %rbp\n"
        "  ret\n"
        ".size nv_switch, . - nv_switch\n");
#define KEPT 6

static void resume(struct nv_item *i)
{
    void *fake;

    now = i;
    i->state = READY;
    __sanitizer_start_switch_fiber(&fake, i->stack, STACK);
    nv_switch(&host.sp, i->sp);
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
    now = NULL;
}

/* Switches back to the host, with a new state. */
static void suspend(int state)
{
    struct nv_item *i = now;

    i->state = state;
    __sanitizer_start_switch_fiber(state == DONE ? NULL : &i->fake, host.stack,
                                   host.stack_bytes);
    nv_switch(&i->sp, host.sp);
    __sanitizer_finish_switch_fiber(i->fake, NULL, NULL);
}

static void enter(void)
{
    __sanitizer_finish_switch_fiber(NULL, &host.stack, &host.stack_bytes);
    host.body(host.arg, (uint32_t)(now->group - groups));
    now->group->left--;
    suspend(DONE);
}

/* Prepares a stack as if nv_switch() had been called at the start of
 * enter(). */
static void *first_sp(void *stack)
{
    void **sp = (void **)((char *)stack + STACK);

    *--sp = NULL;
    *--sp = (void *)(uintptr_t)enter;
    for (uint32_t i = 0; i < KEPT; i++) {
        *--sp = NULL;
    }
    return sp;
}

/* ---- meetings ---- */

void nv_yield(void)
{
    suspend(YIELDED);
}

/* Makes all n items from the first ready again. */
static void release(struct nv_item *first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (first[i].state == WAITING) {
            first[i].state = READY;
        }
    }
}

void nv_together(uint32_t n, nv_together_fn fn)
{
    struct nv_group *g = now->group;
    struct nv_item *first = &g->items[now->id / n * n];
    struct meeting *m = n == NV_WARP ? &g->warps[now->id / NV_WARP]
                                     : &g->warpgroups[now->id / NV_WARPGROUP];

    if (m->n == 0) {
        m->fn = fn;
    } else if (m->fn != fn) {
        nv_fail("lanes of a warp are at different instructions");
    }
    if (++m->n < n) {
        suspend(WAITING);
        return;
    }
    m->n = 0;
    fn(first);
    release(first, n);
}

void nv_barrier(uint32_t flags) __asm__("_Z7barrierj");
void nv_barrier(uint32_t flags)
{
    struct nv_group *g = now->group;

    (void)flags;
    if (++g->at_barrier < host.items) {
        suspend(WAITING);
        return;
    }
    g->at_barrier = 0;
    release(g->items, host.items);
}

/* ---- ids ---- */

size_t nv_local_id(uint32_t dim) __asm__("_Z12get_local_idj");
size_t nv_local_id(uint32_t dim)
{
    return dim == 0 ? now->id : 0;
}

size_t nv_group_id(uint32_t dim) __asm__("_Z12get_group_idj");
size_t nv_group_id(uint32_t dim)
{
    return now->group->id[dim];
}

size_t nv_num_groups(uint32_t dim) __asm__("_Z14get_num_groupsj");
size_t nv_num_groups(uint32_t dim)
{
    return host.n_groups[dim];
}

size_t nv_local_size(uint32_t dim) __asm__("_Z14get_local_sizej");
size_t nv_local_size(uint32_t dim)
{
    return dim == 0 ? host.items : 1;
}

size_t nv_global_id(uint32_t dim) __asm__("_Z13get_global_idj");
size_t nv_global_id(uint32_t dim)
{
    return nv_group_id(dim) * nv_local_size(dim) + nv_local_id(dim);
}

size_t nv_global_size(uint32_t dim) __asm__("_Z15get_global_sizej");
size_t nv_global_size(uint32_t dim)
{
    return nv_num_groups(dim) * nv_local_size(dim);
}

/* ---- launches ---- */

/* Returns a stack; stacks are kept from launch to launch. */
static void *stack_of(uint32_t group, uint32_t item)
{
    static char *stacks;

    if (!stacks) {
        stacks =
            mmap(NULL, NV_GROUPS * NV_ITEMS_MAX * STACK, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) {
            nv_fail("no memory for the stacks of work-items");
        }
        for (size_t i = 0; i < NV_GROUPS * NV_ITEMS_MAX; i++) {
            (void)mprotect(stacks + i * STACK, GUARD, PROT_NONE);
        }
    }
    return stacks + ((size_t)group * NV_ITEMS_MAX + item) * STACK;
}

static void start_group(struct nv_group *g, size_t number)
{
    g->id[0] = number % host.n_groups[0];
    g->id[1] = number / host.n_groups[0] % host.n_groups[1];
    g->id[2] = number / host.n_groups[0] / host.n_groups[1];
    g->left = host.items;
    g->at_barrier = 0;
    memset(g->warps, 0, sizeof(g->warps));
    memset(g->warpgroups, 0, sizeof(g->warpgroups));
    for (uint32_t i = 0; i < host.items; i++) {
        struct nv_item *item = &g->items[i];
        item->group = g;
        item->id = i;
        item->state = READY;
        item->stack = stack_of((uint32_t)(g - groups), i);
        item->sp = first_sp(item->stack);
        item->n_copies = item->copy_groups = 0;
    }
}

/* Runs the lanes of a warp in turn until all wait.  Returns whether any ran. */
static bool run_warp(struct nv_item *first, uint32_t n)
{
    bool any = false, again = true;

    for (uint32_t i = 0; i < n; i++) {
        if (first[i].state == YIELDED) {
            first[i].state = READY;
        }
    }
    while (again) {
        again = false;
        for (uint32_t i = 0; i < n; i++) {
            if (first[i].state == READY) {
                resume(&first[i]);
                again = any = true;
            }
        }
    }
    return any;
}

static bool run_group(struct nv_group *g)
{
    bool any = false;

    for (uint32_t i = 0; i < host.items; i += NV_WARP) {
        uint32_t n = host.items - i < NV_WARP ? host.items - i : NV_WARP;
        any |= run_warp(&g->items[i], n);
    }
    return any;
}

void nv_run(const size_t n_groups[3], uint32_t items, nv_body_fn body,
            void *arg)
{
    size_t all = n_groups[0] * n_groups[1] * n_groups[2];

    if (items > NV_ITEMS_MAX) {
        nv_fail("a work-group has too many work-items");
    }
    memcpy(host.n_groups, n_groups, sizeof(host.n_groups));
    host.items = items;
    host.body = body;
    host.arg = arg;
    for (size_t from = 0; from < all; from += NV_GROUPS) {
        uint32_t n =
            all - from < NV_GROUPS ? (uint32_t)(all - from) : NV_GROUPS;
        uint32_t left = 1;
        for (uint32_t i = 0; i < n; i++) {
            start_group(&groups[i], from + i);
        }
        while (left > 0) {
            bool any = false;
            left = 0;
            for (uint32_t i = 0; i < n; i++) {
                any |= run_group(&groups[i]);
                left += groups[i].left;
            }
            if (!any) {
                nv_fail("work-items wait for each other for ever");
            }
        }
    }
}

#include "kernels/cpu/cpu.h"

void cpu_run(struct cpu *c, threads_task_fn fn, void *arg, uint32_t n,
             size_t work)
{
    /* Waking helpers takes longer than a small piece of work. */
    if (work >= CPU_SMALL_WORK) {
        threads_run(c->threads, fn, arg, n);
    } else {
        for (uint32_t i = 0; i < n; i++) {
            fn(arg, i, 0);
        }
    }
    cpu_tick(c);
}

#include "client/load/drive/edge.h"

#include <sys/prctl.h>
#include <time.h>

#include "common/base/monotonic.h"

static void wait_until(struct pollfd *items, int n, int64_t due_us)
{
    int64_t left_us = due_us - monotonic_us();
    struct timespec left;

    if (left_us < 0) {
        left_us = 0;
    }
    left = (struct timespec){.tv_sec = left_us / 1000000,
                             .tv_nsec = left_us % 1000000 * 1000};
    if (ppoll(items, (nfds_t)n, due_us == INT64_MAX ? NULL : &left, NULL) <=
        0) {
        for (int i = 0; i < n; i++) {
            items[i].revents = 0; /* not set after EINTR */
        }
    }
}

void edge_run(const struct edge *l)
{
    struct pollfd items[TARGET_ITEMS + EDGE_ITEMS];
    int64_t due_us, target_us, now_us = monotonic_us();

    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    for (;;) {
        int n, own;

        due_us = generator_tick(l->generator, now_us);
        generator_turned(l->generator, monotonic_us() - now_us);
        if (due_us == GENERATOR_DONE) {
            return;
        }
        target_us = INT64_MAX;
        n = l->ops->items(l->target, items, &target_us);
        own = l->items(l->arg, items + n);
        wait_until(items, n + own, due_us < target_us ? due_us : target_us);
        now_us = monotonic_us();
        l->ops->turn(l->target, items, n, now_us);
        l->turn(l->arg, items + n, own, now_us);
    }
}

/* router_bench - tokens/s through the router's core, on one thread.
 *
 * 8 workers of 31 sequences each send one StepOutput a step, one token a row; 8
 * clients receive the chunks and acknowledge.  Only the time inside the router
 * (recv and tick) counts, without the fakes around it. */
#include <stdio.h>

#include "tests/unit/router/rig.h"

#define SIDES 8
#define ROWS  31
#define STEPS 2000

int main(void)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[SIDES], *c[SIDES];
    char name[16];
    struct router_metrics k;
    uint8_t id = 0;
    double s;

    for (int i = 0; i < SIDES; i++) {
        snprintf(name, sizeof name, "w%d", i);
        w[i] = rig_worker(rig, name, 65536, ROWS);
        snprintf(name, sizeof name, "c%d", i);
        c[i] = rig_client(rig, name);
    }
    for (int i = 0; i < SIDES * ROWS; i++) {
        id++;
        client_generate(c[i % SIDES], id, 32, 4000);
    }
    rig_run(rig);
    rig->router_ns = 0;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < SIDES; i++) {
            for (int q = 0; q < RIG_SEQUENCES; q++) {
                if (w[i]->sequences[q].used) {
                    worker_make(w[i], &w[i]->sequences[q], 1, 0);
                }
            }
            worker_step(w[i]);
        }
        rig_run(rig);
        rig->now += 2000;
    }
    s = (double)rig->router_ns / 1e9;
    printf("%d tokens in %.3f s of the router's time: %.0f tokens/s, "
           "%.0f ns each\n",
           SIDES * ROWS * STEPS, s, SIDES * ROWS * STEPS / s,
           s * 1e9 / (SIDES * ROWS * STEPS));
    router_counts(rig->router, &k);
    rig_free(&rig);
    return k.tokens == SIDES * ROWS * STEPS ? 0 : 1;
}

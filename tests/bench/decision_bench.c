/* decision_bench - time of a decision of the scheduler, on one thread.
 *
 * 64 workers run 48 sequences each, by --admission expected.  Printed are the
 * times to choose a place for a sequence, with forecasts that stand and after a
 * step of every worker; and with full workers and 10,000 sequences that wait,
 * of a run of their queue, and to predict a request that comes and one that
 * waits. */
#include <stdio.h>
#include <time.h>

#include "router/calls/router_state.h"
#include "router/schedule/claims.h"
#include "router/schedule/predict.h"
#include "router/schedule/routing.h"
#include "tests/unit/router/rig.h"

#define PLACES  ROUTER_WORKERS_MAX
#define RUNNING 48
#define WAITING 10000
#define TIMES   200
#define PROMPT  128
#define ASKED   3900

struct scene {
    struct rig *rig;
    struct schedule *s;
    struct model *m;
    struct fake *c;
    uint32_t n;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Asks for n choices more. */
static void ask(struct scene *x, uint32_t n)
{
    while (n > 0) {
        uint32_t k = n < CHOICES_MAX ? n : CHOICES_MAX;

        client_generate_n(x->c, (uint8_t)++x->n, k, PROMPT, ASKED);
        rig_run(x->rig);
        n -= k;
    }
}

static struct scene bring(uint32_t blocks)
{
    const struct rig_options o = {.max_peers = 128,
                                  .max_requests = 4096,
                                  .max_waiting = 2 * WAITING,
                                  .expected = true};
    struct scene x = {.rig = rig_new(&o)};
    char name[16];

    for (uint32_t i = 0; i < PLACES; i++) {
        struct fake *w;

        snprintf(name, sizeof name, "w%u", i);
        w = fake_worker_new(x.rig, name, blocks, 256);
        w->minor = GROWS_MINOR;
        fake_hello(w);
    }
    x.c = rig_client(x.rig, "c1");
    x.s = &x.rig->router->schedule;
    x.m = x.rig->router->fleet.models[0];
    ask(&x, PLACES * RUNNING);
    return x;
}

static void forget(const struct scene *x)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        charges_of(x->s->fleet->workers[i])->forecast.made = false;
    }
}

/* Prints the mean time of f. */
static void print(const char *what, const struct scene *x,
                  void (*before)(const struct scene *x),
                  void (*f)(const struct scene *x))
{
    uint64_t ns = 0;

    for (int i = 0; i < TIMES; i++) {
        uint64_t from_ns;

        if (before != NULL) {
            before(x);
        }
        from_ns = now_ns();
        f(x);
        ns += now_ns() - from_ns;
    }
    printf("%-44s %8.1f us\n", what, (double)ns / 1e3 / TIMES);
}

static void choose(const struct scene *x)
{
    struct prefix_prompt none = {.units = NULL};
    struct queue_entry e = {.model = x->m,
                            .n_prompt = PROMPT,
                            .n_tokens = PROMPT + ASKED,
                            .prompt = &none};

    (void)!routing_possible(x->s, &e);
}

static void run_queue(const struct scene *x)
{
    queue_run(x->s, x->m);
}

static void arrive(const struct scene *x)
{
    const struct newcomer one = {.model = x->m,
                                 .n_prompt = PROMPT,
                                 .max_tokens = ASKED,
                                 .tenant = METRIC_DEFAULT,
                                 .tier = TIER_DEFAULT};

    (void)predict_arrival(x->s, &one);
}

static void wait_on(const struct scene *x)
{
    (void)predict_waiting(
        x->s, LIST_OF(x->m->waiting.prev, struct queue_entry, queue));
}

int main(void)
{
    struct scene x = bring(60000);

    printf("%u places, %u sequences, %u wait\n", PLACES, PLACES * RUNNING,
           x.m->n_waiting);
    print("a choice of a place", &x, NULL, choose);
    print("the same after a step of every worker", &x, forget, choose);
    rig_free(&x.rig);
    x = bring(RUNNING * 5);
    ask(&x, WAITING - x.m->n_waiting);
    printf("%u places, %u wait\n", PLACES, x.m->n_waiting);
    print("a run of the queue", &x, NULL, run_queue);
    print("the same after a step of every worker", &x, forget, run_queue);
    print("a prediction for a request that comes", &x, NULL, arrive);
    print("a prediction for one that waits", &x, NULL, wait_on);
    rig_free(&x.rig);
    return 0;
}

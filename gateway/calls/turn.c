#include "gateway/calls/turn.h"

#include "gateway/calls/generation.h"

static void free_ended(struct service *c, bool all)
{
    struct list *next;

    for (struct list *l = c->ended.next; l != &c->ended; l = next) {
        struct generation *g = LIST_OF(l, struct generation, node);

        next = l->next;
        if (g->n_jobs == 0 || all) { /* its jobs still point to it */
            list_remove(l);
            generation_free(g);
        }
    }
}

void turn_abort(struct service *c)
{
    struct openai_error e;

    openai_error_set(&e, 503, NULL, NULL,
                     "the gateway is stopping; send the request again");
    while (!list_empty(&c->generations)) {
        generation_fail(LIST_OF(c->generations.next, struct generation, node),
                        &e, 0);
    }
}

void turn_cancel(struct service *c)
{
    while (!list_empty(&c->generations)) {
        generation_over(LIST_OF(c->generations.next, struct generation, node));
    }
}

void turn_fini(struct service *c)
{
    free_ended(c, true);
    timers_fini(&c->timers);
}

static void take_jobs(struct service *c)
{
    struct prompt_seam *s = c->options.prompts;
    struct prompt_job *j;

    while ((j = s->ops->poll(s)) != NULL) {
        struct waiter *w = j->owner;

        w->encoded(w, j);
    }
}

int64_t turn_tick(struct service *c, int64_t now_us)
{
    struct timer *t;
    int64_t due;

    take_jobs(c);
    while ((t = timers_pop(&c->timers, now_us)) != NULL) {
        generation_timer(LIST_OF(t, struct generation, timer), now_us);
    }
    free_ended(c, false);
    due = model_list_tick(&c->list, now_us,
                          c->options.unix_s(c->options.unix_arg));
    return timers_due(&c->timers) < due ? timers_due(&c->timers) : due;
}

uint32_t turn_open(const struct service *c)
{
    return c->n_open;
}

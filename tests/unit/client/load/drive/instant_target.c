#include "tests/unit/client/load/drive/instant_target.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/list.h"

#define DESCRIPTORS 1024 /* looked at */

struct instant_shared *instant_shared;
uint32_t instant_chunks = 1;

struct call {
    struct list link;
    struct call_request request;
};

struct target {
    struct list open, spare;
    bool never;
};

void instant_share(void)
{
    instant_shared = mmap(NULL, sizeof *instant_shared, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert(instant_shared != MAP_FAILED);
}

static enum status open_it(struct target **out, const struct target_options *o,
                           struct error *e)
{
    uint32_t n = 0;

    if (strcmp(o->endpoint, "refuses") == 0) {
        return error_set(e, ST_UNAVAILABLE, "connect to %s: no", o->endpoint);
    }
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    instant_shared->n_descriptors = n;
    instant_shared->pids[__atomic_fetch_add(&instant_shared->n_open, 1,
                                            __ATOMIC_SEQ_CST)] = getpid();
    *out = calloc(1, sizeof **out);
    assert(*out != NULL);
    list_init(&(*out)->open);
    list_init(&(*out)->spare);
    (*out)->never = strcmp(o->endpoint, "never") == 0;
    return ST_OK;
}

static void close_it(struct target **t)
{
    __atomic_fetch_add(&instant_shared->n_closed, 1, __ATOMIC_SEQ_CST);
    free(*t);
    *t = NULL;
}

static struct call *prepare(struct target *t, const struct call_request *r,
                            size_t *bytes, struct error *e)
{
    struct list *link = list_take(&t->spare);
    struct call *c =
        link != NULL ? LIST_OF(link, struct call, link) : calloc(1, sizeof *c);

    (void)e;
    assert(c != NULL);
    list_init(&c->link);
    c->request = *r;
    *bytes = 100;
    return c;
}

static void drop(struct target *t, struct call *c)
{
    list_append(&t->spare, &c->link);
}

static void start(struct target *t, struct call *c, int64_t now_us)
{
    list_append(&t->open, &c->link);
    c->request.ops->on_sent(c->request.arg, now_us);
}

static void end(struct target *t, struct call *c, int64_t now_us,
                enum outcome outcome)
{
    const struct call_end end = {.outcome = (uint8_t)outcome,
                                 .why = "given up",
                                 .queue_us = SAMPLE_NEVER};

    list_remove(&c->link);
    c->request.ops->on_end(c->request.arg, now_us, &end);
    drop(t, c);
}

static void give_up(struct target *t, struct call *c, enum give_up how,
                    int64_t now_us)
{
    end(t, c, now_us,
        how == GIVE_UP_TIMEOUT ? OUTCOME_TIMEOUT : OUTCOME_CANCELLED);
}

static int items(struct target *t, struct pollfd *to, int64_t *due_us)
{
    (void)to;
    *due_us = t->never || list_empty(&t->open) ? INT64_MAX : 0;
    return 0;
}

static void turn(struct target *t, const struct pollfd *found, int n,
                 int64_t now_us)
{
    (void)found;
    (void)n;
    while (!t->never && !list_empty(&t->open)) {
        struct call *c = LIST_OF(t->open.next, struct call, link);

        for (uint32_t i = 0; i < instant_chunks; i++) {
            c->request.ops->on_output(c->request.arg, now_us + i, 1, &i, 1,
                                      NULL, 0);
        }
        end(t, c, now_us + instant_chunks, OUTCOME_OK);
    }
}

const struct target_ops instant_target = {
    .open = open_it,
    .close = close_it,
    .prepare = prepare,
    .start = start,
    .drop = drop,
    .give_up = give_up,
    .items = items,
    .turn = turn,
};

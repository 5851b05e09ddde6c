/* http_target.c - Requests to an OpenAI-compatible server. */
#include "client/load/drive/http_target.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/load/drive/http_answer.h"
#include "client/load/drive/http_body.h"
#include "client/load/drive/http_wire.h"
#include "common/base/descriptors.h"
#include "common/base/list.h"
#include "common/base/memory.h"
#include "common/base/monotonic.h"
#include "common/base/timer.h"

#define SPARE_CALLS    4096  /* kept for the next requests */
#define SPARE_BYTES    65536 /* of a body that is kept */
#define SLOW_READ_US   1000000
#define SLOW_READ_SPAN 2000000u /* pauses of 1 to 3 s */
#define NUMBER_MIX     0x9e3779b97f4a7c15u

struct target {
    const struct http_wire_ops *ops;
    struct http_wire *wire;
    struct http_body body;
    uint32_t n_choices;
    struct list calls, spares; /* in use; not */
    uint32_t n_spares;
    struct timers timers; /* of slow readers */
};

struct call {
    struct http_exchange x;
    struct target *t;
    struct list node;
    struct timer resume;
    struct call_request r;
    struct http_text body;
    struct http_answer answer;
    int64_t now_us; /* of the bytes that are parsed */
    uint32_t n_pauses;
    unsigned n_parsing; /* callers on the stack that use the call */
    bool started, ended;
};

static struct call *call_of(struct http_exchange *x)
{
    return LIST_OF(x, struct call, x);
}

/* ---- calls ---- */

static void free_call(struct call *c)
{
    list_remove(&c->node);
    http_text_fini(&c->body);
    http_answer_fini(&c->answer);
    free(c);
}

/* Takes a call out of use. */
static void put_back(struct call *c)
{
    struct target *t = c->t;

    timer_clear(&t->timers, &c->resume);
    if (t->n_spares >= SPARE_CALLS || c->body.size > SPARE_BYTES ||
        c->answer.body.size > SPARE_BYTES) {
        free_call(c);
        return;
    }
    list_remove(&c->node);
    list_append(&t->spares, &c->node);
    t->n_spares++;
}

static struct call *take_call(struct target *t)
{
    struct call *c;

    if (list_empty(&t->spares)) {
        c = memory_must(calloc(1, sizeof *c));
    } else {
        /* The one used last is in the cache. */
        c = LIST_OF(t->spares.prev, struct call, node);
        list_remove(&c->node);
        t->n_spares--;
    }
    *c = (struct call){.t = t, .body = c->body, .answer = c->answer};
    c->body.n = 0;
    list_init(&c->node);
    list_append(&t->calls, &c->node);
    return c;
}

static void end_call(struct call *c, const struct call_end *end, int64_t now)
{
    c->ended = true;
    timer_clear(&c->t->timers, &c->resume);
    c->r.ops->on_end(c->r.arg, now, end);
    if (c->n_parsing == 0) {
        put_back(c);
    }
}

/* ---- events of the transport ---- */

static void on_output(void *arg, uint32_t n, const char *text, size_t n_text)
{
    struct call *c = arg;

    c->r.ops->on_output(c->r.arg, c->now_us, n, NULL, 0, text, n_text);
}

static void on_sent(struct http_exchange *x, int64_t now)
{
    struct call *c = call_of(x);

    c->r.ops->on_sent(c->r.arg, now);
}

static void on_head(struct http_exchange *x, int status, bool streams)
{
    http_answer_head(&call_of(x)->answer, status, streams);
}

/* Stops reading for a while.  Pauses are a function of the request. */
static void read_slowly(struct call *c)
{
    uint64_t h = (c->r.number + 1) * NUMBER_MIX + c->n_pauses++;

    h = (h ^ h >> 29) * NUMBER_MIX;
    timer_set(&c->t->timers, &c->resume,
              c->now_us + SLOW_READ_US + (int64_t)((h >> 32) % SLOW_READ_SPAN));
    c->t->ops->pause(c->t->wire, &c->x, true);
}

static void on_bytes(struct http_exchange *x, const char *bytes, size_t n,
                     int64_t now)
{
    struct call *c = call_of(x);
    uint32_t before = c->answer.n_events;

    c->now_us = now;
    c->n_parsing++;
    http_answer_bytes(&c->answer, bytes, n);
    c->n_parsing--;
    if (c->ended) {
        put_back(c);
    } else if (c->r.slow_reader && c->answer.n_events > before) {
        read_slowly(c);
    }
}

static void on_done(struct http_exchange *x, const char *broken, int64_t now)
{
    struct call *c = call_of(x);
    struct call_end end;

    c->now_us = now;
    c->n_parsing++;
    http_answer_end(&c->answer, broken, &end); /* may pass output on */
    c->n_parsing--;
    if (c->ended) {
        put_back(c);
    } else {
        end_call(c, &end, now);
    }
}

static const struct http_events events = {on_sent, on_head, on_bytes, on_done};

/* ---- the target ---- */

static enum status choose_wire(struct target *t, const struct target_options *o,
                               struct error *e)
{
    struct http_url url;
    enum status st = http_url_read(&url, o->endpoint, e);

    if (st == ST_OK && o->key != NULL) {
        st = http_key_check(o->key, e);
    }
    if (st != ST_OK) {
        return st;
    }
    t->ops = url.secure ? &http_curl : &http_plain;
    return t->ops->open(&t->wire, &url, o, &events, e);
}

static void target_close(struct target **self)
{
    struct target *t = *self;

    *self = NULL;
    if (t->wire != NULL) {
        t->ops->close(&t->wire);
    }
    while (!list_empty(&t->calls)) {
        free_call(LIST_OF(t->calls.next, struct call, node));
    }
    while (!list_empty(&t->spares)) {
        free_call(LIST_OF(t->spares.next, struct call, node));
    }
    timers_fini(&t->timers);
    http_body_fini(&t->body);
    free(t);
}

static enum status target_open(struct target **out,
                               const struct target_options *o, struct error *e)
{
    struct target *t = memory_must(calloc(1, sizeof *t));
    enum status st;

    list_init(&t->calls);
    list_init(&t->spares);
    timers_init(&t->timers);
    t->n_choices = o->n > 0 ? o->n : 1;
    descriptors_raise();
    st = http_body_init(&t->body, o, e);
    if (st == ST_OK) {
        st = choose_wire(t, o, e);
    }
    if (st != ST_OK) {
        target_close(&t);
        return st;
    }
    *out = t;
    return ST_OK;
}

static struct call *target_prepare(struct target *t,
                                   const struct call_request *r, size_t *bytes,
                                   struct error *e)
{
    struct call *c = take_call(t);

    c->r = *r;
    c->r.prompt = NULL;
    if (http_body_put(&t->body, r->prompt, r->max_tokens, &c->body, e) !=
        ST_OK) {
        put_back(c);
        return NULL;
    }
    http_answer_begin(&c->answer, t->n_choices, on_output, c);
    c->x.body = c->body.bytes;
    c->x.n_body = c->body.n;
    *bytes = sizeof *c + c->body.size;
    return c;
}

static void target_start(struct target *t, struct call *c, int64_t now_us)
{
    (void)now_us; /* the transport reads the clock when it sends */
    c->started = true;
    t->ops->start(t->wire, &c->x);
}

static void target_drop(struct target *t, struct call *c)
{
    (void)t;
    assert(!c->started);
    put_back(c);
}

static void target_give_up(struct target *t, struct call *c, enum give_up how,
                           int64_t now_us)
{
    static const struct {
        uint8_t outcome;
        const char *why;
    } ends[] = {[GIVE_UP_CANCEL] = {OUTCOME_CANCELLED, "cancelled"},
                [GIVE_UP_DISCONNECT] = {OUTCOME_DISCONNECTED, "disconnected"},
                [GIVE_UP_TIMEOUT] = {OUTCOME_TIMEOUT,
                                     "not answered within the time limit"}};
    struct call_end end = {.outcome = ends[how].outcome,
                           .code = (uint16_t)c->answer.status,
                           .why = ends[how].why,
                           .n_prompt = c->answer.n_prompt,
                           .n_output = c->answer.n_output,
                           .n_cached = c->answer.n_cached,
                           .chunks = http_answer_counts_chunks(&c->answer),
                           .queue_us = SAMPLE_NEVER};

    if (!c->ended) {
        http_answer_stop(&c->answer);
        t->ops->stop(t->wire, &c->x);
        end_call(c, &end, now_us);
    }
}

static int target_items(struct target *t, struct pollfd *items, int64_t *due_us)
{
    int64_t slow = timers_due(&t->timers), wire = t->ops->due_us(t->wire);

    items[0] = (struct pollfd){.fd = t->ops->fd(t->wire), .events = POLLIN};
    *due_us = slow < wire ? slow : wire;
    return 1;
}

static void target_turn(struct target *t, const struct pollfd *items, int n,
                        int64_t now_us)
{
    struct timer *due;

    /* Most turns of a loop are for what is due, and find nothing here. */
    if (n == 0 || items[0].revents != 0 || t->ops->due_us(t->wire) <= now_us) {
        t->ops->turn(t->wire);
    }
    while ((due = timers_pop(&t->timers, now_us)) != NULL) {
        struct call *c = LIST_OF(due, struct call, resume);

        t->ops->pause(t->wire, &c->x, false);
    }
}

const struct target_ops http_target = {
    target_open, target_close,   target_prepare, target_start,
    target_drop, target_give_up, target_items,   target_turn};

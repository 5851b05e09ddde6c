#include <stdio.h>
#include <stdlib.h>

#include "client/load/drive/generator_parts.h"
#include "common/base/memory.h"

#define BATCH_US    200 /* of preparation in a tick, if a request takes less */
#define BATCH_MAX   32
#define REQUEST_EST 64   /* tokens that a request costs beside its own */
#define CALL_EST    1024 /* bytes of a call beside its tokens */
#define NO_DUE      ((int64_t)1 << 60) /* prepared after all that have one */

/* ---- pools ---- */

static struct tree *tree_new(struct generator *g)
{
    struct list *link = list_take(&g->sessions);
    struct tree *s;

    if (link != NULL) {
        return LIST_OF(link, struct tree, link);
    }
    s = memory_must(calloc(1, sizeof *s));
    list_init(&s->link);
    return s;
}

static struct request *request_new(struct generator *g)
{
    struct list *link = list_take(&g->requests);
    struct request *r;

    if (link != NULL) {
        return LIST_OF(link, struct request, link);
    }
    r = memory_must(calloc(1, sizeof *r));
    list_init(&r->link);
    r->generator = g;
    return r;
}

void ahead_drop_request(struct generator *g, struct request *r)
{
    flight_clear(&r->flight);
    r->session = NULL;
    r->call = NULL;
    list_append(&g->requests, &r->link);
}

void ahead_drop_session(struct generator *g, struct tree *s)
{
    g->ahead.n_live--;
    list_remove(&s->link);
    tree_clear(s);
    list_append(&g->sessions, &s->link);
}

void ahead_leave(struct generator *g, struct request *r)
{
    timer_clear(&g->prepared.due, &r->prep);
    if (r->state == REQUEST_PREPARED) {
        g->prepared.n--;
        g->prepared.bytes -= r->bytes;
    }
}

void ahead_forget(struct generator *g, struct request *r)
{
    ahead_leave(g, r);
    if (r->state == REQUEST_PREPARED) {
        g->o.ops->drop(g->o.target, r->call);
    }
    ahead_drop_request(g, r);
}

/* ---- planning ---- */

static uint8_t warm_flag(const struct generator *g, const struct tree *s,
                         int64_t due_us)
{
    return due_us < g->o.warm_us || s->number < g->o.n_warm ? SAMPLE_WARM : 0;
}

void ahead_sample(const struct generator *g, struct flight *f,
                  const struct tree *s, uint32_t turn, int64_t due_us)
{
    flight_begin(f, due_us);
    f->sample.session = s->number;
    f->sample.content = s->content;
    f->sample.turn = turn;
    f->sample.process = g->o.process;
    f->sample.flags = warm_flag(g, s, due_us);
}

static struct request *request_for(struct generator *g, struct tree *s,
                                   uint32_t turn, int64_t due_us)
{
    struct request *r = request_new(g);

    r->session = s;
    r->turn = turn;
    r->state = REQUEST_PLANNED;
    r->has_children = tree_has_children(s, turn);
    r->kind = inject_kind_of(&g->inject, s->number * PLAN_TURNS_MAX + turn);
    r->timeout_us = INT64_MAX;
    r->bytes = 0;
    ahead_sample(g, &r->flight, s, turn, due_us);
    timer_set(&g->prepared.due, &r->prep, due_us);
    return r;
}

void ahead_plan(struct generator *g, struct tree *s, uint32_t turn,
                int64_t due_us)
{
    struct request *r = request_for(g, s, turn, due_us);

    timer_set(&g->planned, &r->timer, due_us);
}

static void plan_roots(struct generator *g, struct tree *s, int64_t due_us)
{
    for (uint32_t i = 0; i < s->n_turns; i++) {
        if (s->turns[i].parent < 0) {
            ahead_plan(g, s, i, due_us);
        }
    }
}

/* Keeps a session of a closed loop at hand, prepared after all others. */
static void spare_add(struct generator *g, struct tree *s)
{
    int64_t due_us = NO_DUE + (int64_t)g->prepared.n_spares_read++;

    for (uint32_t i = 0; i < s->n_turns; i++) {
        if (s->turns[i].parent < 0) {
            struct request *r = request_for(g, s, i, due_us);

            list_append(&s->roots, &r->link);
        }
    }
    list_remove(&s->link);
    list_append(&g->ahead.spare, &s->link);
    g->ahead.n_spare++;
}

static struct tree *spare_take(struct generator *g)
{
    struct list *link = list_take(&g->ahead.spare);

    if (link == NULL) {
        return NULL;
    }
    g->ahead.n_spare--;
    return LIST_OF(link, struct tree, link);
}

/* Gives a spare session its due time. */
static void spare_plan(struct generator *g, struct tree *s, int64_t due_us)
{
    struct list *link;

    list_append(&g->ahead.live, &s->link);
    while ((link = list_take(&s->roots)) != NULL) {
        struct request *r = LIST_OF(link, struct request, link);
        struct sample *sample = &r->flight.sample;

        sample->due_us = due_us;
        sample->flags = warm_flag(g, s, due_us);
        timer_set(&g->planned, &r->timer, due_us);
        if (r->prep.index != 0) {
            timer_set(&g->prepared.due, &r->prep, due_us);
        }
    }
}

static void spare_drop(struct generator *g, struct tree *s)
{
    struct list *link;

    while ((link = list_take(&s->roots)) != NULL) {
        ahead_forget(g, LIST_OF(link, struct request, link));
    }
    g->ahead.n_coming--;
    ahead_drop_session(g, s);
}

/* ---- reading ---- */

static struct tree *read_one(struct generator *g)
{
    struct tree *s;

    if (g->ahead.plan_ended || !plan_next(g->o.plan, &g->ahead.scratch)) {
        g->ahead.plan_ended = true;
        return NULL;
    }
    s = tree_new(g);
    tree_take(s, &g->ahead.scratch);
    list_init(&s->roots);
    list_append(&g->ahead.live, &s->link);
    g->ahead.n_live++;
    g->ahead.n_coming++;
    return s;
}

/* Reads one session of a closed loop: for a slot that has had none, else to
 * have it at hand.  Returns false if none is wanted. */
static bool read_closed(struct generator *g)
{
    struct tree *s = NULL;

    if (g->ahead.n_unused > 0) {
        s = read_one(g);
        g->ahead.n_unused--;
        if (s != NULL) {
            plan_roots(g, s, 0);
        }
    } else if (g->ahead.n_spare < GENERATOR_SPARE_MAX &&
               g->ahead.n_spare < g->ahead.n_slots) {
        s = read_one(g);
        if (s != NULL) {
            spare_add(g, s);
        }
    }
    return s != NULL;
}

static bool read_open(struct generator *g, int64_t until_us)
{
    struct tree *s = g->ahead.horizon_us <= until_us &&
                             g->ahead.n_coming < GENERATOR_AHEAD_MAX
                         ? read_one(g)
                         : NULL;

    if (s == NULL) {
        return false;
    }
    g->ahead.horizon_us = s->due_us;
    plan_roots(g, s, s->due_us);
    return true;
}

bool ahead_read(struct generator *g, int64_t until_us, uint32_t n_max)
{
    for (uint32_t n = 0; n < n_max; n++) {
        if (!(g->ahead.closed ? read_closed(g) : read_open(g, until_us))) {
            return false;
        }
    }
    return true;
}

void ahead_refill(struct generator *g, int64_t free_us)
{
    struct tree *s = spare_take(g);
    int64_t due_us;

    if (s == NULL) {
        s = read_one(g);
        if (s == NULL) {
            return;
        }
        spare_add(g, s);
        s = spare_take(g);
    }
    due_us = free_us + s->think_us;
    if (g->o.duration_us > 0 && due_us >= g->o.duration_us) {
        spare_drop(g, s);
    } else {
        spare_plan(g, s, due_us);
    }
}

void ahead_end(struct generator *g)
{
    struct tree *s;

    g->ahead.plan_ended = true;
    while ((s = spare_take(g)) != NULL) {
        spare_drop(g, s);
    }
}

/* ---- preparing ---- */

static void break_request(struct request *r, const struct error *e)
{
    struct sample *s = &r->flight.sample;

    r->state = REQUEST_BROKEN;
    s->code = (uint16_t)e->code;
    snprintf(s->why, sizeof s->why, "%.*s", SAMPLE_WHY - 1, e->text);
}

static void account(struct generator *g, struct request *r, uint64_t n_tokens)
{
    double per_token = r->bytes > CALL_EST
                           ? (double)(r->bytes - CALL_EST) / (double)n_tokens
                           : 0;

    if (per_token > g->prepared.token_bytes) {
        g->prepared.token_bytes = per_token;
    }
    g->prepared.n++;
    g->prepared.bytes += r->bytes;
    if (g->prepared.bytes > g->prepared.peak) {
        g->prepared.peak = g->prepared.bytes;
    }
}

void ahead_prepare_now(struct generator *g, struct request *r)
{
    struct tree *s = r->session;
    uint64_t n_tokens = tree_tokens(s, r->turn) + REQUEST_EST;
    struct call_request request = {
        .prompt = &g->prompt,
        .max_tokens = s->turns[r->turn].max_tokens,
        .number = s->number * PLAN_TURNS_MAX + r->turn,
        .slow_reader = r->kind == INJECT_SLOW,
        .disconnects = r->kind == INJECT_DISCONNECT,
        .ops = &generator_call_ops,
        .arg = r,
    };
    struct error e = {0};

    timer_clear(&g->prepared.due, &r->prep);
    tree_give(s, &g->ahead.scratch);
    prompt_make(g->o.prompts, &g->ahead.scratch, r->turn, s->answers,
                &g->prompt);
    r->flight.sample.n_prompt = g->prompt.n_tokens;
    r->call = g->o.ops->prepare(g->o.target, &request, &r->bytes, &e);
    g->prepared.turn_tokens += n_tokens;
    if (r->call == NULL) {
        break_request(r, &e);
        return;
    }
    r->state = REQUEST_PREPARED;
    account(g, r, n_tokens);
}

/* Forgets a call that was larger than estimated, so that the bound holds. */
static bool undo(struct generator *g, struct request *r)
{
    if (g->prepared.bytes <= g->o.memory_max || g->prepared.n <= 1 ||
        r->state != REQUEST_PREPARED) {
        return false;
    }
    ahead_leave(g, r);
    g->o.ops->drop(g->o.target, r->call);
    r->call = NULL;
    r->state = REQUEST_PLANNED;
    timer_set(&g->prepared.due, &r->prep, r->flight.sample.due_us);
    return true;
}

static struct request *next_to_prepare(struct generator *g)
{
    struct request *r;
    uint64_t n_tokens;
    double bytes;

    if (g->prepared.due.n == 0) {
        return NULL;
    }
    r = LIST_OF(g->prepared.due.top, struct request, prep);
    n_tokens = tree_tokens(r->session, r->turn) + REQUEST_EST;
    bytes = CALL_EST + g->prepared.token_bytes * (double)n_tokens;
    return g->prepared.n == 0 ||
                   (double)g->prepared.bytes + bytes <= (double)g->o.memory_max
               ? r
               : NULL;
}

bool ahead_prepare(struct generator *g, int64_t now_us)
{
    double spent_us = 0;

    for (int i = 0; i < BATCH_MAX; i++) {
        struct request *r = next_to_prepare(g);
        double us;

        if (r == NULL) {
            return false;
        }
        us = g->prepared.token_us *
             (double)(tree_tokens(r->session, r->turn) + REQUEST_EST);
        /* A request that is the next to start is better late by less. */
        if (r->prep.due_us > timers_due(&g->planned) &&
            (double)now_us + spent_us + us > (double)timers_due(&g->planned)) {
            return false;
        }
        spent_us += us;
        if (i > 0 && spent_us > BATCH_US) {
            return true;
        }
        ahead_prepare_now(g, r);
        if (undo(g, r)) {
            return false;
        }
    }
    return true;
}

/* ---- the end ---- */

static void forget_all(struct generator *g, struct timers *from)
{
    struct timer *t;

    while ((t = timers_pop(from, INT64_MAX - 1)) != NULL) {
        ahead_forget(g, LIST_OF(t, struct request, timer));
    }
    timers_fini(from);
}

static void free_requests(struct list *from)
{
    struct list *link;

    while ((link = list_take(from)) != NULL) {
        struct request *r = LIST_OF(link, struct request, link);

        flight_fini(&r->flight);
        free(r);
    }
}

static void free_sessions(struct list *from)
{
    struct list *link;

    while ((link = list_take(from)) != NULL) {
        struct tree *s = LIST_OF(link, struct tree, link);

        tree_fini(s);
        free(s);
    }
}

void ahead_free(struct generator *g)
{
    ahead_end(g);
    forget_all(g, &g->planned);
    forget_all(g, &g->waiting);
    timers_fini(&g->prepared.due);
    free_requests(&g->requests);
    free_requests(&g->open);
    free_requests(&g->lost);
    free_sessions(&g->sessions);
    free_sessions(&g->ahead.live);
    prompt_fini(&g->prompt);
}

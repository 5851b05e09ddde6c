#include "router/stream.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/failpoint.h"
#include "common/log.h"
#include "common/request_id.h"
#include "router/logprob_columns.h"
#include "router/router.h"
#include "router/stops.h"
#include "text/detokenizer.h"
#include "text/limits.h"

#define CHUNK_ROOM  (160u << 10) /* the largest chunk and what is beside */
#define CHUNK_BYTES (128u << 10) /* the method's cap on it */

/* Ids are below SHARD_VOCAB_MAX: 4 bytes on the wire.  With w logprobs a token
 * n tokens take 4 n + 4 n w + 4 n (w - 1) bytes, n w <= CHUNK_LOGPROBS_MAX. */
#define CHUNK_PUSH_MAX    (3 * (TEXT_TOKEN_BYTES + DETOK_HELD_MAX))
#define CHUNK_COLUMNS_MAX (8 * CHUNK_LOGPROBS_MAX)
#define CHUNK_BESIDE_MAX  512 /* figures, tags and lengths */

_Static_assert(SHARD_VOCAB_MAX <= 1 << 28, "an id takes 4 bytes");
_Static_assert(CHUNK_TOKENS_MAX <= CHUNK_LOGPROBS_MAX, "4 n fits 8 n w");
_Static_assert(CHUNK_TEXT_MAX + CHUNK_PUSH_MAX + CHUNK_COLUMNS_MAX +
                       CHUNK_BESIDE_MAX <=
                   CHUNK_BYTES,
               "every chunk can be sent");

/* Room enough for a chunk, and no more waiting than a reader has earned. */
static bool has_room(const struct router_peer *p)
{
    size_t room = peer_room(p->peer, LANE_CONTROL);

    return room >= CHUNK_ROOM &&
           room + CLIENT_UNREAD_BYTES >= LINK_OUTBOX_BYTES;
}

static bool owes(const struct request *q)
{
    return pending_is_open(&q->generation->call) &&
           (q->n_sent < q->n_generated ||
            (q->state == REQUEST_ENDED && !q->last_sent));
}

void stream_ready(struct router_core *r, struct request *q)
{
    struct router_peer *p = q->generation->call.peer;

    if (!owes(q)) {
        return;
    }
    if (!list_linked(&q->ready)) {
        q->ready_us = r->now_us;
        list_append(&p->ready, &q->ready);
        peers_touch(r, p);
    }
    if (q->state == REQUEST_ENDED) {
        p->streamed_us = r->now_us - r->options.gather_us;
        peers_touch(r, p);
    }
}

static uint64_t since(int64_t from_us, int64_t to_us)
{
    return to_us > from_us ? (uint64_t)(to_us - from_us) : 0;
}

static void figures(const struct request *q, Sluice__V1__GenerateFigures *f)
{
    const struct generation *g = q->generation;
    int64_t left = q->granted_us != 0 ? q->granted_us : q->ended_us;

    sluice__v1__generate_figures__init(f);
    f->n_prompt = g->n_prompt;
    f->n_generated = q->n_generated;
    f->queued_us = since(g->arrived_us, left);
    f->first_token_us =
        q->first_us == 0 ? 0 : since(g->arrived_us, q->first_us);
    f->total_us = since(g->arrived_us, q->ended_us);
    f->blocks = (uint32_t)q->held.of[BLOCKS];
    f->slots = (uint32_t)q->held.of[SLOTS];
    f->seed = g->sampling.seed;
    f->n_moves = q->n_moves;
    f->has_worker = q->granted_us != 0;
    f->worker = wire_text(q->worker_name);
}

static void reserve_text(struct router_core *r, const struct tokenizer *t)
{
    /* The push that passes the limit, and a finish after it. */
    size_t size = CHUNK_TEXT_MAX + 2 * detokenizer_max(t);

    if (size > r->text_size) {
        free(r->text);
        r->text = malloc(size);
        r->text_size = size;
        assert(r->text != NULL);
    }
}

void stream_begin(struct router_core *r, struct request *q)
{
    const struct generation *g = q->generation;
    const struct tokenizer *t = NULL;

    if (g->sampling.logprobs) {
        q->logprobs = logprob_columns_new(g->sampling.n_top_logprobs);
    }
    if (g->wants_text || g->stop_strings != NULL) {
        t = r->options.text->ops->tokenizer(r->options.text, g->model->text);
    }
    if (t == NULL) {
        return;
    }
    reserve_text(r, t);
    if (g->wants_text) {
        q->detok = malloc(sizeof *q->detok);
        assert(q->detok != NULL);
        detokenizer_init(q->detok, t, DETOK_SKIP_SPECIAL);
    }
    if (g->stop_strings != NULL) {
        q->stops = stops_new(g->stop_strings, t);
        if (q->n_had > 1) { /* the last one may be the token that ended it */
            (void)stops_look(q->stops, q->tokens, q->n_had - 1, r->text);
        }
    }
}

/* The text of the next tokens up to the end-th: fewer if they give too much. */
static size_t make_text(struct router_core *r, struct request *q, uint32_t end)
{
    uint32_t stop = UINT32_MAX; /* the end token: it is no text */
    size_t bytes = q->stops != NULL ? stops_resume(q->stops, r->text) : 0;
    bool last;

    /* Known before it has ENDED, if it was cancelled too late. */
    if (q->finish == SLUICE__V1__FINISH__FINISH_STOP &&
        !stops_found(q->stops)) {
        stop = q->n_generated - 1;
    }
    for (; q->n_told < end && bytes < CHUNK_TEXT_MAX; q->n_told++) {
        if (q->n_told != stop) {
            bytes += detokenizer_push(q->detok, q->tokens[q->n_told],
                                      r->text + bytes);
        }
    }
    last = q->state == REQUEST_ENDED && q->n_told == q->n_generated;
    if (last) {
        bytes += detokenizer_finish(q->detok, r->text + bytes);
    }
    return q->stops != NULL ? stops_cut(q->stops, r->text, bytes, last) : bytes;
}

/* The text of a chunk with the next *n tokens, and how many they are then:
 * fewer if they give too much.  A choice that is resumed begins with the text
 * of the tokens it came with, which its client has up to a place. */
static void chunk_text(struct router_core *r, struct request *q, uint32_t *n,
                       ProtobufCBinaryData *text)
{
    uint32_t end = q->n_sent + *n;
    size_t bytes, had;

    do {
        bytes = make_text(r, q, end);
        had = q->n_skip < bytes ? q->n_skip : bytes;
        q->n_skip -= (uint32_t)had;
    } while (had == bytes && q->n_told < end);
    *n = q->n_told > q->n_sent ? q->n_told - q->n_sent : 0;
    text->data = (uint8_t *)r->text + had;
    text->len = bytes - had;
}

static uint32_t chunk_tokens(const struct request *q)
{
    uint32_t n = q->n_generated - q->n_sent, max = CHUNK_TOKENS_MAX;

    if (q->logprobs != NULL) {
        max = CHUNK_LOGPROBS_MAX / (1 + q->logprobs->n_top);
    }
    return n < max ? n : max;
}

/* What the last chunk has beside. */
static void show_end(const struct request *q, Sluice__V1__GenerateChunk *c,
                     Sluice__V1__GenerateFigures *f)
{
    figures(q, f);
    c->has_finish = true;
    c->finish = q->finish;
    c->figures = f;
    if (stops_found(q->stops)) {
        c->has_stop_string = true;
        c->stop_string = q->stops->scan.string;
    }
}

/* One chunk with all that is new, as far as one goes; false: no room. */
static bool send_chunk(struct router_core *r, struct request *q)
{
    Sluice__V1__GenerateChunk c = SLUICE__V1__GENERATE_CHUNK__INIT;
    Sluice__V1__GenerateFigures f;
    struct generation *g = q->generation;
    uint32_t n = chunk_tokens(q);

    if (q->detok != NULL) {
        chunk_text(r, q, &n, &c.text);
        c.has_text = c.text.len > 0;
    } else {
        q->n_told = q->n_sent + n;
    }
    c.has_choice = g->n_choices > 1;
    c.choice = q->choice;
    c.first_index = q->n_sent;
    c.tokens = n == 0 ? NULL : q->tokens + q->n_sent;
    c.n_tokens = n;
    if (q->logprobs != NULL) {
        logprob_columns_show(q->logprobs, n, &c);
    }
    if (q->state == REQUEST_ENDED && q->n_told == q->n_generated) {
        show_end(q, &c, &f);
    }
    FP(ROUTER_CHUNK);
    if (peer_reply(g->call.peer->peer, g->call.id, &c.base) != ST_OK) {
        return false;
    }
    FP(ROUTER_CHUNK_SENT);
    if (q->logprobs != NULL) {
        logprob_columns_drop(q->logprobs, n);
    }
    q->n_sent += n;
    q->last_sent = c.has_finish;
    g->n_unsent -= q->last_sent;
    q->ready_us = g->served_us = r->now_us;
    return true;
}

void stream_rest(struct router_core *r, struct generation *g)
{
    for (uint32_t c = 0; c < g->n_choices; c++) {
        struct request *q = &g->choices[c];

        if (pending_is_open(&g->call) && q->n_sent < q->n_generated &&
            has_room(g->call.peer)) {
            (void)send_chunk(r, q);
        }
    }
}

/* Chunks of one request; true: it owes nothing more now. */
static bool serve(struct router_core *r, struct router_peer *p,
                  struct request *q)
{
    if (!has_room(p) || !send_chunk(r, q)) {
        return false;
    }
    list_remove(&q->ready);
    if (q->last_sent) {
        if (q->generation->n_unsent == 0) {
            FP(ROUTER_END);
            pending_end(r, &q->generation->call, NULL);
        }
        request_settle(r, q);
    } else if (owes(q)) {
        list_append(&p->ready, &q->ready);
    }
    return true;
}

/* True if what is ready waits for more. */
static bool gather(struct router_core *r, struct router_peer *p)
{
    int64_t due = p->streamed_us + r->options.gather_us;

    p->stream_due_us = NODE_IDLE;
    if (list_empty(&p->ready)) {
        return false;
    }
    if (r->now_us < due) {
        p->stream_due_us = due;
        return true;
    }
    p->streamed_us = r->now_us;
    return false;
}

void stream_pump(struct router_core *r, struct router_peer *p)
{
    if (gather(r, p)) {
        return;
    }
    while (!list_empty(&p->ready)) {
        if (!serve(r, p, LIST_OF(p->ready.next, struct request, ready))) {
            break;
        }
    }
    if (list_empty(&p->ready)) {
        event_clear(r, &p->slow);
    } else if (p->slow.timer.index == 0) {
        event_set(r, &p->slow, r->now_us + SLOW_READER_MS * 1000);
    }
}

static void give_up(struct router_core *r, struct generation *g)
{
    char id[REQUEST_ID_TEXT];
    struct error e;
    uint64_t unread = 0;

    for (uint32_t c = 0; c < g->n_choices; c++) {
        unread += g->choices[c].n_generated - g->choices[c].n_sent;
    }
    request_id_format(g->id, id);
    log_warn("slow-reader", "request=%s client=%s unread=%" PRIu64, id,
             g->call.peer->name, unread);
    r->metrics.slow_readers++;
    error_set(&e, ST_CANCELLED,
              "nothing was read for %d s, %" PRIu64 " tokens waited",
              SLOW_READER_MS / 1000, unread);
    pending_fail(r, &g->call, &e, 0);
    generation_cancel(r, g, SLUICE__V1__CANCEL_REASON__CANCEL_SLOW_READER);
}

/* While q had something to give nothing of its call was taken, till when? */
static int64_t slow_at(const struct request *q)
{
    int64_t served_us = q->generation->served_us;

    return (q->ready_us > served_us ? q->ready_us : served_us) +
           SLOW_READER_MS * 1000;
}

void stream_slow(struct router_core *r, struct router_peer *p)
{
    int64_t next = NODE_IDLE;
    struct list *at = p->ready.next;

    while (at != &p->ready) {
        const struct request *q = LIST_OF(at, struct request, ready);
        int64_t due = slow_at(q);

        at = at->next;
        if (due <= r->now_us) {
            give_up(r, q->generation);
            at = p->ready.next; /* more than q went */
            next = NODE_IDLE;
        } else if (due < next) {
            next = due;
        }
    }
    event_set(r, &p->slow, next);
}

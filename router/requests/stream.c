#include "router/requests/stream.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/failpoint.h"
#include "router/requests/logprob_columns.h"
#include "router/requests/stops.h"
#include "text/detokenizer.h"
#include "text/text_limits.h"

#define CHUNK_ROOM  (160u << 10) /* the largest chunk and its envelope */
#define CHUNK_BYTES (128u << 10) /* the size cap of GenerateChunk */

/* Sizes on the wire.  Ids are below MODEL_VOCAB_MAX, so each takes at most 4
 * bytes.  With w logprobs per token, n tokens take 4 n + 4 n w + 4 n (w - 1)
 * bytes, and n w <= CHUNK_LOGPROBS_MAX. */
#define CHUNK_PUSH_MAX    (3 * (TEXT_TOKEN_BYTES + DETOK_HELD_MAX))
#define CHUNK_COLUMNS_MAX (8 * CHUNK_LOGPROBS_MAX)
#define CHUNK_BESIDE_MAX  512 /* figures, tags and lengths */

_Static_assert(MODEL_VOCAB_MAX <= 1 << 28, "an id takes 4 bytes");
_Static_assert(CHUNK_TOKENS_MAX <= CHUNK_LOGPROBS_MAX, "4 n fits 8 n w");
_Static_assert(CHUNK_TEXT_MAX + CHUNK_PUSH_MAX + CHUNK_COLUMNS_MAX +
                       CHUNK_BESIDE_MAX <=
                   CHUNK_BYTES,
               "every chunk can be sent");

/* Returns true if the link has room for a chunk and the client has at most
 * CLIENT_UNREAD_BYTES unread.  Unsent tokens cost 4 bytes each in their choice,
 * and more in a chunk. */
static bool has_room(const struct router_peer *p)
{
    size_t room = peer_room(p->peer, LANE_CONTROL);

    return room >= CHUNK_ROOM &&
           room + CLIENT_UNREAD_BYTES >= LINK_OUTBOX_BYTES;
}

static bool has_output(const struct choice *choice)
{
    return pending_is_open(&choice->request->call) &&
           (choice->n_sent < choice->n_generated ||
            (choice->state == CHOICE_ENDED && !choice->last_sent));
}

void stream_ready(struct requests *r, struct choice *choice)
{
    struct router_peer *p = choice->request->call.peer;

    if (!has_output(choice)) {
        return;
    }
    if (!list_linked(&choice->ready)) {
        choice->ready_us = r->base->now_us;
        list_append(&p->ready, &choice->ready);
        peers_touch(r->fleet, p);
    }
    if (choice->state == CHOICE_ENDED) {
        /* A last chunk does not wait: end the gathering of its client. */
        p->streamed_us = r->base->now_us - r->base->options.gather_us;
        peers_touch(r->fleet, p);
    }
}

static uint64_t since(int64_t from_us, int64_t to_us)
{
    return to_us > from_us ? (uint64_t)(to_us - from_us) : 0;
}

static void fill_figures(const struct choice *choice,
                         Sluice__V1__GenerateFigures *f)
{
    const struct request *request = choice->request;
    int64_t left =
        choice->granted_us != 0 ? choice->granted_us : choice->ended_us;

    sluice__v1__generate_figures__init(f);
    f->n_prompt = request->n_prompt;
    f->n_generated = choice->n_generated;
    f->queued_us = since(request->arrived_us, left);
    f->first_token_us = choice->first_us == 0
                            ? 0
                            : since(request->arrived_us, choice->first_us);
    f->total_us = since(request->arrived_us, choice->ended_us);
    f->blocks = choice_n_blocks(choice);
    f->slots = (uint32_t)choice->held.of[SLOTS];
    f->windows = choice_n_windows(choice);
    f->has_windows = f->windows > 0;
    f->seed = request->sampling.seed;
    f->n_moves = choice->n_moves;
    f->has_worker = choice->granted_us != 0;
    f->worker = wire_text(choice->worker_name);
    f->has_n_cached = choice->granted_us != 0;
    f->n_cached = choice_n_cached(choice);
}

static void reserve_text(struct requests *r, const struct tokenizer *t)
{
    /* The push that passes CHUNK_TEXT_MAX, and a finish after it. */
    size_t size = CHUNK_TEXT_MAX + 2 * detokenizer_max(t);

    if (size > r->text_size) {
        free(r->text);
        r->text = malloc(size);
        r->text_size = size;
        assert(r->text != NULL);
    }
}

void stream_begin(struct requests *r, struct choice *choice)
{
    const struct request *request = choice->request;
    unsigned flags = request->special_text ? 0 : DETOK_SKIP_SPECIAL;
    const struct tokenizer *t = NULL;

    if (request->sampling.logprobs) {
        choice->logprobs =
            logprob_columns_new(request->sampling.n_top_logprobs);
    }
    if (request->wants_text || request->stop_strings != NULL) {
        t = r->base->options.text->ops->tokenizer(r->base->options.text,
                                                  request->model->text);
    }
    if (t == NULL) {
        return;
    }
    reserve_text(r, t);
    if (request->wants_text) {
        choice->detok = malloc(sizeof *choice->detok);
        assert(choice->detok != NULL);
        detokenizer_init(choice->detok, t, flags);
    }
    if (request->stop_strings != NULL) {
        choice->stops = stops_new(request->stop_strings, t, flags);
        /* Without its last token: that may be the end token, which is no
         * text. */
        if (choice->n_client_has > 1) {
            (void)stops_scan(choice->stops, choice->tokens,
                             choice->n_client_has - 1, r->text);
        }
    }
}

/* Converts the next tokens, up to index end, to text in r->text; fewer if their
 * text is too long.  Returns its bytes. */
static size_t make_text(struct requests *r, struct choice *choice, uint32_t end)
{
    uint32_t stop = UINT32_MAX; /* index of the end token, which has no text */
    size_t bytes =
        choice->stops != NULL ? stops_resume(choice->stops, r->text) : 0;
    bool last;

    /* finish is set before ENDED if a Cancel came too late. */
    if (choice->finish == SLUICE__V1__FINISH__FINISH_STOP &&
        !stops_found(choice->stops)) {
        stop = choice->n_generated - 1;
    }
    for (; choice->n_detokenized < end && bytes < CHUNK_TEXT_MAX;
         choice->n_detokenized++) {
        if (choice->n_detokenized != stop) {
            bytes += detokenizer_push(choice->detok,
                                      choice->tokens[choice->n_detokenized],
                                      r->text + bytes);
        }
    }
    last = choice->state == CHOICE_ENDED &&
           choice->n_detokenized == choice->n_generated;
    if (last) {
        bytes += detokenizer_finish(choice->detok, r->text + bytes);
    }
    return choice->stops != NULL
               ? stops_cut(choice->stops, r->text, bytes, last)
               : bytes;
}

/* Makes the text of a chunk with the next *n tokens; sets *n to fewer if their
 * text is too long.  The text of a resumed choice begins with the tokens that
 * it came with; the leading bytes that its client already has are skipped. */
static void chunk_text(struct requests *r, struct choice *choice, uint32_t *n,
                       ProtobufCBinaryData *text)
{
    uint32_t end = choice->n_sent + *n;
    size_t bytes, skip;

    do {
        bytes = make_text(r, choice, end);
        skip = choice->skip_bytes < bytes ? choice->skip_bytes : bytes;
        choice->skip_bytes -= (uint32_t)skip;
    } while (skip == bytes && choice->n_detokenized < end);
    *n = choice->n_detokenized > choice->n_sent
             ? choice->n_detokenized - choice->n_sent
             : 0;
    text->data = (uint8_t *)r->text + skip;
    text->len = bytes - skip;
}

static uint32_t chunk_tokens(const struct choice *choice)
{
    uint32_t n = choice->n_generated - choice->n_sent, max = CHUNK_TOKENS_MAX;

    if (choice->logprobs != NULL) {
        max = CHUNK_LOGPROBS_MAX / (1 + choice->logprobs->n_top);
    }
    return n < max ? n : max;
}

/* Adds to c what only the last chunk of a choice carries. */
static void fill_end(const struct choice *choice, Sluice__V1__GenerateChunk *c,
                     Sluice__V1__GenerateFigures *f)
{
    fill_figures(choice, f);
    c->has_finish = true;
    c->finish = choice->finish;
    c->figures = f;
    if (stops_found(choice->stops)) {
        c->has_stop_string = true;
        c->stop_string = choice->stops->scan.string;
    }
}

/* Sends one chunk of choice, with as much of its new output as fits.  Returns
 * false if the link has no room. */
static bool send_chunk(struct requests *r, struct choice *choice)
{
    Sluice__V1__GenerateChunk c = SLUICE__V1__GENERATE_CHUNK__INIT;
    Sluice__V1__GenerateFigures f;
    struct request *request = choice->request;
    uint32_t n = chunk_tokens(choice);

    if (choice->detok != NULL) {
        chunk_text(r, choice, &n, &c.text);
        c.has_text = c.text.len > 0;
    } else {
        choice->n_detokenized = choice->n_sent + n;
    }
    c.has_choice = request->n_choices > 1;
    c.choice = choice->index;
    c.first_index = choice->n_sent;
    c.tokens = n == 0 ? NULL : choice->tokens + choice->n_sent;
    c.n_tokens = n;
    if (choice->logprobs != NULL) {
        logprob_columns_show(choice->logprobs, n, &c);
    }
    if (choice->state == CHOICE_ENDED &&
        choice->n_detokenized == choice->n_generated) {
        fill_end(choice, &c, &f);
    }
    FP(ROUTER_CHUNK);
    if (peer_reply(request->call.peer->peer, request->call.id, &c.base) !=
        ST_OK) {
        return false;
    }
    FP(ROUTER_CHUNK_SENT);
    if (choice->logprobs != NULL) {
        logprob_columns_drop(choice->logprobs, n);
    }
    choice->n_sent += n;
    choice->last_sent = c.has_finish;
    request->n_unsent -= choice->last_sent;
    choice->ready_us = request->served_us = r->base->now_us;
    return true;
}

void stream_rest(struct requests *r, struct request *request)
{
    for (uint32_t c = 0; c < request->n_choices; c++) {
        struct choice *choice = &request->choices[c];

        if (pending_is_open(&request->call) &&
            choice->n_sent < choice->n_generated &&
            has_room(request->call.peer)) {
            (void)send_chunk(r, choice);
        }
    }
}

/* Sends a chunk of choice, and puts it at the end of the ready list if it has
 * more output: choices take turns.  Returns false if there is no room. */
static bool serve_choice(struct requests *r, struct router_peer *p,
                         struct choice *choice)
{
    if (!has_room(p) || !send_chunk(r, choice)) {
        return false;
    }
    list_remove(&choice->ready);
    if (choice->last_sent) {
        if (choice->request->n_unsent == 0) {
            FP(ROUTER_END);
            pending_end(r->fleet, &choice->request->call, NULL);
        }
        choice_settle(r, choice);
    } else if (has_output(choice)) {
        list_append(&p->ready, &choice->ready);
    }
    return true;
}

/* Returns true if the output that is ready waits to be gathered with more. */
static bool must_gather(struct requests *r, struct router_peer *p)
{
    int64_t due = p->streamed_us + r->base->options.gather_us;

    p->stream_due_us = NODE_IDLE;
    if (list_empty(&p->ready)) {
        return false;
    }
    if (r->base->now_us < due) {
        p->stream_due_us = due;
        return true;
    }
    p->streamed_us = r->base->now_us;
    return false;
}

void stream_pump(struct requests *r, struct router_peer *p)
{
    if (must_gather(r, p)) {
        return;
    }
    while (!list_empty(&p->ready)) {
        if (!serve_choice(r, p, LIST_OF(p->ready.next, struct choice, ready))) {
            break;
        }
    }
    if (list_empty(&p->ready)) {
        event_clear(r->base, &p->slow);
    } else if (p->slow.timer.index == 0) {
        /* Armed once per list that stays ready; slow_reader_check() finds the
         * exact times. */
        event_set(r->base, &p->slow, r->base->now_us + SLOW_READER_MS * 1000);
    }
}

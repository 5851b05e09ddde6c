#include "router/requests/stream.h"

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
           (choice->out.n_sent < choice->out.n_generated ||
            (choice->state == CHOICE_ENDED &&
             choice->out.state == OUTPUT_OPEN));
}

void stream_ready(struct requests *r, struct choice *choice)
{
    struct router_peer *p = choice->request->call.peer;

    if (!has_output(choice)) {
        return;
    }
    if (!list_linked(&choice->out.ready)) {
        choice->out.ready_us = r->base->now_us;
        list_append(&output_of(p)->ready, &choice->out.ready);
        peers_touch(r->fleet, p);
    }
    if (choice->state == CHOICE_ENDED) {
        /* A last chunk does not wait: end the gathering of its client. */
        output_of(p)->streamed_us =
            r->base->now_us - r->base->options.gather_us;
        peers_touch(r->fleet, p);
    }
}

void stream_open(struct requests *r, struct router_peer *p,
                 void (*slow)(void *room, struct event *e))
{
    struct session_output *out = output_of(p);

    out->peer = p;
    list_init(&out->ready);
    /* Thus the first chunk of a session does not wait. */
    out->streamed_us = r->base->now_us - r->base->options.gather_us;
    out->due_us = NODE_IDLE;
    event_init(&out->slow, slow, r);
}

void stream_close(struct requests *r, struct router_peer *p)
{
    event_clear(r->base, &output_of(p)->slow);
}

static uint64_t since(int64_t from_us, int64_t to_us)
{
    return to_us > from_us ? (uint64_t)(to_us - from_us) : 0;
}

static void fill_figures(const struct choice *choice,
                         Sluice__V1__GenerateFigures *f)
{
    const struct request *request = choice->request;
    int64_t left = choice->figures.granted_us != 0 ? choice->figures.granted_us
                                                   : choice->figures.ended_us;

    sluice__v1__generate_figures__init(f);
    f->n_prompt = request->prompt.n;
    f->n_generated = choice->out.n_generated;
    f->queued_us = since(request->arrived_us, left);
    f->first_token_us =
        choice->figures.first_us == 0
            ? 0
            : since(request->arrived_us, choice->figures.first_us);
    f->total_us = since(request->arrived_us, choice->figures.ended_us);
    f->blocks = choice_n_blocks(choice);
    f->slots = (uint32_t)choice->grant.held.of[SLOTS];
    f->windows = choice_n_windows(choice);
    f->has_windows = f->windows > 0;
    f->seed = request->sampling.seed;
    f->n_moves = choice->figures.n_moves;
    f->has_worker = choice->figures.granted_us != 0;
    f->worker = wire_text(choice->grant.worker_name);
    f->has_n_cached = choice->figures.granted_us != 0;
    f->n_cached = choice_n_cached(choice);
}

static bool reserve_text(struct requests *r, const struct tokenizer *t)
{
    /* The push that passes CHUNK_TEXT_MAX, and a finish after it. */
    size_t size = CHUNK_TEXT_MAX + 2 * detokenizer_max(t);

    char *text;

    if (size > r->text_size) {
        text = realloc(r->text, size);
        if (text == NULL) {
            return false;
        }
        r->text = text;
        r->text_size = size;
    }
    return true;
}

bool stream_begin(struct requests *r, struct choice *choice)
{
    const struct request *request = choice->request;
    unsigned flags = request->special_text ? 0 : DETOK_SKIP_SPECIAL;
    const struct tokenizer *t = NULL;

    if (request->sampling.logprobs) {
        choice->out.logprobs =
            logprob_columns_new(request->sampling.n_top_logprobs);
        if (choice->out.logprobs == NULL) {
            return false;
        }
    }
    if (request->wants_text || request->stop_strings != NULL) {
        t = r->base->options.text->ops->tokenizer(r->base->options.text,
                                                  request->model->text);
    }
    if (t == NULL) {
        return true;
    }
    if (!reserve_text(r, t)) {
        return false;
    }
    if (request->wants_text) {
        choice->text.detok = malloc(sizeof *choice->text.detok);
        if (choice->text.detok == NULL) {
            return false;
        }
        detokenizer_init(choice->text.detok, t, flags);
    }
    if (request->stop_strings != NULL) {
        choice->text.stops = stops_new(request->stop_strings, t, flags);
        if (choice->text.stops == NULL) {
            return false;
        }
        /* Without its last token: that may be the end token, which is no
         * text. */
        if (choice->out.n_client_has > 1) {
            (void)stops_scan(choice->text.stops, choice->out.tokens,
                             choice->out.n_client_has - 1, r->text);
        }
    }
    return true;
}

/* Converts the next tokens, up to index end, to text in r->text; fewer if their
 * text is too long.  Returns its bytes. */
static size_t make_text(struct requests *r, struct choice *choice, uint32_t end)
{
    uint32_t stop = UINT32_MAX; /* index of the end token, which has no text */
    size_t bytes = choice->text.stops != NULL
                       ? stops_resume(choice->text.stops, r->text)
                       : 0;
    bool last;

    /* finish is set before ENDED if a Cancel came too late. */
    if (choice->finish == SLUICE__V1__FINISH__FINISH_STOP &&
        !stops_found(choice->text.stops)) {
        stop = choice->out.n_generated - 1;
    }
    for (; choice->text.n_detokenized < end && bytes < CHUNK_TEXT_MAX;
         choice->text.n_detokenized++) {
        if (choice->text.n_detokenized != stop) {
            bytes +=
                detokenizer_push(choice->text.detok,
                                 choice->out.tokens[choice->text.n_detokenized],
                                 r->text + bytes);
        }
    }
    last = choice->state == CHOICE_ENDED &&
           choice->text.n_detokenized == choice->out.n_generated;
    if (last) {
        bytes += detokenizer_finish(choice->text.detok, r->text + bytes);
    }
    return choice->text.stops != NULL
               ? stops_cut(choice->text.stops, r->text, bytes, last)
               : bytes;
}

/* Makes the text of a chunk with the next *n tokens; sets *n to fewer if their
 * text is too long.  The text of a resumed choice begins with the tokens that
 * it came with; the leading bytes that its client already has are skipped. */
static void chunk_text(struct requests *r, struct choice *choice, uint32_t *n,
                       ProtobufCBinaryData *text)
{
    uint32_t end = choice->out.n_sent + *n;
    size_t bytes, skip;

    do {
        bytes = make_text(r, choice, end);
        skip =
            choice->text.skip_bytes < bytes ? choice->text.skip_bytes : bytes;
        choice->text.skip_bytes -= (uint32_t)skip;
    } while (skip == bytes && choice->text.n_detokenized < end);
    *n = choice->text.n_detokenized > choice->out.n_sent
             ? choice->text.n_detokenized - choice->out.n_sent
             : 0;
    text->data = (uint8_t *)r->text + skip;
    text->len = bytes - skip;
}

static uint32_t chunk_tokens(const struct choice *choice)
{
    uint32_t n = choice->out.n_generated - choice->out.n_sent,
             max = CHUNK_TOKENS_MAX;

    if (choice->out.logprobs != NULL) {
        max = CHUNK_LOGPROBS_MAX / (1 + choice->out.logprobs->n_top);
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
    if (stops_found(choice->text.stops)) {
        c->has_stop_string = true;
        c->stop_string = choice->text.stops->scan.string;
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

    if (choice->text.detok != NULL) {
        chunk_text(r, choice, &n, &c.text);
        c.has_text = c.text.len > 0;
    } else {
        choice->text.n_detokenized = choice->out.n_sent + n;
    }
    c.has_choice = request->n_choices > 1;
    c.choice = choice->index;
    c.first_index = choice->out.n_sent;
    c.tokens = n == 0 ? NULL : choice->out.tokens + choice->out.n_sent;
    c.n_tokens = n;
    if (choice->out.logprobs != NULL) {
        logprob_columns_show(choice->out.logprobs, n, &c);
    }
    if (choice->state == CHOICE_ENDED &&
        choice->text.n_detokenized == choice->out.n_generated) {
        fill_end(choice, &c, &f);
    }
    FP(ROUTER_CHUNK);
    if (peer_reply(request->call.peer->peer, request->call.id, &c.base) !=
        ST_OK) {
        return false;
    }
    FP(ROUTER_CHUNK_SENT);
    if (choice->out.logprobs != NULL) {
        logprob_columns_drop(choice->out.logprobs, n);
    }
    choice->out.n_sent += n;
    if (c.has_finish) {
        choice_output_move(choice, OUTPUT_CLOSED);
        request->n_unsent--;
    }
    choice->out.ready_us = request->served_us = r->base->now_us;
    return true;
}

void stream_rest(struct requests *r, struct request *request)
{
    for (uint32_t c = 0; c < request->n_choices; c++) {
        struct choice *choice = &request->choices[c];

        if (pending_is_open(&request->call) &&
            choice->out.n_sent < choice->out.n_generated &&
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
    list_remove(&choice->out.ready);
    if (choice->out.state == OUTPUT_CLOSED) {
        if (choice->request->n_unsent == 0) {
            FP(ROUTER_END);
            pending_end(r->fleet, &choice->request->call, NULL);
        }
        choice_settle(r, choice);
    } else if (has_output(choice)) {
        list_append(&output_of(p)->ready, &choice->out.ready);
    }
    return true;
}

/* Returns true if the output that is ready waits to be gathered with more. */
static bool must_gather(struct requests *r, struct router_peer *p)
{
    struct session_output *out = output_of(p);
    int64_t due = out->streamed_us + r->base->options.gather_us;

    out->due_us = NODE_IDLE;
    if (list_empty(&out->ready)) {
        return false;
    }
    if (r->base->now_us < due) {
        out->due_us = due;
        return true;
    }
    out->streamed_us = r->base->now_us;
    return false;
}

void stream_pump(struct requests *r, struct router_peer *p)
{
    struct session_output *out = output_of(p);

    if (must_gather(r, p)) {
        return;
    }
    while (!list_empty(&out->ready)) {
        if (!serve_choice(r, p,
                          LIST_OF(out->ready.next, struct choice, out.ready))) {
            break;
        }
    }
    if (list_empty(&out->ready)) {
        event_clear(r->base, &out->slow);
    } else if (out->slow.timer.index == 0) {
        /* Armed once per list that stays ready; slow_reader_check() finds the
         * exact times. */
        event_set(r->base, &out->slow, r->base->now_us + SLOW_READER_MS * 1000);
    }
}

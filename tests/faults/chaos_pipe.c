#include "tests/faults/chaos_pipe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* At a limited rate, bytes are written in slices of this duration. */
#define RATE_SLICE_US 20000

struct chaos_segment {
    struct chaos_segment *next;
    int64_t due_us;
    size_t bytes, at; /* at: bytes already written */
    uint8_t data[];
};

uint64_t chaos_draw(uint64_t *state, uint64_t n)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % n;
}

/* Returns true once in n draws on average; 0: never, and draws nothing. */
static bool chance(struct chaos_pipe *p, uint32_t n)
{
    return n > 0 && chaos_draw(&p->random, n) == 0;
}

void chaos_pipe_init(struct chaos_pipe *p, const struct chaos_settings *s,
                     struct chaos_counts *counts, enum chaos_way way, bool zmtp,
                     uint64_t seed)
{
    *p = (struct chaos_pipe){.settings = s,
                             .counts = counts,
                             .way = way,
                             .zmtp = zmtp,
                             .random = seed,
                             .jitter = ~seed};
    zmtp_init(&p->parser);
}

void chaos_pipe_fini(struct chaos_pipe *p)
{
    struct chaos_segment *s;

    while ((s = p->first) != NULL) {
        p->first = s->next;
        free(s);
    }
    free(p->held);
    free(p->unit);
}

/* ---- input ---- */

static struct chaos_segment *segment_new(const uint8_t *data, size_t n)
{
    struct chaos_segment *s = malloc(sizeof *s + n);

    assert(s != NULL);
    *s = (struct chaos_segment){.bytes = n};
    memcpy(s->data, data, n);
    return s;
}

/* Queues s and takes it.  A slice is never due before the slices in front of
 * it, because the bytes are one stream. */
static void queue(struct chaos_pipe *p, struct chaos_segment *s, int64_t now_us)
{
    const struct chaos_settings *o = p->settings;
    int64_t late_ms = o->delay_ms;

    if (o->jitter_ms > 0) {
        late_ms += (int64_t)chaos_draw(&p->jitter, (uint64_t)o->jitter_ms + 1);
    }
    s->due_us = now_us + late_ms * 1000;
    s->due_us = s->due_us > p->last_due_us ? s->due_us : p->last_due_us;
    p->last_due_us = s->due_us;
    if (p->first == NULL) {
        p->first = s;
    } else {
        p->last->next = s;
    }
    p->last = s;
    p->queued += s->bytes;
}

static void queue_held(struct chaos_pipe *p, int64_t now_us)
{
    struct chaos_segment *s = p->held;

    if (s != NULL) {
        p->held = NULL;
        queue(p, s, now_us);
    }
}

/* Decides what happens to a whole message. */
static void message(struct chaos_pipe *p, int64_t now_us)
{
    const struct chaos_settings *o = p->settings;
    struct chaos_segment *s;

    if (o->drop[p->way]) {
        p->counts->dropped_messages++;
        p->counts->dropped_bytes += p->unit_bytes;
        return;
    }
    if (chance(p, o->lose)) {
        p->counts->losses++;
        return;
    }
    s = segment_new(p->unit, p->unit_bytes);
    if (p->held == NULL && chance(p, o->reorder)) {
        p->held = s;
        p->held_until_us = now_us + CHAOS_HOLD_US;
        return;
    }
    queue(p, s, now_us);
    if (p->held != NULL) {
        p->counts->reorders++;
        queue_held(p, now_us);
    }
    if (chance(p, o->dup)) {
        p->counts->dups++;
        queue(p, segment_new(p->unit, p->unit_bytes), now_us);
    }
}

/* Passes a unit that is not a message, or is too large to be held. */
static void pass(struct chaos_pipe *p, int64_t now_us)
{
    bool drops = p->rest == UNIT_SKIPS ||
                 (p->rest == UNIT_WAITS && p->settings->drop[p->way]);

    if (drops) {
        p->counts->dropped_bytes += p->unit_bytes;
    } else if (p->unit_bytes > 0) {
        queue_held(p, now_us);
        queue(p, segment_new(p->unit, p->unit_bytes), now_us);
    }
    p->unit_bytes = 0;
}

/* The rest of a large message is treated like its beginning. */
static void pass_large(struct chaos_pipe *p, bool ends, int64_t now_us)
{
    if (p->rest == UNIT_WAITS) {
        p->rest = p->settings->drop[p->way] ? UNIT_SKIPS : UNIT_PASSES;
    }
    pass(p, now_us);
    p->rest = ends ? UNIT_WAITS : p->rest;
}

/* Flips one bit in settings->flip bytes, or in flip_body bytes of bodies. */
static void flip(struct chaos_pipe *p, uint8_t *data, size_t n, bool body)
{
    const struct chaos_settings *o = p->settings;
    uint32_t of = o->flip > 0 ? o->flip : body ? o->flip_body : 0;

    if (of == 0) {
        return;
    }
    if (p->flip_of != of) {
        p->flip_of = of;
        p->flip_in = chaos_draw(&p->random, 2 * (uint64_t)of - 1);
    }
    while (p->flip_in < n) {
        data[p->flip_in] ^= (uint8_t)(1u << chaos_draw(&p->random, 8));
        p->counts->flips++;
        data += p->flip_in + 1;
        n -= p->flip_in + 1;
        p->flip_in = chaos_draw(&p->random, 2 * (uint64_t)of - 1);
    }
    p->flip_in -= n;
}

static void unit_add(struct chaos_pipe *p, const uint8_t *data, size_t n,
                     bool body)
{
    size_t want = p->unit_bytes + n;

    if (want > p->unit_room) {
        p->unit_room = want > 2 * p->unit_room ? want : 2 * p->unit_room;
        p->unit = realloc(p->unit, p->unit_room);
        assert(p->unit != NULL);
    }
    memcpy(p->unit + p->unit_bytes, data, n);
    flip(p, p->unit + p->unit_bytes, n, body);
    p->unit_bytes = want;
}

/* Adds a piece of a ZMTP stream to p->unit. */
static void unit_grew(struct chaos_pipe *p, const struct zmtp_piece *piece,
                      int64_t now_us)
{
    if (piece->unit == ZMTP_MESSAGE && piece->ends) {
        p->counts->messages[p->way]++;
    }
    if (piece->unit != ZMTP_MESSAGE && piece->unit != ZMTP_COMMAND) {
        pass(p, now_us);
    } else if (p->rest != UNIT_WAITS || p->unit_bytes > CHAOS_UNIT_MAX) {
        pass_large(p, piece->ends, now_us);
    } else if (piece->ends && piece->unit == ZMTP_MESSAGE) {
        message(p, now_us);
        p->unit_bytes = 0;
    } else if (piece->ends) {
        pass(p, now_us);
    }
}

static void put_zmtp(struct chaos_pipe *p, const uint8_t *data, size_t n,
                     int64_t now_us)
{
    while (n > 0) {
        bool was = p->parser.unit == ZMTP_OTHER;
        struct zmtp_piece piece = zmtp_next(&p->parser, data, n);

        p->counts->not_zmtp += !was && piece.unit == ZMTP_OTHER;
        unit_add(p, data, piece.bytes, piece.body);
        unit_grew(p, &piece, now_us);
        data += piece.bytes;
        n -= piece.bytes;
    }
}

void chaos_pipe_put(struct chaos_pipe *p, const uint8_t *data, size_t n,
                    int64_t now_us)
{
    p->counts->bytes[p->way] += n;
    if (p->zmtp) {
        put_zmtp(p, data, n, now_us);
    } else {
        unit_add(p, data, n, true);
        pass(p, now_us);
    }
}

/* Passes an incomplete unit, because its sender has closed. */
void chaos_pipe_end(struct chaos_pipe *p, int64_t now_us)
{
    queue_held(p, now_us);
    pass(p, now_us);
    p->ended = true;
}

bool chaos_pipe_full(const struct chaos_pipe *p)
{
    return p->ended || p->settings->freeze[p->way] ||
           p->queued >= CHAOS_PIPE_MAX;
}

/* ---- output ---- */

static size_t slice(const struct chaos_pipe *p, size_t n)
{
    uint64_t rate = p->settings->rate, most;

    if (rate == 0) {
        return n;
    }
    most =
        rate > UINT64_MAX / RATE_SLICE_US ? n : rate * RATE_SLICE_US / 1000000;
    most = most > 0 ? most : 1;
    return n < most ? n : (size_t)most;
}

size_t chaos_pipe_peek(struct chaos_pipe *p, const uint8_t **data,
                       int64_t now_us)
{
    struct chaos_segment *s;

    if (p->held != NULL && p->held_until_us <= now_us) {
        queue_held(p, now_us);
    }
    s = p->first;
    if (s == NULL || p->settings->freeze[p->way] || s->due_us > now_us ||
        (p->settings->rate > 0 && p->free_us > now_us)) {
        return 0;
    }
    *data = s->data + s->at;
    return slice(p, s->bytes - s->at);
}

void chaos_pipe_took(struct chaos_pipe *p, size_t n, int64_t now_us)
{
    struct chaos_segment *s = p->first;
    int64_t from_us = p->free_us > now_us ? p->free_us : now_us;

    s->at += n;
    p->queued -= n;
    if (p->settings->rate > 0) {
        p->free_us =
            from_us + (int64_t)((double)n * 1e6 / (double)p->settings->rate);
    }
    if (s->at == s->bytes) {
        p->first = s->next;
        free(s);
    }
}

int64_t chaos_pipe_due(const struct chaos_pipe *p)
{
    int64_t due_us = CHAOS_NEVER;

    if (p->settings->freeze[p->way]) {
        return CHAOS_NEVER;
    }
    if (p->first != NULL) {
        due_us = p->first->due_us;
        if (p->settings->rate > 0 && p->free_us > due_us) {
            due_us = p->free_us;
        }
    }
    if (p->held != NULL && p->held_until_us < due_us) {
        due_us = p->held_until_us;
    }
    return due_us;
}

/* The end of a connection does not pass a way that drops or freezes. */
bool chaos_pipe_done(const struct chaos_pipe *p)
{
    return p->ended && p->first == NULL && p->held == NULL &&
           !p->settings->drop[p->way] && !p->settings->freeze[p->way];
}

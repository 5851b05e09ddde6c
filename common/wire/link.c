#include "common/wire/link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"
#include "common/wire/outbox.h"

#define ENVELOPES_ORDERED_MAX (FRAME_ENVELOPES_MAX - LINK_STATE_METHODS)

/* An ordered frame that is not acknowledged, without its state part. */
struct sealed {
    struct frame *frame;
    uint32_t submit_bytes, tensor_bytes;
};

struct link {
    uint64_t session;
    uint64_t next;     /* number of the next ordered frame */
    uint64_t acked;    /* highest number that the peer has acknowledged */
    uint64_t received; /* highest number received without a gap */
    uint64_t ack_sent; /* the last ack that was sent */

    /* Recovery (go-back-N): frames [resend_at, recover_end] are to be sent
     * again, resend_budget bytes at a time; an acknowledgement refills the
     * budget. recover_end = 0: no recovery. */
    uint64_t resend_at, recover_end;
    size_t resend_budget;

    uint64_t popped; /* number of the frame last popped, 0: not ordered */
    uint64_t gap_reported,
        gap_heard; /* last missing frame, reported and received */
    int64_t gap_reported_us, gap_heard_us;
    int64_t resend_due_us, resend_delay_us;
    int64_t unacked_us;    /* waited without an acknowledgement, up to */
    int64_t waited_end_us; /* this time */
    int64_t ack_due_us;
    int64_t hold_us; /* nothing is sent before */
    size_t ring_bytes, ring_bytes_max, ring_tensor_bytes;
    size_t submit_bytes, unacked_bytes;
    bool report_gap;

    struct outbox outbox;
    struct sealed ring[LINK_RING_FRAMES];
    struct link_counts counts;
};

const struct link_limits link_limits_usual = {LINK_OUTBOX_BYTES,
                                              LINK_RING_BYTES};

struct link_limits link_limits_tensors(uint32_t n, uint32_t tensor_bytes)
{
    struct link_limits l = link_limits_usual;

    l.outbox_bytes += (size_t)n * tensor_bytes;
    l.ring_bytes += (size_t)n * tensor_bytes;
    return l;
}

struct link *link_new(uint64_t session, const struct link_limits *limits)
{
    struct link *l = calloc(1, sizeof *l);

    if (l == NULL) {
        return NULL;
    }
    limits = limits == NULL ? &link_limits_usual : limits;
    l->outbox.bytes = limits->outbox_bytes;
    l->ring_bytes_max = limits->ring_bytes;
    l->session = session;
    l->next = 1;
    l->resend_due_us = INT64_MAX;
    l->resend_delay_us = LINK_RESEND_US;
    l->ack_due_us = INT64_MAX;
    return l;
}

void link_free(struct link **lp)
{
    struct link *l = *lp;

    *lp = NULL;
    if (l == NULL) {
        return;
    }
    for (size_t i = 0; i < LINK_RING_FRAMES; i++) {
        frame_free(&l->ring[i].frame);
    }
    outbox_fini(&l->outbox);
    free(l);
}

const struct link_counts *link_counts(const struct link *l)
{
    return &l->counts;
}

uint8_t *link_put(struct link *l, enum lane lane, const struct envelope *e)
{
    return outbox_put(&l->outbox, lane, e);
}

uint8_t *link_put_tensor(struct link *l, const struct envelope *e,
                         uint32_t tensor_bytes, uint8_t **tensor)
{
    return outbox_put_tensor(&l->outbox, e, tensor_bytes, tensor);
}

enum status link_push(struct link *l, enum lane lane, const struct envelope *e)
{
    uint8_t *body = link_put(l, lane, e);

    if (body == NULL) {
        return ST_RESOURCE_EXHAUSTED;
    }
    if (e->body_bytes > 0) {
        memcpy(body, e->body, e->body_bytes);
    }
    return ST_OK;
}

size_t link_room(const struct link *l, enum lane lane)
{
    return outbox_room(&l->outbox, lane);
}

uint64_t link_queued(const struct link *l, enum lane lane)
{
    return outbox_queued(&l->outbox, lane);
}

uint64_t link_taken(const struct link *l, enum lane lane)
{
    return outbox_taken(&l->outbox, lane);
}

static struct sealed *ring_at(struct link *l, uint64_t number)
{
    return &l->ring[number % LINK_RING_FRAMES];
}

/* New frames wait while old ones are resent: the peer would drop them as out
 * of order. */
static bool ring_open(const struct link *l)
{
    return l->recover_end == 0 && l->next - l->acked <= LINK_RING_FRAMES &&
           l->ring_bytes < l->ring_bytes_max;
}

/* Cuts the part of submit that may go now, beside control_bytes. */
static struct cut cut_submit(const struct link *l, struct cut control)
{
    size_t window = LINK_SUBMIT_WINDOW - l->submit_bytes;
    size_t limit = LINK_SEAL_BYTES - control.bytes;
    bool alone = l->submit_bytes == 0 && limit >= 2 * LINK_SUBMIT_WINDOW;

    if (control.bytes >= LINK_SEAL_BYTES ||
        l->submit_bytes >= LINK_SUBMIT_WINDOW) {
        return (struct cut){0, 0};
    }
    return outbox_cut(&l->outbox, LANE_SUBMIT, window < limit ? window : limit,
                      ENVELOPES_ORDERED_MAX - control.n, alone);
}

struct parts {
    struct cut control, submit;
    bool tensor; /* a tensor is next: it travels alone */
};

static struct parts cut_ordered(const struct link *l)
{
    struct parts p = {{0, 0}, {0, 0}, false};

    if (ring_open(l)) {
        p.tensor = outbox_tensor_next(&l->outbox);
        if (!p.tensor) {
            p.control = outbox_cut(&l->outbox, LANE_CONTROL, LINK_SEAL_BYTES,
                                   ENVELOPES_ORDERED_MAX, true);
            p.submit = cut_submit(l, p.control);
        }
    }
    return p;
}

/* Returns the time from now until the oldest frame of the ring is resent. */
static int64_t patience_us(const struct link *l)
{
    return l->resend_delay_us +
           (int64_t)(l->ring_tensor_bytes / LINK_TENSOR_BYTES_US);
}

static void ring_grow(struct link *l, size_t bytes, int64_t now_us)
{
    l->ring_bytes += bytes;
    /* The timer runs for the oldest frame; frames that follow do not delay
     * it. */
    if (l->resend_due_us == INT64_MAX) {
        l->resend_due_us = now_us + patience_us(l);
        l->waited_end_us = now_us;
    }
}

/* Without memory nothing is sent for a while, as without room. */
static struct frame *starve(struct link *l, int64_t now_us)
{
    l->hold_us = now_us + LINK_HOLD_US;
    return NULL;
}

/* Keeps the ordered part of f until it is acknowledged.  State is left out: a
 * resend carries newer state. */
static void ring_keep(struct link *l, const struct frame *f, struct frame *copy,
                      struct frame_header h, struct parts p, int64_t now_us)
{
    struct sealed *s = ring_at(l, h.number);
    size_t ordered = p.control.bytes + p.submit.bytes;

    assert(s->frame == NULL);
    s->frame = copy;
    memcpy(s->frame->data, f->data, FRAME_HEADER + ordered);
    if (h.n_state > 0) {
        h.n_state = 0;
        h.envelopes_bytes = (uint32_t)ordered;
        frame_seal(s->frame, &h);
    }
    s->submit_bytes = (uint32_t)p.submit.bytes;
    s->tensor_bytes = 0;
    l->submit_bytes += p.submit.bytes;
    ring_grow(l, ordered, now_us);
}

/* A gap is reported once, by whichever frame is sent next. */
static uint16_t take_flags(struct link *l)
{
    uint16_t flags = l->report_gap ? FRAME_GAP : 0;

    l->report_gap = false;
    return flags;
}

/* Seals the next tensor.  The ring and the caller share the frame, so the
 * tensor is not copied. */
static struct frame *seal_tensor(struct link *l, int64_t now_us)
{
    struct tensor_slot w = outbox_take_tensor(&l->outbox);
    struct sealed *s = ring_at(l, l->next);
    struct frame_header h = {.session = l->session,
                             .number = l->next,
                             .ack = l->received,
                             .flags = take_flags(l),
                             .n_ordered = 1,
                             .envelopes_bytes = w.envelope_bytes,
                             .tensor_bytes = w.tensor_bytes};

    assert(s->frame == NULL);
    frame_seal(w.frame, &h);
    *s = (struct sealed){.frame = frame_share(w.frame),
                         .tensor_bytes = w.tensor_bytes};
    l->popped = l->next++;
    l->ring_tensor_bytes += w.tensor_bytes;
    ring_grow(l, w.frame->bytes - FRAME_HEADER, now_us);
    l->counts.sealed++;
    return w.frame;
}

static struct frame *seal(struct link *l, struct parts p, int64_t now_us)
{
    size_t ordered = p.control.bytes + p.submit.bytes;
    struct cut state = outbox_take_state(&l->outbox, ordered, NULL);
    struct frame_header h = {
        .session = l->session,
        .ack = l->received,
        .n_ordered = (uint16_t)(p.control.n + p.submit.n),
        .n_state = (uint16_t)state.n,
        .envelopes_bytes = (uint32_t)(ordered + state.bytes),
    };
    struct frame *f, *copy = NULL;
    uint8_t *at;

    if (h.envelopes_bytes == 0) {
        return NULL;
    }
    /* Both before anything changes. */
    f = frame_new(FRAME_HEADER + h.envelopes_bytes);
    if (f != NULL && h.n_ordered > 0) {
        copy = frame_new((uint32_t)(FRAME_HEADER + ordered));
    }
    if (f == NULL || (h.n_ordered > 0 && copy == NULL)) {
        frame_free(&f);
        return starve(l, now_us);
    }
    h.flags = take_flags(l);
    h.number = h.n_ordered > 0 ? l->next++ : 0;
    at = f->data + FRAME_HEADER;
    outbox_take(&l->outbox, LANE_CONTROL, p.control, at);
    outbox_take(&l->outbox, LANE_SUBMIT, p.submit, at + p.control.bytes);
    outbox_take_state(&l->outbox, ordered, at + ordered);
    frame_seal(f, &h);
    l->popped = h.number;
    if (h.number != 0) {
        ring_keep(l, f, copy, h, p, now_us);
    }
    l->counts.sealed++;
    return f;
}

static struct frame *seal_next(struct link *l, int64_t now_us)
{
    struct parts p = cut_ordered(l);

    return p.tensor ? seal_tensor(l, now_us) : seal(l, p, now_us);
}

/* Starts to resend the frames from `first` on. */
static void go_back(struct link *l, uint64_t first)
{
    if (PLANT(NO_RESEND)) {
        return;
    }
    l->resend_at = first;
    l->recover_end = l->next - 1;
    l->resend_budget = LINK_SEAL_BYTES;
}

static bool resending(const struct link *l)
{
    return l->recover_end != 0 && l->resend_budget > 0;
}

/* Copies the frame: ack and flags change, and a shared frame is read-only. */
static struct frame *resend(struct link *l, int64_t now_us)
{
    const struct frame *kept = ring_at(l, l->resend_at)->frame;
    struct frame *f = frame_copy(kept);

    if (f == NULL) {
        return starve(l, now_us);
    }
    frame_reseal(f, l->received, take_flags(l));
    l->popped = l->resend_at++;
    l->resend_budget -=
        f->bytes < l->resend_budget ? f->bytes : l->resend_budget;
    if (l->resend_at > l->recover_end) {
        l->recover_end = 0;
    }
    l->counts.resent++;
    return f;
}

/* An ack without anything to carry it: the peer would otherwise resend. */
static struct frame *bare_ack(struct link *l, int64_t now_us)
{
    struct frame_header h = {.session = l->session, .ack = l->received};
    struct frame *f = frame_new(FRAME_HEADER);

    if (f == NULL) {
        return starve(l, now_us);
    }
    h.flags = take_flags(l);
    frame_seal(f, &h);
    return f;
}

/* Counts the wait that ends with a resend. */
static void count_wait(struct link *l, int64_t now_us)
{
    int64_t waited = now_us - l->waited_end_us;
    int64_t most = patience_us(l);

    if (PLANT(NO_RESEND)) {
        return; /* the end of the session would repair the loss */
    }
    l->unacked_us += waited < most ? waited : most;
    l->waited_end_us = now_us;
}

bool link_gave_up(const struct link *l)
{
    return l->unacked_us >= LINK_UNACKED_US || l->outbox.broken;
}

/* The delay doubles until an acknowledgement resets it, so a dead peer is not
 * flooded. */
static void time_out(struct link *l, int64_t now_us)
{
    count_wait(l, now_us);
    l->resend_delay_us *= 2;
    if (l->resend_delay_us > LINK_RESEND_MAX_US) {
        l->resend_delay_us = LINK_RESEND_MAX_US;
    }
    l->resend_due_us = now_us + patience_us(l);
    go_back(l, l->acked + 1);
}

struct frame *link_pop(struct link *l, int64_t now_us)
{
    struct frame *f;

    l->popped = 0;
    if (now_us < l->hold_us) {
        return NULL;
    }
    if (now_us >= l->resend_due_us) {
        time_out(l, now_us);
    }
    if (link_gave_up(l)) {
        return NULL;
    }
    /* Old frames go first: the peer accepts only the next number. */
    f = resending(l) ? resend(l, now_us) : seal_next(l, now_us);
    if (f == NULL && now_us >= l->ack_due_us && now_us >= l->hold_us) {
        f = bare_ack(l, now_us);
    }
    if (f != NULL) {
        /* Every frame carries the newest ack, so a bare one is no longer
         * due. */
        l->ack_sent = l->received;
        l->unacked_bytes = 0;
        l->ack_due_us = INT64_MAX;
    }
    return f;
}

void link_unsent(struct link *l, int64_t now_us)
{
    /* A frame that was acknowledged meanwhile need not be sent again. */
    if (l->popped != 0 && l->popped > l->acked) {
        go_back(l, l->popped);
    }
    l->ack_due_us = now_us;
    l->hold_us = now_us + LINK_HOLD_US;
}

int64_t link_due(const struct link *l)
{
    struct parts p = cut_ordered(l);
    int64_t due =
        l->resend_due_us < l->ack_due_us ? l->resend_due_us : l->ack_due_us;

    if (link_gave_up(l)) {
        return INT64_MAX;
    }
    if (resending(l) || l->outbox.n_state > 0 || p.tensor ||
        p.control.n + p.submit.n > 0) {
        due = 0; /* long past; INT64_MIN would be NODE_STOP to a loop */
    }
    return due > l->hold_us ? due : l->hold_us;
}

/* Returns whether every envelope is whole and their number is the header's. */
static bool envelopes_whole(const struct frame *f, const struct frame_header *h)
{
    uint32_t at = 0, n = 0;
    struct envelope e;

    while (envelope_next(f, h, &at, &e)) {
        n++;
    }
    return at == h->envelopes_bytes && n == (uint32_t)h->n_ordered + h->n_state;
}

/* Returns whether the frame has no tensor, or a permitted one with only its
 * own envelope. */
static bool tensor_allowed(const struct frame *f, const struct frame_header *h)
{
    const struct method_row *row;
    struct envelope e;
    uint32_t at = 0;

    if (h->tensor_bytes == 0) {
        return true;
    }
    if (h->n_ordered != 1 || h->n_state != 0 ||
        h->tensor_bytes % sizeof(float) != 0 || !envelope_next(f, h, &at, &e)) {
        return false;
    }
    row = method_find(e.method);
    return row != NULL && e.kind == ENVELOPE_ONEWAY &&
           h->tensor_bytes <= row->tensor_cap;
}

/* Any progress resets the delay and refills the budget of a recovery. */
static void take_ack(struct link *l, uint64_t ack, int64_t now_us)
{
    while (l->acked < ack) {
        struct sealed *s = ring_at(l, ++l->acked);

        l->ring_bytes -= s->frame->bytes - FRAME_HEADER;
        l->ring_tensor_bytes -= s->tensor_bytes;
        l->submit_bytes -= s->submit_bytes;
        frame_free(&s->frame);
    }
    l->unacked_us = 0;
    l->waited_end_us = now_us;
    l->resend_delay_us = LINK_RESEND_US;
    l->resend_due_us =
        l->acked + 1 < l->next ? now_us + patience_us(l) : INT64_MAX;
    if (l->recover_end != 0) {
        l->resend_budget = LINK_SEAL_BYTES;
        /* The peer may acknowledge frames that were about to be resent. */
        if (l->resend_at <= ack) {
            l->resend_at = ack + 1;
        }
        if (ack >= l->recover_end) {
            l->recover_end = 0;
        }
    }
}

/* Acts on a gap report.  Each frame after a lost one may carry the same
 * report, so only the first within LINK_GAP_US counts. */
static void hear_gap(struct link *l, uint64_t ack, int64_t now_us)
{
    if (ack != l->acked || ack + 1 >= l->next ||
        (l->gap_heard == ack + 1 && now_us - l->gap_heard_us < LINK_GAP_US)) {
        return;
    }
    count_wait(l, now_us);
    l->gap_heard = ack + 1;
    l->gap_heard_us = now_us;
    l->resend_due_us = now_us + patience_us(l);
    go_back(l, ack + 1);
}

/* The report is limited in time: every frame behind the gap would otherwise
 * cause one. */
static void miss(struct link *l, int64_t now_us)
{
    uint64_t missed = l->received + 1;

    l->counts.gaps++;
    if (l->gap_reported != missed ||
        now_us - l->gap_reported_us >= LINK_GAP_US) {
        l->gap_reported = missed;
        l->gap_reported_us = now_us;
        l->report_gap = true;
        l->ack_due_us = now_us;
    }
}

/* Returns true if the ordered part of this frame is the next one. */
static bool take_number(struct link *l, const struct frame_header *h,
                        int64_t now_us)
{
    if (h->number == 0) {
        return false;
    }
    if (h->number <= l->received) {
        /* A duplicate means that the ack was lost, so it is sent again at
         * once. */
        l->counts.duplicates++;
        l->ack_due_us = now_us;
        return PLANT(DUPLICATE_DELIVERED);
    }
    if (h->number != l->received + 1) {
        miss(l, now_us);
        return false;
    }
    l->received++;
    l->unacked_bytes += (size_t)h->envelopes_bytes + h->tensor_bytes;
    /* Acks are frequent enough that the sender's ring and window never run
     * full. */
    if (l->received - l->ack_sent >= LINK_ACK_FRAMES ||
        l->unacked_bytes >= LINK_SUBMIT_WINDOW / 2) {
        l->ack_due_us = now_us;
    } else if (l->ack_due_us > now_us + LINK_ACK_DELAY_US) {
        l->ack_due_us = now_us + LINK_ACK_DELAY_US;
    }
    return true;
}

bool link_recv(struct link *l, const struct frame *f,
               const struct frame_header *h, int64_t now_us,
               link_deliver_fn *deliver, void *arg)
{
    struct envelope e;
    uint32_t at = 0, n = 0;
    bool next;

    /* Everything is checked before any state changes, so a bad frame has no
     * effect. */
    if (h->ack >= l->next || !envelopes_whole(f, h) || !tensor_allowed(f, h) ||
        (h->number > l->received &&
         h->number - l->received > LINK_RING_FRAMES)) {
        return false;
    }
    if (h->ack > l->acked) {
        take_ack(l, h->ack, now_us);
    }
    if (h->flags & FRAME_GAP) {
        hear_gap(l, h->ack, now_us);
    }
    next = take_number(l, h, now_us);
    while (envelope_next(f, h, &at, &e)) {
        bool ordered = n++ < h->n_ordered;

        if (next || !ordered) {
            deliver(arg, &e, ordered);
        }
    }
    return true;
}

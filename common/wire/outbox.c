#include "common/wire/outbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"

#define QUEUE_BYTES_MIN 1024u

void outbox_fini(struct outbox *o)
{
    for (size_t i = 0; i < LINK_STATE_METHODS; i++) {
        free(o->state[i].data);
    }
    for (size_t i = 0; i < LINK_TENSORS_MAX; i++) {
        frame_free(&o->tensors[i].frame);
    }
    free(o->lanes[LANE_CONTROL].data);
    free(o->lanes[LANE_SUBMIT].data);
}

/* ---- input ---- */

static size_t queue_bytes(const struct queue *q)
{
    return q->tail - q->head;
}

/* Moves the waiting bytes to the front, and doubles the memory if that is not
 * enough.  Returns false without memory. */
static bool queue_settle(struct queue *q, size_t bytes)
{
    size_t used = queue_bytes(q);
    uint8_t *data;

    /* Moves first: often that alone makes enough room. */
    if (q->head > 0) {
        memmove(q->data, q->data + q->head, used);
        q->head = 0;
        q->tail = used;
    }
    /* At least half is then free, so moves stay cheap on average. */
    if (q->capacity / 2 < used + bytes) {
        size_t capacity = q->capacity == 0 ? QUEUE_BYTES_MIN : q->capacity;

        while (capacity / 2 < used + bytes) {
            capacity *= 2;
        }
        data = realloc(q->data, capacity);
        if (data == NULL) {
            return q->capacity - used >= bytes; /* it may be just enough */
        }
        q->data = data;
        q->capacity = capacity;
    }
    return true;
}

static uint8_t *queue_reserve(struct queue *q, size_t bytes)
{
    uint8_t *at;

    if (q->capacity - q->tail < bytes && !queue_settle(q, bytes)) {
        return NULL;
    }
    at = q->data + q->tail;
    q->tail += bytes;
    q->n++;
    return at;
}

/* There are at most LINK_STATE_METHODS methods, so a linear search is
 * enough. */
static struct state_slot *slot_of(struct outbox *o, uint16_t method)
{
    for (size_t i = 0; i < LINK_STATE_METHODS; i++) {
        struct state_slot *s = &o->state[i];

        if (s->method == method || s->method == 0) {
            s->method = method;
            return s;
        }
    }
    return NULL;
}

static uint8_t *state_reserve(struct outbox *o, uint16_t method, size_t bytes)
{
    struct state_slot *s = slot_of(o, method);

    if (s == NULL) {
        return NULL;
    }
    if (bytes > s->capacity) {
        /* The old content is obsolete, so it need not be copied. */
        o->n_state -= s->bytes > 0;
        s->bytes = 0;
        free(s->data);
        s->data = malloc(2 * bytes);
        s->capacity = s->data != NULL ? 2 * bytes : 0;
        if (s->data == NULL) {
            return NULL;
        }
    }
    o->n_state += s->bytes == 0;
    s->bytes = bytes;
    return s->data;
}

/* ENDs and CANCELs close calls, so refusing one would leave a call open for
 * ever.  Their number is bounded by the calls, so they need no limit. */
static bool always_taken(const struct envelope *e)
{
    return e->kind == ENVELOPE_END || e->kind == ENVELOPE_CANCEL;
}

/* Returns the bytes waiting in LANE_CONTROL, with tensors, or in
 * LANE_SUBMIT. */
static size_t lane_bytes(const struct outbox *o, enum lane lane)
{
    return queue_bytes(&o->lanes[lane]) +
           (lane == LANE_CONTROL ? o->tensor_bytes : 0);
}

uint8_t *outbox_put(struct outbox *o, enum lane lane, const struct envelope *e)
{
    size_t bytes = ENVELOPE_HEADER + (size_t)e->body_bytes;
    uint8_t *at;

    if (bytes > FRAME_BYTES_MAX - FRAME_HEADER) {
        return NULL;
    }
    if (lane == LANE_STATE) {
        at = state_reserve(o, e->method, bytes);
    } else if (lane_bytes(o, lane) + bytes > o->bytes && !always_taken(e)) {
        at = NULL;
    } else {
        at = queue_reserve(&o->lanes[lane], bytes);
    }
    o->broken =
        o->broken || (at == NULL && (lane == LANE_STATE || always_taken(e)));
    return at == NULL ? NULL : envelope_head(at, e);
}

/* The tensor's place in the lane is the number of envelopes given before it,
 * not a position in memory: envelopes move. */
uint8_t *outbox_put_tensor(struct outbox *o, const struct envelope *e,
                           uint32_t tensor_bytes, uint8_t **tensor)
{
    const struct queue *q = &o->lanes[LANE_CONTROL];
    struct frame_header h = {.envelopes_bytes = ENVELOPE_HEADER + e->body_bytes,
                             .tensor_bytes = tensor_bytes};
    size_t bytes = (size_t)h.envelopes_bytes + tensor_bytes;
    uint32_t last = o->first_tensor + o->n_tensors;
    struct frame *f;

    assert(e->body_bytes <= FRAME_BYTES_MAX - FRAME_HEADER - ENVELOPE_HEADER &&
           tensor_bytes <= FRAME_TENSOR_MAX);
    /* Tensors count against the lane's bytes, so that one slow stage cannot
     * take all memory. */
    if (o->n_tensors == LINK_TENSORS_MAX ||
        lane_bytes(o, LANE_CONTROL) + bytes > o->bytes) {
        return NULL;
    }
    f = frame_new(frame_bytes(h.envelopes_bytes, tensor_bytes));
    if (f == NULL) {
        return NULL;
    }
    o->tensors[last % LINK_TENSORS_MAX] =
        (struct tensor_slot){.frame = f,
                             .after = q->n_taken + q->n,
                             .envelope_bytes = h.envelopes_bytes,
                             .tensor_bytes = tensor_bytes};
    o->n_tensors++;
    o->tensor_bytes += bytes;
    *tensor = f->data + frame_tensor_at(&h);
    return envelope_head(f->data + FRAME_HEADER, e);
}

size_t outbox_room(const struct outbox *o, enum lane lane)
{
    size_t used;

    assert(lane != LANE_STATE);
    used = lane_bytes(o, lane) + ENVELOPE_HEADER;
    return used < o->bytes ? o->bytes - used : 0;
}

uint64_t outbox_taken(const struct outbox *o, enum lane lane)
{
    return o->lanes[lane].n_taken +
           (lane == LANE_CONTROL ? o->n_tensors_taken : 0);
}

uint64_t outbox_queued(const struct outbox *o, enum lane lane)
{
    return outbox_taken(o, lane) + o->lanes[lane].n +
           (lane == LANE_CONTROL ? o->n_tensors : 0);
}

/* ---- output ---- */

/* Returns how many envelopes of the control lane go before the first waiting
 * tensor. */
static uint64_t before_tensor(const struct outbox *o)
{
    return o->n_tensors == 0 ? UINT64_MAX
                             : o->tensors[o->first_tensor].after -
                                   o->lanes[LANE_CONTROL].n_taken;
}

bool outbox_tensor_next(const struct outbox *o)
{
    return before_tensor(o) == 0;
}

struct tensor_slot outbox_take_tensor(struct outbox *o)
{
    struct tensor_slot t = o->tensors[o->first_tensor];

    o->tensors[o->first_tensor].frame = NULL;
    o->first_tensor = (o->first_tensor + 1) % LINK_TENSORS_MAX;
    o->n_tensors--;
    o->n_tensors_taken++;
    o->tensor_bytes -= (size_t)t.envelope_bytes + t.tensor_bytes;
    return t;
}

struct cut outbox_cut(const struct outbox *o, enum lane lane, size_t limit,
                      uint32_t n_max, bool alone)
{
    const struct queue *q = &o->lanes[lane];
    struct cut c = {queue_bytes(q), q->n};

    if (lane == LANE_CONTROL && before_tensor(o) < n_max) {
        n_max = (uint32_t)before_tensor(o);
    }
    /* The whole lane fits, the usual case: no need to walk it. */
    if (c.bytes <= limit && c.n <= n_max) {
        return c;
    }
    c = (struct cut){0, 0};
    while (c.n < q->n && c.n < n_max) {
        const uint8_t *p = q->data + q->head + c.bytes;
        size_t bytes = ENVELOPE_HEADER + (size_t)get_u32(p + 8);

        if (c.bytes + bytes > limit && !(alone && c.n == 0)) {
            break;
        }
        c.bytes += bytes;
        c.n++;
    }
    return c;
}

static void queue_take(struct queue *q, size_t bytes, uint32_t n)
{
    q->head += bytes;
    q->n -= n;
    q->n_taken += n;
    /* Starts at the front again, so that an idle lane never moves bytes. */
    if (q->head == q->tail) {
        q->head = 0;
        q->tail = 0;
    }
}

void outbox_take(struct outbox *o, enum lane lane, struct cut c, uint8_t *out)
{
    struct queue *q = &o->lanes[lane];

    if (c.n > 0) {
        memcpy(out, q->data + q->head, c.bytes);
        queue_take(q, c.bytes, c.n);
    }
}

struct cut outbox_take_state(struct outbox *o, size_t bytes, uint8_t *out)
{
    struct cut c = {0, 0};

    for (size_t i = 0; i < LINK_STATE_METHODS && o->n_state > 0; i++) {
        struct state_slot *s = &o->state[i];

        /* A state that does not fit waits for the next frame; it is never
         * split. */
        if (s->bytes == 0 || (bytes + c.bytes > 0 &&
                              bytes + c.bytes + s->bytes > LINK_SEAL_BYTES)) {
            continue;
        }
        if (out != NULL) {
            memcpy(out + c.bytes, s->data, s->bytes);
            o->n_state--;
        }
        c.bytes += s->bytes;
        c.n++;
        if (out != NULL) {
            s->bytes = 0;
        }
    }
    return c;
}

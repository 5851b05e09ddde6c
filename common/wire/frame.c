#include "common/wire/frame.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/bytes.h"
#include "common/wire/frame_spare.h"

/* Offsets in the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_FLAGS = 6,
    AT_ORDERED = 8,
    AT_STATE = 10,
    AT_ENVELOPES = 12,
    AT_TENSOR = 16,
    AT_ZERO = 20,
    AT_SESSION = 24,
    AT_NUMBER = 32,
    AT_ACK = 40,
    AT_ZERO_TOO = 48,
    AT_CHECKSUM = 56
};

/* Up to this size, copying the frame without the checksum is cheaper than a
 * streaming hash. */
#define CHECK_COPY 512

struct frame *frame_new(uint32_t bytes)
{
    size_t room;
    struct frame *f = spare_take(sizeof *f + bytes, &room);

    if (f == NULL) {
        return NULL;
    }
    f->room = room;
    f->bytes = bytes;
    atomic_init(&f->owners, 1);
    return f;
}

void frame_free(struct frame **f)
{
    struct frame *g = *f;

    *f = NULL;
    if (g != NULL &&
        atomic_fetch_sub_explicit(&g->owners, 1, memory_order_acq_rel) == 1) {
        spare_give(g, g->room);
    }
}

/* Relaxed: the caller holds a reference, so the count cannot reach 0
 * meanwhile. */
struct frame *frame_share(struct frame *f)
{
    atomic_fetch_add_explicit(&f->owners, 1, memory_order_relaxed);
    return f;
}

struct frame *frame_copy(const struct frame *f)
{
    struct frame *c = frame_new(f->bytes);

    if (c != NULL) {
        memcpy(c->data, f->data, f->bytes);
    }
    return c;
}

/* Returns where the tensor begins.  The padding exists only for the tensor's
 * alignment. */
static uint64_t body_end(uint32_t envelopes_bytes, uint32_t tensor_bytes)
{
    uint64_t end = FRAME_HEADER + (uint64_t)envelopes_bytes;

    return tensor_bytes == 0 ? end : (end + 63) & ~UINT64_C(63);
}

uint32_t frame_bytes(uint32_t envelopes_bytes, uint32_t tensor_bytes)
{
    return (uint32_t)body_end(envelopes_bytes, tensor_bytes) + tensor_bytes;
}

size_t frame_tensor_at(const struct frame_header *h)
{
    return (size_t)body_end(h->envelopes_bytes, h->tensor_bytes);
}

static void header_write(uint8_t *out, const struct frame_header *h)
{
    put_u32(out + AT_MAGIC, FRAME_MAGIC);
    put_u16(out + AT_VERSION, FRAME_VERSION);
    put_u16(out + AT_FLAGS, h->flags);
    put_u16(out + AT_ORDERED, h->n_ordered);
    put_u16(out + AT_STATE, h->n_state);
    put_u32(out + AT_ENVELOPES, h->envelopes_bytes);
    put_u32(out + AT_TENSOR, h->tensor_bytes);
    put_u32(out + AT_ZERO, 0);
    put_u64(out + AT_SESSION, h->session);
    put_u64(out + AT_NUMBER, h->number);
    put_u64(out + AT_ACK, h->ack);
    put_u64(out + AT_ZERO_TOO, 0);
}

static void write_checksum(struct frame *f)
{
    put_u64(f->data + AT_CHECKSUM, 0);
    put_u64(f->data + AT_CHECKSUM, XXH3_64bits(f->data, f->bytes));
}

/* The checksum covers the frame with these 8 bytes as 0; data is borrowed and
 * must not be changed. */
static uint64_t checksum_of(const uint8_t *data, size_t bytes)
{
    static const uint8_t zero[8];
    uint8_t copy[CHECK_COPY];
    XXH3_state_t state;

    if (bytes <= sizeof copy) {
        memcpy(copy, data, bytes);
        put_u64(copy + AT_CHECKSUM, 0);
        return XXH3_64bits(copy, bytes);
    }
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, data, AT_CHECKSUM);
    XXH3_64bits_update(&state, zero, sizeof zero);
    XXH3_64bits_update(&state, data + FRAME_HEADER, bytes - FRAME_HEADER);
    return XXH3_64bits_digest(&state);
}

void frame_seal(struct frame *f, const struct frame_header *h)
{
    size_t used = FRAME_HEADER + (size_t)h->envelopes_bytes;

    /* frame_new() leaves the padding undefined, and it is sent. */
    memset(f->data + used, 0, frame_tensor_at(h) - used);
    header_write(f->data, h);
    write_checksum(f);
}

struct frame *frame_make(const struct frame_header *h, const uint8_t *envelopes,
                         const void *tensor)
{
    struct frame *f =
        frame_new(frame_bytes(h->envelopes_bytes, h->tensor_bytes));

    if (f == NULL) {
        return NULL;
    }
    if (h->envelopes_bytes > 0) {
        memcpy(f->data + FRAME_HEADER, envelopes, h->envelopes_bytes);
    }
    if (h->tensor_bytes > 0) {
        memcpy(f->data + frame_tensor_at(h), tensor, h->tensor_bytes);
    }
    frame_seal(f, h);
    return f;
}

static void header_read(const uint8_t *data, struct frame_header *h)
{
    h->flags = get_u16(data + AT_FLAGS);
    h->n_ordered = get_u16(data + AT_ORDERED);
    h->n_state = get_u16(data + AT_STATE);
    h->envelopes_bytes = get_u32(data + AT_ENVELOPES);
    h->tensor_bytes = get_u32(data + AT_TENSOR);
    h->session = get_u64(data + AT_SESSION);
    h->number = get_u64(data + AT_NUMBER);
    h->ack = get_u64(data + AT_ACK);
}

/* Each envelope needs its header, so the count bounds the walk over the
 * envelopes. */
static enum status check_counts(const struct frame_header *h, struct error *e)
{
    uint32_t n = (uint32_t)h->n_ordered + h->n_state;

    if (n > FRAME_ENVELOPES_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u envelopes, at most %d in a frame", n,
                         FRAME_ENVELOPES_MAX);
    }
    if ((h->n_ordered == 0) != (h->number == 0)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "number %llu of %u ordered envelopes",
                         (unsigned long long)h->number, h->n_ordered);
    }
    if (h->envelopes_bytes < n * ENVELOPE_HEADER ||
        (n == 0 && h->envelopes_bytes > 0)) {
        return error_set(e, ST_INVALID_ARGUMENT, "%u envelopes in %u bytes", n,
                         h->envelopes_bytes);
    }
    return ST_OK;
}

static enum status check_lengths(const uint8_t *data, size_t bytes,
                                 const struct frame_header *h, struct error *e)
{
    uint64_t used = FRAME_HEADER + (uint64_t)h->envelopes_bytes;
    uint64_t end = body_end(h->envelopes_bytes, h->tensor_bytes);

    if (used > FRAME_BYTES_MAX || h->tensor_bytes > FRAME_TENSOR_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u bytes of envelopes and %u of tensor are too many",
                         h->envelopes_bytes, h->tensor_bytes);
    }
    /* 64-bit sums: none of these can overflow. */
    if (end + h->tensor_bytes != bytes) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu bytes long, but its header has %llu", bytes,
                         (unsigned long long)(end + h->tensor_bytes));
    }
    /* Reserved bytes must be zero, so that a later version may use them. */
    for (uint64_t i = used; i < end; i++) {
        if (data[i] != 0) {
            return error_set(e, ST_INVALID_ARGUMENT, "padding is not zero");
        }
    }
    return ST_OK;
}

enum status frame_check(const uint8_t *data, size_t bytes,
                        struct frame_header *h, struct error *e)
{
    enum status st;

    if (bytes < FRAME_HEADER || get_u32(data + AT_MAGIC) != FRAME_MAGIC) {
        return error_set(e, ST_INVALID_ARGUMENT, "%zu bytes that are no frame",
                         bytes);
    }
    if (get_u16(data + AT_VERSION) != FRAME_VERSION) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "frame of version %u, not %d",
                         get_u16(data + AT_VERSION), FRAME_VERSION);
    }
    /* Magic and version first: another version may have another header. */
    header_read(data, h);
    if ((h->flags & ~FRAME_GAP) != 0 || get_u32(data + AT_ZERO) != 0 ||
        get_u64(data + AT_ZERO_TOO) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "reserved bits are not zero");
    }
    st = check_counts(h, e);
    if (st == ST_OK) {
        st = check_lengths(data, bytes, h, e);
    }
    if (st == ST_OK &&
        /* Last, because it reads the whole frame. */
        checksum_of(data, bytes) != get_u64(data + AT_CHECKSUM)) {
        st = error_set(e, ST_DATA_LOSS, "checksum differs");
    }
    return st;
}

void frame_reseal(struct frame *f, uint64_t ack, uint16_t flags)
{
    put_u16(f->data + AT_FLAGS, flags);
    put_u64(f->data + AT_ACK, ack);
    write_checksum(f);
}

bool envelope_next(const struct frame *f, const struct frame_header *h,
                   uint32_t *at, struct envelope *out)
{
    const uint8_t *p = f->data + FRAME_HEADER + *at;
    uint32_t left = h->envelopes_bytes - *at;

    if (left < ENVELOPE_HEADER || get_u32(p + 20) != 0) {
        return false;
    }
    out->call = get_u64(p);
    out->body_bytes = get_u32(p + 8);
    out->deadline_ms = get_u32(p + 12);
    out->method = get_u16(p + 16);
    out->kind = p[18];
    out->status = p[19];
    out->body = p + ENVELOPE_HEADER;
    if (out->body_bytes > left - ENVELOPE_HEADER) {
        return false;
    }
    *at += ENVELOPE_HEADER + out->body_bytes;
    return true;
}

uint32_t frame_calls(const struct frame *f, const struct frame_header *h)
{
    struct envelope e;
    uint32_t n = 0, at = 0;

    while (envelope_next(f, h, &at, &e)) {
        n += e.kind == ENVELOPE_CALL;
    }
    return n;
}

uint8_t *envelope_head(uint8_t *out, const struct envelope *e)
{
    put_u64(out, e->call);
    put_u32(out + 8, e->body_bytes);
    put_u32(out + 12, e->deadline_ms);
    put_u16(out + 16, e->method);
    out[18] = e->kind;
    out[19] = e->status;
    put_u32(out + 20, 0);
    return out + ENVELOPE_HEADER;
}

size_t envelope_write(uint8_t *out, const struct envelope *e)
{
    uint8_t *body = envelope_head(out, e);

    if (e->body_bytes > 0) {
        memcpy(body, e->body, e->body_bytes);
    }
    return ENVELOPE_HEADER + (size_t)e->body_bytes;
}

/* Arbitrary bytes as a frame, and arbitrary envelopes as a conversation.
 *
 * Byte 0 chooses the roles or, with RAW set, that the rest is one frame as it
 * came.  Otherwise the rest is records: flags, u16 length, envelopes.  Each
 * record is put in a frame with true counts and checksum, so that the code
 * behind these checks is reached. */
#include <stdbool.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/peer.h"
#include "fuzz.h"
#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/worker.pb-c.h"

#define RAW       0x80
#define SESSION   3
#define RECORDS   64
#define BYTES_MAX 65536

/* Flags of a record. */
#define STATE   1  /* not ordered */
#define REPEAT  2  /* an old number */
#define SKIP    4  /* a number ahead */
#define ACK_ALL 8  /* acknowledges all that was sent */
#define WAIT    16 /* one second passes first */
#define GAP     32
#define PANIC   64 /* acknowledges a frame that was never sent */

struct node {
    struct node_io io;
    struct peer *peer;
    struct arena arena;
    int64_t now_us;
    uint64_t sent; /* highest number sent */
    int open, n_frames;
};

static int64_t now_us(struct node_io *io)
{
    return ((struct node *)io->impl)->now_us;
}

static enum status send_frame(struct node_io *io, struct peer_id to,
                              struct frame **f)
{
    struct node *n = io->impl;
    struct frame_header h;

    (void)to;
    FUZZ_CHECK(frame_check((*f)->data, (*f)->bytes, &h, NULL) == ST_OK);
    FUZZ_CHECK(h.session == SESSION);
    FUZZ_CHECK(h.number <= n->sent + 1);
    n->sent = h.number > n->sent ? h.number : n->sent;
    n->n_frames++;
    frame_free(f);
    return n->n_frames % 11 == 0 ? ST_RESOURCE_EXHAUSTED : ST_OK;
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;
    struct node *n = node;

    FUZZ_CHECK(request->descriptor == m->request && m->built);
    FUZZ_CHECK(protobuf_c_message_check(request));
    FUZZ_CHECK((call == 0) == (m->kind == ONEWAY));
    FUZZ_CHECK(deadline_us > n->now_us);
    if (m->number == METHOD_HEALTH_CHECK) {
        peer_end(p, call, &health.base);
    } else if (call % 2 == 1) {
        struct error e;

        error_set(&e, ST_INTERNAL, "odd");
        peer_fail(p, call, &e, 1);
    }
}

static void on_cancel(void *node, struct peer *p, uint64_t call)
{
    struct error e;

    (void)node;
    error_set(&e, ST_CANCELLED, "late");
    peer_fail(p, call, &e, 0); /* already closed: a no-op */
}

static void on_reply(void *node, struct peer *p, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply)
{
    (void)node, (void)p, (void)tag;
    FUZZ_CHECK(m->kind == STREAM && reply->descriptor == m->reply);
    FUZZ_CHECK(protobuf_c_message_check(reply));
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    (void)p, (void)tag, (void)retry_after_ms;
    FUZZ_CHECK((status == ST_OK) == (e == NULL));
    FUZZ_CHECK((reply != NULL) == (status == ST_OK && m->kind == UNARY));
    ((struct node *)node)->open--;
}

static const struct peer_ops ops = {.on_call = on_call,
                                    .on_cancel = on_cancel,
                                    .on_reply = on_reply,
                                    .on_end = on_end};

static void call(struct node *n, enum method m, const ProtobufCMessage *request)
{
    n->open += peer_call(n->peer, m, request, 3000, 7, NULL) == ST_OK;
}

/* Opens calls of ours, numbers 1 to 4, that the input may answer. */
static void call_some(struct node *n, uint8_t self)
{
    static uint8_t id[16] = {1};
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    Sluice__V1__GenerateRequest generate = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__CancelRequest cancel = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;

    ref.request_id = (ProtobufCBinaryData){.len = 16, .data = id};
    cancel.sequence = &ref;
    generate.request_id = ref.request_id;
    generate.model = wire_text("m");
    call(n, METHOD_HEALTH_CHECK, &nothing.base);
    call(n, METHOD_HEALTH_CHECK, &nothing.base);
    if (self == BY_CLIENT) {
        call(n, METHOD_INFERENCE_GENERATE, &generate.base);
        call(n, METHOD_INFERENCE_CANCEL, &cancel.base);
    } else if (self == BY_ROUTER) {
        call(n, METHOD_WORKER_CANCEL, &cancel.base);
        call(n, METHOD_WORKER_AUDIT, &nothing.base);
    }
}

static uint16_t count_envelopes(const uint8_t *data, uint32_t bytes)
{
    uint32_t at = 0;
    uint16_t n = 0;

    while (bytes - at >= ENVELOPE_HEADER && n < FRAME_ENVELOPES_MAX) {
        uint32_t body = get_u32(data + at + 8);

        if (body > bytes - at - ENVELOPE_HEADER) {
            break;
        }
        at += ENVELOPE_HEADER + body;
        n++;
    }
    return n;
}

static bool give(struct node *n, uint64_t *number, uint8_t flags,
                 const uint8_t *data, uint32_t bytes)
{
    uint16_t count = count_envelopes(data, bytes);
    struct frame_header h = {.session = SESSION, .envelopes_bytes = bytes};
    enum peer_verdict verdict = PEER_FINE;
    struct frame *f;

    if (count > 0 && !(flags & STATE)) {
        h.n_ordered = count;
        h.number = flags & REPEAT && *number > 0 ? *number
                   : flags & SKIP                ? *number + 2
                                                 : ++*number;
    } else {
        h.n_state = count;
    }
    h.ack = flags & PANIC ? n->sent + 1 : flags & ACK_ALL ? n->sent : 0;
    h.flags = flags & GAP ? FRAME_GAP : 0;
    f = frame_make(&h, data, NULL);
    if (frame_check(f->data, f->bytes, &h, NULL) == ST_OK) {
        verdict = peer_recv(n->peer, f, &h, n->now_us);
    }
    frame_free(&f);
    return verdict < PEER_GOODBYE;
}

static void converse(uint8_t self, uint8_t other, const uint8_t *data, size_t n)
{
    struct node node = {.now_us = 1000000};
    struct peer_config c = {.io = &node.io,
                            .session = SESSION,
                            .self = self,
                            .other = other,
                            .ops = &ops,
                            .node = &node,
                            .arena = &node.arena};
    uint64_t number = 0;
    bool going = true;

    node.io =
        (struct node_io){.impl = &node, .now_us = now_us, .send = send_frame};
    arena_init(&node.arena);
    node.peer = peer_new(&c);
    call_some(&node, self);
    peer_flush(node.peer, node.now_us);
    for (int i = 0; going && i < RECORDS && n >= 3; i++) {
        uint32_t bytes = get_u16(data + 1);

        bytes = bytes < n - 3 ? bytes : (uint32_t)(n - 3);
        node.now_us += data[0] & WAIT ? 1000000 : 100;
        going = give(&node, &number, data[0], data + 3, bytes);
        peer_flush(node.peer, node.now_us);
        FUZZ_CHECK(peer_due(node.peer) >= 0);
        data += 3 + bytes;
        n -= 3 + bytes;
    }
    peer_free(&node.peer);
    FUZZ_CHECK(node.open == 0); /* each of our calls ended exactly once */
    arena_fini(&node.arena);
}

static void as_frame(const uint8_t *data, size_t n)
{
    struct frame *f = frame_new((uint32_t)n);
    struct frame_header h;
    struct envelope e;
    uint32_t at = 0;

    memcpy(f->data, data, n);
    if (frame_check(f->data, n, &h, NULL) == ST_OK) {
        while (envelope_next(f, &h, &at, &e)) {
            FUZZ_CHECK(e.body + e.body_bytes <= f->data + f->bytes);
        }
        FUZZ_CHECK(at <= h.envelopes_bytes);
        (void)hello_is_call(f, &h, &e);
        (void)hello_is_goodbye(f, &h, &e);
    }
    frame_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t pairs[4][2] = {{BY_ROUTER, BY_WORKER},
                                        {BY_ROUTER, BY_CLIENT},
                                        {BY_WORKER, BY_ROUTER},
                                        {BY_CLIENT, BY_ROUTER}};

    if (n == 0 || n > BYTES_MAX) {
        return 0;
    }
    if (data[0] & RAW) {
        as_frame(data + 1, n - 1);
    } else {
        const uint8_t *who = pairs[data[0] % 4];

        converse(who[0], who[1], data + 1, n - 1);
    }
    return 0;
}

/* Clients that name other clients' requests, or exceed limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/admin.pb-c.h"
#include "tests/faults/rogue.h"
#include "tests/faults/rogue_node.h"

#define GUESSES 2000
#define AT_ONCE 250
#define BITS    128 /* bits of a request_id */

struct ends {
    const struct rogue_node *node;
    unsigned n;
};

static bool has_ends(const void *arg)
{
    const struct ends *e = arg;

    return e->node->n_ends >= e->n;
}

static bool has_chunk(const void *arg)
{
    return ((const struct rogue_node *)arg)->n_chunks > 0;
}

static bool is_out(const void *arg)
{
    return ((const struct rogue_node *)arg)->n_down > 0;
}

/* Returns whether the client is still served: ListModels is answered. */
static bool is_heard(struct rogue_node *n)
{
    Sluice__V1__ListModelsRequest m = SLUICE__V1__LIST_MODELS_REQUEST__INIT;
    struct ends one = {n, n->n_ends + 1};

    return (n->peer != NULL || rogue_run_up(n)) &&
           peer_call(n->peer, METHOD_INFERENCE_LIST_MODELS, &m.base, 0, 0,
                     NULL) == ST_OK &&
           rogue_run(&n, 1, has_ends, &one) && n->status == ST_OK;
}

static enum status cancel(struct rogue_node *n, enum method method,
                          uint8_t id[16])
{
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__CancelRequest c = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__RemoveRequest r = SLUICE__V1__REMOVE_REQUEST__INIT;

    ref.request_id = (ProtobufCBinaryData){16, id};
    c.sequence = r.sequence = &ref;
    return peer_call(n->peer, method,
                     method == METHOD_INFERENCE_CANCEL ? &c.base : &r.base, 0,
                     0, NULL);
}

/* Makes guess i at an id: the id with one bit flipped, or a random one. */
static enum status guess(struct rogue_node *thief, const uint8_t id[16], int i)
{
    uint8_t near[16];

    if (i < BITS) {
        memcpy(near, id, sizeof near);
        near[i / 8] ^= (uint8_t)(1u << i % 8);
    } else {
        rogue_id(near);
    }
    return cancel(
        thief, i % 2 == 0 ? METHOD_INFERENCE_CANCEL : METHOD_INFERENCE_REMOVE,
        near);
}

/* Sends all guesses, a few at once.  Returns false if one had no answer. */
static bool guess_all(struct rogue_node *const *nodes, const uint8_t id[16])
{
    struct rogue_node *thief = nodes[1];
    struct ends all = {thief, 0};

    while (all.n < GUESSES) {
        for (int i = 0; i < AT_ONCE; i++) {
            if (guess(thief, id, (int)all.n) != ST_OK) {
                return false;
            }
            all.n++;
        }
        if (!rogue_run(nodes, 2, has_ends, &all)) {
            return false;
        }
    }
    return true;
}

static bool run_guessed_ids(struct rogue_at *at, const struct rogue_case *c)
{
    struct rogue_node *nodes[2] = {
        rogue_node_new(at->clients, BY_CLIENT, "victim"),
        rogue_node_new(at->clients, BY_CLIENT, rogue_name("thief"))};
    struct ends end = {nodes[0], 1};
    uint8_t id[16];
    bool well = rogue_run_up(nodes[0]) && rogue_run_up(nodes[1]);

    (void)c;
    rogue_id(id);
    well = well && rogue_generate(nodes[0], at->model, id, 400) == ST_OK &&
           rogue_run(nodes, 2, has_chunk, nodes[0]) && guess_all(nodes, id) &&
           nodes[1]->n_unknown == GUESSES &&
           rogue_run(nodes, 2, has_ends, &end) && nodes[0]->status == ST_OK &&
           nodes[0]->n_tokens == 400;
    rogue_saw(at, well,
              "%u guesses of %d unknown, the victim had %u tokens and %s",
              nodes[1]->n_unknown, GUESSES, nodes[0]->n_tokens,
              status_name(nodes[0]->status));
    rogue_node_free(&nodes[1]);
    rogue_node_free(&nodes[0]);
    return well;
}

/* ---- bodies ---- */

struct body {
    enum method method;
    const char *pattern; /* repeated */
    size_t n;            /* bytes of the pattern */
    size_t over;         /* bytes by which the body exceeds the cap */
};

static void call_with(struct rogue_node *n, const struct body *b)
{
    size_t bytes = method_find((uint16_t)b->method)->request_cap + b->over;
    struct envelope e = {.call = 1,
                         .method = (uint16_t)b->method,
                         .kind = ENVELOPE_CALL,
                         .body_bytes = (uint32_t)bytes};
    uint8_t *body = malloc(bytes + b->n);

    for (size_t i = 0; i < bytes; i += b->n) {
        memcpy(body + i, b->pattern, b->n);
    }
    e.body = body;
    rogue_go_raw(n);
    rogue_raw(n, &e);
    free(body);
}

static bool run_body(struct rogue_at *at, const struct rogue_case *c)
{
    struct rogue_node *n =
        rogue_node_new(at->clients, BY_CLIENT, rogue_name("bomber"));
    struct rogue_node *other =
        rogue_node_new(at->clients, BY_CLIENT, "bystander");
    struct ends one = {n, 1};
    bool well = rogue_run_up(n);

    if (well) {
        call_with(n, c->arg);
        well = rogue_run(&n, 1, has_ends, &one) &&
               n->status == ST_INVALID_ARGUMENT && n->n_down == 0 &&
               is_heard(other);
    }
    rogue_saw(at, well, "%s, sessions lost: %u", status_name(n->status),
              n->n_down);
    rogue_node_free(&other);
    rogue_node_free(&n);
    return well;
}

/* Sends frames that break a rule until the session ends: it must end after
 * exactly PEER_STRIKES. */
static bool run_strikes(struct rogue_at *at, const struct rogue_case *c)
{
    struct rogue_node *n =
        rogue_node_new(at->clients, BY_CLIENT, rogue_name("breaker"));
    struct envelope e = {.call = 1,
                         .method = METHOD_REGISTRY_REPORT,
                         .kind =
                             ENVELOPE_ONEWAY}; /* allowed for workers only */
    bool well = rogue_run_up(n);

    (void)c;
    for (int i = 0; well && i < PEER_STRIKES - 1; i++) {
        rogue_raw_state(n, &e);
    }
    rogue_run_for(&n, 1, 200000);
    well = well && n->n_down == 0;
    if (well) {
        rogue_raw_state(n, &e);
        well = rogue_run(&n, 1, is_out, n) && is_heard(n);
    }
    rogue_saw(at, well,
              "session ended after %d strikes: \"%s\", readmitted: %s",
              PEER_STRIKES, n->why, n->n_up == 2 ? "yes" : "no");
    rogue_node_free(&n);
    return well;
}

/* Flips every bit of a valid frame, one at a time: each frame is dropped. */
static bool run_damaged(struct rogue_at *at, const struct rogue_case *c)
{
    struct rogue_node *n =
        rogue_node_new(at->clients, BY_CLIENT, rogue_name("damaged"));
    struct frame_header h = {.n_state = 1};
    uint8_t envelope[ENVELOPE_HEADER];
    struct envelope e = {.method = METHOD_REGISTRY_GOODBYE,
                         .kind = ENVELOPE_ONEWAY};
    bool well = rogue_run_up(n);
    struct frame *good;

    (void)c;
    h.session = well ? peer_session(n->peer) : 0;
    h.envelopes_bytes = (uint32_t)envelope_write(envelope, &e);
    good = frame_make(&h, envelope, NULL);
    for (uint32_t i = 0; well && i < good->bytes * 8; i++) {
        struct frame *f = frame_copy(good);

        f->data[i / 8] ^= (uint8_t)(1u << i % 8);
        (void)n->session.io->send(n->session.io, n->session.id, &f);
        if (i % 16 == 15) {
            rogue_run_for(&n, 1, 1000); /* until the link has room */
        }
    }
    well = well && is_heard(n) && n->n_down == 0;
    rogue_saw(at, well, "%u damaged Goodbyes, sessions lost: %u",
              good->bytes * 8, n->n_down);
    frame_free(&good);
    rogue_node_free(&n);
    return well;
}

/* ---- numbers ---- */

static const uint64_t extremes[] = {
    0,          1,          2,         31,         64,
    513,        4097,       65536,     0x7fffffff, 0x80000000,
    0xffffffff, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX,
};

static bool is_number(const ProtobufCFieldDescriptor *f)
{
    return f->type == PROTOBUF_C_TYPE_UINT32 ||
           f->type == PROTOBUF_C_TYPE_UINT64 ||
           f->type == PROTOBUF_C_TYPE_ENUM ||
           f->type == PROTOBUF_C_TYPE_FIXED64 ||
           f->type == PROTOBUF_C_TYPE_FLOAT;
}

static void append_varint(uint8_t *out, size_t *at, uint64_t v)
{
    for (; v >= 128; v >>= 7) {
        out[(*at)++] = (uint8_t)v | 0x80;
    }
    out[(*at)++] = (uint8_t)v;
}

/* Appends field f with this value to out: the last occurrence counts. */
static void append_field(uint8_t *out, size_t *at,
                         const ProtobufCFieldDescriptor *f, uint64_t v)
{
    uint64_t wire = f->type == PROTOBUF_C_TYPE_FIXED64 ? 1
                    : f->type == PROTOBUF_C_TYPE_FLOAT ? 5
                                                       : 0;

    append_varint(out, at, (uint64_t)f->id << 3 | wire);
    if (wire == 0) {
        append_varint(out, at, v);
        return;
    }
    memcpy(out + *at, &v, wire == 1 ? 8 : 4); /* little-endian */
    *at += wire == 1 ? 8 : 4;
}

/* Writes a valid Generate of one id and returns its size. */
static size_t good_generate(const struct rogue_at *at, uint8_t *out)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    uint32_t token = 5;
    uint8_t id[16];

    rogue_id(id);
    m.request_id = (ProtobufCBinaryData){16, id};
    m.model = wire_text(at->model);
    m.tokens = &token;
    m.n_tokens = 1;
    m.has_max_tokens = true;
    m.max_tokens = 2;
    return protobuf_c_message_pack(&m.base, out);
}

/* Sends one call on a session of its own, raw: peer_call() would refuse it. */
static void call_raw(struct rogue_node *n, const uint8_t *body, size_t bytes)
{
    struct envelope e = {.call = n->sent + 1,
                         .deadline_ms = 2000,
                         .method = METHOD_INFERENCE_GENERATE,
                         .kind = ENVELOPE_CALL,
                         .body_bytes = (uint32_t)bytes,
                         .body = body};

    rogue_raw(n, &e);
}

/* Sends each field of Generate and Sampling at each extreme; returns the
 * number of calls. */
static unsigned send_extremes(struct rogue_at *at, struct rogue_node *n)
{
    const ProtobufCMessageDescriptor *types[] = {
        &sluice__v1__generate_request__descriptor,
        &sluice__v1__sampling__descriptor};
    uint8_t body[512], inner[32];

    rogue_go_raw(n);
    for (unsigned t = 0; t < 2; t++) {
        for (unsigned i = 0; i < types[t]->n_fields; i++) {
            const ProtobufCFieldDescriptor *f = &types[t]->fields[i];

            for (size_t k = 0; is_number(f) && k < sizeof extremes / 8; k++) {
                size_t bytes = good_generate(at, body), in = 0;

                append_field(t == 0 ? body : inner, t == 0 ? &bytes : &in, f,
                             extremes[k]);
                if (t == 1) { /* Sampling is field 6 */
                    append_varint(body, &bytes, 6 << 3 | 2);
                    append_varint(body, &bytes, in);
                    memcpy(body + bytes, inner, in);
                    bytes += in;
                }
                call_raw(n, body, bytes);
                rogue_run_for(&n, 1, 500);
            }
        }
    }
    return (unsigned)n->sent;
}

static bool run_extremes(struct rogue_at *at, const struct rogue_case *c)
{
    struct rogue_node *n =
        rogue_node_new(at->clients, BY_CLIENT, rogue_name("extreme"));
    struct rogue_node *other =
        rogue_node_new(at->clients, BY_CLIENT, "bystander");
    bool well = rogue_run_up(n);
    unsigned sent = well ? send_extremes(at, n) : 0;
    struct ends all = {n, sent};

    (void)c;
    well = well && sent > 200 && rogue_run(&n, 1, has_ends, &all) &&
           n->n_down == 0 && is_heard(other);
    rogue_saw(at, well, "%u requests, %u ends, sessions lost: %u %s", sent,
              n->n_ends, n->n_down, n->why);
    rogue_node_free(&other);
    rogue_node_free(&n);
    return well;
}

/* ---- texts ---- */

#define LONG_TEXTS 12
#define LONG_BYTES 1000000

/* Sends a text prompt that no context of the model holds. */
static enum status send_long(const struct rogue_at *at, struct rogue_node *n,
                             char *text)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    uint8_t id[16];

    rogue_id(id);
    m.request_id = (ProtobufCBinaryData){sizeof id, id};
    m.model = wire_text(at->model);
    m.has_text = true;
    m.text = (ProtobufCBinaryData){LONG_BYTES, (uint8_t *)text};
    return peer_call(n->peer, METHOD_INFERENCE_GENERATE, &m.base, 0, 0, NULL);
}

/* Each text is refused by its bytes, before it is encoded. */
static bool run_long_texts(struct rogue_at *at, const struct rogue_case *c)
{
    struct rogue_node *n =
        rogue_node_new(at->clients, BY_CLIENT, rogue_name("long"));
    struct rogue_node *other =
        rogue_node_new(at->clients, BY_CLIENT, "bystander");
    char *text = malloc(LONG_BYTES);
    bool well = text != NULL && rogue_run_up(n);

    (void)c;
    if (text != NULL) {
        memset(text, 'x', LONG_BYTES);
    }
    for (unsigned i = 1; well && i <= LONG_TEXTS; i++) {
        struct ends ends = {n, i};

        well = send_long(at, n, text) == ST_OK &&
               rogue_run(&n, 1, has_ends, &ends) &&
               n->status == ST_INVALID_ARGUMENT &&
               strstr(n->text, "tokens or more") != NULL;
    }
    well = well && n->n_down == 0 && is_heard(other);
    rogue_saw(at, well, "%u ends, the last one: \"%s\"", n->n_ends, n->text);
    rogue_node_free(&other);
    rogue_node_free(&n);
    free(text);
    return well;
}

/* ---- the table ---- */

#define BODY(name, method, pattern, n, over) \
    static const struct body name = {METHOD_##method, pattern, n, over}

BODY(merge, INFERENCE_GENERATE, "\x32\x02\x10\x01", 4, 0);
BODY(unknown, INFERENCE_GENERATE, "\xf8\x07\x01", 3, 0);
BODY(empty_bytes, INFERENCE_TOKENIZE, "\x12\x00", 2, 0);
BODY(empty_stops, INFERENCE_GENERATE, "\x52\x00", 2, 0);
BODY(one_scalar, INFERENCE_GENERATE, "\x28\x01", 2, 0);
BODY(unpacked, INFERENCE_DETOKENIZE, "\x10\x01", 2, 0);
BODY(nested, INFERENCE_GENERATE, "\x32\xff\xff\x3f", 4, 0);
BODY(truncated, INFERENCE_GENERATE, "\xff", 1, 0);
BODY(cancel_merge, INFERENCE_CANCEL,
     "\x0a\x12\x0a\x10"
     "0123456789abcdef",
     20, 0);
BODY(past_generate, INFERENCE_GENERATE, "\x28\x01", 2, 1);
BODY(past_cancel, INFERENCE_CANCEL, "\x10\x01", 2, 1);

#define BOMB(body, text)                                                    \
    {                                                                       \
        "bomb-" text, ROGUE_ROUTER, "only that call fails", run_body, &body \
    }

static const struct rogue_case cases[] = {
    {"guessed-ids", ROGUE_ROUTER, "all unknown, the victim is served",
     run_guessed_ids, NULL},
    BOMB(merge, "merge"),
    BOMB(unknown, "unknown-fields"),
    BOMB(empty_bytes, "empty-bytes"),
    BOMB(empty_stops, "empty-stops"),
    BOMB(one_scalar, "one-scalar"),
    BOMB(unpacked, "unpacked"),
    BOMB(nested, "length-past-end"),
    BOMB(truncated, "truncated"),
    BOMB(cancel_merge, "cancel-merge"),
    BOMB(past_generate, "generate-past-cap"),
    BOMB(past_cancel, "cancel-past-cap"),
    {"strikes", ROGUE_ROUTER, "the session ends at PEER_STRIKES, not before",
     run_strikes, NULL},
    {"damaged-frames", ROGUE_ROUTER, "each is dropped, the session stays",
     run_damaged, NULL},
    {"extremes", ROGUE_ROUTER, "each call is served, or fails alone",
     run_extremes, NULL},
    {"long-texts", ROGUE_ROUTER, "refused by their bytes", run_long_texts,
     NULL},
};

const struct rogue_table rogue_clients = {cases,
                                          sizeof cases / sizeof cases[0]};

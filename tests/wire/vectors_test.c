/* The frames of proto/vectors.txt: the link, Hello and Goodbye make them anew,
 * and the file must have the same bytes.  After a change of the protocol,
 * `build/release/tests/vectors_test --print >proto/vectors.txt` writes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/hello.h"
#include "common/wire/keepalive.h"
#include "common/wire/link.h"
#include "common/wire/method.h"
#include "common/wire/peer.h"
#include "common/wire/prefix_hash.h"
#include "common/wire/request_id.h"
#include "common/wire/session.h"
#include "common/wire/wire.h"
#include "proto/common.pb-c.h"
#include "proto/frame.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "router/base/router_options.h"
#include "tests/unit/cmocka.h"

#define SESSION    UINT64_C(0x1122334455667788)
#define ROW_BYTES  32
#define FILE_BYTES (64 << 10)

static const char *const path = "proto/vectors.txt";
static const char *const page = "proto/README.md";

static const char head[] =
    "# vectors.txt - Frames in hex, for those who write a client: README.md.\n"
    "#\n"
    "# The conversation of a client, in order, and two frames with a worker.\n"
    "# `ordered` and `state` are envelopes in one part of the frame; their\n"
    "# bodies are in the frame too.\n"
    "# tests/wire/vectors_test.c makes this file and compares it.\n";

/* ---- text ---- */

static void print_hex(FILE *out, const char *label, const uint8_t *data,
                      size_t n)
{
    fprintf(out, "%-8s", label);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%s%02x", i > 0 && i % ROW_BYTES == 0 ? "\n        " : "",
                data[i]);
    }
    fprintf(out, "\n");
}

static const char *name_of(const ProtobufCEnumDescriptor *type, int number)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(type, number);

    assert_non_null(v);
    return v->name;
}

static void print_envelope(FILE *out, const struct envelope *e, bool ordered)
{
    fprintf(out, "%-8s%s call=%llu method=%s status=%s deadline_ms=%u\n",
            ordered ? "ordered" : "state",
            name_of(&sluice__v1__envelope_kind__descriptor, e->kind),
            (unsigned long long)e->call,
            name_of(&sluice__v1__method__descriptor, e->method),
            name_of(&sluice__v1__status__descriptor, e->status),
            e->deadline_ms);
    if (e->body_bytes > 0) {
        print_hex(out, "body", e->body, e->body_bytes);
    }
}

/* Prints a frame, and frees it. */
static void print_frame(FILE *out, const char *name, const char *what,
                        struct frame *f)
{
    struct frame_header h;
    struct envelope e;
    uint32_t at = 0;
    unsigned n = 0;

    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    fprintf(out, "\n# %s\n%-8s%s\n", what, "name", name);
    fprintf(out, "%-8ssession=%016llx number=%llu ack=%llu flags=%u\n",
            "header", (unsigned long long)h.session,
            (unsigned long long)h.number, (unsigned long long)h.ack, h.flags);
    while (envelope_next(f, &h, &at, &e)) {
        print_envelope(out, &e, n++ < h.n_ordered);
    }
    print_hex(out, "frame", f->data, f->bytes);
    frame_free(&f);
}

/* ---- frames ---- */

static void push(struct link *l, struct envelope e, const ProtobufCMessage *m)
{
    uint8_t *body;

    e.body_bytes = m == NULL ? 0 : (uint32_t)wire_size(m);
    body = link_put(l, LANE_CONTROL, &e);
    assert_non_null(body);
    if (m != NULL) {
        wire_pack(m, body);
    }
}

static void deliver(void *arg, const struct envelope *e, bool ordered)
{
    (void)arg, (void)e, (void)ordered;
}

/* Moves the next frame from one end to the other; returns a copy. */
static struct frame *pass(struct link *from, struct link *to, int64_t now_us)
{
    struct frame *f = link_pop(from, now_us);
    struct frame_header h;

    assert_non_null(f);
    assert_int_equal(frame_check(f->data, f->bytes, &h, NULL), ST_OK);
    assert_true(link_recv(to, f, &h, now_us, deliver, NULL));
    return f;
}

static struct frame *hello(void)
{
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;

    m.version_major = WIRE_VERSION_MAJOR;
    m.version_minor = WIRE_VERSION_MINOR;
    m.role = SLUICE__V1__ROLE__ROLE_CLIENT;
    m.nonce = UINT64_C(0x0123456789abcdef);
    m.name = wire_text("example");
    return hello_make(&m.base);
}

static struct frame *hello_reply(void)
{
    Sluice__V1__HelloReply m = SLUICE__V1__HELLO_REPLY__INIT;

    m.version_major = WIRE_VERSION_MAJOR;
    m.version_minor = WIRE_VERSION_MINOR;
    m.name = wire_text("router");
    return hello_answer(SESSION, &m.base, NULL, 0);
}

static struct frame *hello_refused(void)
{
    struct error e;

    error_set(&e, ST_FAILED_PRECONDITION,
              "your version is 2.0, this router has 1.2");
    return hello_answer(0, NULL, &e, 0);
}

static void push_generate(struct link *client)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    uint8_t id[16];

    for (uint8_t i = 0; i < sizeof id; i++) {
        id[i] = i;
    }
    m.request_id = (ProtobufCBinaryData){sizeof id, id};
    m.model = wire_text("");
    m.has_text = m.has_max_tokens = true;
    m.text = wire_text("Once upon a time");
    m.max_tokens = 3;
    push(client,
         (struct envelope){.call = 1,
                           .kind = ENVELOPE_CALL,
                           .method = METHOD_INFERENCE_GENERATE,
                           .deadline_ms = 5000},
         &m.base);
}

static void push_chunk(struct link *router, uint32_t first, uint32_t n,
                       const char *text, Sluice__V1__Finish finish)
{
    Sluice__V1__GenerateChunk m = SLUICE__V1__GENERATE_CHUNK__INIT;
    uint32_t tokens[] = {first + 100, first + 101};

    m.first_index = first;
    m.n_tokens = n;
    m.tokens = tokens;
    m.has_text = true;
    m.text = wire_text(text);
    m.has_finish = finish != SLUICE__V1__FINISH__FINISH_RUNNING;
    m.finish = finish;
    push(router,
         (struct envelope){.call = 1,
                           .kind = ENVELOPE_REPLY,
                           .method = METHOD_INFERENCE_GENERATE},
         &m.base);
}

static void push_failure(struct link *router)
{
    Sluice__V1__Failure m = SLUICE__V1__FAILURE__INIT;

    m.has_message = true;
    m.message = wire_text("no such model");
    push(router,
         (struct envelope){.call = 2,
                           .kind = ENVELOPE_END,
                           .method = METHOD_INFERENCE_GENERATE,
                           .status = ST_NOT_FOUND},
         &m.base);
}

/* A whole conversation; `now` only drives the timers of the two links. */
static void print_request(FILE *out, struct link *client, struct link *router)
{
    int64_t now = 0;

    push_generate(client);
    print_frame(out, "generate", "Call 1, with a deadline of 5 s.",
                pass(client, router, now));
    push_chunk(router, 0, 2, ", there", SLUICE__V1__FINISH__FINISH_RUNNING);
    print_frame(out, "chunk",
                "The first tokens.  It acknowledges the client's frame 1.",
                pass(router, client, now));
    now += LINK_ACK_DELAY_US;
    print_frame(out, "ack",
                "Nothing to send, so an acknowledgement alone: number 0.",
                pass(client, router, now));
    push_chunk(router, 2, 1, " was", SLUICE__V1__FINISH__FINISH_LENGTH);
    push(router,
         (struct envelope){.call = 1,
                           .kind = ENVELOPE_END,
                           .method = METHOD_INFERENCE_GENERATE},
         NULL);
    print_frame(out, "last", "The last chunk and the End, in one frame.",
                pass(router, client, now));
}

static void print_repairs(FILE *out, struct link *client, struct link *router)
{
    int64_t now = LINK_ACK_DELAY_US;
    struct frame *lost;

    push(client, (struct envelope){.call = 2, .kind = ENVELOPE_CANCEL}, NULL);
    print_frame(out, "cancel", "A Cancel has no method.  No End answers it.",
                pass(client, router, now));
    push_failure(router);
    lost = link_pop(router, now);
    frame_free(&lost);
    push_chunk(router, 0, 1, "!", SLUICE__V1__FINISH__FINISH_RUNNING);
    lost = pass(router, client, now);
    frame_free(&lost);
    print_frame(out, "gap",
                "Frame 4 of the router came, but not frame 3: flag 1.",
                pass(client, router, now));
    print_frame(
        out, "resent",
        "Frame 3 again, at once.  A failed call: its body is a Failure.",
        pass(router, client, now));
}

/* ---- reuse ---- */

static void fill_id(uint8_t id[REQUEST_ID_BYTES], uint8_t first)
{
    for (uint8_t i = 0; i < REQUEST_ID_BYTES; i++) {
        id[i] = (uint8_t)(first + i);
    }
}

static Sluice__V1__SequenceRef ref_of(uint8_t id[REQUEST_ID_BYTES])
{
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;

    ref.request_id = (ProtobufCBinaryData){REQUEST_ID_BYTES, id};
    return ref;
}

/* Goes on from the request before it, which was kept. */
static void push_continuation(struct link *client)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    uint8_t id[REQUEST_ID_BYTES], before[REQUEST_ID_BYTES];
    Sluice__V1__SequenceRef from = ref_of(before);

    fill_id(id, 16);
    fill_id(before, 0);
    m.request_id = (ProtobufCBinaryData){sizeof id, id};
    m.model = wire_text("");
    m.has_text = m.has_max_tokens = m.has_cache_salt = m.has_cache = true;
    m.text = wire_text(" a river");
    m.max_tokens = 2;
    m.keep_ms = 60000;
    m.has_keep_ms = true;
    m.cache = true;
    m.has_drafts = true;
    m.drafts = 4;
    m.cache_salt = wire_text("team-1");
    m.continue_from = &from;
    push(client,
         (struct envelope){.call = 3,
                           .kind = ENVELOPE_CALL,
                           .method = METHOD_INFERENCE_GENERATE},
         &m.base);
}

/* The End of the continuation, with what was reused. */
static void push_continued(struct link *router)
{
    Sluice__V1__GenerateChunk m = SLUICE__V1__GENERATE_CHUNK__INIT;
    Sluice__V1__GenerateFigures f = SLUICE__V1__GENERATE_FIGURES__INIT;
    uint32_t tokens[] = {200, 201};

    f.n_prompt = 130;
    f.n_generated = 2;
    f.queued_us = 10;
    f.first_token_us = 2000;
    f.total_us = 3000;
    f.blocks = 9;
    f.slots = 1;
    f.seed = 7;
    f.has_worker = f.has_n_cached = true;
    f.worker = wire_text("w1");
    f.n_cached = 127;
    m.n_tokens = 2;
    m.tokens = tokens;
    m.has_text = m.has_finish = true;
    m.text = wire_text(" ran");
    m.finish = SLUICE__V1__FINISH__FINISH_LENGTH;
    m.figures = &f;
    push(router,
         (struct envelope){.call = 3,
                           .kind = ENVELOPE_REPLY,
                           .method = METHOD_INFERENCE_GENERATE},
         &m.base);
    push(router,
         (struct envelope){.call = 3,
                           .kind = ENVELOPE_END,
                           .method = METHOD_INFERENCE_GENERATE},
         NULL);
}

static void push_range(struct link *client)
{
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    uint8_t id[REQUEST_ID_BYTES];
    Sluice__V1__SequenceRef ref = ref_of(id);

    fill_id(id, 16);
    m.sequence = &ref;
    m.has_begin = true;
    m.begin = 100;
    push(client,
         (struct envelope){.call = 4,
                           .kind = ENVELOPE_CALL,
                           .method = METHOD_INFERENCE_REMOVE},
         &m.base);
}

static void push_receipt(struct link *router)
{
    Sluice__V1__Receipt m = SLUICE__V1__RECEIPT__INIT;
    uint8_t id[REQUEST_ID_BYTES];
    Sluice__V1__SequenceRef ref = ref_of(id);

    fill_id(id, 16);
    m.sequence = &ref;
    m.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT;
    m.n_generated = 2;
    m.blocks = 5;
    m.micros = 40;
    m.snapshot = 12;
    m.has_worker = m.has_position = true;
    m.worker = wire_text("w1");
    m.position = 64;
    push(router,
         (struct envelope){.call = 4,
                           .kind = ENVELOPE_END,
                           .method = METHOD_INFERENCE_REMOVE},
         &m.base);
}

static void print_reuse(FILE *out, struct link *client, struct link *router)
{
    int64_t now = LINK_ACK_DELAY_US;
    struct frame *again = pass(router, client, now); /* frame 4 */

    frame_free(&again);
    push_continuation(client);
    print_frame(out, "continue",
                "A prompt that goes on from a kept sequence, in a part of the "
                "tenant's index.",
                pass(client, router, now));
    push_continued(router);
    print_frame(out, "continued",
                "Its figures: n_cached of n_prompt tokens were not computed.",
                pass(router, client, now));
    push_range(client);
    print_frame(out, "range", "Removes the positions from 100 on.",
                pass(client, router, now));
    push_receipt(router);
    print_frame(out, "receipt", "The state went back to position 64.",
                pass(router, client, now));
}

/* ---- a worker's index ---- */

static struct frame *worker_hello_reply(void)
{
    Sluice__V1__HelloReply m = SLUICE__V1__HELLO_REPLY__INIT;
    uint8_t key[PREFIX_KEY_BYTES];

    for (uint8_t i = 0; i < sizeof key; i++) {
        key[i] = i;
    }
    m.version_major = WIRE_VERSION_MAJOR;
    m.version_minor = WIRE_VERSION_MINOR;
    m.name = wire_text("router");
    m.has_your_name = m.has_prefix_key = true;
    m.your_name = wire_text("w1");
    m.prefix_key = (ProtobufCBinaryData){sizeof key, key};
    return hello_answer(SESSION + 1, &m.base, NULL, 0);
}

/* A snapshot: the first unit of tokens 0, 1, 2, ... of the tenant "". */
static void push_index(struct link *worker)
{
    Sluice__V1__IndexMessage m = SLUICE__V1__INDEX_MESSAGE__INIT;
    struct prefix_key key;
    struct prefix_hash h;
    uint32_t ids[PREFIX_UNIT], n = PREFIX_UNIT;
    uint8_t hash[PREFIX_HASH_BYTES];

    for (uint8_t i = 0; i < PREFIX_KEY_BYTES; i++) {
        key.bytes[i] = i;
    }
    for (uint32_t i = 0; i < PREFIX_UNIT; i++) {
        ids[i] = i;
    }
    h = prefix_hash_next(&key, prefix_hash_root(&key, NULL, 0), ids);
    for (int i = 0; i < 8; i++) {
        hash[i] = (uint8_t)(h.lo >> 8 * i);
        hash[8 + i] = (uint8_t)(h.hi >> 8 * i);
    }
    m.first = 1;
    m.has_snapshot = m.snapshot = true;
    m.hashes = (ProtobufCBinaryData){sizeof hash, hash};
    m.n_tokens = 1;
    m.tokens = &n;
    push(worker,
         (struct envelope){.kind = ENVELOPE_ONEWAY,
                           .method = METHOD_REGISTRY_INDEX},
         &m.base);
}

static void print_worker(FILE *out)
{
    struct link *worker = link_new(SESSION + 1, NULL);
    struct link *router = link_new(SESSION + 1, NULL);

    print_frame(out, "worker_hello_reply",
                "The answer to a worker has its name and the key of hashes.",
                worker_hello_reply());
    push_index(worker);
    print_frame(out, "index",
                "A snapshot of one prefix: the 64 tokens 0, 1, 2, ... without "
                "a tenant.",
                pass(worker, router, 0));
    link_free(&worker);
    link_free(&router);
}

static void print_all(FILE *out)
{
    struct link *client = link_new(SESSION, NULL);
    struct link *router = link_new(SESSION, NULL);

    fputs(head, out);
    print_frame(out, "hello", "The first frame of a client, outside a session.",
                hello());
    print_frame(out, "hello_reply", "The answer names the session.",
                hello_reply());
    print_frame(out, "hello_refused", "Another answer: no session.",
                hello_refused());
    print_request(out, client, router);
    print_repairs(out, client, router);
    print_reuse(out, client, router);
    print_frame(out, "goodbye",
                "The client leaves.  Goodbye is state: it has no number.",
                goodbye_make(SESSION, "done"));
    print_worker(out);
    link_free(&client);
    link_free(&router);
}

/* ---- tests ---- */

/* Reads a file of the repository. */
static void read_file(const char *name, char text[FILE_BYTES])
{
    FILE *in = fopen(name, "r");
    size_t n;

    if (in == NULL) {
        fail_msg("%s: not found; run from the root", name);
    }
    n = fread(text, 1, FILE_BYTES - 1, in);
    fclose(in);
    text[n] = '\0';
}

static void the_file_has_the_frames_that_are_made(void **state)
{
    static char wanted[FILE_BYTES], got[FILE_BYTES];
    FILE *out = fmemopen(wanted, sizeof wanted, "w");

    (void)state;
    assert_non_null(out);
    print_all(out);
    fclose(out);
    read_file(path, got);
    if (strcmp(got, wanted) != 0) {
        fail_msg("%s differs; vectors_test --print writes it", path);
    }
}

static void the_page_has_the_values(void **state)
{
#define ROW(name)   \
    {               \
#name, name \
    }
    static const struct {
        const char *name;
        long long value;
    } rows[] = {
        ROW(FRAME_BYTES_MAX),     ROW(FRAME_ENVELOPES_MAX),
        ROW(LINK_RING_FRAMES),    ROW(LINK_RING_BYTES),
        ROW(LINK_RESEND_US),      ROW(LINK_RESEND_MAX_US),
        ROW(LINK_ACK_DELAY_US),   ROW(LINK_ACK_FRAMES),
        ROW(LINK_GAP_US),         ROW(PEER_CALLS_MAX),
        ROW(PEER_STRIKES),        ROW(SESSION_HELLO_US),
        ROW(SESSION_HELLO_TRIES), ROW(SESSION_QUIET_US),
        ROW(SESSION_SILENT_US),   ROW(SLOW_READER_MS),
    };
#undef ROW
    static char text[FILE_BYTES];
    char row[80];

    (void)state;
    read_file(page, text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(row, sizeof row, "\n| `%s` | %lld |\n", rows[i].name,
                 rows[i].value);
        if (strstr(text, row) == NULL) {
            fail_msg("%s lacks the row%s", page, row);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_has_the_frames_that_are_made),
        cmocka_unit_test(the_page_has_the_values),
    };

    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        print_all(stdout);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

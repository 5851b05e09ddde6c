/* The keys of an assembly: whom a stage connects to, and whom it lets in. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"

static struct bench *keyed_bench(void)
{
    struct bench *b = bench_new(false);

    bench_key(b);
    return b;
}

static void refused(struct bench *b, const Sluice__V1__AssembleRequest *m,
                    const char *text)
{
    uint32_t n = b->n_dials;
    uint64_t call = bench_send_assemble(b, m);

    assert_true(b->ends[call].ended);
    assert_int_equal(b->ends[call].status, ST_INVALID_ARGUMENT);
    assert_int_equal(b->n_dials, n);
    if (strstr(b->ends[call].text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", b->ends[call].text, text);
    }
}

static void turned_away(struct bench *b, const char *text)
{
    bench_connect(b, b->assembly, 0);
    assert_null(b->out);
    if (strstr(b->refused, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", b->refused, text);
    }
}

static void is_up_between_the_keys_of_assemble(void **state)
{
    struct bench *b = keyed_bench();

    (void)state;
    bench_assemble(b);
    assert_int_equal(bench_account(b).assembly, b->assembly);
    assert_true(b->dialled_keyed);
    assert_memory_equal(b->dialled, b->next_key.key, KEY_BYTES);
    bench_open_plain(b, 8, 8);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

static void without_keys_it_dials_without(void **state)
{
    struct bench *b = bench_new(false);

    (void)state;
    bench_assemble(b);
    assert_true(b->n_dials > 0);
    assert_false(b->dialled_keyed);
    bench_free(&b);
}

static void a_worker_with_a_key_needs_both_keys(void **state)
{
    struct bench *b = keyed_bench();
    Sluice__V1__AssembleRequest m;

    (void)state;
    bench_message(b, &m);
    m.has_next_key = false;
    refused(b, &m, "next_key is missing; this worker has a key");
    bench_message(b, &m);
    m.has_previous_key = false;
    refused(b, &m, "previous_key is missing");
    bench_assemble(b);
    bench_free(&b);
}

static void a_worker_without_a_key_refuses_keys(void **state)
{
    struct bench *b = bench_new(false);
    Sluice__V1__AssembleRequest m;

    (void)state;
    bench_message(b, &m);
    m.has_next_key = true;
    m.next_key = (ProtobufCBinaryData){KEY_BYTES, b->next_key.key};
    refused(b, &m, "next_key is present, but this worker has no key");
    bench_message(b, &m);
    m.has_previous_key = true;
    m.previous_key = (ProtobufCBinaryData){KEY_BYTES, b->before_key.key};
    refused(b, &m, "previous_key is present");
    bench_assemble(b);
    bench_free(&b);
}

static void keys_of_other_lengths_are_refused(void **state)
{
    static const size_t lengths[] = {0, KEY_BYTES - 1, KEY_BYTES + 1};
    struct bench *b = keyed_bench();
    Sluice__V1__AssembleRequest m;
    uint8_t key[KEY_BYTES + 1] = {0};
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bench_message(b, &m);
        m.next_key = (ProtobufCBinaryData){lengths[i], key};
        snprintf(text, sizeof text, "next_key has %zu bytes, a key has 32",
                 lengths[i]);
        refused(b, &m, text);
        bench_message(b, &m);
        m.previous_key = (ProtobufCBinaryData){lengths[i], key};
        snprintf(text, sizeof text, "previous_key has %zu bytes", lengths[i]);
        refused(b, &m, text);
    }
    bench_assemble(b);
    bench_free(&b);
}

/* A key of role worker that belongs to another replica: in JOINING it does not
 * come in, in UP it does not end the edge. */
static void another_workers_key_does_not_come_in(void **state)
{
    struct bench *b = keyed_bench();
    uint8_t own[KEY_BYTES];
    struct peer_id id;
    struct frame *f;
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
    Sluice__V1__StagePeer stage = SLUICE__V1__STAGE_PEER__INIT;

    (void)state;
    memcpy(own, b->before_key.key, KEY_BYTES);
    bench_order(b);
    strcpy(b->before_key.name, "other");
    memset(b->before_key.key, 9, KEY_BYTES);
    turned_away(b, "PERMISSION_DENIED: the key other is not that of stage 0, "
                   "which comes before stage 1");
    b->before_key.roles = BY_CLIENT;
    turned_away(b, "PERMISSION_DENIED: the key other does not have the role "
                   "worker");
    b->before_key.roles = BY_WORKER;
    memcpy(b->before_key.key, own, KEY_BYTES);
    bench_connect(b, b->assembly, 0);
    assert_non_null(b->out);
    memset(b->before_key.key, 9, KEY_BYTES);
    stage.assembly = b->assembly;
    m.version_major = WIRE_VERSION_MAJOR;
    m.role = SLUICE__V1__ROLE__ROLE_WORKER;
    m.nonce = 77;
    m.name = wire_text("other");
    m.stage = &stage;
    f = hello_make(&m.base);
    id.v = b->before_id.v + 1;
    worker_node_ops.recv(b->worker, id, &f);
    bench_turn(b);
    assert_non_null(b->out);
    assert_int_equal(bench_account(b).assembly, b->assembly);
    assert_int_equal(b->n_broken, 0);
    bench_free(&b);
}

/* The transport has checked the key of the dialled stage; the session does not
 * depend on that. */
static void the_next_stage_must_have_its_key(void **state)
{
    struct bench *b = keyed_bench();
    uint64_t call;

    (void)state;
    b->next_key.roles = BY_CLIENT;
    call = bench_order(b);
    assert_null(b->in);
    bench_advance(b, EDGES_US);
    assert_int_equal(b->ends[call].status, ST_DEADLINE_EXCEEDED);
    assert_non_null(strstr(b->ends[call].text,
                           "the key next does not have the role "
                           "worker"));
    bench_free(&b);
}

static void the_router_gives_the_name(void **state)
{
    struct bench *b = keyed_bench();

    (void)state;
    assert_string_equal(worker_known_as(b->worker), b->o.name);
    b->your_name = "pool/stage";
    worker_node_ops.lost(b->worker, b->router_id);
    bench_advance(b, 1000000);
    assert_int_equal(b->n_hellos, 2);
    assert_string_equal(worker_known_as(b->worker), "pool/stage");
    b->your_name = "pool/\x1b[2J"; /* programs print the name */
    worker_node_ops.lost(b->worker, b->router_id);
    bench_advance(b, 1000000);
    assert_int_equal(b->n_hellos, 3);
    assert_string_equal(worker_known_as(b->worker), b->o.name);
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_up_between_the_keys_of_assemble),
        cmocka_unit_test(without_keys_it_dials_without),
        cmocka_unit_test(a_worker_with_a_key_needs_both_keys),
        cmocka_unit_test(a_worker_without_a_key_refuses_keys),
        cmocka_unit_test(keys_of_other_lengths_are_refused),
        cmocka_unit_test(another_workers_key_does_not_come_in),
        cmocka_unit_test(the_next_stage_must_have_its_key),
        cmocka_unit_test(the_router_gives_the_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

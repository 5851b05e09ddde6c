/* A request that survives its connection, over a stand-in for the client core.
 * The test decides the end of each call, whether a session is up, and the
 * time. */
#include "client/lib/resumable.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define MS 1000

static struct paper {
    struct node_io io;
    int64_t now_us, wait_us; /* NODE_IDLE: no wait is set */
    uint64_t random;
    bool up, ending;
    enum status refused, call_status;
    struct client_wait *wait;
    const struct client_call_ops *ops; /* ops of the open call, or NULL */
    void *arg;
    uint32_t n_calls, n_cancels, deadline_ms;
    Sluice__V1__GenerateRequest *request; /* the last call's; owned */

    struct resumable g;
    uint32_t n_chunks, n_lost, n_ends;
    char lost[ERROR_TEXT];
    enum status status;
    struct error error;
    uint32_t retry_ms;
} p;

/* ---- the stand-in for the core ---- */

static int64_t paper_now(struct node_io *io)
{
    (void)io;
    return p.now_us;
}

static uint64_t paper_random(struct node_io *io)
{
    (void)io;
    return p.random;
}

enum status client_core_call(struct client_core *c, enum method m,
                             const ProtobufCMessage *request,
                             uint32_t deadline_ms,
                             const struct client_call_ops *ops, void *arg,
                             uint64_t *id)
{
    size_t n = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = malloc(n + 1);

    (void)c;
    assert_int_equal(m, METHOD_INFERENCE_GENERATE);
    assert_null(p.ops);
    if (p.call_status != ST_OK) {
        free(bytes);
        return p.call_status;
    }
    if (p.request != NULL) {
        sluice__v1__generate_request__free_unpacked(p.request, NULL);
    }
    protobuf_c_message_pack(request, bytes);
    p.request = sluice__v1__generate_request__unpack(NULL, n, bytes);
    free(bytes);
    p.ops = ops;
    p.arg = arg;
    p.deadline_ms = deadline_ms;
    *id = ++p.n_calls;
    return ST_OK;
}

static void call_ends(enum status status, const char *why, uint32_t retry_ms)
{
    const struct client_call_ops *ops = p.ops;
    struct error e;

    assert_non_null(ops);
    p.ops = NULL;
    (void)error_set(&e, status, "%s", why);
    ops->on_end(p.arg, status, NULL, status == ST_OK ? NULL : &e, retry_ms);
}

void client_core_cancel(struct client_core *c, uint64_t id)
{
    (void)c;
    if (p.ops != NULL) {
        assert_int_equal(id, p.n_calls);
        p.n_cancels++;
        call_ends(ST_CANCELLED, "cancelled by the caller", 0);
    }
}

bool client_core_up(const struct client_core *c)
{
    (void)c;
    return p.up;
}

enum status client_core_refused(const struct client_core *c)
{
    (void)c;
    return p.refused;
}

const char *client_core_trouble(const struct client_core *c)
{
    (void)c;
    return p.up ? "" : "the cable is cut";
}

void client_core_wait(struct client_core *c, struct client_wait *w,
                      int64_t due_us)
{
    (void)c;
    p.wait = w;
    p.wait_us = due_us;
}

void client_core_unwait(struct client_core *c, struct client_wait *w)
{
    (void)c;
    (void)w;
    p.wait_us = NODE_IDLE;
}

bool client_core_ending(const struct client_core *c)
{
    (void)c;
    return p.ending;
}

/* ---- the reader of the request ---- */

static void on_chunk(void *arg, const Sluice__V1__GenerateChunk *chunk)
{
    (void)arg;
    (void)chunk;
    p.n_chunks++;
}

static void on_lost(void *arg, const char *why)
{
    (void)arg;
    p.n_lost++;
    strcpy(p.lost, why);
}

static void on_end(void *arg, enum status status, const struct error *e,
                   uint32_t retry_ms)
{
    (void)arg;
    p.n_ends++;
    p.status = status;
    p.error = e != NULL ? *e : (struct error){ST_OK, ""};
    p.retry_ms = retry_ms;
}

static Sluice__V1__GenerateRequest request = SLUICE__V1__GENERATE_REQUEST__INIT;
static uint8_t id[16] = {1};

static int begin_with(bool up, uint32_t n, uint32_t deadline_ms,
                      uint32_t resume_ms)
{
    static const struct resumable_ops ops = {on_chunk, on_lost, on_end};
    struct resumable_options o = {.io = &p.io,
                                  .ops = &ops,
                                  .deadline_ms = deadline_ms,
                                  .resume_ms = resume_ms};

    memset(&p, 0, sizeof p);
    p.io = (struct node_io){.now_us = paper_now, .random = paper_random};
    p.now_us = 5000 * MS;
    p.wait_us = NODE_IDLE;
    p.up = up;
    request.request_id = (ProtobufCBinaryData){16, id};
    request.model = (ProtobufCBinaryData){0, id};
    request.has_n = true;
    request.n = n;
    return (int)resumable_begin(&p.g, NULL, &request, &o);
}

static int begin(uint32_t n, uint32_t deadline_ms, uint32_t resume_ms)
{
    return begin_with(true, n, deadline_ms, resume_ms);
}

static void end(void)
{
    assert_int_equal(p.n_ends, 1);
    assert_true(p.wait_us == NODE_IDLE);
    assert_null(p.ops);
    resumable_fini(&p.g);
    if (p.request != NULL) {
        sluice__v1__generate_request__free_unpacked(p.request, NULL);
    }
}

/* Sends n tokens, each equal to its index, from index `first`, and finish. */
static void chunk(uint32_t choice, uint32_t first, uint32_t n, const char *text,
                  Sluice__V1__Finish finish)
{
    Sluice__V1__GenerateChunk m = SLUICE__V1__GENERATE_CHUNK__INIT;
    uint32_t tokens[200];

    for (uint32_t i = 0; i < n; i++) {
        tokens[i] = 1000 * choice + first + i;
    }
    m.choice = choice;
    m.first_index = first;
    m.n_tokens = n;
    m.tokens = tokens;
    m.has_text = true;
    m.text = (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
    m.finish = finish;
    p.ops->on_reply(p.arg, &m.base);
}

static void lose(void)
{
    p.up = false;
    call_ends(ST_UNAVAILABLE, "the session is over", 0);
}

static void wait_fires(void)
{
    assert_true(p.wait_us != NODE_IDLE);
    p.now_us = p.wait_us > p.now_us ? p.wait_us : p.now_us;
    p.wait_us = NODE_IDLE;
    p.wait->fire(p.wait);
}

#define RUNNING SLUICE__V1__FINISH__FINISH_RUNNING
#define LENGTH  SLUICE__V1__FINISH__FINISH_LENGTH

/* ---- contents of the next call ---- */

static void a_resumed_call_has_the_received_parts(void **state)
{
    (void)state;
    assert_int_equal(begin(3, 0, 30000), ST_OK);
    assert_int_equal(p.request->n_have_count, 0);
    chunk(0, 0, 150, "abc", RUNNING);
    chunk(2, 0, 1, "x", LENGTH);
    chunk(0, 150, 1, "d", RUNNING);
    p.now_us += 700 * MS;
    lose();
    assert_int_equal(p.n_lost, 1);
    assert_string_equal(p.lost, "the cable is cut");
    wait_fires();
    assert_int_equal(p.n_calls, 2);
    assert_int_equal(p.request->n_have_count, 3);
    assert_int_equal(p.request->have_count[0], 151);
    assert_int_equal(p.request->have_count[1], 0);
    assert_int_equal(p.request->have_count[2], 1);
    assert_int_equal(p.request->n_have_tokens, 152);
    assert_int_equal(p.request->have_tokens[150], 150);
    assert_int_equal(p.request->have_tokens[151], 2000);
    assert_int_equal(p.request->have_text[0], 4);
    assert_int_equal(p.request->have_text[2], 1);
    assert_true(p.request->have_ended[2] && !p.request->have_ended[0]);
    p.up = true;
    p.now_us += 300 * MS;
    chunk(0, 151, 1, "e", LENGTH);
    assert_int_equal(p.g.n_resumes, 1);
    assert_in_range(p.g.gap_us, 310 * MS, 320 * MS);
    chunk(1, 0, 1, "e", LENGTH);
    call_ends(ST_OK, "", 0);
    assert_int_equal(p.status, ST_OK);
    end();
}

/* Only the End was lost, and it carries no data. */
static void a_complete_request_is_not_resumed(void **state)
{
    (void)state;
    assert_int_equal(begin(2, 0, 30000), ST_OK);
    chunk(0, 0, 1, "a", LENGTH);
    chunk(1, 0, 1, "a", LENGTH);
    lose();
    assert_int_equal(p.status, ST_OK);
    assert_int_equal(p.n_lost, 0);
    end();
}

static void without_resume_ms_it_ends(void **state)
{
    (void)state;
    assert_int_equal(begin(1, 0, 0), ST_OK);
    chunk(0, 0, 2, "ab", RUNNING);
    assert_null(p.g.choices[0].tokens);
    lose();
    assert_int_equal(p.status, ST_UNAVAILABLE);
    assert_int_equal(p.n_lost, 0);
    end();
}

/* ---- pauses ---- */

/* Checks that the next wait is between w / 2 and w. */
static void check_wait(int64_t w)
{
    assert_in_range(p.wait_us - p.now_us, w / 2, w);
}

static void backoff_doubles(void **state)
{
    int64_t w = RESUMABLE_BACKOFF_US;

    (void)state;
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    lose();
    for (uint64_t i = 0; i < 12; i++) {
        check_wait(w);
        wait_fires();
        p.up = true;
        p.random += 1234567; /* another draw */
        call_ends(ST_UNAVAILABLE, "no worker is up yet", 0);
        w = w * 2 < RESUMABLE_BACKOFF_MAX_US ? w * 2 : RESUMABLE_BACKOFF_MAX_US;
    }
    wait_fires();
    chunk(0, 0, 1, "a", RUNNING); /* resumed: the backoff starts again */
    lose();
    check_wait(RESUMABLE_BACKOFF_US);
    resumable_cancel(&p.g);
    end();
}

/* Requests that lost the same router call again at different times. */
static void backoff_is_jittered(void **state)
{
    int64_t waits[2][2];

    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(begin(1, 0, 30000), ST_OK);
        p.random = i * 7001;
        lose();
        waits[0][i] = p.wait_us - p.now_us;
        wait_fires();
        p.up = true;
        call_ends(ST_RESOURCE_EXHAUSTED, "full", 700);
        waits[1][i] = p.wait_us - p.now_us;
        resumable_cancel(&p.g);
        end();
    }
    assert_true(waits[0][0] != waits[0][1]);
    assert_int_equal(waits[1][0], 700 * MS); /* at least retry_after_ms */
    assert_true(waits[1][0] < waits[1][1]);
}

static void retry_after_ms_has_a_limit(void **state)
{
    (void)state;
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    lose();
    wait_fires();
    p.up = true;
    call_ends(ST_RESOURCE_EXHAUSTED, "full", 2000);
    assert_int_equal(p.wait_us - p.now_us, RESUMABLE_RETRY_MAX_US);
    wait_fires();
    call_ends(ST_RESOURCE_EXHAUSTED, "full", 2001);
    assert_int_equal(p.wait_us - p.now_us, RESUMABLE_RETRY_MAX_US);
    resumable_cancel(&p.g);
    end();
}

/* ---- retryable and final refusals ---- */

struct refusal {
    enum status status;
    uint32_t retry_ms;
    bool up, passes;
};

static void refusals_while_it_resumes(void **state)
{
    static const struct refusal rows[] = {
        {ST_UNAVAILABLE, 0, true, true},
        {ST_UNAVAILABLE, 100, true, true},
        {ST_RESOURCE_EXHAUSTED, 1, true, true},
        {ST_RESOURCE_EXHAUSTED, 0, true, false}, /* can never fit */
        {ST_RESOURCE_EXHAUSTED, 0, false,
         true}, /* Hello refused: too many peers */
        {ST_ALREADY_EXISTS, 1, true, true},
        {ST_ALREADY_EXISTS, 0, true, false},
        {ST_INVALID_ARGUMENT, 100, true, false},
        {ST_ABORTED, 100, true, false},
        {ST_INTERNAL, 0, true, false},
        {ST_DEADLINE_EXCEEDED, 0, true, false},
        {ST_PERMISSION_DENIED, 0, false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(begin(1, 0, 30000), ST_OK);
        lose();
        wait_fires();
        p.up = rows[i].up;
        p.refused = p.up ? ST_OK : rows[i].status;
        call_ends(rows[i].status, "no", rows[i].retry_ms);
        assert_int_equal(p.n_ends, !rows[i].passes);
        if (!rows[i].passes) {
            assert_int_equal(p.status, rows[i].status);
            assert_string_equal(p.error.text, "no");
        }
        resumable_cancel(&p.g);
        end();
    }
}

/* Refusals of a first call, and of a call whose session is still up. */
static void refusals_without_a_loss_are_final(void **state)
{
    (void)state;
    for (int chunks = 0; chunks < 2; chunks++) {
        assert_int_equal(begin(1, 0, 30000), ST_OK);
        if (chunks > 0) {
            chunk(0, 0, 1, "a", RUNNING);
        }
        call_ends(ST_UNAVAILABLE, "no worker is up", 1000);
        assert_int_equal(p.status, ST_UNAVAILABLE);
        assert_int_equal(p.retry_ms, 1000);
        assert_int_equal(p.n_lost, 0);
        end();
    }
    /* The Hello was refused, so no session was lost. */
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    p.refused = ST_UNAVAILABLE;
    lose();
    assert_int_equal(p.status, ST_UNAVAILABLE);
    end();
}

/* Two calls crossed in the network, and the router took the older one for the
 * newer. */
static void a_superseded_call_resumes(void **state)
{
    (void)state;
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    chunk(0, 0, 1, "a", RUNNING);
    call_ends(ST_ALREADY_EXISTS, "resumed in another session", 50);
    assert_int_equal(p.n_ends, 0);
    wait_fires();
    assert_int_equal(p.request->have_count[0], 1);
    chunk(0, 1, 1, "b", LENGTH);
    call_ends(ST_OK, "", 0);
    assert_int_equal(p.status, ST_OK);
    end();
}

/* ---- time limits ---- */

static void resume_ms_end(void **state)
{
    int64_t lost_us;

    (void)state;
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    lose();
    lost_us = p.now_us;
    wait_fires();
    assert_int_equal(p.n_calls, 2); /* the second call waits for a session */
    assert_int_equal(p.wait_us, lost_us + 30000 * MS);
    wait_fires();
    assert_int_equal(p.status, ST_UNAVAILABLE);
    assert_string_equal(
        p.error.text,
        "the cable is cut; no router accepted the request in time");
    assert_int_equal(p.n_cancels, 1);
    end();
}

/* A request that begins without a session: none comes, or one does. */
static void the_wait_for_a_first_session_is_limited(void **state)
{
    static const uint32_t waits_ms[][2] = {{30000, 30000},
                                           {0, RESUMABLE_FIRST_MS}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int comes = 0; comes < 2; comes++) {
            assert_int_equal(begin_with(false, 1, 0, waits_ms[i][0]), ST_OK);
            assert_int_equal(p.wait_us, p.now_us + waits_ms[i][1] * MS);
            p.up = comes;
            wait_fires();
            if (comes) { /* the router has queued the request */
                assert_int_equal(p.n_ends, 0);
                chunk(0, 0, 1, "a", LENGTH);
                call_ends(ST_OK, "", 0);
                assert_int_equal(p.status, ST_OK);
            } else {
                assert_int_equal(p.status, ST_UNAVAILABLE);
                assert_string_equal(
                    p.error.text,
                    "the cable is cut; no router accepted the request in time");
                assert_int_equal(p.n_cancels, 1);
            }
            assert_int_equal(p.n_calls, 1);
            end();
        }
    }
}

/* Refusals end after resume_ms; a router that has queued the request is not
 * abandoned. */
static void refusals_end_after_resume_ms_and_queues_do_not(void **state)
{
    int64_t lost_us;
    uint32_t n = 0;

    (void)state;
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    lose();
    lost_us = p.now_us;
    while (p.n_ends == 0) {
        wait_fires();
        p.up = true;
        if (p.ops != NULL) {
            call_ends(ST_RESOURCE_EXHAUSTED, "full", 1000);
        }
        assert_true(++n < 1000);
    }
    assert_int_equal(p.now_us, lost_us + 30000 * MS);
    assert_string_equal(p.error.text,
                        "full; no router accepted the request in time");
    end();
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    lose();
    wait_fires();
    p.up = true;
    wait_fires(); /* the end of resume_ms */
    assert_int_equal(p.n_ends, 0);
    chunk(0, 0, 1, "a", LENGTH);
    call_ends(ST_OK, "", 0);
    end();
}

/* After the loss of a router that had queued the request, resume_ms start
 * again. */
static void resume_ms_start_again_after_a_loss(void **state)
{
    int64_t lost_us;

    (void)state;
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    lose();
    for (int again = 0; again < 2; again++) {
        wait_fires();
        p.up = true; /* queued there for longer than resume_ms */
        wait_fires();
        p.now_us += 5000 * MS;
        lose();
        assert_int_equal(p.n_ends, 0);
    }
    lost_us = p.now_us;
    assert_int_equal(p.n_lost, 1);
    wait_fires();
    assert_int_equal(p.n_calls, 4);
    assert_int_equal(p.wait_us, lost_us + 30000 * MS);
    p.up = true;
    p.now_us = lost_us + 20000 * MS;
    call_ends(ST_UNAVAILABLE, "no worker is up",
              1000); /* a refusal does not restart them */
    while (p.n_ends == 0) {
        wait_fires();
        if (p.ops != NULL) {
            call_ends(ST_UNAVAILABLE, "no worker is up", 1000);
        }
    }
    assert_int_equal(p.now_us, lost_us + 30000 * MS);
    end();
}

static void the_deadline_includes_the_losses(void **state)
{
    (void)state;
    assert_int_equal(begin(1, 1000, 30000), ST_OK);
    assert_int_equal(p.deadline_ms, 1000);
    p.now_us += 400 * MS;
    lose();
    wait_fires();
    assert_in_range(p.deadline_ms, 580, 590);
    p.up = true;
    p.now_us += 585 * MS;
    call_ends(ST_UNAVAILABLE, "no worker is up", 1000);
    assert_in_range(p.wait_us, 6000 * MS, 6000 * MS);
    wait_fires();
    assert_int_equal(p.status, ST_DEADLINE_EXCEEDED);
    end();
}

static void a_freed_client_ends_the_request(void **state)
{
    (void)state;
    for (int waiting = 0; waiting < 2; waiting++) {
        assert_int_equal(begin(1, 0, 30000), ST_OK);
        if (waiting) {
            lose();
        }
        p.ending = true;
        if (waiting) {
            wait_fires();
        } else {
            lose();
        }
        assert_int_equal(p.status, ST_UNAVAILABLE);
        end();
    }
}

static void a_request_too_long_to_resume_ends(void **state)
{
    (void)state;
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    lose();
    p.call_status = ST_RESOURCE_EXHAUSTED; /* no free call: try later */
    wait_fires();
    assert_int_equal(p.n_ends, 0);
    p.call_status = ST_INVALID_ARGUMENT;
    wait_fires();
    assert_int_equal(p.status, ST_UNAVAILABLE);
    assert_non_null(strstr(p.error.text, "cannot be resumed"));
    end();
    assert_int_equal(begin(1, 0, 30000), ST_OK);
    resumable_cancel(&p.g);
    assert_int_equal(p.status, ST_CANCELLED);
    assert_int_equal(p.n_cancels, 1);
    resumable_cancel(&p.g); /* on_end does not run again */
    end();
}

/* ---- invalid chunks ---- */

static void check_data_loss(const char *sentence)
{
    assert_int_equal(p.status, ST_DATA_LOSS);
    assert_string_equal(p.error.text, sentence);
    assert_int_equal(p.n_cancels, 1);
    end();
}

static void invalid_chunks_are_data_loss(void **state)
{
    (void)state;
    assert_int_equal(begin(2, 0, 30000), ST_OK);
    chunk(2, 0, 1, "a", RUNNING);
    check_data_loss("bad chunk from the router: choice 2 of 2");
    assert_int_equal(begin(2, 0, 30000), ST_OK);
    chunk(1, 0, 1, "a", LENGTH);
    chunk(1, 1, 1, "a", RUNNING);
    check_data_loss(
        "bad chunk from the router: tokens of choice 1 after its end");
    for (uint32_t first = 0; first < 3; first += 2) {
        assert_int_equal(begin(1, 0, 30000), ST_OK);
        chunk(0, 0, 1, "a", RUNNING);
        lose();
        wait_fires();
        p.up = true;
        chunk(0, first, 1, "a", RUNNING);
        check_data_loss(first == 0 ? "bad chunk from the router: tokens from "
                                     "index 0, expected index 1"
                                   : "bad chunk from the router: tokens from "
                                     "index 2, expected index 1");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_call_has_the_received_parts),
        cmocka_unit_test(a_complete_request_is_not_resumed),
        cmocka_unit_test(without_resume_ms_it_ends),
        cmocka_unit_test(backoff_doubles),
        cmocka_unit_test(backoff_is_jittered),
        cmocka_unit_test(retry_after_ms_has_a_limit),
        cmocka_unit_test(refusals_while_it_resumes),
        cmocka_unit_test(refusals_without_a_loss_are_final),
        cmocka_unit_test(a_superseded_call_resumes),
        cmocka_unit_test(resume_ms_end),
        cmocka_unit_test(the_wait_for_a_first_session_is_limited),
        cmocka_unit_test(refusals_end_after_resume_ms_and_queues_do_not),
        cmocka_unit_test(resume_ms_start_again_after_a_loss),
        cmocka_unit_test(the_deadline_includes_the_losses),
        cmocka_unit_test(a_freed_client_ends_the_request),
        cmocka_unit_test(a_request_too_long_to_resume_ends),
        cmocka_unit_test(invalid_chunks_are_data_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

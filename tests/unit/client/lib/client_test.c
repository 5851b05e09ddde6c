/* The C library against a router that follows a script. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/lib/client.h"
#include "fake_router.h"
#include "proto/admin.pb-c.h"
#include "proto/inference.pb-c.h"

#define LONG_MS 600000 /* only a failure waits that long */

static char endpoint[64];

struct seen {
    char text[64];
    uint32_t tokens[16];
    size_t n_tokens;
    atomic_size_t n_chunks;
    size_t stop_after; /* chunks until the callback returns false; 0: never */
    size_t n_lost;
    bool no_resume;
};

static void see_loss(void *arg, const char *why)
{
    assert_string_equal(why, "the router ended the session: the end");
    ((struct seen *)arg)->n_lost++;
}

static bool see(void *arg, const struct client_chunk *chunk)
{
    struct seen *s = arg;

    assert_int_equal(chunk->first_index, s->n_tokens);
    memcpy(s->tokens + s->n_tokens, chunk->tokens,
           chunk->n_tokens * sizeof *chunk->tokens);
    s->n_tokens += chunk->n_tokens;
    strncat(s->text, chunk->text, chunk->n_text);
    s->n_chunks++;
    return s->n_chunks != s->stop_after;
}

struct fixture {
    struct fake_router *router;
    struct client *client;
};

static int setup(void **state)
{
    static struct fixture f;
    struct client_config config = {.endpoint = endpoint, .timeout_ms = LONG_MS};
    struct error e = {0};

    snprintf(endpoint, sizeof endpoint, "ipc:///tmp/sluice-client-test.%d",
             (int)getpid());
    f.router = fake_router_start(endpoint, 0);
    *state = &f;
    return client_open(&f.client, &config, &e) == ST_OK ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    client_close(&f->client);
    fake_router_stop(&f->router);
    unlink(endpoint + strlen("ipc://"));
    return 0;
}

static struct client_request short_request(void)
{
    struct client_request r = client_request_default();

    r.text = "x";
    r.n_text = 1;
    return r;
}

static enum status generate(struct fixture *f, enum script script,
                            struct seen *seen, struct client_result *result,
                            struct error *e)
{
    struct client_request r = short_request();

    r.max_tokens = script;
    r.on_chunk = see;
    r.on_resume = see_loss;
    r.no_resume = seen->no_resume;
    r.arg = seen;
    *e = (struct error){0};
    return client_generate(f->client, &r, result, e);
}

static void chunks_arrive_in_order(void **state)
{
    struct seen seen = {0};
    struct client_result r;
    struct error e;

    assert_int_equal(generate(*state, SCRIPT_THREE_CHUNKS, &seen, &r, &e),
                     ST_OK);
    assert_string_equal(seen.text, "one two three");
    assert_int_equal(seen.n_tokens, 6);
    assert_int_equal(seen.tokens[5], 15);
    assert_int_equal(r.finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    assert_true(r.has_figures);
    assert_false(r.has_receipt);
    assert_int_equal(r.blocks, 3);
    assert_string_equal(r.worker, "w1");
    assert_true(r.first_chunk_us > 0 && r.end_us >= r.first_chunk_us);
}

/* The router puts the name of the key before that of the client. */
static void a_default_name_fits_beside_that_of_any_key(void **state)
{
    /* 2 bytes a letter: a cut must not divide one. */
    static char shortest[] = "c", longest[] = "a\xd0\xba\xd0\xba\xd0\xba\xd0"
                                              "\xba\xd0\xba\xd0\xba\xd0\xba"
                                              "\xd0\xba\xd0\xba\xd0\xba\xd0"
                                              "\xba\xd0\xba\xd0\xba\xd0\xba";
    char *programs[] = {shortest, longest, &longest[1]}, *old, want[64];
    struct client_config config = {.endpoint = endpoint, .timeout_ms = LONG_MS};

    (void)state;
    snprintf(endpoint, sizeof endpoint, "ipc:///tmp/sluice-client-name.%d",
             (int)getpid());
    old = program_invocation_short_name;
    for (size_t i = 0; i < 3; i++) {
        struct fake_router *r = fake_router_start(config.endpoint, 0);
        struct client *c;
        struct error e;
        const char *name;

        program_invocation_short_name = programs[i];
        assert_int_equal(client_open(&c, &config, &e), ST_OK);
        name = fake_router_client(r);
        snprintf(want, sizeof want, "-%ld", (long)getpid());
        assert_non_null(strstr(name, want));
        assert_true(strlen(name) > strlen(want));
        assert_in_range(strlen(name), 1, PEER_NAME_MAX - KEY_NAME_MAX - 1);
        assert_memory_equal(name, programs[i], strlen(name) - strlen(want));
        client_close(&c);
        fake_router_stop(&r);
    }
    program_invocation_short_name = old;
    unlink(endpoint + strlen("ipc://"));
}

struct mixed {
    char order[16]; /* "01*0*": choices in order of arrival, * at an end */
    uint32_t next[2];
    int stop_string;
};

static bool see_mixed(void *arg, const struct client_chunk *chunk)
{
    struct mixed *m = arg;
    size_t at = strlen(m->order);

    assert_in_range(chunk->choice, 0, 1);
    assert_int_equal(chunk->first_index, m->next[chunk->choice]);
    assert_int_equal(chunk->n_tokens, 2);
    assert_int_equal(chunk->tokens[1],
                     100 * chunk->choice + chunk->first_index + 1);
    assert_int_equal(chunk->n_top, 2);
    assert_true(chunk->logprobs[1] == -1);
    assert_int_equal(chunk->top_tokens[3], 23);
    assert_true(chunk->top_logprobs[3] == -2);
    m->next[chunk->choice] += 2;
    m->order[at++] = (char)('0' + chunk->choice);
    if (chunk->finish != SLUICE__V1__FINISH__FINISH_RUNNING) {
        m->order[at++] = '*';
    }
    if (chunk->choice == 1) {
        m->stop_string = chunk->stop_string;
    } else {
        assert_int_equal(chunk->stop_string, -1);
    }
    return true;
}

static enum status choices(struct fixture *f, enum script script,
                           client_chunk_fn *fn, void *arg,
                           struct client_result *result, struct error *e)
{
    static const struct client_stop stops[] = {{"x", 1}, {"y", 1}};
    struct client_request r = short_request();

    r.n = 2;
    r.stops = stops;
    r.n_stops = 2;
    r.sampling.n_top_logprobs = 2;
    r.max_tokens = script;
    r.on_chunk = fn;
    r.arg = arg;
    *e = (struct error){0};
    return client_generate(f->client, &r, result, e);
}

static void interleaved_choices_stay_in_order(void **state)
{
    struct mixed mixed = {.stop_string = -2};
    struct client_result r;
    struct error e;

    assert_int_equal(choices(*state, SCRIPT_CHOICES, see_mixed, &mixed, &r, &e),
                     ST_OK);
    assert_string_equal(mixed.order, "01*0*");
    assert_int_equal(mixed.stop_string, 1);
    assert_int_equal(r.n_choices, 2);
    assert_int_equal(r.choices[0].finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    assert_int_equal(r.choices[0].stop_string, -1);
    assert_int_equal(r.choices[0].n_generated, 4);
    assert_string_equal(r.choices[0].worker, "w1");
    assert_int_equal(r.choices[1].finish, SLUICE__V1__FINISH__FINISH_STOP);
    assert_int_equal(r.choices[1].stop_string, 1);
    assert_int_equal(r.choices[1].n_generated, 2);
    assert_string_equal(r.choices[1].worker, "w2");
    assert_true(r.choices[1].end_us <= r.choices[0].end_us);
}

static void choices_are_summed_up(void **state)
{
    struct client_result r;
    struct error e;

    assert_int_equal(choices(*state, SCRIPT_CHOICES, NULL, NULL, &r, &e),
                     ST_OK);
    assert_true(r.has_figures);
    assert_int_equal(r.finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    assert_int_equal(r.stop_string, -1);
    assert_int_equal(r.n_prompt, 3);
    assert_int_equal(r.n_generated, 6);
    assert_int_equal(r.blocks, 4);
    assert_int_equal(r.slots, 2);
    assert_int_equal(r.n_moves, 1);
    assert_int_equal(r.queued_us, 11);
    assert_int_equal(r.first_token_us, 29);
    assert_int_equal(r.total_us, 51);
    assert_int_equal(r.seed, 9);
    assert_string_equal(r.worker, "w1");
}

static void inconsistent_choices_are_data_loss(void **state)
{
    static const struct {
        enum script script;
        const char *sentence;
    } rows[] = {
        {SCRIPT_CHOICE_BEYOND, "choice 2 of 2"},
        {SCRIPT_AFTER_END, "choice 0 after its end"},
        {SCRIPT_HALF, "without the end of a choice"},
        {SCRIPT_THREE_CHUNKS, "2 tokens with 0 logprobs"},
    };
    struct client_result r;
    struct error e;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(choices(*state, rows[i].script, NULL, NULL, &r, &e),
                         ST_DATA_LOSS);
        assert_non_null(strstr(e.text, rows[i].sentence));
    }
}

static void an_unknown_stop_string_is_data_loss(void **state)
{
    struct fixture *f = *state;
    struct client_request r = short_request();
    struct client_result result;
    struct error e = {0};

    r.n = 2;
    r.max_tokens = SCRIPT_CHOICES;
    assert_int_equal(client_generate(f->client, &r, &result, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "ended by stop string 1 of 0"));
}

static void one_failed_choice_fails_the_call(void **state)
{
    struct client_result r;
    struct error e;

    assert_int_equal(choices(*state, SCRIPT_ONE_FAILED, NULL, NULL, &r, &e),
                     ST_INTERNAL);
    assert_int_equal(r.finish, SLUICE__V1__FINISH__FINISH_FAILED);
    assert_int_equal(r.choices[0].finish, SLUICE__V1__FINISH__FINISH_LENGTH);
    assert_int_equal(r.n_generated, 6);
}

static void a_gap_is_never_passed_on(void **state)
{
    struct seen seen = {0};
    struct client_result r;
    struct error e;

    assert_int_equal(generate(*state, SCRIPT_GAP, &seen, &r, &e), ST_DATA_LOSS);
    assert_int_equal(seen.n_tokens, 2);
    assert_non_null(strstr(e.text, "index 5"));
}

static void a_stream_needs_its_finish(void **state)
{
    struct seen seen = {0};
    struct client_result r;
    struct error e;

    assert_int_equal(generate(*state, SCRIPT_NO_FINISH, &seen, &r, &e),
                     ST_DATA_LOSS);
}

static void a_callback_cancels(void **state)
{
    struct seen seen = {.stop_after = 1};
    struct client_result r;
    struct error e;

    assert_int_equal(generate(*state, SCRIPT_ENDLESS, &seen, &r, &e),
                     ST_CANCELLED);
    assert_true(r.has_receipt);
    assert_int_equal(r.receipt.blocks, 4);
    assert_int_equal(r.receipt.slots, 1);
    assert_memory_equal(r.receipt.request_id, r.request_id, 16);
}

/* The remaining chunks and the End arrive in the same frame as the first. */
static void a_callback_cancels_at_the_end(void **state)
{
    struct seen seen = {.stop_after = 1};
    struct client_result r;
    struct error e;

    assert_int_equal(generate(*state, SCRIPT_THREE_CHUNKS, &seen, &r, &e),
                     ST_CANCELLED);
    assert_true(r.cancelled_here && r.has_receipt);
}

/* Interrupts repeatedly, at most `times`, until the call has ended: two
 * interrupts count as one if they arrive before the first is noticed.  A single
 * interrupt waits for the first chunk. */
struct interrupt {
    struct client *client;
    const struct seen *seen;
    int times;
    atomic_bool ended;
};

static void *interrupt(void *arg)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    struct interrupt *i = arg;

    while (i->times == 1 && atomic_load(&i->seen->n_chunks) == 0) {
        nanosleep(&pause, NULL);
    }
    while (i->times-- > 0 && !atomic_load(&i->ended)) {
        nanosleep(&pause, NULL);
        client_interrupt(i->client);
    }
    return NULL;
}

static enum status interrupted(struct fixture *f, enum script script, int times,
                               struct client_result *r, struct error *e)
{
    struct seen seen = {0};
    struct interrupt i = {.client = f->client, .seen = &seen, .times = times};
    pthread_t thread;
    enum status s;

    assert_int_equal(pthread_create(&thread, NULL, interrupt, &i), 0);
    s = generate(f, script, &seen, r, e);
    atomic_store(&i.ended, true);
    pthread_join(thread, NULL);
    return s;
}

static void an_interrupt_cancels(void **state)
{
    struct client_result r;
    struct error e;

    assert_int_equal(interrupted(*state, SCRIPT_ENDLESS, 1, &r, &e),
                     ST_CANCELLED);
    assert_true(r.cancelled_here && r.has_receipt);
    assert_int_equal(r.receipt.n_generated, 2);
}

static void a_second_interrupt_gives_up(void **state)
{
    struct client_result r;
    struct error e;

    assert_int_equal(interrupted(*state, SCRIPT_SILENT, 100, &r, &e),
                     ST_CANCELLED);
    assert_true(r.cancelled_here && !r.has_receipt);
    assert_non_null(
        strstr(e.text, "cancelled by the caller")); /* no deadline */
}

static void a_refusal_has_a_retry_time(void **state)
{
    struct seen seen = {0};
    struct client_result r;
    struct error e;

    assert_int_equal(generate(*state, SCRIPT_REFUSE, &seen, &r, &e),
                     ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "the queue is full"));
    assert_int_equal(r.retry_after_ms, 700);
}

static void a_request_survives_its_session(void **state)
{
    struct seen seen = {0};
    struct client_result r;
    struct error e;

    assert_int_equal(generate(*state, SCRIPT_BREAK, &seen, &r, &e), ST_OK);
    assert_string_equal(seen.text, "one two three");
    assert_int_equal(seen.n_tokens, 6);
    assert_int_equal(seen.n_lost, 1);
    assert_int_equal(r.n_resumes, 1);
    assert_true(r.gap_us > 0 && r.gap_us < r.end_us);
    assert_int_equal(r.n_generated, 6);
}

/* Without a router there is no receipt to wait for. */
static void an_interrupt_ends_a_lost_request(void **state)
{
    struct client_result r;
    struct error e;

    assert_int_equal(interrupted(*state, SCRIPT_VANISH, 1, &r, &e),
                     ST_CANCELLED);
    assert_true(r.cancelled_here && !r.has_receipt);
    assert_int_equal(r.n_resumes, 0);
    assert_int_equal(r.n_generated, 2);
}

/* A request that begins after the router has gone ends after resume_ms; an
 * interrupt ends it at once, without a receipt. */
static void a_request_without_a_router_ends(void **state)
{
    struct fixture *f = *state;
    struct client_request r = short_request();
    struct client_result result;
    struct error e = {0};

    r.resume_ms = 200;
    fake_router_stop(&f->router);
    client_drop(f->client);
    assert_int_equal(client_generate(f->client, &r, &result, &e),
                     ST_UNAVAILABLE);
    assert_non_null(strstr(e.text, "no router accepted the request in time"));
    client_interrupt(f->client);
    assert_int_equal(client_generate(f->client, &r, &result, &e), ST_CANCELLED);
    assert_string_equal(
        e.text, "cancelled, without a receipt: not connected to a router");
    f->router = fake_router_start(endpoint, 0);
}

static void a_client_reconnects_after_a_goodbye(void **state)
{
    struct seen seen = {.no_resume = true}, again = {0};
    struct client_result r;
    struct error e;

    assert_int_equal(generate(*state, SCRIPT_BREAK, &seen, &r, &e),
                     ST_UNAVAILABLE);
    assert_int_equal(seen.n_tokens, 2);
    assert_int_equal(generate(*state, SCRIPT_THREE_CHUNKS, &again, &r, &e),
                     ST_OK);
    assert_int_equal(again.n_tokens, 6);
}

static void a_client_reconnects_after_a_drop(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    struct client_result r;
    struct error e;

    client_drop(f->client);
    assert_int_equal(generate(f, SCRIPT_THREE_CHUNKS, &seen, &r, &e), ST_OK);
}

static void unary_calls_have_a_deadline(void **state)
{
    struct fixture *f = *state;
    Sluice__V1__ListModelsRequest m = SLUICE__V1__LIST_MODELS_REQUEST__INIT;
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    struct error e = {0};

    assert_int_equal(client_call(f->client, METHOD_INFERENCE_LIST_MODELS,
                                 &m.base, 100, NULL, NULL, &e),
                     ST_DEADLINE_EXCEEDED);
    assert_int_equal(client_call(f->client, METHOD_HEALTH_CHECK, &nothing.base,
                                 LONG_MS, NULL, NULL, &e),
                     ST_OK);
}

/* A very busy machine may end a session by silence; then asks again. */
static enum status cancel(struct fixture *f, uint32_t timeout_ms)
{
    const uint8_t id[16] = {1};
    struct client_receipt r;
    struct error e = {0};
    enum status st;

    do {
        st = client_cancel(f->client, id, CLIENT_ALL_CHOICES, timeout_ms, &r,
                           &e);
    } while (st == ST_UNAVAILABLE);
    return st;
}

/* The fake router never answers a Remove, so the call times out. */
static void a_receipt_has_a_timeout(void **state)
{
    struct fixture *f = *state;
    const uint8_t id[16] = {1};
    struct client_receipt r;
    struct error e = {0};

    assert_int_equal(
        client_remove(f->client, id, CLIENT_ALL_CHOICES, 100, &r, &e),
        ST_DEADLINE_EXCEEDED);
    assert_true(fake_router_deadline_ms(f->router) <= 100);
    assert_int_equal(cancel(f, LONG_MS), ST_OK);
    assert_true(fake_router_deadline_ms(f->router) <= LONG_MS);
    assert_int_equal(cancel(f, 0), ST_OK);
    assert_true(fake_router_deadline_ms(f->router) <= CLIENT_RECEIPT_MS);
}

static void rejected_calls_name_the_reason(void **state)
{
    struct fixture *f = *state;
    struct client_request r = client_request_default();
    Sluice__V1__StatusRequest nothing = SLUICE__V1__STATUS_REQUEST__INIT;
    struct client_result result;
    struct error e = {0};
    char *text = calloc(1, 2u << 20);

    r.text = text;
    r.n_text = 2u << 20;
    assert_int_equal(client_generate(f->client, &r, &result, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "limit of 1048576 bytes"));
    free(text);
    assert_int_equal(client_call(f->client, METHOD_ADMIN_STATUS, &nothing.base,
                                 100, NULL, NULL, &e),
                     ST_PERMISSION_DENIED);
}

static void a_missing_router_is_reported_in_time(void **state)
{
    struct client_config config = {.endpoint = "ipc:///tmp/sluice-no-router",
                                   .timeout_ms = 200};
    struct client *c;
    struct error e = {0};

    (void)state;
    assert_int_equal(client_open(&c, &config, &e), ST_UNAVAILABLE);
    assert_null(c);
    assert_non_null(strstr(e.text, "within 200 ms"));
    config.endpoint = "nonsense";
    assert_int_equal(client_open(&c, &config, &e), ST_INVALID_ARGUMENT);
}

/* client_open() returns the router's status, not ST_UNAVAILABLE after the
 * timeout of ten minutes. */
static void a_refused_hello_is_reported_at_once(void **state)
{
    char refusing[64];
    struct client_config config = {.endpoint = refusing, .timeout_ms = LONG_MS};
    struct fake_router *router;
    struct client *c;
    struct error e = {0};

    (void)state;
    snprintf(refusing, sizeof refusing, "ipc:///tmp/sluice-refusing.%d",
             (int)getpid());
    router = fake_router_start(refusing, 1);
    assert_int_equal(client_open(&c, &config, &e), ST_PERMISSION_DENIED);
    assert_null(c);
    assert_non_null(strstr(e.text, "refused this client: not today"));
    fake_router_stop(&router);
    unlink(refusing + strlen("ipc://"));
}

#define WITH_ROUTER(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ROUTER(chunks_arrive_in_order),
        WITH_ROUTER(interleaved_choices_stay_in_order),
        WITH_ROUTER(choices_are_summed_up),
        WITH_ROUTER(inconsistent_choices_are_data_loss),
        WITH_ROUTER(an_unknown_stop_string_is_data_loss),
        WITH_ROUTER(one_failed_choice_fails_the_call),
        WITH_ROUTER(a_gap_is_never_passed_on),
        WITH_ROUTER(a_stream_needs_its_finish),
        WITH_ROUTER(a_callback_cancels),
        WITH_ROUTER(a_callback_cancels_at_the_end),
        WITH_ROUTER(an_interrupt_cancels),
        WITH_ROUTER(a_second_interrupt_gives_up),
        WITH_ROUTER(a_refusal_has_a_retry_time),
        WITH_ROUTER(a_request_survives_its_session),
        WITH_ROUTER(an_interrupt_ends_a_lost_request),
        WITH_ROUTER(a_request_without_a_router_ends),
        WITH_ROUTER(a_client_reconnects_after_a_goodbye),
        WITH_ROUTER(a_client_reconnects_after_a_drop),
        WITH_ROUTER(unary_calls_have_a_deadline),
        WITH_ROUTER(a_receipt_has_a_timeout),
        WITH_ROUTER(rejected_calls_name_the_reason),
        cmocka_unit_test(a_default_name_fits_beside_that_of_any_key),
        cmocka_unit_test(a_missing_router_is_reported_in_time),
        cmocka_unit_test(a_refused_hello_is_reported_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

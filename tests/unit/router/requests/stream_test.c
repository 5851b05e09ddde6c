/* Streams to clients: text, chunks at their reading speed, and figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"
#include "text/detokenizer.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP   SLUICE__V1__FINISH__FINISH_STOP

static struct tokenizer *tokenizer;

static int load(void **state)
{
    struct error e;

    (void)state;
    return tokenizer_load(&tokenizer, "models/tiny-hybrid/tokenizer.json",
                          &e) == ST_OK
               ? 0
               : -1;
}

static int unload(void **state)
{
    (void)state;
    tokenizer_free(&tokenizer);
    return 0;
}

/* Sends given ids from the worker. */
static void give(struct fake *w, const uint32_t *ids, uint32_t first,
                 uint32_t n, uint32_t finish)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    uint64_t grant = 1;
    uint32_t st = 3;

    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = 1;
    m.grant = &grant;
    m.first_index = &first;
    m.count = &n;
    m.finish = &finish;
    m.state = &st;
    m.tokens = (uint32_t *)(uintptr_t)(ids + first);
    m.n_tokens = n;
    worker_say(w, &m);
    rig_run(w->rig);
}

struct stage {
    struct fake_text text;
    struct rig *rig;
    struct fake *w, *c;
};

static void set(struct stage *s)
{
    struct rig_options o = {.max_peers = 16,
                            .max_requests = 300,
                            .max_waiting = 300,
                            .text = &s->text.seam};

    memset(s, 0, sizeof *s);
    fake_text_init(&s->text, tokenizer);
    s->rig = rig_new(&o);
    s->w = fake_worker_new(s->rig, "w1", 1024, 256);
    s->w->shard.vocab = tokenizer_vocab(tokenizer);
    fake_hello(s->w);
    assert_true(s->w->up);
    s->c = rig_client(s->rig, "c1");
}

static size_t whole_text(const uint32_t *ids, size_t n, char *out)
{
    struct detokenizer d;
    size_t bytes = 0;

    detokenizer_init(&d, tokenizer, DETOK_SKIP_SPECIAL);
    for (size_t i = 0; i < n; i++) {
        bytes += detokenizer_push(&d, ids[i], out + bytes);
    }
    return bytes + detokenizer_finish(&d, out + bytes);
}

static const char sample[] =
    "Der Fluss \xc3\xbc"
    "ber das Wehr \xe2\x80\x94 \xf0\x9f\x8c\x8a\xf0\x9f"
    "\x8c\x8a, \xe6\xb0\xb4\xe9\x96\x80 and\nthe sluice gate\topens.";

/* However the ids are divided into steps, the chunks have the text of all ids
 * together. */
static void chunks_add_up_to_the_text(void **state)
{
    uint32_t ids[256];
    char want[1024];
    struct error e;
    size_t n, bytes;

    (void)state;
    assert_int_equal(tokenizer_encode(tokenizer, sample, strlen(sample), 0, ids,
                                      256, &n, &e),
                     ST_OK);
    bytes = whole_text(ids, n, want);
    assert_int_equal(bytes, strlen(sample));
    for (uint32_t step = 1; step <= 7; step++) {
        struct stage s;
        struct record *x;

        set(&s);
        x = client_generate_text(s.c, 1, "a prompt", (uint32_t)n);
        rig_advance(s.rig, 10000);
        for (uint32_t at = 0; at < n; at += step) {
            uint32_t k = at + step < n ? step : (uint32_t)n - at;
            give(s.w, ids, at, k, at + k == n ? LENGTH : 0);
        }
        assert_true(x->ended);
        assert_int_equal(x->n_tokens, n);
        assert_int_equal(x->n_text, bytes);
        assert_memory_equal(x->text, sample, bytes);
        rig_free(&s.rig);
    }
}

/* Bytes that end inside a character become U+FFFD in the last chunk.  The end
 * token and special tokens give no text. */
static void the_last_chunk_flushes(void **state)
{
    uint32_t ids[64], n_cut = 0;
    char want[256];
    struct stage s;
    struct record *x;
    struct error e;
    size_t n, bytes;

    (void)state;
    assert_int_equal(
        tokenizer_encode(tokenizer, "\xf0\x9f\xa6\x84", 4, 0, ids, 60, &n, &e),
        ST_OK);
    assert_true(n > 1); /* a character of several tokens */
    n_cut = (uint32_t)n - 1;
    bytes = whole_text(ids, n_cut, want);
    assert_true(bytes > 0);
    ids[n_cut] = ids[0]; /* an end token: no text */
    set(&s);
    x = client_generate_text(s.c, 1, "a prompt", 60);
    rig_advance(s.rig, 10000);
    give(s.w, ids, 0, n_cut, 0);
    assert_int_equal(x->n_text, 0); /* held back: the character may continue */
    give(s.w, ids, n_cut, 1, STOP);
    assert_true(x->ended);
    assert_int_equal(x->finish, STOP);
    assert_int_equal(x->n_tokens, n);
    assert_int_equal(x->n_text, bytes);
    assert_memory_equal(x->text, want, bytes);
    rig_free(&s.rig);
}

/* The end token also gives no text after a Cancel that came too late. */
static void the_end_token_of_a_late_cancel(void **state)
{
    struct stage s;
    struct record *x;
    uint32_t ids[64];
    char want[256];
    struct error e;
    size_t n, bytes;

    (void)state;
    assert_int_equal(
        tokenizer_encode(tokenizer, "some text", 9, 0, ids, 60, &n, &e), ST_OK);
    bytes = whole_text(ids, n - 1, want);
    set(&s);
    x = client_generate_text(s.c, 1, "a prompt", 60);
    rig_advance(s.rig, 10000);
    s.w->hold_receipts = true;
    client_cancel(s.c, 1);
    rig_run(s.rig);
    give(s.w, ids, 0, (uint32_t)n, STOP);
    worker_receipt(s.w);
    rig_run(s.rig);
    assert_true(x->ended);
    assert_int_equal(x->finish, STOP);
    assert_int_equal(x->n_tokens, n);
    assert_int_equal(x->n_text, bytes);
    assert_memory_equal(x->text, want, bytes);
    rig_free(&s.rig);
}

static void no_text_when_none_is_wanted(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    uint32_t ids[3] = {40, 41, 42};
    struct stage s;
    struct record *x;

    (void)state;
    set(&s);
    m.model = wire_text("tiny");
    m.has_want_text = true;
    m.want_text = false;
    x = client_generate_with(s.c, 1, 5, 3, &m, 0);
    rig_run(s.rig);
    give(s.w, ids, 0, 3, LENGTH);
    assert_true(x->ended);
    assert_int_equal(x->n_tokens, 3);
    assert_int_equal(x->n_text, 0);
    rig_free(&s.rig);
}

/* A move does not change the text. */
static void text_survives_a_move(void **state)
{
    uint32_t ids[256];
    struct error e;
    struct stage s;
    struct record *x;
    struct fake *w2;
    size_t n;

    (void)state;
    assert_int_equal(tokenizer_encode(tokenizer, sample, strlen(sample), 0, ids,
                                      256, &n, &e),
                     ST_OK);
    set(&s);
    x = client_generate_text(s.c, 1, "a prompt", (uint32_t)n);
    rig_advance(s.rig, 10000);
    give(s.w, ids, 0, 13, 0); /* possibly inside a character */
    w2 = fake_worker_new(s.rig, "w2", 64, 4);
    w2->shard.vocab = tokenizer_vocab(tokenizer);
    fake_hello(w2);
    fake_lost(s.w);
    rig_run(s.rig);
    assert_int_equal(w2->n_submits, 1);
    give(w2, ids, 13, (uint32_t)n - 13, LENGTH);
    assert_true(x->ended);
    assert_int_equal(x->n_text, strlen(sample));
    assert_memory_equal(x->text, sample, x->n_text);
    assert_int_equal(x->figures.n_moves, 1);
    rig_free(&s.rig);
}

static void text_of_a_prompt_is_encoded(void **state)
{
    uint32_t ids[256];
    struct error e;
    struct stage s;
    size_t n;

    (void)state;
    assert_int_equal(tokenizer_encode(tokenizer, sample, strlen(sample), 0, ids,
                                      256, &n, &e),
                     ST_OK);
    set(&s);
    client_generate_text(s.c, 1, sample, 4);
    rig_advance(s.rig, 10000);
    assert_int_equal(s.w->sequences[0].n_prompt, n);
    assert_memory_equal(s.w->sequences[0].ids, ids, n * sizeof *ids);
    rig_free(&s.rig);
}

/* The seed is drawn when the request arrives: a choice that ends during the
 * encoding reports the same seed as the later ones. */
static void a_seed_before_the_prompt(void **state)
{
    struct stage s;
    struct record *x;

    (void)state;
    set(&s);
    s.text.hold = true;
    x = client_generate_text(s.c, 1, sample, 4);
    rig_run(s.rig);
    client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_true(x->ended);
    assert_int_equal(x->figures.n_prompt, 0);
    assert_true(x->figures.seed != 0);
    rig_free(&s.rig);
    fake_text_fini(&s.text); /* the job is held */
}

/* A client that reads nothing is cancelled 30 s after its link is full. Another
 * client that reads is not delayed. */
static void slow_readers(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = fake_worker_new(rig, "w1", 8192, 8);
    struct fake *slow, *fast;
    struct record *x, *y;
    uint32_t n = 0;

    (void)state;
    fake_hello(w);
    slow = rig_client(rig, "slow");
    fast = rig_client(rig, "fast");
    x = client_generate(slow, 1, 10, 39000);
    y = client_generate(fast, 2, 10, 4000);
    rig_run(rig);
    slow->deaf = slow->mute = true;
    /* The link holds 64 unacknowledged frames and 64 KiB of chunks. */
    for (int k = 0; k < 3000; k++) {
        worker_make(w, worker_sequence_of(w, 1), 10, 0);
        if (n < 4000) {
            worker_make(w, worker_sequence_of(w, 2), 10, 0);
            n += 10;
        }
        worker_step(w);
        rig_advance(rig, 1000);
    }
    assert_int_equal(y->n_tokens, n > RIG_TOKENS ? RIG_TOKENS : n);
    assert_int_equal(rig_state(rig, 1), CHOICE_DECODE);
    for (int k = 0; k < 26; k++) {
        rig_advance(rig, 1000000);
        worker_report(w);
    }
    assert_int_equal(rig_state(rig, 1), CHOICE_DECODE);
    assert_int_equal(w->n_cancels, 0);
    for (int k = 0; k < 5; k++) {
        rig_advance(rig, 1000000);
        worker_report(w);
    }
    assert_int_equal(w->n_cancels, 1);
    assert_int_equal(w->last_reason,
                     SLUICE__V1__CANCEL_REASON__CANCEL_SLOW_READER);
    assert_int_equal(rig_state(rig, 1), CHOICE_ENDED);
    assert_int_equal(rig_state(rig, 2), CHOICE_DECODE);
    assert_true(y->in_order);
    (void)x;
    rig_free(&rig);
}

/* A client that pauses and reads on loses nothing. */
static void a_pause_costs_nothing(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8192, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 10, 4000);
    uint8_t id[16];

    (void)state;
    memset(id, 1, 16);
    rig_run(rig);
    c->deaf = true;
    for (int k = 0; k < 399; k++) {
        worker_make(w, worker_sequence_of(w, 1), 10, 0);
        worker_step(w);
        rig_advance(rig, 1000);
    }
    worker_make(w, worker_sequence_of(w, 1), 10, LENGTH);
    worker_step(w);
    rig_advance(rig, 100000);
    assert_int_equal(x->n_tokens, 0);
    c->deaf = false;
    rig_advance(rig, 5000000);
    assert_true(x->ended);
    assert_int_equal(x->n_tokens, 4000);
    assert_true(x->in_order);
    for (uint32_t i = 0; i < 4000; i++) {
        assert_int_equal(x->tokens[i], fake_token(id, i));
    }
    rig_free(&rig);
}

static void figures(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 4, 1);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    struct record *a, *b;

    (void)state;
    m.model = wire_text("tiny");
    m.sampling = &sampling;
    sampling.has_seed = true;
    sampling.seed = 0x1234567890abcdefu;
    client_generate(c, 1, 40, 60); /* takes the slot */
    rig_run(rig);
    a = client_generate_with(c, 2, 40, 60, &m, 0);
    rig_run(rig);
    rig_advance(rig, 300000);
    worker_make(w, worker_sequence_of(w, 1), 60, LENGTH);
    worker_step(w);
    rig_run(rig);
    assert_true(worker_sequence_of(w, 2)->seed == sampling.seed);
    rig->now += 50000;
    worker_make(w, worker_sequence_of(w, 2), 3, 0);
    worker_step(w);
    rig_run(rig);
    rig->now += 20000;
    worker_make(w, worker_sequence_of(w, 2), 2, STOP);
    worker_step(w);
    rig_run(rig);
    assert_true(a->ended);
    assert_int_equal(a->finish, STOP);
    assert_int_equal(a->figures.n_prompt, 40);
    assert_int_equal(a->figures.n_generated, 5);
    assert_int_equal(a->figures.queued_us, 300000);
    assert_int_equal(a->figures.first_token_us, 350000);
    assert_int_equal(a->figures.total_us, 370000);
    assert_int_equal(a->figures.blocks, 4);
    assert_int_equal(a->figures.slots, 1);
    assert_true(a->figures.seed == sampling.seed);
    b = client_generate(c, 3, 40, 60); /* no seed given: one is drawn */
    rig_run(rig);
    assert_true(worker_sequence_of(w, 3)->seed != 0);
    client_cancel(c, 3);
    rig_run(rig);
    assert_int_equal(b->figures.first_token_us, 0);
    rig_free(&rig);
}

/* A failed step ends the call with its reason; earlier tokens were sent. */
static void a_failed_sequence(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 40, 10);
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    uint64_t grant = 1;
    uint32_t zero = 0, finish = SLUICE__V1__FINISH__FINISH_FAILED;

    (void)state;
    rig_run(rig);
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = 1;
    m.grant = &grant;
    m.first_index = m.count = m.state = &zero;
    m.finish = &finish;
    m.has_failure = true;
    m.failure = wire_text("layer 3: the device is lost");
    worker_say(w, &m);
    rig_run(rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_INTERNAL);
    assert_string_equal(x->error, "worker w1: layer 3: the device is lost");
    rig_free(&rig);
}

/* ---- chunks that gather ---- */

#define GATHER 1000

static struct rig *gathering(struct fake **w, struct record **a,
                             struct record **b)
{
    struct rig_options o = {.max_peers = 16,
                            .max_requests = 16,
                            .max_waiting = 16,
                            .gather_us = GATHER};
    struct rig *rig = rig_new(&o);
    struct fake *c;

    *w = rig_worker(rig, "w1", 64, 8);
    c = rig_client(rig, "c1");
    *a = client_generate(c, 1, 40, 100);
    *b = client_generate(c, 2, 40, 100);
    rig_run(rig);
    return rig;
}

/* The first chunk is sent at once.  Tokens that follow within the interval are
 * sent at its end, several steps in one chunk. */
static void chunks_of_a_while_go_together(void **state)
{
    struct record *a, *b;
    struct fake *w;
    struct rig *rig = gathering(&w, &a, &b);

    (void)state;
    worker_give(w, 1, 0, 1, 0);
    assert_int_equal(a->n_tokens, 1);
    worker_give(w, 2, 0, 1, 0);
    worker_give(w, 1, 0, 2, 0);
    worker_give(w, 1, 0, 1, 0);
    rig_advance(rig, GATHER - 1);
    assert_int_equal(a->n_tokens, 1);
    assert_int_equal(b->n_tokens, 0);
    rig_advance(rig, 1);
    assert_int_equal(a->n_tokens, 4);
    assert_int_equal(a->n_chunks, 2);
    assert_int_equal(b->n_tokens, 1);
    rig_advance(rig, GATHER);
    worker_give(w, 2, 0, 1, 0);
    assert_int_equal(b->n_tokens, 2);
    rig_free(&rig);
}

/* The id is free for another call once the receipt is here. */
static void an_end_does_not_wait(void **state)
{
    struct record *a, *b, *x;
    struct fake *w;
    struct rig *rig = gathering(&w, &a, &b);

    (void)state;
    worker_give(w, 1, 0, 1, 0);
    worker_give(w, 2, 0, 3, 0);
    worker_give(w, 1, 0, 1, STOP);
    assert_true(a->ended);
    assert_int_equal(a->n_tokens, 2);
    assert_int_equal(b->n_tokens, 3); /* sent with the end of a */
    worker_give(w, 2, 0, 1, 0);
    assert_int_equal(b->n_tokens, 3);
    x = client_cancel(rig->fakes[1], 2);
    rig_run(rig);
    assert_true(x->ended && b->ended);
    assert_int_equal(b->n_tokens, 4);
    rig_end(&rig);
}

/* A failed call sends the gathered tokens first. */
static void what_gathered_goes_before_a_failure(void **state)
{
    struct record *a, *b;
    struct fake *w;
    struct rig *rig = gathering(&w, &a, &b);

    (void)state;
    worker_give(w, 1, 0, 1, 0);
    worker_give(w, 1, 0, 3, 0);
    assert_int_equal(a->n_tokens, 1);
    worker_give(w, 1, 0, 0, SLUICE__V1__FINISH__FINISH_FAILED);
    assert_true(a->ended);
    assert_int_equal(a->status, ST_INTERNAL);
    assert_int_equal(a->n_tokens, 4);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_add_up_to_the_text),
        cmocka_unit_test(the_last_chunk_flushes),
        cmocka_unit_test(the_end_token_of_a_late_cancel),
        cmocka_unit_test(no_text_when_none_is_wanted),
        cmocka_unit_test(text_survives_a_move),
        cmocka_unit_test(text_of_a_prompt_is_encoded),
        cmocka_unit_test(a_seed_before_the_prompt),
        cmocka_unit_test(slow_readers),
        cmocka_unit_test(a_pause_costs_nothing),
        cmocka_unit_test(figures),
        cmocka_unit_test(a_failed_sequence),
        cmocka_unit_test(chunks_of_a_while_go_together),
        cmocka_unit_test(an_end_does_not_wait),
        cmocka_unit_test(what_gathered_goes_before_a_failure),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, load, unload);
}

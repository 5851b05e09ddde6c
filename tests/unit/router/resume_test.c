/* A Generate that goes on from what its client has: what is checked of it,
 * what is sent and what is not, and how its forerunner makes way. */
#include "router/resume.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "router/limits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/tiny_text.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP   SLUICE__V1__FINISH__FINISH_STOP

typedef Sluice__V1__GenerateRequest generate_message;

static generate_message plain(void)
{
    generate_message m = SLUICE__V1__GENERATE_REQUEST__INIT;

    return m;
}

/* What a client has of the choices of a call. */
struct have {
    uint32_t n, count[CHOICES_MAX], text[CHOICES_MAX], tokens[RIG_CONTEXT];
    protobuf_c_boolean ended[CHOICES_MAX];
    uint32_t n_tokens;
};

static void put(generate_message *m, struct have *h)
{
    m->has_n = true;
    m->n = h->n;
    m->n_have_count = m->n_have_text = m->n_have_ended = h->n;
    m->have_count = h->count;
    m->have_text = h->text;
    m->have_ended = h->ended;
    m->n_have_tokens = h->n_tokens;
    m->have_tokens = h->tokens;
}

/* One choice: ids[0, count) and `text` bytes of text. */
static struct have have_one(const uint32_t *ids, uint32_t count, uint32_t text)
{
    struct have h = {.n = 1, .count = {count}, .text = {text}};

    memcpy(h.tokens, ids, count * sizeof *ids);
    h.n_tokens = count;
    return h;
}

/* ---- what is said ---- */

static void check_refused(const generate_message *m, const char *sentence)
{
    struct error e;

    assert_int_equal(resume_check(m, 1000, &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, sentence);
}

static void nothing_had_is_no_resumption(void **state)
{
    generate_message m = plain();
    struct error e;

    (void)state;
    assert_false(resume_asked(&m));
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
}

static void columns_are_whole(void **state)
{
    static struct have h;
    generate_message m = plain();
    struct error e;

    (void)state;
    h = (struct have){.n = 2, .count = {1, 2}, .n_tokens = 3};
    put(&m, &h);
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
    for (int i = 0; i < 3; i++) {
        size_t *n[] = {&m.n_have_count, &m.n_have_text, &m.n_have_ended};
        char sentence[200];

        *n[i] = i == 1 ? 3 : 1;
        snprintf(sentence, sizeof sentence,
                 "have_count, have_text and have_ended have %zu, %zu and %zu "
                 "entries, all must have one for each of the 2 choices",
                 m.n_have_count, m.n_have_text, m.n_have_ended);
        check_refused(&m, sentence);
        *n[i] = 0; /* not even all but one */
        assert_int_equal(resume_check(&m, 1000, &e), ST_INVALID_ARGUMENT);
        *n[i] = 2;
    }
    m = plain();
    m.n_have_tokens = 1;
    m.have_tokens = h.tokens;
    assert_int_equal(resume_check(&m, 1000, &e), ST_INVALID_ARGUMENT);
}

static void counts_add_up(void **state)
{
    static struct have h;
    generate_message m = plain();
    struct error e;

    (void)state;
    h = (struct have){.n = 2, .count = {1, 2}, .n_tokens = 4};
    put(&m, &h);
    check_refused(&m, "have_count adds up to 3, have_tokens has 4");
    m.n_have_tokens = 2;
    check_refused(&m, "have_count adds up to 3, have_tokens has 2");
    m.n_have_tokens = 3;
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
    h.count[0] = UINT32_MAX; /* the sum is 64 bits wide */
    h.count[1] = 4;
    check_refused(&m, "have_count adds up to 4294967299, have_tokens has 3");
}

static void ids_are_in_the_vocabulary(void **state)
{
    static struct have h;
    generate_message m = plain();
    struct error e;

    (void)state;
    h = (struct have){.n = 1, .count = {2}, .n_tokens = 2, .tokens = {0, 999}};
    put(&m, &h);
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
    h.tokens[1] = 1000;
    check_refused(&m, "have_tokens: token 1 is 1000, the vocabulary has 1000");
}

static void counts_are_within_max_tokens(void **state)
{
    static struct have h;
    generate_message m = plain();
    struct error e;

    (void)state;
    h = (struct have){.n = 2, .count = {0, 3}, .n_tokens = 3};
    put(&m, &h);
    m.has_max_tokens = true;
    m.max_tokens = 3;
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
    m.max_tokens = 2;
    check_refused(&m, "choice 1: have_count is 3, at most max_tokens, 2");
}

static void text_is_of_tokens(void **state)
{
    static struct have h;
    generate_message m = plain();
    struct error e;

    (void)state;
    h = (struct have){.n = 2, .count = {0, 1}, .text = {1, 1}, .n_tokens = 1};
    put(&m, &h);
    check_refused(&m, "choice 0: have_text is 1 bytes of no token");
    h.text[0] = 0;
    assert_int_equal(resume_check(&m, 1000, &e), ST_OK);
}

/* ---- through the router ---- */

/* Ask as tiny_generate() does, with what is had of choice 0. */
static struct record *resume(struct tiny *s, struct have *h,
                             uint32_t max_tokens, const char *const *stop)
{
    ProtobufCBinaryData strings[STOP_STRINGS_MAX];
    uint32_t ids[10] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'};
    generate_message m = plain();
    uint8_t full[16];
    struct record *x;

    memset(full, 1, 16);
    put(&m, h);
    while (stop != NULL && stop[m.n_stop] != NULL) {
        strings[m.n_stop] = wire_text(stop[m.n_stop]);
        m.n_stop++;
    }
    m.stop = strings;
    m.model = wire_text("tiny");
    m.request_id = (ProtobufCBinaryData){16, full};
    m.n_tokens = 10;
    m.tokens = ids;
    m.has_max_tokens = max_tokens > 0;
    m.max_tokens = max_tokens;
    x = client_call(s->c, METHOD_INFERENCE_GENERATE, &m.base, 0);
    x->n_tokens = h->count[0];
    rig_run(s->rig);
    return x;
}

/* A default max_tokens is known only when the prompt is. */
static void the_default_of_max_tokens_counts(void **state)
{
    static struct have h;
    static uint32_t ids[GENERATE_MAX_TOKENS + 1];
    struct record *x;
    struct tiny s;

    (void)state;
    for (uint32_t i = 0; i <= GENERATE_MAX_TOKENS; i++) {
        ids[i] = 'a';
    }
    tiny_set(&s, tiny_tokenizer);
    h = have_one(ids, GENERATE_MAX_TOKENS + 1, 0);
    x = resume(&s, &h, 0, NULL);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_string_equal(x->error,
                        "choice 0: have_count is 257, at most max_tokens, 256");
    h = have_one(ids, GENERATE_MAX_TOKENS, 0);
    x = resume(&s, &h, 0, NULL);
    assert_false(x->ended);
    assert_int_equal(worker_sequence_of(s.w, 1)->n_given, GENERATE_MAX_TOKENS);
    tiny_say(s.w, ids, GENERATE_MAX_TOKENS, 0, LENGTH);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->n_tokens, GENERATE_MAX_TOKENS);
    tiny_end(&s);
}

static void it_is_submitted_as_one_that_moved(void **state)
{
    static struct have h;
    static const uint32_t ids[] = {'x', 'y', 'z', 'u', 'v'};
    const struct sequence *q;
    struct router_counts n;
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    h = have_one(ids, 3, 3);
    x = resume(&s, &h, 5, NULL);
    q = worker_sequence_of(s.w, 1);
    assert_int_equal(q->n_prompt, 10);
    assert_int_equal(q->n_given, 3);
    assert_int_equal(q->have_index, 3);
    assert_int_equal(q->n_ids, 13);
    assert_memory_equal(q->ids + 10, ids, 3 * sizeof *ids);
    tiny_say(s.w, ids, 3, 2, LENGTH);
    assert_true(x->ended && x->in_order);
    assert_int_equal(x->n_tokens, 5);
    assert_int_equal(x->figures.n_generated, 5);
    tiny_check_text(x, "uv");
    router_counts(s.rig->router, &n);
    assert_int_equal(n.resumed, 1);
    assert_int_equal(n.tokens, 2);
    tiny_end(&s);
}

/* Any router draws the same, today's and tomorrow's. */
static void the_seed_follows_from_the_id(void **state)
{
    struct record *x;
    struct tiny s;

    (void)state;
    for (int i = 0; i < 2; i++) {
        tiny_set(&s, tiny_tokenizer);
        x = tiny_generate(&s, 1, 5, NULL, NULL);
        assert_false(x->ended);
        assert_int_equal(worker_sequence_of(s.w, 1)->seed, 0x7e29d5c9e252881au);
        tiny_end(&s);
    }
}

static void ended_choices_are_left_alone(void **state)
{
    static struct have h;
    struct router_counts n;
    struct record *x;
    struct tiny s;
    uint32_t ids[] = {'a', 'b', 'c', 'd'};

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    h = (struct have){.n = 3,
                      .count = {1, 2, 1},
                      .ended = {true, false, true},
                      .tokens = {'x', 'a', 'b', 'y'},
                      .n_tokens = 4,
                      .text = {1, 2, 1}};
    x = resume(&s, &h, 4, NULL);
    assert_int_equal(s.w->n_submits, 1);
    assert_non_null(worker_choice_of(s.w, 1, 1));
    tiny_say(s.w, ids, 2, 2, LENGTH);
    assert_int_equal(x->status, ST_OK);
    assert_true(x->ended);
    assert_int_equal(x->n_chunks, 1);
    assert_int_equal(x->chunks[0], 1);
    assert_memory_equal(record_choice(x, 1)->text, "cd", 2);
    router_counts(s.rig->router, &n);
    assert_int_equal(n.had_ended, 2);
    assert_int_equal(n.finished, 1);
    tiny_end(&s);
}

static void all_have_ended(void **state)
{
    static struct have h;
    struct router_counts n;
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    h = (struct have){.n = 2,
                      .count = {1, 0},
                      .ended = {true, true},
                      .tokens = {'x'},
                      .n_tokens = 1};
    x = resume(&s, &h, 4, NULL);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->n_replies, 0);
    assert_int_equal(s.w->n_submits, 0);
    router_counts(s.rig->router, &n);
    assert_int_equal(n.n_requests, 0);
    tiny_end(&s);
}

/* A dishonest client's: its own text shows that it was to end before. */
static void a_stop_string_that_is_complete_ends_it(void **state)
{
    static struct have h;
    static const char *const stop[] = {"bc", NULL};
    static const uint32_t ids[] = {'a', 'b', 'c', 'd'};
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    h = have_one(ids, 4, 0);
    x = resume(&s, &h, 8, stop);
    assert_int_equal(s.w->n_submits, 0);
    tiny_check_stopped(x, 0, 4, "a");
    tiny_end(&s);
}

/* The last token may have been the one that ended it: the worker says so. */
static void a_stop_string_in_the_last_token(void **state)
{
    static struct have h;
    static const char *const stop[] = {"bc", NULL};
    static const uint32_t ids[] = {'a', 'b', 'c', 'd'};

    (void)state;
    for (int ended = 0; ended < 3; ended++) {
        struct record *x;
        struct tiny s;

        tiny_set(&s, tiny_tokenizer);
        h = have_one(ids, 3, 1);
        x = resume(&s, &h, ended == 1 ? 3 : 8, stop);
        assert_int_equal(s.w->n_submits, 1);
        if (ended == 2) { /* by that token, which is no text then */
            tiny_say(s.w, ids, 3, 0, STOP);
            tiny_check_stopped(x, NO_STRING, 3, "b");
        } else {
            tiny_say(s.w, ids, 3, ended ? 0 : 1, ended ? LENGTH : 0);
            tiny_check_stopped(x, 0, 3, "");
        }
        tiny_end(&s);
    }
}

/* ---- wherever it is cut ---- */

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

struct part {
    uint32_t n_tokens, n_text; /* after a chunk */
};

struct run {
    uint32_t ids[24], n, finish;
    const char *stop[4];
    struct part parts[64];
    uint32_t n_parts;
    char text[1024];
    uint32_t n_text, n_tokens, string;
};

static struct run now;

static void note(struct fake *f, const Sluice__V1__GenerateChunk *c)
{
    struct part *last = &now.parts[now.n_parts];

    (void)f;
    if (c->text.len > 0) {
        memcpy(now.text + now.n_text, c->text.data, c->text.len);
    }
    now.n_text += (uint32_t)c->text.len;
    now.n_tokens += (uint32_t)c->n_tokens;
    now.string = c->has_stop_string ? c->stop_string : NO_STRING;
    if (!c->has_finish) {
        *last = (struct part){now.n_tokens, now.n_text};
        now.n_parts++;
    }
}

static void draw_run(struct run *k)
{
    static const uint32_t some[] = {'a', 'b',         'c',         256,
                                    257, TINY_BCA,    TINY_C_EURO, 0xAC,
                                    258, TINY_SPECIAL};
    static const char *const strings[] = {
        "abca", "cab", "bcb", "c\xE2\x82\xAC", "\xEF\xBF\xBD", "b a", "acb"};
    uint32_t n_stops = draw(4);

    *k = (struct run){.n = 1 + draw(24), .finish = draw(2) ? STOP : LENGTH};
    for (uint32_t i = 0; i < k->n; i++) {
        k->ids[i] = some[draw(sizeof some / sizeof *some)];
    }
    for (uint32_t i = 0; i < n_stops; i++) {
        k->stop[i] = strings[draw(sizeof strings / sizeof *strings)];
    }
}

static void say(struct tiny *s, const struct record *x, uint32_t at)
{
    while (at < now.n && !x->ended) {
        uint32_t n = 1 + draw(3);

        n = n < now.n - at ? n : now.n - at;
        tiny_say(s->w, now.ids, at, n, at + n == now.n ? now.finish : 0);
        at += n;
    }
    if (!x->ended) {
        tiny_say(s->w, now.ids, now.n, 0, now.finish);
    }
}

/* From the part of it that a client had after `cut` chunks, all is as if
 * nothing had been cut. */
static void check_cut(const struct run *whole, uint32_t cut)
{
    static struct have h;
    const struct part *p = &whole->parts[cut];
    struct record *x;
    struct tiny s;

    tiny_set(&s, tiny_tokenizer);
    s.c->on_chunk = note;
    now = *whole;
    now.n_parts = 0;
    now.n_text = p->n_text;
    now.n_tokens = p->n_tokens;
    h = have_one(whole->ids, p->n_tokens, p->n_text);
    x = resume(&s, &h, whole->finish == LENGTH ? whole->n : 40, whole->stop);
    say(&s, x, p->n_tokens);
    assert_true(x->ended && x->in_order);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(now.n_tokens, whole->n_tokens);
    assert_int_equal(now.string, whole->string);
    assert_int_equal(now.n_text, whole->n_text);
    assert_memory_equal(now.text, whole->text, now.n_text);
    tiny_end(&s);
}

static void wherever_it_is_cut(void **state)
{
    uint32_t n_cuts = 0;

    (void)state;
    seed = 3;
    for (int round = 0; round < 150; round++) {
        static struct run whole;
        struct record *x;
        struct tiny s;

        draw_run(&now);
        tiny_set(&s, tiny_tokenizer);
        s.c->on_chunk = note;
        x = tiny_generate(&s, 1, now.finish == LENGTH ? now.n : 40, now.stop,
                          NULL);
        say(&s, x, 0);
        assert_true(x->ended);
        tiny_end(&s);
        whole = now;
        for (uint32_t i = 0; i < whole.n_parts; i++) {
            check_cut(&whole, i);
            n_cuts++;
        }
    }
    assert_true(n_cuts > 300);
}

/* Of a client that kept the tokens and no text: all of it comes, in chunks of
 * a bounded size. */
static void text_that_it_does_not_have(void **state)
{
    static struct have h;
    static uint32_t ids[RIG_TEXT / 3 + 1];
    struct record *x;
    struct tiny s;

    (void)state;
    for (uint32_t i = 0; i < RIG_TEXT / 3; i++) {
        ids[i] = 257; /* abc */
    }
    ids[RIG_TEXT / 3] = TINY_SPECIAL;
    tiny_set(&s, tiny_tokenizer);
    h = have_one(ids, RIG_TEXT / 3, 0);
    x = resume(&s, &h, RIG_TEXT / 3 + 1, NULL);
    tiny_say(s.w, ids, RIG_TEXT / 3, 1, LENGTH);
    assert_true(x->ended);
    assert_int_equal(x->n_text, RIG_TEXT / 3 * 3);
    assert_memory_equal(x->text + x->n_text - 6, "abcabc", 6);
    tiny_end(&s);
}

/* ---- its forerunner ---- */

static struct record *ask(struct rig *rig, struct fake *c, struct have *h)
{
    generate_message m = plain();
    struct record *x;

    if (h != NULL) {
        put(&m, h);
    }
    x = client_generate_with(c, 1, 10, 20, &m, 0);
    x->n_tokens = h != NULL ? h->count[0] : 0;
    rig_run(rig);
    return x;
}

static void a_call_in_another_session_makes_way(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct fake *a = rig_client(rig, "c1"), *b = rig_client(rig, "c2");
    struct record *x = ask(rig, a, NULL), *y;
    uint64_t seen;

    (void)state;
    worker_give(w, 1, 0, 3, 0);
    seen = worker_sequence_of(w, 1)->seed;
    w->hold_receipts = true;
    h = have_one(x->tokens, 3, 0);
    y = ask(rig, b, &h);
    assert_true(x->ended && y->ended);
    assert_int_equal(x->status, ST_ALREADY_EXISTS);
    assert_int_equal(x->retry_ms, RESUME_RETRY_MS);
    assert_string_equal(x->error, "the request was resumed in another session");
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, RESUME_RETRY_MS);
    assert_int_equal(w->last_reason,
                     SLUICE__V1__CANCEL_REASON__CANCEL_CLIENT_GONE);
    y = ask(rig, b, &h); /* the worker still has it */
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, RESUME_RETRY_MS);
    worker_receipt(w);
    rig_run(rig);
    worker_report(w);
    y = ask(rig, b, &h);
    assert_false(y->ended);
    assert_int_equal(worker_sequence_of(w, 1)->seed, seen);
    worker_give(w, 1, 0, 17, LENGTH);
    assert_int_equal(y->status, ST_OK);
    assert_int_equal(y->n_tokens, 20);
    assert_true(y->in_order);
    rig_end(&rig);
}

/* What only waits is gone at once. */
static void one_that_waits_makes_way_at_once(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 1, 1);
    struct fake *a = rig_client(rig, "c1"), *b = rig_client(rig, "c2");
    struct record *first = client_generate(a, 2, 10, 10), *x, *y;

    (void)state;
    rig_run(rig);
    x = ask(rig, a, NULL);
    assert_int_equal(rig_state(rig, 1), REQUEST_WAITING);
    h = (struct have){.n = 1};
    y = ask(rig, b, &h);
    assert_int_equal(x->status, ST_ALREADY_EXISTS);
    assert_false(y->ended);
    assert_int_equal(rig_state(rig, 1), REQUEST_WAITING);
    worker_give(w, 2, 0, 10, LENGTH);
    assert_true(first->ended);
    worker_report(w);
    rig_run(rig);
    worker_give(w, 1, 0, 20, LENGTH);
    assert_int_equal(y->status, ST_OK);
    rig_end(&rig);
}

static void only_a_resumption_of_another_session_does_so(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct fake *a = rig_client(rig, "c1"), *b = rig_client(rig, "c2");
    struct record *x = ask(rig, a, NULL), *y;

    (void)state;
    y = ask(rig, b, NULL);
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, 0);
    h = (struct have){.n = 1};
    y = ask(rig, a, &h);
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, 0);
    assert_false(x->ended);
    worker_give(w, 1, 0, 20, LENGTH);
    assert_int_equal(x->status, ST_OK);
    rig_end(&rig);
}

static void what_is_kept_is_removed(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct fake *a = rig_client(rig, "c1"), *b = rig_client(rig, "c2");
    generate_message m = plain();
    struct record *x, *y;

    (void)state;
    m.has_keep_ms = true;
    m.keep_ms = 60000;
    x = client_generate_with(a, 1, 10, 20, &m, 0);
    rig_run(rig);
    worker_give(w, 1, 0, 20, LENGTH);
    assert_int_equal(x->status, ST_OK);
    h = have_one(x->tokens, 19, 0); /* its last chunk never came */
    y = ask(rig, b, &h);
    assert_int_equal(y->status, ST_ALREADY_EXISTS);
    assert_int_equal(y->retry_ms, RESUME_RETRY_MS);
    assert_int_equal(w->n_removes, 1);
    worker_report(w);
    y = ask(rig, b, &h);
    worker_give(w, 1, 0, 1, LENGTH);
    assert_int_equal(y->status, ST_OK);
    assert_int_equal(y->n_tokens, 20);
    rig_end(&rig);
}

/* ---- a router that has just begun ---- */

static void no_worker_yet(void **state)
{
    static struct have h;
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    generate_message m = plain();
    struct record *x;

    (void)state;
    h = (struct have){.n = 1};
    x = ask(rig, c, &h);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    assert_int_equal(x->retry_ms, RETRY_MS_MIN);
    put(&m, &h);
    m.model = wire_text("m");
    x = client_generate_with(c, 1, 10, 20, &m, 0);
    rig_run(rig);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    assert_int_equal(x->retry_ms, RETRY_MS_MIN);
    assert_string_equal(x->error, "no worker of model m is up yet");
    (void)rig_worker(rig, "w1", 1, 2); /* the larger one is yet to come */
    m.model = wire_text("");
    x = client_generate_with(c, 1, 30, 20, &m, 0);
    rig_run(rig);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(x->retry_ms, RETRY_MS_MIN);
    rig_end(&rig);
}

/* Known to be at its length; yet the worker may know that a token ended it. */
static void the_last_word_is_a_workers(void **state)
{
    static struct have h;
    static uint32_t ids[20];
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_worker(rig, "w1", 8, 2), *b;
    struct fake *c = rig_client(rig, "c1");
    struct record *x;

    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        ids[i] = fake_token(
            (uint8_t[16]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, i);
    }
    h = have_one(ids, 20, 0);
    x = ask(rig, c, &h);
    b = rig_worker(rig, "w2", 8, 2);
    fake_lost(a);
    rig_run(rig);
    assert_false(x->ended);
    assert_int_equal(worker_sequence_of(b, 1)->n_given, 20);
    worker_give(b, 1, 0, 0, STOP);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->finish, STOP);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_had_is_no_resumption),
        cmocka_unit_test(columns_are_whole),
        cmocka_unit_test(counts_add_up),
        cmocka_unit_test(ids_are_in_the_vocabulary),
        cmocka_unit_test(counts_are_within_max_tokens),
        cmocka_unit_test(text_is_of_tokens),
        cmocka_unit_test(the_default_of_max_tokens_counts),
        cmocka_unit_test(it_is_submitted_as_one_that_moved),
        cmocka_unit_test(the_seed_follows_from_the_id),
        cmocka_unit_test(ended_choices_are_left_alone),
        cmocka_unit_test(all_have_ended),
        cmocka_unit_test(a_stop_string_that_is_complete_ends_it),
        cmocka_unit_test(a_stop_string_in_the_last_token),
        cmocka_unit_test(wherever_it_is_cut),
        cmocka_unit_test(text_that_it_does_not_have),
        cmocka_unit_test(a_call_in_another_session_makes_way),
        cmocka_unit_test(one_that_waits_makes_way_at_once),
        cmocka_unit_test(only_a_resumption_of_another_session_does_so),
        cmocka_unit_test(what_is_kept_is_removed),
        cmocka_unit_test(no_worker_yet),
        cmocka_unit_test(the_last_word_is_a_workers),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, tiny_load, tiny_unload);
}

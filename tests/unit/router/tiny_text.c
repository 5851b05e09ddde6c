#include "tests/unit/router/tiny_text.h"

#include <stdlib.h>
#include <string.h>

#include "common/sampling/sampling.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/text/small.h"
#include "text/byte_level.h"

static void add_token(json_t *root, const char *bytes, int id)
{
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    char spelling[32];
    size_t n = 0;

    for (; *bytes != '\0'; bytes++) {
        n += byte_level_spell((const uint8_t *)bytes, 1, spelling + n);
    }
    json_object_setn_new(vocab, spelling, n, json_integer(id));
}

struct tokenizer *tiny_tokenizer;

int tiny_load(void **state)
{
    json_t *root = fixture_small();
    struct error e;
    char *text;

    (void)state;
    add_token(root, "bca", TINY_BCA);
    add_token(root, "c\xE2\x82", TINY_C_EURO);
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                    TINY_SPECIAL, "content", "<s>", "special",
                                    1, "normalized", 0, "single_word", 0,
                                    "lstrip", 0, "rstrip", 0));
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    assert_non_null(text);
    if (tokenizer_parse(&tiny_tokenizer, text, strlen(text), &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    free(text);
    assert_int_equal(tokenizer_vocab(tiny_tokenizer), TINY_VOCAB);
    return 0;
}

int tiny_unload(void **state)
{
    (void)state;
    tokenizer_free(&tiny_tokenizer);
    return 0;
}

struct fake *tiny_worker(struct tiny *s, const char *name)
{
    struct fake *w = fake_worker_new(s->rig, name, 1024, 64);

    w->shard.vocab = TINY_VOCAB;
    fake_hello(w);
    assert_true(w->up);
    return w;
}

struct tiny_seen tiny_seen;

static void see(struct fake *f, const Sluice__V1__GenerateChunk *c)
{
    (void)f;
    tiny_seen.stop_string = c->has_stop_string ? c->stop_string : NO_STRING;
    tiny_seen.n_last += c->has_finish ? 1 : 0;
    if (!c->has_finish) {
        assert_false(c->has_stop_string);
    }
}

void tiny_set(struct tiny *s, const struct tokenizer *t)
{
    struct rig_options o = {.max_peers = 16,
                            .max_requests = 300,
                            .max_waiting = 300,
                            .text = &s->text.seam};

    memset(s, 0, sizeof *s);
    fake_text_init(&s->text, t);
    s->rig = rig_new(&o);
    s->w = tiny_worker(s, "w1");
    s->c = rig_client(s->rig, "c1");
    s->c->on_chunk = see;
    tiny_seen = (struct tiny_seen){.stop_string = NO_STRING};
}

void tiny_end(struct tiny *s)
{
    rig_free(&s->rig);
    fake_text_fini(&s->text);
}

struct record *tiny_generate(struct tiny *s, uint8_t id, uint32_t max_tokens,
                             const char *const *stop,
                             Sluice__V1__GenerateRequest *m)
{
    Sluice__V1__GenerateRequest plain = SLUICE__V1__GENERATE_REQUEST__INIT;
    ProtobufCBinaryData strings[STOP_STRINGS_MAX + 1];
    uint32_t ids[10] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'};
    uint8_t full[16];
    struct record *x;

    m = m == NULL ? &plain : m;
    while (stop != NULL && stop[m->n_stop] != NULL) {
        strings[m->n_stop] = wire_text(stop[m->n_stop]);
        m->n_stop++;
    }
    if (stop != NULL) {
        m->stop = strings;
    }
    memset(full, id, 16);
    m->model = wire_text("tiny");
    m->request_id = (ProtobufCBinaryData){16, full};
    m->n_tokens = 10;
    m->tokens = ids;
    m->has_max_tokens = true;
    m->max_tokens = max_tokens;
    x = client_call(s->c, METHOD_INFERENCE_GENERATE, &m->base, 0);
    rig_run(s->rig);
    return x;
}

/* Returns NULL if the worker has freed the sequence. */
static struct sequence *granted(struct fake *w, uint64_t grant)
{
    for (int i = 0; i < RIG_SEQUENCES; i++) {
        if (w->sequences[i].used && w->sequences[i].grant == grant) {
            return &w->sequences[i];
        }
    }
    return NULL;
}

void tiny_say_of(struct fake *w, uint64_t grant, const uint32_t *ids,
                 uint32_t first, uint32_t n, uint32_t finish)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    struct sequence *s = granted(w, grant);
    uint32_t st = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE;

    if (s != NULL) {
        s->n_tokens = first + n;
        s->finish = finish;
        if (finish != 0 && s->keep_ms == 0) {
            worker_release(w, s);
        }
    }
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

void tiny_say(struct fake *w, const uint32_t *ids, uint32_t first, uint32_t n,
              uint32_t finish)
{
    tiny_say_of(w, w->last_grant, ids, first, n, finish);
}

uint32_t tiny_held(const struct tiny *s)
{
    struct router_worker_view v;

    assert_true(router_worker_view(s->rig->router, 0, &v));
    return v.n_sequences;
}

void tiny_let_read(struct tiny *s)
{
    s->c->deaf = false;
    for (int i = 0; i < 8; i++) {
        rig_advance(s->rig, 500000);
        worker_report(s->w);
    }
}

void tiny_check_text(const struct record *x, const char *text)
{
    assert_int_equal(x->n_text, strlen(text));
    assert_memory_equal(x->text, text, x->n_text);
}

void tiny_check_stopped(const struct record *x, uint32_t string, uint32_t n,
                        const char *text)
{
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->finish, SLUICE__V1__FINISH__FINISH_STOP);
    assert_int_equal(tiny_seen.n_last, 1);
    assert_int_equal(tiny_seen.stop_string, string);
    assert_int_equal(x->n_tokens, n);
    assert_int_equal(x->figures.n_generated, n);
    assert_true(x->in_order);
    tiny_check_text(x, text);
}

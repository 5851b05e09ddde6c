#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

/* Returns the record for the chunks of a choice. */
static struct record *of_choice(struct record *x, uint32_t choice)
{
    assert_true(choice < CHOICES_MAX);
    if (choice == 0) {
        return x;
    }
    if (x->others[choice] == NULL) {
        x->others[choice] = calloc(1, sizeof *x);
        assert_non_null(x->others[choice]);
        x->others[choice]->in_order = true;
    }
    return x->others[choice];
}

const struct record *record_choice(const struct record *x, uint32_t c)
{
    static const struct record none = {.in_order = true};

    if (c == 0) {
        return x;
    }
    return x->others[c] != NULL ? x->others[c] : &none;
}

void record_check(const struct record *x, uint8_t id, uint32_t c, uint32_t n)
{
    const struct record *q = record_choice(x, c);
    uint8_t full[16];

    memset(full, id, 16);
    assert_true(q->in_order);
    assert_int_equal(q->n_tokens, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(q->tokens[i], choice_token(full, c, i));
    }
}

static void take_chunk(struct record *x, const Sluice__V1__GenerateChunk *c)
{
    if (x->n_chunks < RIG_CHUNKS) {
        x->chunks[x->n_chunks++] = c->choice;
    }
    x->named = x->named || c->has_choice;
    x = of_choice(x, c->choice);
    x->in_order = x->in_order && c->first_index == x->n_tokens &&
                  x->finish == SLUICE__V1__FINISH__FINISH_RUNNING;
    assert_true(x->n_tokens + c->n_tokens <= RIG_TOKENS);
    if (x->n_tokens + c->n_tokens > x->tokens_size) {
        x->tokens_size = 2 * (x->n_tokens + (uint32_t)c->n_tokens);
        x->tokens = realloc(x->tokens, x->tokens_size * sizeof *x->tokens);
        assert_non_null(x->tokens);
    }
    if (c->n_tokens > 0) {
        memcpy(x->tokens + x->n_tokens, c->tokens,
               c->n_tokens * sizeof *x->tokens);
    }
    x->n_tokens += (uint32_t)c->n_tokens;
    if (c->has_text) {
        assert_true(wire_text_ok(c->text, 0, c->text.len));
        assert_true(x->n_text + c->text.len <= RIG_TEXT);
        if (c->text.len > 0) {
            memcpy(x->text + x->n_text, c->text.data, c->text.len);
        }
        x->n_text += c->text.len;
    }
    if (c->has_finish) {
        x->finish = c->finish;
        assert_non_null(c->figures);
        x->figures = *c->figures;
        snprintf(x->worker, sizeof x->worker, "%.*s",
                 (int)c->figures->worker.len,
                 (const char *)c->figures->worker.data);
    }
}

static void keep(struct record *x, const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(n + 1);

    if (x->reply != NULL) {
        protobuf_c_message_free_unpacked(x->reply, NULL);
    }
    protobuf_c_message_pack(m, bytes);
    x->reply = protobuf_c_message_unpack(m->descriptor, NULL, n, bytes);
    free(bytes);
    assert_non_null(x->reply);
}

/* Copies the receipt's lists, because they are freed with the message. */
static void take_stages(struct record *x)
{
    x->n_stages = (uint32_t)x->receipt.n_stage_blocks;
    assert_true(x->n_stages <= 64 && x->receipt.n_stage_slots == x->n_stages);
    for (uint32_t i = 0; i < x->n_stages; i++) {
        x->stage_blocks[i] = x->receipt.stage_blocks[i];
        x->stage_slots[i] = x->receipt.stage_slots[i];
    }
    x->n_windows = (uint32_t)x->receipt.n_stage_windows;
    for (uint32_t i = 0; i < x->n_windows; i++) {
        x->stage_windows[i] = x->receipt.stage_windows[i];
    }
}

void record_take(struct record *x, const struct method_row *m,
                 const ProtobufCMessage *reply)
{
    x->n_replies++;
    if (m->number == METHOD_INFERENCE_GENERATE) {
        take_chunk(x, (const void *)reply);
    } else if (m->reply == &sluice__v1__receipt__descriptor) {
        x->receipt = *(const Sluice__V1__Receipt *)(const void *)reply;
        take_stages(x);
        x->one = x->receipt.sequence->has_choice;
        x->choice = x->receipt.sequence->choice;
        snprintf(x->worker, sizeof x->worker, "%.*s",
                 (int)x->receipt.worker.len,
                 (const char *)x->receipt.worker.data);
    } else {
        keep(x, reply);
    }
}

struct record *client_call(struct fake *c, enum method m,
                           const ProtobufCMessage *request,
                           uint32_t deadline_ms)
{
    struct record *x = calloc(1, sizeof *x);
    uint64_t tag = 0;

    while (tag < RIG_RECORDS && c->records[tag] != NULL) {
        tag++;
    }
    assert_true(x != NULL && tag < RIG_RECORDS);
    c->records[tag] = x;
    x->in_order = true;
    assert_int_equal(peer_call(c->peer, m, request, deadline_ms, tag, &x->call),
                     ST_OK);
    return x;
}

struct record *client_generate_with(struct fake *c, uint8_t id,
                                    uint32_t n_prompt, uint32_t max_tokens,
                                    Sluice__V1__GenerateRequest *m,
                                    uint32_t deadline_ms)
{
    uint32_t *ids = calloc(n_prompt + 1, sizeof *ids);
    uint8_t full[16];
    struct record *x;

    memset(full, id, 16);
    for (uint32_t i = 0; i < n_prompt; i++) {
        ids[i] = (i * 3 + id) % RIG_VOCAB;
    }
    m->request_id = (ProtobufCBinaryData){16, full};
    m->n_tokens = n_prompt;
    m->tokens = ids;
    m->has_max_tokens = max_tokens > 0;
    m->max_tokens = max_tokens;
    x = client_call(c, METHOD_INFERENCE_GENERATE, &m->base, deadline_ms);
    free(ids);
    return x;
}

struct record *client_generate(struct fake *c, uint8_t id, uint32_t n_prompt,
                               uint32_t max_tokens)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    m.model = wire_text("tiny");
    return client_generate_with(c, id, n_prompt, max_tokens, &m, 0);
}

struct record *client_generate_text(struct fake *c, uint8_t id,
                                    const char *text, uint32_t max_tokens)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    m.model = wire_text("tiny");
    m.has_text = true;
    m.text = wire_text(text);
    return client_generate_with(c, id, 0, max_tokens, &m, 0);
}

struct record *client_continue(struct fake *c, uint8_t id, uint8_t kept,
                               uint32_t n_prompt, uint32_t max_tokens)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t full[16];

    memset(full, kept, 16);
    ref.request_id = (ProtobufCBinaryData){16, full};
    m.model = wire_text("tiny");
    m.continue_from = &ref;
    return client_generate_with(c, id, n_prompt, max_tokens, &m, 0);
}

struct record *client_range(struct fake *c, uint8_t id, uint32_t begin)
{
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t full[16];

    memset(full, id, 16);
    ref.request_id = (ProtobufCBinaryData){16, full};
    m.sequence = &ref;
    m.has_begin = true;
    m.begin = begin;
    return client_call(c, METHOD_INFERENCE_REMOVE, &m.base, 0);
}

struct record *client_generate_n(struct fake *c, uint8_t id, uint32_t n,
                                 uint32_t n_prompt, uint32_t max_tokens)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    m.model = wire_text("tiny");
    m.has_n = true;
    m.n = n;
    return client_generate_with(c, id, n_prompt, max_tokens, &m, 0);
}

/* Cancels or removes one choice; choice < 0: all of them. */
static struct record *end_sequence(struct fake *c, uint8_t id, int choice,
                                   bool remove)
{
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__RemoveRequest d = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t full[16];

    memset(full, id, 16);
    ref.request_id = (ProtobufCBinaryData){16, full};
    ref.has_choice = choice >= 0;
    ref.choice = choice >= 0 ? (uint32_t)choice : 0;
    m.sequence = d.sequence = &ref;
    return remove ? client_call(c, METHOD_INFERENCE_REMOVE, &d.base, 0)
                  : client_call(c, METHOD_INFERENCE_CANCEL, &m.base, 0);
}

struct record *client_cancel(struct fake *c, uint8_t id)
{
    return end_sequence(c, id, -1, false);
}

struct record *client_remove(struct fake *c, uint8_t id)
{
    return end_sequence(c, id, -1, true);
}

struct record *client_cancel_choice(struct fake *c, uint8_t id, uint32_t choice)
{
    return end_sequence(c, id, (int)choice, false);
}

struct record *client_remove_choice(struct fake *c, uint8_t id, uint32_t choice)
{
    return end_sequence(c, id, (int)choice, true);
}

void client_give_up(struct fake *c, struct record *x)
{
    peer_cancel(c->peer, x->call);
}

/* The load over the native protocol: one connection of the C library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "proto/inference.pb-c.h"
#include "tests/bench/load_tally.h"

#define TURN_MS    10
#define PROMPT_MAX 65536

struct native {
    const struct load_options *o;
    struct load_tally *tally;
    struct client *client;
    char prompt[PROMPT_MAX + 128];
};

struct native_stream {
    struct native *n;
    struct load_stream *s;
};

static void send_request(struct native_stream *q);

static void on_chunk(void *arg, const ProtobufCMessage *message)
{
    const Sluice__V1__GenerateChunk *m = (const void *)message;
    struct native_stream *q = arg;

    tally_add(q->n->tally, q->s, (const char *)m->text.data, m->text.len);
    if (m->figures != NULL) {
        q->n->tally->n_prompt = m->figures->n_prompt;
    }
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct native_stream *q = arg;

    (void)reply, (void)retry_after_ms;
    if (q->n->tally->to.at > 0) {
        return; /* the load is closing */
    }
    if (status != ST_OK) {
        load_die("a request failed", e != NULL ? e->text : status_name(status));
    }
    tally_end(q->n->tally, q->s);
    send_request(q);
}

static void send_request(struct native_stream *q)
{
    static const struct client_call_ops ops = {on_chunk, on_end};
    static uint64_t last;
    struct native *n = q->n;
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    uint64_t id[2] = {(uint64_t)(uintptr_t)n, ++last};
    enum status st;

    sampling.has_ignore_eos = sampling.ignore_eos = 1;
    sampling.has_temperature = 1;
    sampling.temperature = 0;
    m.sampling = &sampling;
    m.request_id = (ProtobufCBinaryData){sizeof id, (uint8_t *)id};
    m.model = (ProtobufCBinaryData){strlen(n->o->model),
                                    (uint8_t *)(uintptr_t)n->o->model};
    m.has_text = m.has_parse_special = m.has_max_tokens = 1;
    m.text = (ProtobufCBinaryData){strlen(n->prompt), (uint8_t *)n->prompt};
    m.parse_special = 1;
    m.max_tokens = n->o->tokens;
    tally_send(n->tally, q->s);
    st = client_begin(n->client, METHOD_INFERENCE_GENERATE, &m.base, 0, &ops, q,
                      NULL);
    if (st != ST_OK) {
        load_die("a request could not be sent", status_name(st));
    }
}

/* Writes the prompt that the gateway makes of the HTTP load's message. */
static void render(struct native *n)
{
    char words[PROMPT_MAX];

    load_prompt(n->o, words, sizeof words);
    snprintf(n->prompt, sizeof n->prompt,
             "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n", words);
}

void native_load(const struct load_options *o, struct load_tally *t)
{
    static struct native n;
    struct client_config config = {.endpoint = o->endpoint};
    struct native_stream *streams = calloc(o->streams, sizeof *streams);
    struct error e;

    n.o = o;
    n.tally = t;
    render(&n);
    if (streams == NULL || client_open(&n.client, &config, &e) != ST_OK) {
        load_die("no connection", streams != NULL ? e.text : "no memory");
    }
    for (uint32_t i = 0; i < o->streams; i++) {
        streams[i] = (struct native_stream){&n, &t->streams[i]};
        send_request(&streams[i]);
    }
    while (!tally_is_over(t)) {
        client_turn(n.client, TURN_MS);
    }
    client_close(&n.client);
    free(streams);
}

/* world.h - The gateway's core between a client of HTTP and a simple router.
 *
 * The router's side is a real peer, which a case drives by hand: it takes one
 * Generate at a time, and sends chunks.  Prompt jobs run at once.
 *
 * Threading: none.  Memory: a world is static and belongs to one case. */
#ifndef TESTS_UNIT_GATEWAY_CORE_WORLD_H
#define TESTS_UNIT_GATEWAY_CORE_WORLD_H

#include "common/wire/peer.h"
#include "gateway/gateway_core.h"
#include "gateway/http/proxies.h"

#define QUEUE  64
#define CLIENT ((struct http_conn_id){7})

struct queue {
    struct frame *frames[QUEUE];
    unsigned head, tail;
};

struct world {
    struct node_io gateway_io, router_io;
    struct queue up, down; /* to the router, to the gateway */
    int64_t now_us;
    uint64_t random;
    uint32_t opened, told; /* connections of the gateway */
    struct peer *peer;     /* the router's side */
    struct arena arena;
    uint64_t call;      /* the open Generate; 0: none */
    uint32_t n_calls;   /* Generate calls so far */
    uint32_t n_cancels; /* Generate calls that the gateway cancelled */
    char prompt[64];
    uint32_t max_tokens;
    bool guaranteed;
    char route[ROUTE_NAME_MAX + 1];
    int64_t deadline_us; /* the newest Generate's; INT64_MAX: none */
    const char *model;   /* the only row of ListModels; NULL: no answer */
    bool away;           /* no Hello is answered */
    struct prompt_seam prompts;
    struct prompt_job *job; /* submitted, not yet polled */
    struct served_models models;
    struct http_proxies proxies;
    struct keys *keys;
    struct gateway_core *core;
    struct json_out bytes; /* that the client received, with a NUL */
};

#define WORLD_CONTEXT 4096 /* the same for every model */

/* Options of a world; all zeros: no keys, the product's dialects, and no
 * router that lists models. */
struct world_options {
    const struct dialect *const *dialects;
    const char *keys;          /* text of a key file */
    const char *served;        /* NAME=DIR */
    const char *template_file; /* for served */
    const enum output_format *format;
    const char *model;    /* in struct world */
    bool away;            /* no router answers */
    const char *proxy;    /* trusted; NULL: none */
    uint32_t chat_tokens; /* --max-tokens; 0: not set */
    bool refuse_unknown;  /* --unknown-fields refuse */
};

/* Makes the only world.  One client is connected; a session is up unless the
 * router is away. */
struct world *world_new(const struct world_options *o);
void world_free(struct world *w);

/* Runs both sides for a time. */
void world_run(struct world *w, int64_t ms);

/* The client sends a whole request; its head has these lines. */
void world_send(struct world *w, const char *method, const char *path,
                const char *lines, const char *body);

/* world_send() of a POST without lines. */
void world_post(struct world *w, const char *path, const char *body);

/* The router sends a chunk: one token of this text, number first_index.  finish
 * other than RUNNING ends the choice and the call. */
void world_chunk(struct world *w, uint32_t first_index, const char *text,
                 int finish);

/* Fails unless the client received the text, or if it did. */
void world_has(const struct world *w, const char *text);
void world_lacks(const struct world *w, const char *text);

/* Forgets what the client received. */
void world_forget(struct world *w);

#endif

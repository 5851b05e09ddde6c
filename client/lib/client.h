/* client.h - C library of sluice: a connection to a router, and calls.
 *
 *     struct client_config config = {.endpoint = "tcp://127.0.0.1:7071"};
 *     struct client *c;
 *     struct error e;
 *
 *     if (client_open(&c, &config, &e) != ST_OK) ...e.text...
 *     struct client_request r = client_request_default();
 *     r.text = "Once upon a time";
 *     r.n_text = strlen(r.text);
 *     r.on_chunk = print;
 *     client_generate(c, &r, &result, &e);
 *     client_close(&c);
 *
 * Calls block: a call runs the connection's event loop until it ends, and
 * callbacks run inside the call, on the caller's thread.  A callback must not
 * call the same client, except client_interrupt().  client_begin() and
 * client_turn() run many calls at once.
 *
 * A request survives its connection.  If the connection breaks, or the router
 * dies or stops, the request resumes at the next router from the tokens
 * received so far, and its caller observes a pause (client/lib/resumable.h).
 * client_request.no_resume turns this off.  No other call is retried: it ends
 * ST_UNAVAILABLE, and the next call opens a new connection.
 *
 * Threading: one thread at a time may use a client; different threads may use
 * different clients.  client_interrupt() may be called from any thread and
 * from a signal handler.
 *
 * Memory: data passed to a callback is valid until the callback returns.
 * Strings of a config or a request are borrowed for the call.
 *
 * Limits: CLIENT_CALLS_MAX open calls (client/lib/client_core.h); the limits
 * of a request's values and lists are in common/sampling/sampling.h. */
#ifndef CLIENT_LIB_CLIENT_H
#define CLIENT_LIB_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/client_core.h"
#include "common/base/limit.h"
#include "common/base/status.h"
#include "common/sampling/sampling.h"
#include "common/wire/method.h"

#define CLIENT_TIMEOUT_MS  5000  /* default of client_open() and unary calls */
#define CLIENT_RECEIPT_MS  10000 /* default time limit for a receipt */
#define CLIENT_RESUME_MS   30000 /* default time limit to find a router */
#define CLIENT_WORKER_NAME 65    /* bytes of a worker's name and its NUL */

/* Limits of the library, for limits_print(). */
extern const struct limit_row client_limits[];
extern const size_t client_limits_n;

struct client;

struct client_config {
    const char *endpoint; /* the router's endpoint for clients */
    const char *name;     /* for logs; NULL: program name and process id */
    /* The client may also call the Admin service.  Without effect if its key
     * is no administrator's. */
    bool admin;
    uint32_t timeout_ms; /* 0: CLIENT_TIMEOUT_MS */
    /* The client's certificate with its secret key, and the folder with that of
     * the router (common/wire/curve_keys.h).  Both NULL: no keys; the router is
     * then on this machine. */
    const char *key, *trust;
};

/* Connects to a router and sends Hello.  On ST_OK the caller owns *out.
 * Returns ST_INVALID_ARGUMENT if a key cannot be read, or if the endpoint is
 * malformed or without keys on another machine (common/wire/endpoint.h),
 * ST_UNAVAILABLE if no router answered within timeout_ms, ST_CANCELLED if
 * interrupted, and the router's own status as soon as it rejects the Hello. */
MUST_CHECK enum status client_open(struct client **out,
                                   const struct client_config *config,
                                   struct error *e);

/* Closes the connection with a Goodbye and frees the client.  The router
 * cancels the calls that are still open. */
void client_close(struct client **c);

/* Ends the blocking call in progress, within CLIENT_TURN_MS.  A request
 * is cancelled and returns with its receipt; a second interrupt returns at
 * once.  A unary call returns.  Both return ST_CANCELLED.  If no call is in
 * progress, the next one is interrupted. */
void client_interrupt(struct client *c);

/* A chunk: one or more tokens of one choice, or its end, or both. */
struct client_chunk {
    uint32_t choice;        /* 0..n - 1 */
    uint32_t first_index;   /* index of tokens[0]; the indices of a choice are
                               0, 1, 2, ... in order, each once */
    const uint32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
    const char *text; /* [n_text], valid UTF-8 */
    size_t n_text;
    /* Natural logarithms, NULL unless requested: of each token, and of the
     * n_top likeliest tokens at its position, best first. */
    const float *logprobs;      /* [n_tokens] */
    const uint32_t *top_tokens; /* [n_tokens, n_top] */
    const float *top_logprobs;  /* [n_tokens, n_top] */
    uint32_t n_top;
    int finish;      /* Sluice__V1__Finish; not RUNNING: the last chunk */
    int stop_string; /* index of the stop string that ended it, or -1 */
};

/* Receives a chunk.  Returns false to cancel all choices of the request. */
typedef bool client_chunk_fn(void *arg, const struct client_chunk *chunk);

/* Receives the reason for a lost connection, before the request resumes. */
typedef void client_resume_fn(void *arg, const char *why);

struct client_stop {
    const char *text; /* UTF-8, [n], 1..STOP_STRING_BYTES_MAX */
    size_t n;
};

/* The place of a request among those of its tenant that wait: priority goes
 * before default, and default before flex. */
enum client_tier {
    CLIENT_TIER_DEFAULT,
    CLIENT_TIER_PRIORITY,
    CLIENT_TIER_FLEX
};

/* When a request runs. */
struct client_turn {
    enum client_tier tier;
    bool guaranteed; /* its whole need is granted: never suspended */
};

/* Tokens drafted in a step.  They change no token. */
struct client_drafts {
    bool given; /* false: the worker chooses */
    uint32_t n; /* at most DRAFTS_MAX; 0: none */
};

/* A request: a prompt, as text or as ids, and parameters.
 * common/sampling/sampling.h defines the choice of a token, and the limits of
 * values and lists.  The library rejects a list that is too long or names a
 * token twice; the router rejects bad values.  Lists may be in any order. */
struct client_request {
    uint8_t request_id[16]; /* all 0: drawn, see client_result */
    const char *model;      /* NULL: the only one there is */
    const char *text;       /* UTF-8, [n_text], or NULL */
    size_t n_text;
    const uint32_t *ids; /* [n_ids] */
    size_t n_ids;
    uint32_t max_tokens;             /* 0: the router's default */
    struct sampling sampling;        /* n_top_logprobs implies logprobs */
    const struct client_stop *stops; /* [n_stops] texts that end a choice */
    size_t n_stops;
    uint32_t n;    /* choices, 1..CHOICES_MAX; 0: 1 */
    bool has_seed; /* false: the router draws one, sampling.seed is unused */
    bool parse_special, no_text;
    bool special_text;      /* the text contains special tokens too,
                               except the one that ended the choice */
    const char *tenant;     /* for the router's accounting, at most
                               TENANT_NAME_MAX bytes; NULL: none */
    const char *cache_salt; /* divides the tenant's prefix index, at most
                               CACHE_SALT_MAX bytes; NULL: none */
    bool no_cache;          /* nothing is reused for it or kept for reuse */
    struct client_turn turn;
    struct client_drafts drafts;
    uint32_t keep_ms;
    /* The prompt continues the prompt and tokens of a choice that keep_ms
     * keeps, of the same tenant and cache_salt, which ends thereby. */
    bool has_continue;
    uint8_t continue_id[16];
    uint32_t continue_choice;
    uint32_t deadline_ms;        /* 0: none */
    bool no_resume;              /* it ends with its connection */
    uint32_t resume_ms;          /* how long it looks for a router, at its
                                    begin too; 0: CLIENT_RESUME_MS.  With
                                    no_resume: RESUMABLE_FIRST_MS */
    client_resume_fn *on_resume; /* may be NULL */
    client_chunk_fn *on_chunk;
    void *arg;
};

/* Returns a request for one choice at temperature 1, without any other
 * sampling parameter.  The default is therefore not greedy. */
struct client_request client_request_default(void);

/* The resources that a cancel or a removal released. */
struct client_receipt {
    uint8_t request_id[16];
    int state; /* Sluice__V1__SequenceState before the cancel */
    uint32_t n_generated, blocks, slots, checkpoints, windows;
    uint32_t position; /* client_remove_from(): the position reached */
    uint64_t micros;   /* from the cancel's arrival to the release */
    char worker[CLIENT_WORKER_NAME];
};

/* The end of a choice and its figures.  The router measures all of them except
 * the last three. */
struct client_choice {
    int finish;      /* Sluice__V1__Finish; FINISH_RUNNING: no end came */
    int stop_string; /* index of the stop string that ended it, or -1 */
    bool has_figures;
    uint32_t n_generated, n_cached, blocks, slots, n_moves;
    uint32_t windows; /* pages of window blocks */
    uint64_t queued_us, first_token_us, total_us;
    char worker[CLIENT_WORKER_NAME];
    uint32_t n_first;               /* tokens of the first chunk */
    int64_t first_chunk_us, end_us; /* since the call, measured here; 0: none */
};

/* The result of a request.  The figures after `choices` are those of the only
 * choice.  Several choices are combined:
 *
 *   counts                       sum
 *   n_cached                     least: the others share its prompt
 *   first_token_us, first_chunk_us   earliest
 *   n_first                      that of the earliest first chunk
 *   queued_us, total_us          longest
 *   finish, stop_string, worker  those of the first choice that did not end
 *                                with STOP or LENGTH, else those of choice 0 */
struct client_result {
    uint8_t request_id[16];
    uint32_t n_choices;
    struct client_choice choices[CHOICES_MAX]; /* [n_choices] */
    int finish, stop_string;
    bool has_figures, has_receipt;
    bool cancelled_here; /* this client requested the cancel */
    uint32_t n_resumes;  /* resumptions after a lost connection */
    int64_t gap_us;      /* from each loss to the next chunk, summed */
    uint32_t n_prompt, n_generated, n_cached, blocks, slots, n_moves;
    uint32_t windows;
    uint64_t queued_us, first_token_us, total_us, seed; /* the router's */
    uint32_t n_first;               /* tokens of the first chunk */
    int64_t first_chunk_us, end_us; /* since the call, measured here; 0: none */
    char worker[CLIENT_WORKER_NAME];
    struct client_receipt receipt; /* if has_receipt: it was cancelled */
    uint32_t retry_after_ms;       /* with RESOURCE_EXHAUSTED, UNAVAILABLE */
};

/* Runs a request and blocks until its end; *out is filled in any case.
 * Returns ST_CANCELLED if on_chunk returned false, or after
 * client_interrupt(); *out then has the receipt if the router sent one.  Also
 * returns ST_CANCELLED if another client cancelled the request. */
MUST_CHECK enum status client_generate(struct client *c,
                                       const struct client_request *r,
                                       struct client_result *out,
                                       struct error *e);

/* Receives a reply, or one message of a stream. */
typedef void client_reply_fn(void *arg, const ProtobufCMessage *reply);

/* Calls method m and blocks until the call ends.  on_reply may be NULL.
 * timeout_ms is the deadline; 0: the config's timeout for a unary call, none
 * for a stream.  Returns the status of the call, ST_CANCELLED after
 * client_interrupt(), or an error of client_begin(). */
MUST_CHECK enum status client_call(struct client *c, enum method m,
                                   const ProtobufCMessage *request,
                                   uint32_t timeout_ms,
                                   client_reply_fn *on_reply, void *arg,
                                   struct error *e);

#define CLIENT_ALL_CHOICES UINT32_MAX

/* Cancels one choice of a request, or CLIENT_ALL_CHOICES.  Returns ST_OK with
 * the receipt in *out when the memory is free.  For an unknown request the
 * receipt has the state UNKNOWN and all counts 0.  An admin may name any
 * request, a client its own.  timeout_ms is the deadline of the call; 0:
 * CLIENT_RECEIPT_MS. */
MUST_CHECK enum status
client_cancel(struct client *c, const uint8_t request_id[16], uint32_t choice,
              uint32_t timeout_ms, struct client_receipt *out, struct error *e);

/* Removes choices, also those kept by keep_ms; otherwise as client_cancel(). */
MUST_CHECK enum status
client_remove(struct client *c, const uint8_t request_id[16], uint32_t choice,
              uint32_t timeout_ms, struct client_receipt *out, struct error *e);

/* Removes the positions of a kept choice from `begin` on, counted over prompt
 * and generated tokens.  The choice stays kept; its state goes back to a saved
 * one, so the position reached may be lower: out->position. */
MUST_CHECK enum status client_remove_from(struct client *c,
                                          const uint8_t request_id[16],
                                          uint32_t choice, uint32_t begin,
                                          struct client_receipt *out,
                                          struct error *e);

/* Begins a call and returns at once; many may be open.  Its ops run inside
 * client_turn().  Errors are those of client_core_call(). */
MUST_CHECK enum status client_begin(struct client *c, enum method m,
                                    const ProtobufCMessage *request,
                                    uint32_t deadline_ms,
                                    const struct client_call_ops *ops,
                                    void *arg, uint64_t *id);

/* Cancels a begun call; its on_end runs with CANCELLED before this returns. */
void client_give_up(struct client *c, uint64_t id);

/* Runs the event loop once: delivers received messages, runs timers that are
 * due, and waits at most wait_ms for more messages. */
void client_turn(struct client *c, uint32_t wait_ms);

/* Drops the connection without a Goodbye, as a crash would. */
void client_drop(struct client *c);

#endif

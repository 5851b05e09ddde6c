/* client.h - the C library of sluice: a connection to a router, and calls.
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
 * Calls block: they turn the connection's loop until they end, and callbacks
 * run inside them, on the caller's thread.  A callback must not call back
 * into the same client, but client_interrupt() may.  Many calls at once go
 * by client_begin() and client_turn().
 *
 * A generation outlasts its connection: when that breaks, or the router dies
 * or stops, it goes on at the next router from the tokens it has, and its
 * caller sees a pause (client/lib/resumable.h; client_request.no_resume turns
 * it off).  Nothing else is repeated behind the caller's back: other calls end
 * ST_UNAVAILABLE, and the next call opens a new connection.
 *
 * Threading: a client belongs to one thread at a time; several clients may
 * be used by several threads.  client_interrupt() may come from any thread
 * and from a signal handler.  Memory: what callbacks see lives until they
 * return; strings of a config or a request are borrowed for the call.
 * Limits: CLIENT_CALLS_MAX open calls, client/lib/client_core.h; of a
 * generation's values and lists, common/sampling/sampling.h. */
#ifndef CLIENT_LIB_CLIENT_H
#define CLIENT_LIB_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/client_core.h"
#include "common/base/status.h"
#include "common/sampling/sampling.h"
#include "common/wire/method.h"

#define CLIENT_TIMEOUT_MS  5000  /* of client_open() and unary calls */
#define CLIENT_RECEIPT_MS  10000 /* to wait for the receipt of a cancel */
#define CLIENT_RESUME_MS   30000 /* without a router that takes it up */
#define CLIENT_WORKER_NAME 65

struct client;

struct client_config {
    const char *endpoint; /* of the router, for clients */
    const char *name;     /* for people, NULL: the program and its pid */
    bool admin;           /* may call the Admin service too */
    uint32_t timeout_ms;  /* 0: CLIENT_TIMEOUT_MS */
};

/* Connect and say Hello.  ST_INVALID_ARGUMENT: the endpoint is none;
 * ST_UNAVAILABLE: no router answered in time; ST_CANCELLED: interrupted; any
 * other, at once: it refused us. */
MUST_CHECK enum status client_open(struct client **out,
                                   const struct client_config *config,
                                   struct error *e);

/* Says Goodbye: the router cancels what is still open. */
void client_close(struct client **c);

/* End the blocking call that is going on, soon: a generation is cancelled
 * and returns with its receipt, a second interrupt returns at once; a unary
 * call returns.  Both ST_CANCELLED.  Without a call going on, the next one
 * is interrupted. */
void client_interrupt(struct client *c);

/* One or more tokens of one choice, or its end, or both. */
struct client_chunk {
    uint32_t choice;        /* 0..n - 1 */
    uint32_t first_index;   /* of tokens[0]: 0, 1, 2, ... each once, in order,
                               for each choice */
    const uint32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
    const char *text; /* [n_text], valid UTF-8 */
    size_t n_text;
    /* If asked for, else NULL: natural logarithms, and of the n_top best of
     * each token, best first. */
    const float *logprobs;      /* [n_tokens] */
    const uint32_t *top_tokens; /* [n_tokens, n_top] */
    const float *top_logprobs;  /* [n_tokens, n_top] */
    uint32_t n_top;
    int finish;      /* Sluice__V1__Finish; not RUNNING: the choice's last */
    int stop_string; /* which of the request's ended it, or -1 */
};

/* false cancels the generation, all its choices. */
typedef bool client_chunk_fn(void *arg, const struct client_chunk *chunk);

/* The connection of a generation is lost, why, and it is about to resume. */
typedef void client_resume_fn(void *arg, const char *why);

struct client_stop {
    const char *text; /* UTF-8, [n], 1..STOP_STRING_BYTES_MAX */
    size_t n;
};

/* The prompt is text or ids.  common/sampling/sampling.h says how a token is
 * chosen, and has the limits of values and lists.  A list that is too long or
 * names a token twice is refused here, values by the router.  The lists need no
 * order. */
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
    uint32_t keep_ms;
    uint32_t deadline_ms;        /* 0: none */
    bool no_resume;              /* it ends with its connection */
    uint32_t resume_ms;          /* how long it looks for a router, at its
                                    begin too; 0: CLIENT_RESUME_MS.  With
                                    no_resume: RESUMABLE_FIRST_MS */
    client_resume_fn *on_resume; /* may be NULL */
    client_chunk_fn *on_chunk;
    void *arg;
};

/* Greedy is not the default: temperature 1, and nothing else; one choice. */
struct client_request client_request_default(void);

/* What a cancel or a removal gave back. */
struct client_receipt {
    uint8_t request_id[16];
    int state; /* Sluice__V1__SequenceState it was in */
    uint32_t n_generated, blocks, slots, checkpoints;
    uint64_t micros;
    char worker[CLIENT_WORKER_NAME];
};

/* How a choice ended, and its figures; the router's but for the last two. */
struct client_choice {
    int finish;      /* Sluice__V1__Finish; FINISH_RUNNING: it never did */
    int stop_string; /* which of the request's ended it, or -1 */
    bool has_figures;
    uint32_t n_generated, blocks, slots, n_moves;
    uint64_t queued_us, first_token_us, total_us;
    char worker[CLIENT_WORKER_NAME];
    int64_t first_chunk_us, end_us; /* from the call, as seen here; 0: none */
};

struct client_result {
    uint8_t request_id[16];
    uint32_t n_choices;
    struct client_choice choices[CHOICES_MAX]; /* [n_choices] */
    /* Of one choice: its own.  Of several: the sums of counts, the first
     * token of any and the end of the last, the finish of the first choice
     * that did not end well, else of choice 0, and its stop string and
     * worker. */
    int finish, stop_string;
    bool has_figures, has_receipt;
    bool asked;         /* to cancel, by this side */
    uint32_t n_resumes; /* times it went on after a loss of the connection */
    int64_t gap_us;     /* from the losses to the next chunks, in all */
    uint32_t n_prompt, n_generated, blocks, slots, n_moves;
    uint64_t queued_us, first_token_us, total_us, seed; /* the router's */
    int64_t first_chunk_us, end_us; /* from the call, as seen here; 0: none */
    char worker[CLIENT_WORKER_NAME];
    struct client_receipt receipt; /* of a generation that was cancelled */
    uint32_t retry_after_ms;       /* with RESOURCE_EXHAUSTED, UNAVAILABLE */
};

/* Generate and block until the end.  ST_CANCELLED if on_chunk said false or
 * client_interrupt() was called: then the receipt is in *out; also if
 * somebody else cancelled it. */
MUST_CHECK enum status client_generate(struct client *c,
                                       const struct client_request *r,
                                       struct client_result *out,
                                       struct error *e);

typedef void client_reply_fn(void *arg, const ProtobufCMessage *reply);

/* Any call, unary or stream, blocking; on_reply sees the reply, or each
 * message of the stream.  timeout_ms is its deadline; 0: the config's for a
 * unary call, none for a stream. */
MUST_CHECK enum status client_call(struct client *c, enum method m,
                                   const ProtobufCMessage *request,
                                   uint32_t timeout_ms,
                                   client_reply_fn *on_reply, void *arg,
                                   struct error *e);

/* Cancel one choice of a generation, or all of them, or remove them;
 * answered when the memory is free.  Of an unknown one the state is unknown
 * and nothing was freed.  An admin may name anybody's.  timeout_ms is for the
 * answer; 0: CLIENT_RECEIPT_MS. */
#define CLIENT_ALL_CHOICES UINT32_MAX

MUST_CHECK enum status
client_cancel(struct client *c, const uint8_t request_id[16], uint32_t choice,
              uint32_t timeout_ms, struct client_receipt *out, struct error *e);
MUST_CHECK enum status
client_remove(struct client *c, const uint8_t request_id[16], uint32_t choice,
              uint32_t timeout_ms, struct client_receipt *out, struct error *e);

/* Many calls at once.  Begin one: its ops run inside client_turn(). */
MUST_CHECK enum status client_begin(struct client *c, enum method m,
                                    const ProtobufCMessage *request,
                                    uint32_t deadline_ms,
                                    const struct client_call_ops *ops,
                                    void *arg, uint64_t *id);
/* Give a begun call up: on_end follows at once with CANCELLED. */
void client_give_up(struct client *c, uint64_t id);

/* Deliver what came, do what is due, wait at most wait_ms for more. */
void client_turn(struct client *c, uint32_t wait_ms);

/* Drop the connection without a word, as a crash would. */
void client_drop(struct client *c);

#endif

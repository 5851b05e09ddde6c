/* resumable.h - A request that survives its connection.
 *
 * A pure state machine over client/lib/client_core.h.  If the session of its
 * call ends because the router died, stopped or does not answer, the request
 * calls Generate again, with the same request_id and the tokens received:
 *
 *     begin --> OPEN --chunk--> .. --End--> ENDED
 *                |  ^
 *        session |  | call again, with have_*
 *           ends v  |
 *              WAITING  for a jittered backoff, or the router's retry_after_ms
 *
 * Resuming lasts from the loss to the next chunk.  During it:
 *
 *   - Retryable refusals are retried: UNAVAILABLE, and ALREADY_EXISTS and
 *     RESOURCE_EXHAUSTED with a retry_after_ms.
 *   - The request ends UNAVAILABLE, with the reason, if no router has queued
 *     it for resume_ms.  If a session with a router that has queued it is lost
 *     too, resume_ms start again.
 *   - The deadline of the request applies throughout.
 *
 * A request that begins without a session waits resume_ms for one.  A refusal
 * of the first call ends the request, and so does a failure that a router
 * reports while its session is up.
 *
 * The caller receives the chunks of each choice in order, each index once, text
 * that continues byte for byte, and one end.
 *
 * Threading: as the core.  Memory: 4 bytes per token received, doubling; the
 * request and its fields are borrowed until the end.  Limits: a request that
 * exceeds the method's size cap with its received tokens is not resumed. */
#ifndef CLIENT_LIB_RESUMABLE_H
#define CLIENT_LIB_RESUMABLE_H

#include "client/lib/client_core.h"
#include "common/sampling/sampling.h"
#include "proto/inference.pb-c.h"

/* Pauses before a call.  Each is drawn from the upper half of its range. */
#define RESUMABLE_BACKOFF_US     20000   /* first backoff, then doubled */
#define RESUMABLE_BACKOFF_MAX_US 1000000 /* longest backoff */
#define RESUMABLE_RETRY_MAX_US   2000000 /* longest accepted retry_after_ms */

/* Time limit to get a session if resume_ms is 0.  An unanswered connection is
 * given up after SESSION_OPEN_US, and this leaves time for another one. */
#define RESUMABLE_FIRST_MS 10000

struct resumable_ops {
    /* Receives a chunk.  Its choice and index are valid, and the choice has
     * not ended before. */
    void (*on_chunk)(void *arg, const Sluice__V1__GenerateChunk *chunk);
    /* Receives the reason for a lost session, before resuming; may be NULL. */
    void (*on_lost)(void *arg, const char *why);
    /* Runs exactly once.  e: NULL if OK. */
    void (*on_end)(void *arg, enum status status, const struct error *e,
                   uint32_t retry_after_ms);
};

struct resumable_options {
    struct node_io *io; /* the core's */
    const struct resumable_ops *ops;
    void *arg;
    uint32_t deadline_ms; /* 0: none */
    uint32_t resume_ms;   /* 0: no resuming, RESUMABLE_FIRST_MS to begin */
};

enum resumable_state { RESUMABLE_OPEN, RESUMABLE_WAITING, RESUMABLE_ENDED };

struct resumable_choice {
    uint32_t *tokens; /* [size], [n] received; NULL if resume_ms is 0 */
    uint32_t n, size, n_text;
    bool ended;
};

struct resumable {
    struct client_core *core;
    struct resumable_options options;
    const Sluice__V1__GenerateRequest *request;
    enum resumable_state state;
    uint64_t call;                /* while OPEN */
    struct client_wait wait;      /* backoff, or the end of resume_ms */
    int64_t deadline_us, lost_us; /* NODE_IDLE: none */
    int64_t waits_us;             /* start of the current resume_ms */
    int64_t backoff_us;
    struct error why;   /* reason for the loss, or for the last refusal */
    uint32_t n_resumes; /* successful resumptions */
    int64_t gap_us;     /* from each loss to the next chunk, summed */
    uint32_t n_choices;
    struct resumable_choice choices[CHOICES_MAX]; /* [n_choices] */
};

/* Begins a request.  Errors are those of client_core_call(): the request has
 * not begun, and no on_end follows.  On any result resumable_fini() is due. */
MUST_CHECK enum status
resumable_begin(struct resumable *s, struct client_core *core,
                const Sluice__V1__GenerateRequest *request,
                const struct resumable_options *options);

/* Cancels the request: on_end runs with CANCELLED before this returns.  Has no
 * effect if the request has ended. */
void resumable_cancel(struct resumable *s);

/* Frees the received tokens.  Call it after the end, or if begin failed. */
void resumable_fini(struct resumable *s);

#endif

/* resumable.h - a generation that outlasts its connection.
 *
 * A pure state machine over client/lib/client_core.h.  When the session of its
 * call ends, be it that the router died, stops, or does not answer, it asks
 * again with the same request_id and what it has:
 *
 *     begin --> OPEN --chunk--> .. --End--> ENDED
 *                |  ^
 *      a session |  | again, with have_*
 *           ends v  |
 *              WAITING  a jittered back-off, or what the router asked for
 *
 * While it resumes, which is from the loss to the next chunk, a refusal that
 * may pass is asked again after: UNAVAILABLE, ALREADY_EXISTS and
 * RESOURCE_EXHAUSTED with a retry_after_ms.  It gives up at its deadline, or
 * when resume_ms have passed and no router has taken it up: UNAVAILABLE, with
 * the reason.  A router that has it in its queue has taken it up; if that
 * session is lost, too, resume_ms begin anew.  What begins while there is no
 * session waits for one as long.  A refusal of the first call, and the failure
 * of a generation whose router lives, end it as they are.
 *
 * Whoever reads sees chunks of each choice in order, index 0, 1, 2, ... once
 * each, text that goes on byte for byte, and one end.
 *
 * Threading: the core's.  Memory: 4 bytes a token received, doubling; the
 * request and what it names are borrowed until the end.  Limits: a request is
 * at most the method's size cap, with the tokens: one that is larger then is
 * not resumed. */
#ifndef CLIENT_LIB_RESUMABLE_H
#define CLIENT_LIB_RESUMABLE_H

#include "client/lib/client_core.h"
#include "common/sampling/sampling.h"
#include "proto/inference.pb-c.h"

#define RESUMABLE_BACKOFF_US     20000 /* half of it is chance, as of all three */
#define RESUMABLE_BACKOFF_MAX_US 1000000
#define RESUMABLE_RETRY_MAX_US   2000000 /* of what a router asks for */
/* For a session, if it is not resumed: a connection that nobody opens is found
 * out after SESSION_OPEN_US, and the next one is to have its time. */
#define RESUMABLE_FIRST_MS 10000

struct resumable_ops {
    /* Its choice, its index and that it comes before the end are checked. */
    void (*on_chunk)(void *arg, const Sluice__V1__GenerateChunk *chunk);
    /* The session is over, why, and it is about to resume; NULL: nothing. */
    void (*on_lost)(void *arg, const char *why);
    /* Exactly once.  e: NULL if OK. */
    void (*on_end)(void *arg, enum status status, const struct error *e,
                   uint32_t retry_after_ms);
};

struct resumable_options {
    struct node_io *io; /* of the core */
    const struct resumable_ops *ops;
    void *arg;
    uint32_t deadline_ms; /* 0: none */
    uint32_t resume_ms;   /* 0: it is not resumed; RESUMABLE_FIRST_MS */
};

enum resumable_state { RESUMABLE_OPEN, RESUMABLE_WAITING, RESUMABLE_ENDED };

struct resumable_choice {
    uint32_t *tokens; /* [size], [n] of them received; none if not resumed */
    uint32_t n, size, n_text;
    bool ended;
};

struct resumable {
    struct client_core *core;
    struct resumable_options options;
    const Sluice__V1__GenerateRequest *request;
    enum resumable_state state;
    uint64_t call;                /* while OPEN */
    struct client_wait wait;      /* back-off, or the end of patience */
    int64_t deadline_us, lost_us; /* NODE_IDLE: none */
    int64_t waits_us;             /* its patience runs since then */
    int64_t backoff_us;
    struct error why;   /* it was lost, or refused since */
    uint32_t n_resumes; /* that were taken up */
    int64_t gap_us;     /* from loss to chunk, of all of them */
    uint32_t n_choices;
    struct resumable_choice choices[CHOICES_MAX]; /* [n_choices] */
};

/* Not OK, as of client_core_call(): nothing began, no on_end follows. */
MUST_CHECK enum status
resumable_begin(struct resumable *s, struct client_core *core,
                const Sluice__V1__GenerateRequest *request,
                const struct resumable_options *options);

/* on_end follows with CANCELLED before this returns; a no-op if it ended. */
void resumable_cancel(struct resumable *s);

/* After its end, or before it began. */
void resumable_fini(struct resumable *s);

#endif

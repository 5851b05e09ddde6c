/* target.h - The seam between a generator and a kind of server.
 *
 * A target makes requests in two steps, so that encoding a long prompt is no
 * part of the generator's lag: prepare() makes the bytes, some time before the
 * request is due, and start() hands them to the system.
 *
 * Threading: a target belongs to the one thread of its generator process, and
 * is made after fork(). */
#ifndef CLIENT_LOAD_DRIVE_TARGET_H
#define CLIENT_LOAD_DRIVE_TARGET_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/load/figures/sample.h"
#include "client/load/plan/prompt.h"
#include "common/base/status.h"

#define TARGET_ITEMS 80
#define TARGET_STOPS 4

/* Options that all requests of a run share.  Strings are borrowed. */
struct target_options {
    const char *endpoint; /* tcp://, ipc://: our protocol; http://, https:// */
    const char *model;    /* NULL: the only one */
    const char *key;      /* HTTP: API key, or NULL */
    const char *tenant;   /* our protocol: tenant, or NULL */
    /* Our protocol: struct client_config. */
    const char *curve_key, *trust;
    bool chat;   /* /v1/chat/completions, not /v1/completions */
    bool stream; /* SSE; false: whole answers */
    bool ignore_eos;
    bool insecure; /* accept any certificate */
    bool resume;   /* our protocol: survive the router */
    double temperature, top_p;
    uint32_t top_k, n;
    bool has_drafts; /* false: the server's choice */
    uint32_t drafts; /* in a step */
    bool has_seed;
    uint64_t seed;
    const char *stops[TARGET_STOPS];
    uint32_t n_stops;
    const char *extra;      /* JSON object merged into HTTP bodies, or NULL */
    uint32_t n_connections; /* in this process; 0: as many as needed */
    uint32_t connect_ms, timeout_ms;
};

/* The end of a call. */
struct call_end {
    uint8_t outcome; /* enum outcome */
    uint16_t code;   /* HTTP status, or enum status */
    const char *why; /* a sentence if not OK */
    uint32_t n_prompt, n_output,
        n_cached;     /* as the server counts; 0: unknown */
    int64_t queue_us; /* SAMPLE_NEVER: unknown */
    uint32_t n_moves, n_resumes;
    int64_t gap_us;
    bool has_receipt, leaked, bad_stream;
    bool chunks; /* the server sent output and counts no tokens */
};

/* Events of a call.  now_us: monotonic, when the bytes were read. */
struct call_ops {
    /* The request's first byte was handed to the system. */
    void (*on_sent)(void *arg, int64_t now_us);
    /* A chunk with output.  n: its tokens, 1 if the server does not report
     * them. ids and text are of the first choice only. */
    void (*on_output)(void *arg, int64_t now_us, uint32_t n,
                      const uint32_t *ids, size_t n_ids, const char *text,
                      size_t n_text);
    /* Runs exactly once after start(); the call is then gone. */
    void (*on_end)(void *arg, int64_t now_us, const struct call_end *end);
};

struct call; /* a target's own */

struct call_request {
    const struct prompt *prompt; /* read by prepare() only */
    uint32_t max_tokens;
    uint64_t number;  /* distinct for every request of the run */
    bool slow_reader; /* reads nothing for seconds at a time */
    bool disconnects; /* GIVE_UP_DISCONNECT will follow: our protocol gives it
                         a connection apart */
    const struct call_ops *ops;
    void *arg;
};

/* How a generator gives up a call. */
enum give_up {
    GIVE_UP_CANCEL,     /* our protocol: Cancel, and wait for the receipt;
                           HTTP: close the connection */
    GIVE_UP_DISCONNECT, /* close the connection without a word */
    GIVE_UP_TIMEOUT     /* as cancel */
};

struct target;

struct target_ops {
    /* Connects.  Called in the generator's process. */
    enum status (*open)(struct target **out, const struct target_options *o,
                        struct error *e);
    void (*close)(struct target **t);

    /* Makes the bytes of a request.  Returns NULL and a reason if it cannot be
     * made.  *bytes: memory that it takes until it ends. */
    struct call *(*prepare)(struct target *t, const struct call_request *r,
                            size_t *bytes, struct error *e);
    /* Sends it now.  Failures arrive as on_end, also before this returns. */
    void (*start)(struct target *t, struct call *c, int64_t now_us);
    /* Drops a prepared call that was not started. */
    void (*drop)(struct target *t, struct call *c);
    /* Gives a started call up.  on_end follows: soon, or when the receipt came,
     * with the outcome that fits `how`. */
    void (*give_up)(struct target *t, struct call *c, enum give_up how,
                    int64_t now_us);

    /* The descriptors to poll, at most TARGET_ITEMS, and the latest time of
     * the next turn. */
    int (*items)(struct target *t, struct pollfd *items, int64_t *due_us);
    /* Handles what poll() found.  Must not block. */
    void (*turn)(struct target *t, const struct pollfd *items, int n,
                 int64_t now_us);
};

/* A server's description of its model, read before the first run by a process
 * of its own. */
struct target_facts {
    char model[256];
    uint32_t context, vocab; /* 0: unknown */
    bool is_sluice, has_text;
};

#endif

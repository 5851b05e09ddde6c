/* sample.h - The times and counts of one request.
 *
 * Generator processes write samples to a pipe; the parent reads and tallies
 * them.  A sample on the pipe is the struct, then its n_gaps gaps.
 *
 * Times are microseconds since the start of the run on the monotonic clock;
 * SAMPLE_NEVER if it did not happen.
 *
 * Threading: none.  Memory: plain data. */
#ifndef CLIENT_LOAD_FIGURES_SAMPLE_H
#define CLIENT_LOAD_FIGURES_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLE_NEVER INT64_MIN
#define SAMPLE_WHY   120 /* bytes of a reason and its NUL */

/* How a request ended. */
enum outcome {
    OUTCOME_OK,
    OUTCOME_REFUSED,      /* 429, 503, RESOURCE_EXHAUSTED, UNAVAILABLE */
    OUTCOME_FAILED,       /* any other error, or a broken stream */
    OUTCOME_TIMEOUT,      /* the generator's own time limit */
    OUTCOME_CANCELLED,    /* by injection */
    OUTCOME_DISCONNECTED, /* by injection */
    OUTCOME_UNSENT,       /* its parent did not end OK */
    OUTCOME_SKIPPED,      /* its parent was ended by injection, or the run was
                             stopped */
    OUTCOMES
};

/* Names for people and for JSON: "ok", "refused", ... */
extern const char *const outcome_names[OUTCOMES];

enum sample_flags {
    SAMPLE_WARM = 1, /* during the warm-up: not in the figures */
    SAMPLE_SLOW_READER = 2,
    SAMPLE_RECEIPT = 4,     /* a cancel was answered by a receipt */
    SAMPLE_LEAKED = 8,      /* ... that does not add up, or none came */
    SAMPLE_RESUMED = 16,    /* survived a lost connection */
    SAMPLE_BAD_STREAM = 32, /* tokens lost, doubled or after the end */
    SAMPLE_CHUNKS = 64      /* n_output is n_events: nothing counts tokens */
};

struct sample {
    uint64_t session, content;
    uint32_t turn, process;
    int64_t due_us;   /* intended start */
    int64_t sent_us;  /* first byte handed to the system */
    int64_t first_us; /* first token */
    int64_t last_us;  /* last token */
    int64_t end_us;   /* end of the response */
    int64_t queue_us; /* waiting, as the server reports; SAMPLE_NEVER */
    uint32_t n_prompt, n_output; /* tokens, as the server counts, else ours */
    uint32_t n_cached;           /* prompt tokens that the server reused */
    uint32_t n_events;           /* chunks that had tokens */
    uint32_t n_in_flight;        /* in this process, when it was sent */
    uint32_t n_moves, n_resumes; /* to other workers; after lost connections */
    int64_t gap_us;              /* longest pause by a resumption */
    uint64_t output_hash;        /* hash over the tokens or text */
    uint8_t outcome, flags;
    uint16_t code; /* HTTP status, or enum status */
    char why[SAMPLE_WHY];
    uint32_t n_gaps; /* times between events, microseconds */
};

/* The report of a generator process between samples, each 100 ms. */
struct pulse {
    int64_t at_us;
    uint32_t process, n_in_flight;
    uint64_t n_due, n_sent, n_tokens; /* since the start */
    int64_t lag_max_us;               /* since the last pulse: sent - due */
    int64_t turn_max_us; /* since the last pulse: longest turn of the loop */
};

/* One point of the cluster's state, from the router's Status. */
struct cluster_point {
    int64_t at_us;
    uint32_t n_workers, n_waiting, n_running;
    /* Sums over workers.  Pages are the common budget: total is the sum of the
     * others; slots, checkpoints and windows (pages of window blocks) take
     * pages too. */
    uint64_t pages_total, pages_free, pages_held, pages_cached, pages_granted;
    uint64_t slots_total, slots_free, slots_held, slots_cached, slots_granted;
    uint64_t checkpoints_cached;
    uint64_t windows_total, windows_free, windows_held, windows_cached;
    uint64_t windows_granted;
    uint64_t n_suspended, host_total, host_used; /* sums over workers too */
};

/* A fault by command, or something that happened, drawn in the report. */
struct load_event {
    int64_t at_us;
    char text[SAMPLE_WHY];
    int exit_code; /* a command's; -1: none yet */
};

#endif

/* requests.h - the state of the room of requests: what clients asked for, and
 * the choices of it.
 *
 * Modules of the room take a struct requests.  Lower rooms are reached through
 * its pointers; the rooms above call in.
 *
 *     request, choice       what they are, and how they are found and freed
 *     choice_life           a choice through its states
 *     choice_moves          its worker is lost, drained, or has other weights
 *     request_enqueue, request_end   all choices of a request
 *     submit, adoption      on the way to a worker, or found alive there
 *     removal, drain        off a worker
 *     stream, stops, logprob_columns, slow_reader   to the client
 *     resume                what the client has already
 *     trial_deaths          who is to blame for a worker's death
 *
 * Threading: the core's.  Memory: tables sized from the options. */
#ifndef ROUTER_REQUESTS_REQUESTS_H
#define ROUTER_REQUESTS_REQUESTS_H

#include "common/wire/request_id.h"
#include "router/replicas/replicas.h"
#include "router/schedule/queue.h"

struct requests {
    struct router_base *base;
    struct fleet *fleet;
    struct replicas *replicas;
    struct schedule *schedule;

    struct table by_id;      /* struct request by hash of request_id */
    struct list all_choices; /* struct choice in order of entry.number */
    uint32_t n_choices;      /* in all requests, ended ones of open ones too */
    uint64_t last_number;
    struct table jobs; /* what a text job is for, by tag */
    uint32_t n_jobs;

    /* Scratch of one message, so that none is on the heap. */
    uint32_t submit_ids[SUBMIT_IDS_MAX];
    uint8_t disown_ids[LIVE_ROWS_MAX * REQUEST_ID_BYTES];
    uint32_t disown_choice[LIVE_ROWS_MAX];
    char *text; /* [text_size] of one chunk */
    size_t text_size;
};

/* What a text job is for: the tag says it, table `jobs` whether it is still
 * wanted. */
enum job_use { JOB_PROMPT, JOB_CALL };
#define JOB_TAG(number, use) ((number) << 1 | (use))

/* b, f, p and s outlive r.  fini: after every request is gone. */
void requests_init(struct requests *r, struct router_base *b, struct fleet *f,
                   struct replicas *p, struct schedule *s);
void requests_fini(struct requests *r);

#endif

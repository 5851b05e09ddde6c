/* requests.h - The state of the room of requests: client calls and their
 * choices.
 *
 * Modules of the room take a struct requests.  They reach lower rooms through
 * its pointers; the rooms above call in.
 *
 *     request, choice       their data; finding and freeing them
 *     choice_life           the states of a choice, from queue to end
 *     choice_moves          a worker is lost, drained, or has other weights
 *     request_enqueue, request_end   all choices of a request
 *     submit                granting at a worker; adopting what lives there
 *     removal               taking sequences off a worker
 *     leases                kept sequences, and how they give way
 *     placed                answers to the room of placement
 *     receipt_check, held_check   what a worker reports of its memory
 *     overdue       requests that wait in the queue for too long
 *     progress      sequences of which a worker sends nothing
 *     stream, stops, logprob_columns, slow_reader   output to the client
 *     resume                continuing what a client has in part
 *     trial_deaths          the blame for a worker's death
 *
 * Threading: the core's thread only.  Memory: tables sized by the options;
 * scratch for one message. */
#ifndef ROUTER_REQUESTS_REQUESTS_H
#define ROUTER_REQUESTS_REQUESTS_H

#include "common/wire/request_id.h"
#include "router/replicas/replicas.h"
#include "router/schedule/queue.h"

struct requests {
    struct router_base *base;
    struct fleet *fleet;
    struct replicas *replicas;
    struct placement *placement;
    struct schedule *schedule;

    struct table by_id;      /* struct request by hash of request_id */
    struct list all_choices; /* struct choice in order of entry.turn.number */
    struct list leases;      /* struct choice with a lease, oldest first */
    uint32_t n_choices;      /* in all requests, including ended choices */
    uint64_t last_number;
    struct table jobs; /* users of text jobs, by tag */
    uint32_t n_jobs;
    struct list waits;    /* struct request in order of wait.until_us */
    struct event overdue; /* the first of them */

    /* Scratch of one message, so that none is on the heap. */
    uint32_t submit_ids[SUBMIT_IDS_MAX];
    char *text; /* [text_size] text of one chunk */
    size_t text_size;
};

/* The use of a text job is part of its tag.  Table `jobs` shows whether its
 * result is still wanted. */
enum job_use { JOB_PROMPT, JOB_CALL };
#define JOB_TAG(number, use) ((number) << 1 | (use))

/* Initialises the room on the lower rooms, which must outlive r; and frees it,
 * after every request is gone. */
void requests_init(struct requests *r, struct router_base *b, struct fleet *f,
                   struct replicas *p, struct schedule *s);
void requests_fini(struct requests *r);

#endif

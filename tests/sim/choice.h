/* choice.h - Results of one choice of a request, and checks of them.
 *
 * Tokens must arrive once each and in order.  Logprobs must be those of the
 * oracle.  Text must match the tokens, cut at the first stop string. */
#ifndef SIM_CHOICE_H
#define SIM_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/wire.h"
#include "proto/inference.pb-c.h"
#include "tests/sim/oracle.h"
#include "tests/sim/vocabulary.h"

#define CHOICE_ALL UINT32_MAX /* all choices, where one may be named */

struct sim_request;

struct sim_choice {
    struct sim_request *request;
    uint32_t number;

    uint32_t *got; /* [n_got] of max_tokens; owned */
    uint32_t n_got, n_checked;
    float *logprobs;      /* [n_got] */
    uint32_t *top_tokens; /* [n_got * n_top] */
    float *top_logprobs;  /* [n_got * n_top] */
    struct oracle oracle; /* prompt and got[0..n_checked) */

    /* Text derived by the simulator from the received tokens: the settled
     * bytes after each token, and the bytes received. */
    struct plain_text plain;
    char *text;         /* [n_text] */
    uint32_t *text_end; /* [n_got] bytes of text after each token */
    size_t n_text, n_text_received;

    uint32_t finish; /* protocol's Finish in the last chunk */
    bool figured;    /* its figures were received */
    bool stopped;    /* ended by a stop string */
    uint32_t stop_string;

    bool end_asked;             /* a client has cancelled or removed it */
    uint32_t submitted_conn;    /* last connection that received its Submit, */
    uint64_t submitted_session; /* and the session on that connection */
    bool adopting;              /* the last Submit adopts a sequence, */
    bool grows;                 /* ... or grants its expected need */
    uint32_t n_moves;
    uint32_t n_given; /* tokens in the last Submit */
    uint32_t n_had;   /* tokens that its client last resumed with */
    /* Workers that it killed in a row with fewer than TRIAL_TOKENS tokens
     * between two deaths; the tokens in the Submit to the last of them, and its
     * connection. */
    uint32_t n_killed, n_given_killed, killed_conn;
    /* From receipts of its workers: */
    uint32_t freed_blocks, freed_slots, freed_windows;
};

void sim_choice_init(struct sim_choice *c, struct sim_request *request,
                     uint32_t number);
void sim_choice_fini(struct sim_choice *c);

/* Takes a received chunk. */
void sim_choice_chunk(struct sim_choice *c, const Sluice__V1__GenerateChunk *m);

/* Compares the tokens received since the last call with the oracle. */
void sim_choice_check(struct sim_choice *c);

/* Checks a choice that ended by itself: all tokens, and the right reason. */
void sim_choice_check_whole(struct sim_choice *c);

/* Fills in what an undisturbed cluster would send: tokens, text, finish and
 * stop string.  Of a choice whose chunks nobody takes. */
void sim_choice_expect(struct sim_choice *c);

/* Checks later that the request, whose client has left, holds no memory on a
 * worker.  Only without faults. */
void sim_request_gone_soon(const struct sim_request *request);

#endif

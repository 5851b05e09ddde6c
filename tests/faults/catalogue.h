/* catalogue.h - The requests that the load repeats.
 *
 * CATALOGUE requests, the same in every run: prompts as ids and as text, short
 * and of several prefill chunks; greedy, seeded, filtered and penalised
 * sampling; two choices; ends by length, token and text; logprobs.  Each is
 * complete, seed included, so its stream is always the recorded one.
 *
 * Threading: constant after catalogue_make().  Memory: the caller's. */
#ifndef TESTS_FAULTS_CATALOGUE_H
#define TESTS_FAULTS_CATALOGUE_H

#include <stddef.h>
#include <stdint.h>

#include "client/lib/client.h"

#define CATALOGUE         48
#define CATALOGUE_PROMPT  700 /* most ids of a prompt */
#define CATALOGUE_LONGEST 400 /* most tokens of a stream */
#define CATALOGUE_CHOICES 2

struct entry {
    struct client_request request; /* without on_chunk and request_id */
    uint32_t ids[CATALOGUE_PROMPT];
    char text[64];
    struct client_stop stops[2];
};

/* Returns the next number of *state; splitmix64. */
uint64_t catalogue_draw(uint64_t *state, uint64_t below);

/* Makes the requests.  A stream has at most `longest` tokens,
 * 1..CATALOGUE_LONGEST; a small value shortens the prompts too. */
void catalogue_make(struct entry entries[CATALOGUE], uint32_t longest);

#endif

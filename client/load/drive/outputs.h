/* outputs.h - The check of outputs under load: does a request produce what the
 * same prompt produced alone?
 *
 * A solo run is learned first: for each (content, turn), the hash of its output
 * and its number of tokens.  Requests under load are compared with it.  Greedy
 * outputs of a batch-invariant server are equal.
 *
 * A prompt whose solo runs differ among each other is unstable, and no request
 * of it is comparable.
 *
 * Threading: none.  Pure.  Memory: 32 bytes per output, two thirds full at
 * most.  Limits: `max` outputs, at most OUTPUTS_MAX. */
#ifndef CLIENT_LOAD_DRIVE_OUTPUTS_H
#define CLIENT_LOAD_DRIVE_OUTPUTS_H

#include "client/load/figures/sample.h"

#define OUTPUTS_MAX (1u << 20)

struct outputs;

enum outputs_verdict {
    OUTPUTS_EQUAL,
    OUTPUTS_DIFFERS,
    OUTPUTS_UNKNOWN,       /* no solo run of this content and turn */
    OUTPUTS_NOT_COMPARABLE /* did not end OK, or its prompt is unstable */
};

/* Makes an empty table.  max is 1..OUTPUTS_MAX. */
struct outputs *outputs_new(uint32_t max);
void outputs_free(struct outputs **o);

/* Learns a sample of the solo run.  Returns false if it did not end OK, or if
 * the table is full. */
bool outputs_learn(struct outputs *o, const struct sample *s);

enum outputs_verdict outputs_compare(const struct outputs *o,
                                     const struct sample *s);

#endif

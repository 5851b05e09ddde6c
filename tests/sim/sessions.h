/* sessions.h - Requests that go on from others: with their prompt and tokens as
 * the next prompt, or from their kept memory, or from a part of it.
 *
 *     request ends, kept --pause--> next request
 *                   \--pause--> RemoveSequence of a range --receipt--> next
 */
#ifndef SIM_SESSIONS_H
#define SIM_SESSIONS_H

#include <stdint.h>

struct sim;
struct sim_request;

/* Handles the end of a request: may schedule the next of its session. */
void sessions_ended(struct sim *s, struct sim_request *request);

/* Handles the answer to the removal of a range: `known` ids of the choice are
 * kept. */
void sessions_cut(struct sim *s, uint32_t number, uint32_t choice,
                  uint32_t known);

#endif

/* actor.h - Simulated users of the clients.
 *
 * They send requests, cancel or remove them, disconnect, return, sleep, and
 * query the router. */
#ifndef SIM_ACTOR_H
#define SIM_ACTOR_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_request;

/* Starts to send requests as soon as all workers are up. */
void actor_start(struct sim *s);

/* Reports that a request has ended; may draw follow-up actions. */
void actor_ended(struct sim *s, struct sim_request *request);

/* Draws a request of a client, and sends it. */
struct sim_request *actor_request(struct sim *s, uint32_t client);
void actor_ask(struct sim *s, struct sim_request *request);

/* Draws a request that a client of this gateway sends over HTTP: its prompt has
 * text of a, b and c, and begins with the request's number, so that no two
 * prompts of a seed are equal.  With `like`, all but the prompt is that of
 * another request. */
struct sim_request *actor_web_request(struct sim *s, uint32_t gateway,
                                      const struct sim_request *like);

/* Sends a request that goes on from position `known` of the ids of a choice.
 * continues: from its kept memory.  Does nothing if the context is too short.
 */
void actor_follow(struct sim *s, uint32_t number, uint32_t choice,
                  uint32_t known, bool continues);

#endif

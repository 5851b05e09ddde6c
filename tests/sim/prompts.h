/* prompts.h - Prompts that share prefixes, and requests that follow others.
 *
 * A family is a text of the seed.  Prompts of a family are equal up to one of
 * its cuts, or up to their end; behind a cut some follow one of two branches.
 * Others repeat a whole prompt, or all of it but one token in the first unit of
 * the index.
 *
 * A session goes on: the next prompt is the last one, its tokens, and more.
 * Some of these requests continue from the memory of the last one, which was
 * kept; some of them only after a range of it was removed. */
#ifndef SIM_PROMPTS_H
#define SIM_PROMPTS_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_request;

/* Draws the prompt of a request whose lengths are drawn; may change its
 * length. */
void prompts_draw(struct sim *s, struct sim_request *request);

/* Draws tenant and cache. */
void prompts_draw_cache(struct sim *s, struct sim_request *request);

/* Makes the prompt of `request` that of `old`, the tokens of a choice of it up
 * to position `known`, and `more` drawn tokens.  Returns false if they do not
 * fit the context.  continues: from the kept memory of that choice. */
bool prompts_follow(struct sim *s, struct sim_request *request,
                    const struct sim_request *old, uint32_t choice,
                    uint32_t known, uint32_t more, bool continues);

/* Lets the draws of `request` go on from those of the kept choice, up to
 * position `known`. */
void prompts_follow_draws(struct sim_request *request,
                          const struct sim_request *old, uint32_t choice,
                          uint32_t known);

#endif

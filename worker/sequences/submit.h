/* submit.h - How a Submit becomes a sequence: the parts that Submit,
 * SubmitPart, adoptions and stages share.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_SUBMIT_H
#define WORKER_SEQUENCES_SUBMIT_H

#include "worker/sequences/sequences.h"

/* Checks that n ids are below the vocabulary.  offset: the position of the
 * first.  Returns ST_INVALID_ARGUMENT if one is not; e names it. */
MUST_CHECK enum status submit_check_ids(const struct sequences *q,
                                        const uint32_t *ids, size_t n,
                                        uint32_t offset, struct error *e);

/* Checks that `need` is what this worker's shard needs for n_ids ids.  Returns
 * ST_INVALID_ARGUMENT if not; e names the class and the limits. */
MUST_CHECK enum status submit_check_need(const struct sequences *q,
                                         const struct pool_need *need,
                                         uint32_t n_ids, struct error *e);

/* Returns the blocks that the sequence's table must have room for. */
uint32_t submit_table(const struct sequences *q,
                      const Sluice__V1__SubmitRequest *m);

/* Returns the first index that the router lacks. */
uint32_t submit_have(const Sluice__V1__SubmitRequest *m);

/* Returns whether s has the lengths and the sampling of the Submit; ids are not
 * compared. */
bool submit_is_same(const struct sequence *s,
                    const Sluice__V1__SubmitRequest *m);

/* Returns whether the tokens of s from index `have` on can still be sent. */
bool submit_can_send(const struct sequence *s, uint32_t have);

/* Puts s under the grant of the Submit, and sends its tokens again from
 * have_index on. */
void submit_regrant(struct sequences *q, struct sequence *s,
                    const Sluice__V1__SubmitRequest *m);

/* Answers the Submit of s, whose ids have all come, and queues s for prefill.
 */
void submit_complete(struct sequences *q, struct peer *p, struct sequence *s);

#endif

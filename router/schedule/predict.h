/* predict.h - The times that the scheduler expects of a sequence.
 *
 *     now       granted        first token                      end
 *      |--wait_us--|                |                            |
 *      |-----------first_us---------|                            |
 *      |---------------------------end_us------------------------|
 *
 * At a place with n sequences and the learned cost of a step (costs.h), for one
 * that is granted now and has C tokens to compute and L to generate:
 *
 *     first = time of B + C prompt tokens, in steps of a chunk beside the rows
 *             of the sequences that decode, and of the step that runs now
 *     end   = first + (L - 1) * time of a step of n + 1 rows
 *
 *     others = (L - 1) * row * n
 *
 *     B   tokens of prompts that wait or run there before it (routing.h), less
 *         those that steps have computed since
 *     L   mean of the learned lengths, given the tokens that it has (lengths.h)
 *
 * Decodes thus count as load: each row of a place makes the steps of all
 * longer, those of the newcomer, and the newcomer those of the n.
 *
 * A place that is busy with n sequences needs for the work of P prompt tokens
 * and L output tokens
 *
 *     work = P * compute * token + L * time of a step of n rows / n
 *
 *     compute  share of the tokens of newly granted sequences that had to be
 *              computed; the others were restored
 *
 * and all places of a model do it in 1 / sum(1 / work).  An entry of the queue
 * waits for the work of those that go first by the order of the queue (fair.h),
 * and for its own once more: so much must end before it has room.
 *
 * While no entry of the queue was found to have no room, all of them are new,
 * such as a burst that came since the last run of the queue.  The places then
 * have room for F more sequences of the mean need of these W entries:
 *
 *     n = sequences of the place + its part of F
 *     wait = 0 if W <= F, else the time above, times 1 - F / W
 *
 * The prompts of those count from their grant on.
 *
 * Threading: the core's thread only.  Memory: none of its own; no call
 * allocates.  Cost: O(1) for a place, O(places + tenants) for a queue. */
#ifndef ROUTER_SCHEDULE_PREDICT_H
#define ROUTER_SCHEDULE_PREDICT_H

#include "router/schedule/schedule.h"

#define PREDICT_NEVER INT64_MAX /* no place of the model is up */

struct prediction {
    int64_t wait_us, first_us, end_us; /* from now on */
    int64_t others_us; /* time that it adds to the steps of all others */
    int64_t prompt_us; /* first_us without the step that runs now */
};

/* Learns from a step of w. */
void predict_step(struct worker *w, uint32_t us, uint32_t n_rows,
                  uint32_t n_prompt_tokens);

/* Predicts a sequence that w is granted now, of which it has n_compute tokens
 * to compute and n_output to generate. */
struct prediction predict_at(const struct worker *w, uint64_t n_compute,
                             uint32_t n_output);

/* Returns the time in which a difference between two places of m is noise: that
 * of PREFIX_UNIT prompt tokens, in us. */
int64_t predict_grain_us(const struct model *m);

/* Returns the tokens that e is expected to generate from now on. */
uint32_t predict_output(const struct queue_entry *e);

/* Returns the time of n steps of w as it is now, in us. */
int64_t predict_steps_us(const struct worker *w, uint32_t n_steps);

/* A sequence that comes now. */
struct newcomer {
    struct model *model;
    uint32_t n_prompt, max_tokens;
    uint32_t tenant, route; /* slots of base.tenant_names, base.route_names */
    enum fair_tier tier;
};

/* Predicts x.  What a place could restore of its prompt counts by the share
 * that is usual in the model.  All times are PREDICT_NEVER if no place that is
 * open could hold it. */
struct prediction predict_arrival(struct schedule *s, const struct newcomer *x);

/* Predicts e, which waits. */
struct prediction predict_waiting(struct schedule *s,
                                  const struct queue_entry *e);

/* Count e, which has entered its queue, or left it. */
void predict_entered(struct queue_entry *e);
void predict_left(struct queue_entry *e);

/* Returns the sequences by which the steps of w are judged: those that
 * generate; and true if the work of m that waits is that of its entries.  For
 * auditors. */
uint32_t predict_rows(const struct worker *w);
bool predict_is_exact(const struct model *m);

/* Counts the prompt of a sequence that is granted. */
void predict_granted(const struct queue_entry *e, uint64_t n_compute);

#endif

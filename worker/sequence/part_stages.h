/* part_stages.h - A sequence of a leader, as the later stages have it.
 *
 *     NONE --Open is sent--> OPEN --Remove is sent--> REMOVING
 *      ^                       |                         | it comes back, or
 *      +--the assembly is over-+                         v the assembly is over
 *                                                     REMOVED
 *
 * Used by: worker/stages/leader.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_STAGES_H
#define WORKER_SEQUENCE_PART_STAGES_H

#include <stdbool.h>

struct sequence;

enum stages_state {
    STAGES_NONE, /* no later stage has it */
    STAGES_OPEN,
    STAGES_REMOVING,
    STAGES_REMOVED,
    STAGES_STATES
};

struct sequence_stages {
    enum stages_state state;
};

/* Changes the state; checked against the table of successors, and logged. */
void stages_move(struct sequence *s, enum stages_state to);

/* Ends the time of s at the later stages: its Remove came back, or none will.
 */
void stages_end(struct sequence *s);

/* Returns whether later stages have the sequence. */
static inline bool stages_hold(const struct sequence_stages *p)
{
    return p->state == STAGES_OPEN || p->state == STAGES_REMOVING;
}

/* Returns whether later stages have it, and no Remove was sent. */
static inline bool stages_are_open(const struct sequence_stages *p)
{
    return p->state == STAGES_OPEN;
}

/* Returns whether a Remove was sent. */
static inline bool stages_remove_sent(const struct sequence_stages *p)
{
    return p->state == STAGES_REMOVING || p->state == STAGES_REMOVED;
}

#endif

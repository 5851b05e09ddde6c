/* state.h - The states of a sequence, and how it ended.
 *
 *   RECEIVING --all ids--> QUEUED --in a plan--> PREFILL --token--> DECODE
 *       |                    |                      |                 |
 *       |                    |                      +---- keep_ms ----+
 *       |                    |                      |      KEPT       |
 *       +--------------------+----------+-----------+-----------------+
 *                                       v   any ending
 *                                   RELEASING --its plans have returned, its
 *                                       |       memory is free-->
 *                                   FINISHED --acknowledged--> forgotten
 *
 * QUEUED, PREFILL and DECODE go to SUSPENDED and come back where others
 * outgrow their grants; a Submit that finds no room begins there
 * (worker/sequences/suspend.h). */
#ifndef WORKER_SEQUENCE_STATE_H
#define WORKER_SEQUENCE_STATE_H

#include <stdbool.h>

enum sequence_state {
    SEQUENCE_RECEIVING,
    SEQUENCE_QUEUED,
    SEQUENCE_PREFILL,
    SEQUENCE_DECODE,
    SEQUENCE_KEPT,
    SEQUENCE_SUSPENDED,
    SEQUENCE_RELEASING,
    SEQUENCE_FINISHED,
    SEQUENCE_STATES
};

/* Reasons for an ending, numbered as proto's Finish. */
enum sequence_finish {
    FINISH_NONE,
    FINISH_STOP,
    FINISH_LENGTH,
    FINISH_CANCELLED,
    FINISH_FAILED
};

/* Returns whether the sequence ended by itself, with all its tokens. */
static inline bool finish_is_whole(enum sequence_finish f)
{
    return f == FINISH_STOP || f == FINISH_LENGTH;
}

struct sequence;
struct sequence_table;

const char *sequence_state_name(enum sequence_state s);

/* Changes the state; checked against the table of successors, and logged. */
void sequence_move(struct sequence_table *t, struct sequence *s,
                   enum sequence_state to);

/* Returns the number of proto's SequenceState. */
int sequence_public_state(const struct sequence *s);

#endif

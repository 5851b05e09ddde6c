/* choice_state.h - The states of a choice, which is one sequence of a request.
 *
 *     ENCODING --ids--> WAITING --grant--> SUBMITTED --accepted--> PREFILL
 *                          ^                                          | token
 *                          +------ worker lost or drained -------- DECODE
 *
 * SUBMITTED, PREFILL and DECODE all return to WAITING when the worker is lost
 * or releases the sequence; the choice keeps its position in the queue.  Every
 * state can go to ENDED.  ENDING waits for the receipt of a worker. */
#ifndef ROUTER_REQUESTS_CHOICE_STATE_H
#define ROUTER_REQUESTS_CHOICE_STATE_H

enum choice_state {
    CHOICE_ENCODING,
    CHOICE_WAITING,
    CHOICE_SUBMITTED,
    CHOICE_PREFILL,
    CHOICE_DECODE,
    CHOICE_ENDING,
    CHOICE_ENDED,
    CHOICE_STATES
};

#endif

/* choice_state.h - the states of a choice: one sequence of a Generate.
 *
 *   ENCODING --ids--> WAITING --grant--> SUBMITTED --accepted--> PREFILL
 *                        ^                                          | token
 *                        +-------- worker lost (to the head) --- DECODE
 *
 * Every state can go to ENDED; ENDING waits for a worker's receipt. */
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

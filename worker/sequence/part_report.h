/* part_report.h - The rows of a sequence that the router was sent.
 *
 *     OPEN --row with its ending is sent--> END_SENT
 *      |                                       |
 *      | nothing more is needed of it          |
 *      v                                       v
 *     FORGOTTEN --that row was queued--> FORGOTTEN_END
 *
 * A new grant of the same sequence takes each of them back to OPEN.
 *
 * Used by: worker/sequences/report, worker/sequences/ending.
 *
 * Threading: the core's. */
#ifndef WORKER_SEQUENCE_PART_REPORT_H
#define WORKER_SEQUENCE_PART_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct sequence;

/* Bytes of the reason for a failure, with its NUL: the router accepts 300. */
#define SEQUENCE_FAILURE 301

enum report_state {
    REPORT_OPEN,
    REPORT_END_SENT,
    REPORT_FORGOTTEN,
    REPORT_FORGOTTEN_END,
    REPORT_STATES
};

struct sequence_report {
    enum report_state state;
    uint32_t n_running; /* 1 + the end of the longest row sent before its
                         * ending; 0: none was */
    char failure[SEQUENCE_FAILURE]; /* only with FINISH_FAILED */
};

/* Changes the state; checked against the table of successors, and logged. */
void report_move(struct sequence *s, enum report_state to);

/* Returns whether the router needs nothing more of the sequence. */
static inline bool report_is_forgotten(const struct sequence_report *p)
{
    return p->state == REPORT_FORGOTTEN || p->state == REPORT_FORGOTTEN_END;
}

#endif

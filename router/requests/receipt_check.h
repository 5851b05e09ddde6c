/* receipt_check.h - Checks the receipts of workers.
 *
 * A receipt goes to the client, so every field is compared with what the router
 * has granted and sent:
 *
 *     sequence      the one that the Cancel or Remove named
 *     state         UNKNOWN..FINISHED; UNKNOWN and FINISHED free nothing
 *     n_generated   from the tokens that the router has to max_tokens; any
 *                   number of at most max_tokens if the state is UNKNOWN
 *     blocks,       at most the need of the sequence, all stages together
 *     slots,
 *     windows
 *     checkpoints   0: none are granted
 *     micros        at most the time since the call, and RECEIPT_SLACK_US
 *     snapshot      at most RECEIPT_SNAPSHOTS_MAX past the newest ledger
 *     stage_blocks, stage_slots
 *                   one for each stage, or none if nothing was freed; each is
 *                   at most the need at that stage, and they add up
 *     stage_windows
 *                   the same, or none if no stage has window layers
 *
 * The other fields (worker, position) are not read.
 *
 * Threading: the core's thread only.  Memory: none. */
#ifndef ROUTER_REQUESTS_RECEIPT_CHECK_H
#define ROUTER_REQUESTS_RECEIPT_CHECK_H

#include "router/requests/choice.h"

/* Checks a receipt of the worker of choice, which has come at now_us.  Returns
 * ST_DATA_LOSS with a sentence in e if it cannot be true. */
MUST_CHECK enum status receipt_check(const struct choice *choice,
                                     const Sluice__V1__Receipt *m,
                                     int64_t now_us, struct error *e);

#endif

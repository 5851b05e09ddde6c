/* native_receipt.h - Does the receipt of a cancel add up?
 *
 * A receipt is compared with what the request's own stream showed:
 *
 *     sequence     names the request
 *     n_generated  at least the tokens received, unless the state is UNKNOWN
 *     blocks,      0 if the state is UNKNOWN or FINISHED; at least one block
 *     slots,       or window page if a worker ran it (PREFILL, DECODE); at most
 *     windows      what was held
 *                  by the figures of the last chunks, and exactly that for a
 * request of one choice that stayed at one worker
 *
 * A state of UNKNOWN is no leak: the worker is gone with all its memory, or
 * the request had ended.
 *
 * Threading: none.  Pure. */
#ifndef CLIENT_LOAD_DRIVE_NATIVE_RECEIPT_H
#define CLIENT_LOAD_DRIVE_NATIVE_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/common.pb-c.h"

/* A copy of the fields of a Receipt that are checked. */
struct native_receipt {
    uint8_t request_id[16];
    Sluice__V1__SequenceState state;
    uint32_t n_generated, blocks, slots, windows;
    bool has_worker;
};

/* Figures of the stream. */
struct native_shown {
    uint8_t request_id[16];
    uint32_t n_choices, n_received; /* tokens of all choices */
    bool has_figures;               /* the last chunk of every choice came */
    uint32_t blocks, slots;         /* then: held, sums over the choices */
    uint32_t windows;
    bool moved; /* to another worker, or to another router */
};

void native_receipt_take(struct native_receipt *out,
                         const Sluice__V1__Receipt *m);

/* Returns whether the receipt adds up; else writes a sentence to why. */
bool native_receipt_fits(const struct native_receipt *r,
                         const struct native_shown *s, char *why, size_t size);

#endif

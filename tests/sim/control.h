/* control.h - Client calls other than Generate, and checks of their replies.
 *
 * Calls are Cancel and RemoveSequence, their administrative forms, listings,
 * Audit, Drain and Undrain. */
#ifndef SIM_CONTROL_H
#define SIM_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/client_core.h"
#include "common/wire/method.h"

struct sim;

#define CONTROL_NO_TARGET UINT32_MAX

struct control {
    struct sim *sim;
    enum method method;
    uint32_t target;           /* a request's number, or CONTROL_NO_TARGET */
    uint32_t choice;           /* choice of the target, or CHOICE_ALL */
    uint32_t worker, grace_ms; /* for Drain and Undrain */
    bool range;                /* RemoveSequence of [begin, end of the ids) */
    uint32_t begin;
    uint32_t client, client_life;
    int64_t asked_us;
    uint32_t n_ends;
};

/* Sends Drain or Undrain of a worker. */
void control_ask_worker(struct sim *s, uint32_t client, enum method m,
                        uint32_t worker, uint32_t grace_ms);

/* Sends a call through a client's core; does nothing if the core is dead or has
 * no place for the call. */
void control_ask(struct sim *s, uint32_t client, enum method m, uint32_t target,
                 uint32_t choice);

/* Removes a choice's kept memory from position `begin` on. */
void control_ask_range(struct sim *s, uint32_t client, uint32_t target,
                       uint32_t choice, uint32_t begin);

#endif

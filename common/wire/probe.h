/* probe.h - The self-test of a transport: libzmq names connections as the
 * transport needs it.
 *
 * The socket monitor and ZMQ_SRCFD of a message must report the same
 * descriptor for one connection (common/wire/transport.h).  The probe connects
 * once, sends one frame and closes.  It compares what the transport reports.
 *
 * Threading: the caller's; waits at most five seconds.  Memory: none is
 * kept. */
#ifndef COMMON_WIRE_PROBE_H
#define COMMON_WIRE_PROBE_H

#include "common/wire/curve_keys.h"
#include "common/wire/transport.h"

/* Tests t, whose port 0 listens; context: the ZeroMQ context of t, with room
 * for one more socket; keys: those of t, which trust themselves, or NULL.
 * Returns ST_INTERNAL if the two disagree. */
MUST_CHECK enum status probe_run(struct transport *t, void *context,
                                 const struct curve_keys *keys,
                                 struct error *e);

#endif

/* advertise.h - The endpoint at which the previous stage reaches this worker.
 *
 *     --advertise          listens at            the router sends others to
 *     (none)               tcp://10.0.0.7:9000   tcp://10.0.0.7:9000
 *     (none)               tcp://[::]:9000       this machine's address on the
 *                                                way to the router, 9000
 *     worker-0.sluice      tcp://[::]:9000       tcp://worker-0.sluice:9000
 *     worker-0.sluice:80   any                   tcp://worker-0.sluice:80
 *     fd00::7              tcp://[::]:9000       tcp://[fd00::7]:9000
 *     an endpoint          any                   the endpoint
 *
 * Threading: none.  Memory: none. */
#ifndef WORKER_BASE_ADVERTISE_H
#define WORKER_BASE_ADVERTISE_H

#include "common/base/status.h"
#include "common/wire/node_io.h"

/* Checks --advertise without the port that the worker listens at.  Returns
 * ST_INVALID_ARGUMENT with the reason. */
MUST_CHECK enum status advertise_check(const char *given, bool keyed,
                                       struct error *e);

/* Writes the endpoint to advertise of a worker that listens at `listening`.
 * given: --advertise, or NULL.  A wildcard host in it stands for this machine's
 * address (advertise_now()).  Returns ST_INVALID_ARGUMENT if there is no such
 * endpoint. */
MUST_CHECK enum status advertise_endpoint(char out[ENDPOINT_MAX],
                                          const char *given,
                                          const char *listening, bool keyed,
                                          struct error *e);

/* Returns the endpoint for a Hello: `endpoint`, or, if its host is a wildcard,
 * `out` with the address of this machine on the way to the router. */
const char *advertise_now(char out[ENDPOINT_MAX], const char *endpoint,
                          struct node_io *io);

#endif

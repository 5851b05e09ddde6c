/* chaos_command.h - what an orchestrator says to the proxy, a line each, and
 * the line that answers: "ok", "ok KEY=VALUE ..." or "error SENTENCE".
 *
 *     TARGET delay MS [jitter MS]     TARGET = ROUTE | ROUTE#ID | *
 *     TARGET rate BYTES_PER_SECOND    each way; 0: as fast as it goes
 *     TARGET drop up|down|both        thrown away; up: from who connected
 *     TARGET freeze up|down|both      neither read nor written
 *     TARGET flip 1/N                 one bit in N bytes, of all
 *     TARGET flip_body 1/N            of the bodies of messages (ZMTP)
 *     TARGET dup 1/N                  messages (ZMTP), as the next two
 *     TARGET reorder 1/N              with the one that follows
 *     TARGET lose 1/N
 *     TARGET reset | close            connections; "ok n=2"
 *     ROUTE pause_accept | refuse     * for all; heal ends it
 *     TARGET heal                     nothing is done to it any more
 *     ROUTE stats                     * for the sum of all
 *     ROUTE connections               "ok n=2 ids=3,7"
 *     add NAME=LISTEN:TARGET[,plain]  "ok NAME=LISTEN"
 *
 * 1/0 ends a chance.  An empty line is answered with "ok".
 *
 * Threading: none.  Memory: none. */
#ifndef TESTS_FAULTS_CHAOS_COMMAND_H
#define TESTS_FAULTS_CHAOS_COMMAND_H

#include <stddef.h>

#include "tests/faults/chaos_proxy.h"

#define CHAOS_LINE   256
#define CHAOS_ANSWER 1024

/* line: without its newline; it is taken apart.  answer: without one. */
void chaos_command(struct chaos_proxy *p, char *line,
                   char answer[CHAOS_ANSWER]);

/* Add the route NAME=LISTEN:TARGET[,plain]. */
MUST_CHECK enum status chaos_route(struct chaos_proxy *p, const char *text,
                                   struct error *e);

#endif

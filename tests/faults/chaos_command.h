/* chaos_command.h - Commands of the proxy, one per line.  The answer is one
 * line: "ok", "ok KEY=VALUE ..." or "error TEXT".
 *
 *     TARGET delay MS [jitter MS]     TARGET = ROUTE | ROUTE#ID | *
 *     TARGET rate BYTES_PER_SECOND    each way; 0: unlimited
 *     TARGET drop up|down|both        discard bytes; up: from the client
 *     TARGET freeze up|down|both      neither read nor write
 *     TARGET flip 1/N                 flip one bit in N bytes of the stream
 *     TARGET flip_body 1/N            the same in bodies of messages (ZMTP)
 *     TARGET dup 1/N                  duplicate messages (ZMTP)
 *     TARGET reorder 1/N              swap messages with the next one (ZMTP)
 *     TARGET lose 1/N                 lose messages (ZMTP)
 *     TARGET reset | close            end connections; "ok n=2"
 *     ROUTE pause_accept | refuse     ROUTE may be *; heal ends it
 *     TARGET heal                     end all faults
 *     ROUTE stats                     counters; * for the sum of all
 *     ROUTE connections               "ok n=2 ids=3,7"
 *     add NAME=LISTEN:TARGET[,plain]  "ok NAME=LISTEN"
 *
 * 1/0 switches a fault off.  The answer to an empty line is "ok".
 *
 * Threading: none.  Memory: none. */
#ifndef TESTS_FAULTS_CHAOS_COMMAND_H
#define TESTS_FAULTS_CHAOS_COMMAND_H

#include <stddef.h>

#include "tests/faults/chaos_proxy.h"

#define CHAOS_LINE   256
#define CHAOS_ANSWER 1024

/* Runs a command.  line has no newline and is overwritten; answer receives the
 * answer without a newline. */
void chaos_command(struct chaos_proxy *p, char *line,
                   char answer[CHAOS_ANSWER]);

/* Adds the route NAME=LISTEN:TARGET[,plain]. */
MUST_CHECK enum status chaos_route(struct chaos_proxy *p, const char *text,
                                   struct error *e);

#endif

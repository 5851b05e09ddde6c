/* raw_broker.h - what ZeroMQ itself costs: a broker of two ROUTERs that
 * forwards frames as they are, and an echo behind it.  The limit of any
 * router on ZeroMQ.
 *
 * Threading: raw_broker_start() forks, so the caller has made no thread yet.
 */
#ifndef TESTS_BENCH_RAW_BROKER_H
#define TESTS_BENCH_RAW_BROKER_H

#include <stddef.h>
#include <sys/types.h>

/* Two processes on loopback TCP: the broker, and a worker that answers a
 * frame with as many bytes as its first four (u32, at most RAW_BYTES_MAX)
 * say.  endpoint: where clients connect. */
#define RAW_BYTES_MAX 4096

struct raw_broker {
    pid_t children[2];
    char endpoint[256];
};

void raw_broker_start(struct raw_broker *b);
void raw_broker_end(struct raw_broker *b);

#endif

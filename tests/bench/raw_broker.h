/* raw_broker.h - measures the cost of ZeroMQ itself: a broker of two ROUTERs
 * that forwards frames unchanged, and an echo behind it.  No router on ZeroMQ
 * can be faster.
 *
 * Threading: raw_broker_start() forks, so the caller has created no thread
 * yet. */
#ifndef TESTS_BENCH_RAW_BROKER_H
#define TESTS_BENCH_RAW_BROKER_H

#include <stddef.h>
#include <sys/types.h>

/* Starts two processes on loopback TCP: the broker, and a worker.  The worker
 * answers a frame with as many bytes as its first four (u32, at most
 * RAW_BYTES_MAX) request.  endpoint: where clients connect. */
#define RAW_BYTES_MAX 4096

struct raw_broker {
    pid_t children[2];
    char endpoint[256];
};

void raw_broker_start(struct raw_broker *b);
void raw_broker_end(struct raw_broker *b);

#endif

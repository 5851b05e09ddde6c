/* rate.h - The decode speed in the figures that people read.
 *
 * A busy machine may deliver tokens of a second within a millisecond, so a rate
 * is computed only from enough tokens and enough time.
 *
 * Threading: any.  Memory: none. */
#ifndef CLIENT_CTL_RATE_H
#define CLIENT_CTL_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define RATE_TOKENS_MIN 16
#define RATE_US_MIN     50000

/* Sets *out to the tokens per second of n tokens that arrived within us.
 * Returns false if RATE_TOKENS_MIN or RATE_US_MIN is not reached. */
bool rate_of(uint64_t n, int64_t us, double *out);

#endif

#include "client/ctl/rate.h"

bool rate_of(uint64_t n, int64_t us, double *out)
{
    if (n < RATE_TOKENS_MIN || us < RATE_US_MIN) {
        return false;
    }
    *out = (double)n * 1e6 / (double)us;
    return true;
}

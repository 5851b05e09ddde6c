/* patience.h - How long a test waits for what must happen.  Only a failure
 * waits that long, so the time is far longer than the slowest machine needs.
 *
 * $SLUICE_PATIENCE is the time in seconds; tests/run measures the machine and
 * sets it (tests/patience).  Without it the time is PATIENCE_S. */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include <stdint.h>
#include <stdlib.h>

#define PATIENCE_S     300
#define PATIENCE_MAX_S 3600

static inline int patience_s(void)
{
    const char *text = getenv("SLUICE_PATIENCE");
    int s = text == NULL ? 0 : atoi(text);

    return s > 0 && s <= PATIENCE_MAX_S ? s : PATIENCE_S;
}

static inline int patience_ms(void)
{
    return patience_s() * 1000;
}

static inline int64_t patience_us(void)
{
    return (int64_t)patience_s() * 1000000;
}

#endif

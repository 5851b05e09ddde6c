/* samples.h - Made samples for the tests of figures and reports. */
#ifndef TESTS_UNIT_CLIENT_LOAD_FIGURES_SAMPLES_H
#define TESTS_UNIT_CLIENT_LOAD_FIGURES_SAMPLES_H

#include <stdio.h>
#include <string.h>

#include "client/load/figures/tally.h"
#include "tests/unit/client/load/figures/draws.h"

#define SAMPLES_GAPS 64

/* Returns an ordinary request: due at a time, a token after ttft_us, then
 * n_gaps gaps of gap_us, which are filled into gaps. */
static inline struct sample sample_ok(int64_t due_us, int64_t ttft_us,
                                      uint32_t n_gaps, uint32_t gap_us,
                                      uint32_t gaps[SAMPLES_GAPS])
{
    struct sample s = {.due_us = due_us,
                       .sent_us = due_us + 50,
                       .first_us = due_us + ttft_us,
                       .queue_us = SAMPLE_NEVER,
                       .n_prompt = 100,
                       .n_output = n_gaps + 1,
                       .n_events = n_gaps + 1,
                       .n_in_flight = 1,
                       .n_gaps = n_gaps};

    for (uint32_t i = 0; i < n_gaps; i++) {
        gaps[i] = gap_us;
    }
    s.last_us = s.first_us + (int64_t)n_gaps * gap_us;
    s.end_us = s.last_us + 10;
    return s;
}

/* Returns a request that ended otherwise, without a token. */
static inline struct sample sample_not_ok(int64_t due_us, enum outcome outcome,
                                          uint16_t code, const char *why)
{
    struct sample s = {.due_us = due_us,
                       .sent_us = due_us + 50,
                       .first_us = SAMPLE_NEVER,
                       .last_us = SAMPLE_NEVER,
                       .end_us = due_us + 900,
                       .queue_us = SAMPLE_NEVER,
                       .n_prompt = 100,
                       .n_in_flight = 1,
                       .outcome = (uint8_t)outcome,
                       .code = code};

    snprintf(s.why, sizeof s.why, "%s", why);
    return s;
}

/* Returns the i-th of many requests of all kinds, at 100 a second. */
static inline struct sample sample_draw(struct draws *d, uint64_t i,
                                        uint32_t gaps[SAMPLES_GAPS])
{
    int64_t due = (int64_t)i * 10000;
    uint32_t n_gaps = (uint32_t)draw_below(d, SAMPLES_GAPS);
    int64_t ttft = (int64_t)(20000 * exp(0.5 * draw_normal(d)));
    struct sample s = sample_ok(due, ttft, n_gaps, 5000, gaps);
    uint64_t kind = draw_below(d, 40);

    for (uint32_t k = 0; k < n_gaps; k++) {
        gaps[k] = (uint32_t)draw_below(d, 20000);
    }
    s.n_output += (uint32_t)draw_below(d, 3);
    s.n_in_flight = (uint32_t)draw_below(d, 300);
    s.queue_us = (int64_t)draw_below(d, 9000);
    s.flags = (uint8_t)(draw_below(d, 8) == 0 ? draw_below(d, 64) : 0);
    s.gap_us =
        (s.flags & SAMPLE_RESUMED) != 0 ? (int64_t)draw_below(d, 3000000) : 0;
    s.n_moves = (uint32_t)draw_below(d, 2);
    s.n_cached = (uint32_t)draw_below(d, 90);
    if (kind < OUTCOMES && kind != OUTCOME_OK && draw_below(d, 2) == 0) {
        s.outcome = (uint8_t)kind; /* after some tokens */
    } else if (kind < OUTCOMES && kind != OUTCOME_OK) {
        s = sample_not_ok(due, (enum outcome)kind, (uint16_t)(500 + kind),
                          kind % 2 == 0 ? "queue is full" : "connection reset");
    }
    if (s.outcome == OUTCOME_UNSENT || s.outcome == OUTCOME_SKIPPED) {
        s.sent_us = SAMPLE_NEVER;
    }
    return s;
}

#endif

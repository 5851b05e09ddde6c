#include "common/base/log_gate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void log_gate_init(struct log_gate *g, enum log_level level, const char *event,
                   uint32_t burst)
{
    *g = (struct log_gate){.level = level, .event = event, .burst = burst};
}

void log_gate_end(struct log_gate *g)
{
    if (g->n_more > 0) {
        log_at(g->level, g->event, "more=%" PRIu64, g->n_more);
    }
    g->n_more = 0;
    g->n_lines = 0;
    g->end_us = 0;
}

int64_t log_gate_tick(struct log_gate *g, int64_t now_us)
{
    if (now_us >= g->end_us) {
        log_gate_end(g);
    }
    return g->n_more > 0 ? g->end_us : INT64_MAX;
}

void log_gate_write(struct log_gate *g, int64_t now_us, const char *fmt, ...)
{
    char line[LOG_LINE];
    va_list ap;

    (void)log_gate_tick(g, now_us);
    /* The second begins with its first line, not with the clock's: a lone line
     * is never held back. */
    if (g->end_us == 0) {
        g->end_us = now_us + LOG_GATE_US;
    }
    if (g->n_lines == g->burst) {
        g->n_more++;
        return;
    }
    g->n_lines++;
    /* Counted all the same: what is due when does not depend on the level. */
    if (g->level < log_threshold) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    log_write(g->level, g->event, "%s", line);
}

#include "worker/model/progress.h"

#include <inttypes.h>

#define MIB 1048576.0

void progress_init(struct progress *p, FILE *out, bool terminal, int64_t now_us)
{
    *p = (struct progress){.out = out,
                           .terminal = terminal,
                           .began_us = now_us,
                           .shown_us = now_us};
}

/* A load that ends within PROGRESS_QUIET_US prints nothing, not even its end.
 */
static bool is_due(const struct progress *p, int64_t now_us, bool last)
{
    int64_t every = p->terminal ? PROGRESS_TERMINAL_US : PROGRESS_LOG_US;

    if (now_us - p->began_us < PROGRESS_QUIET_US) {
        return false;
    }
    return last || !p->shown || now_us - p->shown_us >= every;
}

/* Trailing spaces overwrite the rest of a longer line. */
static void print_line(const struct progress *p, int64_t us, uint64_t done,
                       uint64_t total)
{
    double s = (double)us / 1e6, rate = (double)done / s;
    int percent = (int)(100.0 * (double)done / (double)total);

    fprintf(p->out, "%sreading weights: %d %% of %.1f MiB",
            p->terminal ? "\r" : "", percent, (double)total / MIB);
    if (done == total) {
        fprintf(p->out, ", %.0f s%s\n", s,
                p->terminal ? "                  " : "");
    } else {
        fprintf(p->out, ", %.0f MiB/s, %.0f s left%s", rate / MIB,
                (double)(total - done) / rate, p->terminal ? "   " : "\n");
    }
    fflush(p->out);
}

void progress_update(struct progress *p, int64_t now_us, uint64_t done,
                     uint64_t total)
{
    if (!is_due(p, now_us, done == total)) {
        return;
    }
    print_line(p, now_us - p->began_us, done, total);
    p->shown = true;
    p->shown_us = now_us;
    /* The line of a terminal stays open, so that the next one overwrites it. */
    p->open = p->terminal && done < total;
}

void progress_end(struct progress *p)
{
    if (p->open) {
        fputc('\n', p->out);
        p->open = false;
    }
}

/* sluicectl_quantise.c - The verb quantise: a copy of a model directory with
 * quantised weights. */
#include "client/ctl/ctl.h"

#include <inttypes.h>
#include <unistd.h>

#include "client/ctl/quantise_model.h"

#define MIB 1048576.0

/* Shows progress on a terminal, in whole percents so that it is not redrawn
 * for each row of a matrix. */
static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
    int *shown = ctx, percent = (int)(100.0 * (double)done / (double)total);

    if (percent != *shown) {
        fprintf(stderr, "\rquantised %d %% of %.1f MiB", percent,
                (double)total / MIB);
        *shown = percent;
    }
}

static void print_report(const struct ctl *c, const struct quantise_report *r)
{
    if (c->o.json) {
        json_t *j = json_object();

        json_object_set_new(j, "n_quantised", json_integer(r->n_quantised));
        json_object_set_new(j, "n_copied", json_integer(r->n_copied));
        json_object_set_new(j, "bytes_in",
                            json_integer((json_int_t)r->bytes_in));
        json_object_set_new(j, "bytes_out",
                            json_integer((json_int_t)r->bytes_out));
        ctl_print_json(j);
        return;
    }
    printf("%u matrices quantised at %u bits in groups of %u, %u tensors "
           "copied; %.1f MiB reduced to %.1f MiB\n",
           r->n_quantised, c->o.bits, c->o.group, r->n_copied,
           (double)r->bytes_in / MIB, (double)r->bytes_out / MIB);
}

int ctl_quantise(struct ctl *c)
{
    bool terminal = isatty(STDERR_FILENO) != 0;
    int shown = -1;
    const struct quantise_options o = {.bits = c->o.bits,
                                       .group = c->o.group,
                                       .progress =
                                           terminal ? show_progress : NULL,
                                       .ctx = &shown};
    struct quantise_report r;
    struct error e;
    enum status st;

    if (c->n_operands != 2) {
        return ctl_misuse(c, "quantise requires a model directory and the "
                             "name of a new directory");
    }
    if (o.bits != 4 && o.bits != 8) {
        return ctl_misuse(c, "--bits %u: 4 or 8 is required", o.bits);
    }
    if ((o.group & (o.group - 1)) != 0) {
        return ctl_misuse(c, "--group %u: 32, 64 or 128 is required", o.group);
    }
    st = quantise_model(&r, c->operands[0], c->operands[1], &o, &e);
    if (shown >= 0) {
        fputc('\n', stderr);
    }
    if (st != ST_OK) {
        return ctl_fail(c, st, e.text, 0);
    }
    print_report(c, &r);
    return CTL_OK;
}

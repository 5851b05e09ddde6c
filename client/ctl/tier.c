#include "client/ctl/tier.h"

#include <inttypes.h>

#define BAR    20
#define CAUSES 120

void tier_add(struct tier_sum *sum, const Sluice__V1__Ledger *l)
{
    const Sluice__V1__HostTier *m = l->host;

    sum->total += l->host_total;
    sum->used += l->host_used;
    sum->suspended_now += l->n_suspended;
    if (m == NULL) {
        return;
    }
    sum->n_workers++;
    sum->waiting += m->waiting;
    sum->kept += m->kept;
    sum->cached += m->cached;
    sum->bytes_out += m->bytes_out;
    sum->bytes_in += m->bytes_in;
    sum->restored_tokens += m->restored_tokens;
    sum->n_suspended += m->n_suspended;
    sum->n_swapped += m->n_swapped;
    sum->n_recomputed += m->n_recomputed;
    sum->wasted_suspended += m->wasted_suspended;
    sum->wasted_failed += m->wasted_failed;
    sum->wasted_moved += m->wasted_moved;
}

/* Writes the tokens that were computed again, and why. */
static void write_wasted(char out[CAUSES], const struct tier_sum *s)
{
    uint64_t all = s->wasted_suspended + s->wasted_failed + s->wasted_moved;

    if (all == 0) {
        snprintf(out, CAUSES, "0");
        return;
    }
    snprintf(out, CAUSES,
             "%" PRIu64 ": %" PRIu64 " suspended, %" PRIu64 " failed, %" PRIu64
             " moved",
             all, s->wasted_suspended, s->wasted_failed, s->wasted_moved);
}

void tier_columns(struct columns *t)
{
    columns_init(t, "WORKER", "HOST", "FREE", "WAITING", "KEPT", "CACHED",
                 "OUT", "IN", "RESTORED", "SUSPENDED", "SWAPPED", "RECOMPUTED",
                 "WASTED", NULL);
}

static void cell(struct columns *t, uint64_t n)
{
    columns_cell(t, "%" PRIu64, n);
}

void tier_row(struct columns *t, const char *worker,
              const Sluice__V1__Ledger *l)
{
    struct tier_sum s = {0};
    char out[BYTES_TEXT], in[BYTES_TEXT], wasted[CAUSES];

    tier_add(&s, l);
    if (s.n_workers == 0) {
        return;
    }
    bytes_write(out, s.bytes_out);
    bytes_write(in, s.bytes_in);
    write_wasted(wasted, &s);
    columns_cell(t, "%s", worker);
    cell(t, s.total);
    cell(t, s.total - s.used);
    cell(t, s.waiting);
    cell(t, s.kept);
    cell(t, s.cached);
    columns_cell(t, "%s", out);
    columns_cell(t, "%s", in);
    cell(t, s.restored_tokens);
    cell(t, s.n_suspended);
    cell(t, s.n_swapped);
    cell(t, s.n_recomputed);
    columns_cell(t, "%s", wasted);
}

static void print_pages(const struct tier_sum *s, FILE *to)
{
    char bar[BAR + 3], out[BYTES_TEXT], in[BYTES_TEXT];

    bar_parts(bar, BAR, s->waiting + s->kept, s->cached, s->total);
    bytes_write(out, s->bytes_out);
    bytes_write(in, s->bytes_in);
    fprintf(to,
            "host      %s %" PRIu64 " of %" PRIu64 " used: %" PRIu64
            " waiting, %" PRIu64 " kept, %" PRIu64 " cached\n",
            bar, s->used, s->total, s->waiting, s->kept, s->cached);
    fprintf(to, "copied    %s out, %s in; %" PRIu64 " prompt tokens restored\n",
            out, in, s->restored_tokens);
}

void tier_print(const struct tier_sum *s, FILE *to)
{
    char wasted[CAUSES];

    if (s->n_workers == 0) {
        return;
    }
    if (s->total > 0) {
        print_pages(s, to);
    }
    write_wasted(wasted, s);
    fprintf(to,
            "suspended %" PRIu64 " now, %" PRIu64 " in all; %" PRIu64
            " swapped in, %" PRIu64 " computed again\n"
            "wasted    %s\n",
            s->suspended_now, s->n_suspended, s->n_swapped, s->n_recomputed,
            wasted);
}

json_t *tier_json(const struct tier_sum *s)
{
    json_t *j = json_object();

#define SET(name, value) \
    json_object_set_new(j, name, json_integer((json_int_t)(value)))
    SET("total", s->total);
    SET("free", s->total - s->used);
    SET("waiting", s->waiting);
    SET("kept", s->kept);
    SET("cached", s->cached);
    SET("bytes_out", s->bytes_out);
    SET("bytes_in", s->bytes_in);
    SET("restored_tokens", s->restored_tokens);
    SET("n_suspended", s->n_suspended);
    SET("n_swapped", s->n_swapped);
    SET("n_recomputed", s->n_recomputed);
    SET("wasted_suspended", s->wasted_suspended);
    SET("wasted_failed", s->wasted_failed);
    SET("wasted_moved", s->wasted_moved);
#undef SET
    return j;
}

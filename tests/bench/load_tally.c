#include "tests/bench/load_tally.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/machine.h"
#include "tests/bench/process.h"

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

void load_die(const char *what, const char *why)
{
    fprintf(stderr, "gateway_load: %s: %s\n", what, why);
    exit(1);
}

void load_prompt(const struct load_options *o, char *buf, size_t cap)
{
    size_t n = 0;

    buf[0] = '\0';
    for (uint32_t i = 0; i < o->words && n + 8 < cap; i++) {
        n +=
            (size_t)snprintf(buf + n, cap - n, "%s", i == 0 ? "Once" : " upon");
    }
}

static struct load_cost cost_now(const struct load_options *o)
{
    return (struct load_cost){machine_now(), process_cpu_s(o->pid),
                              process_rss(o->pid)};
}

void tally_init(struct load_tally *t, const struct load_options *o)
{
    *t = (struct load_tally){.o = o};
    t->streams = calloc(o->streams, sizeof *t->streams);
    if (t->streams == NULL) {
        load_die("no memory", "streams");
    }
    t->before = cost_now(o);
}

void tally_fini(struct load_tally *t)
{
    free(t->streams);
    free(t->ttft);
}

static bool in_window(const struct load_tally *t)
{
    return t->from.at > 0 && t->to.at == 0;
}

void tally_send(struct load_tally *t, struct load_stream *s)
{
    (void)t;
    s->sent_at = machine_now();
    s->last_at = 0;
    s->hash = FNV_START;
    s->n_text = 0;
}

static void add_ttft(struct load_tally *t, const struct load_stream *s,
                     double now)
{
    if (!in_window(t) || s->sent_at < t->from.at) {
        return;
    }
    if (t->n_ttft == t->size) {
        t->size = t->size > 0 ? 2 * t->size : 256;
        t->ttft = realloc(t->ttft, t->size * sizeof *t->ttft);
        if (t->ttft == NULL) {
            load_die("no memory", "times");
        }
    }
    t->ttft[t->n_ttft++] = now - s->sent_at;
}

static void add_gap(struct load_tally *t, double gap)
{
    double bar = gap > 1e-6 ? 8 * log2(gap * 1e6) : 0;

    t->gaps[bar < LOAD_GAPS - 1 ? (size_t)bar : LOAD_GAPS - 1]++;
    t->gap_max = gap > t->gap_max ? gap : t->gap_max;
}

static void add_bytes(struct load_tally *t, struct load_stream *s,
                      const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (t->o->alphabet && text[i] != (char)('a' + (s->n_text + i) % 26)) {
            load_die("a text has a gap or a repetition", text);
        }
        s->hash = (s->hash ^ (unsigned char)text[i]) * FNV_PRIME;
    }
    s->n_text += n;
}

void tally_add(struct load_tally *t, struct load_stream *s, const char *text,
               size_t n)
{
    double now;

    if (n == 0) {
        return;
    }
    now = machine_now();
    add_bytes(t, s, text, n);
    if (s->last_at == 0) {
        add_ttft(t, s, now);
    } else if (in_window(t)) {
        add_gap(t, now - s->last_at);
    }
    s->last_at = now;
    if (in_window(t)) {
        t->n_events++;
        t->n_bytes += n;
        s->in_window += n;
    }
    t->n_live += !s->live;
    s->live = true;
    if (t->n_live == t->o->streams && t->from.at == 0) {
        t->from = cost_now(t->o);
    }
}

void tally_end(struct load_tally *t, struct load_stream *s)
{
    if (t->has_text && (s->hash != t->hash || s->n_text != t->n_text)) {
        load_die("two requests with one prompt", "their texts differ");
    }
    t->has_text = true;
    t->hash = s->hash;
    t->n_text = s->n_text;
    t->n_requests += in_window(t);
}

bool tally_is_over(struct load_tally *t)
{
    if (t->from.at == 0 || machine_now() < t->from.at + t->o->seconds) {
        return false;
    }
    t->to = cost_now(t->o);
    return true;
}

/* ---- the line ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns a gap in microseconds that the share p of all gaps does not exceed:
 * the upper end of its bar. */
static double gap_at(const struct load_tally *t, double p)
{
    uint64_t all = 0, n = 0;

    for (size_t i = 0; i < LOAD_GAPS; i++) {
        all += t->gaps[i];
    }
    for (size_t i = 0; i < LOAD_GAPS; i++) {
        n += t->gaps[i];
        if (all > 0 && (double)n >= p * (double)all) {
            return exp2((double)(i + 1) / 8);
        }
    }
    return 0;
}

static size_t least_bytes(const struct load_tally *t)
{
    size_t least = SIZE_MAX;

    for (uint32_t i = 0; i < t->o->streams; i++) {
        if (t->streams[i].in_window < least) {
            least = t->streams[i].in_window;
        }
    }
    return least;
}

void tally_print(const struct load_tally *t)
{
    double s = t->to.at - t->from.at;

    printf("{\"streams\": %u, \"seconds\": %.3f, \"opened_s\": %.3f, "
           "\"requests\": %u, \"events\": %" PRIu64 ", \"text_bytes\": %" PRIu64
           ", \"text_bytes_s\": %.1f, \"least_bytes\": %zu, ",
           t->o->streams, s, t->from.at - t->before.at, t->n_requests,
           t->n_events, t->n_bytes, (double)t->n_bytes / s, least_bytes(t));
    printf("\"gap_us\": {\"p50\": %.0f, \"p99\": %.0f, \"max\": %.0f}, ",
           gap_at(t, 0.5), gap_at(t, 0.99), t->gap_max * 1e6);
    printf("\"text\": \"%016" PRIx64 "\", \"text_n\": %zu, \"n_prompt\": %ld, ",
           t->hash, t->n_text, t->n_prompt);
    printf("\"cpu_s\": %.2f, \"rss_before\": %.0f, \"rss_open\": %.0f, "
           "\"rss_end\": %.0f, \"ttft_us\": [",
           t->to.cpu_s - t->from.cpu_s, t->before.rss, t->from.rss, t->to.rss);
    qsort(t->ttft, t->n_ttft, sizeof *t->ttft, by_value);
    for (size_t i = 0; i < t->n_ttft; i++) {
        printf("%s%.0f", i > 0 ? ", " : "", t->ttft[i] * 1e6);
    }
    printf("]}\n");
}

/* The live view of a run: a few lines that are redrawn in place, or plain
 * lines where there is no terminal. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/report/cell.h"
#include "client/load/report/recent.h"
#include "client/load/report/report.h"
#include "common/base/log.h"
#include "common/base/memory.h"

#define DRAW_US    200000  /* at least between two drawings */
#define PLAIN_US   5000000 /* ... two plain lines */
#define LINES      8
#define LINE_MAX   512
#define BAR_MAX    40
#define REASON_MAX 160
#define TITLE_MAX  30 /* columns of the title at most */

struct progress {
    FILE *to;
    unsigned width, n_drawn; /* lines on the terminal now */
    char title[LINE_MAX];
    int64_t now_us, last_us; /* of the last drawing */
    bool drawn, has_cluster;
    struct cluster_point cluster;
    struct recent recent;
};

/* What is drawn at one time. */
struct view {
    struct progress *p;
    const struct tally *t;
    int64_t end_us;
    struct recent_figures f;
    char lines[LINES][LINE_MAX]; /* [n] */
    unsigned n;
};

struct short_text {
    char s[32];
};

/* ---- text ---- */

/* Returns whole seconds as "75 s", from ten minutes on as "12 min 5 s". */
static struct short_text clock_text(int64_t us)
{
    struct short_text out;
    long long s = us < 0 ? 0 : us / 1000000;

    if (s < 600) {
        snprintf(out.s, sizeof out.s, "%lld s", s);
    } else {
        snprintf(out.s, sizeof out.s, "%lld min %lld s", s / 60, s % 60);
    }
    return out;
}

/* Escapes what came from a server, a file or a user. */
static void escape(char out[LINE_MAX], const char *text)
{
    log_escape(out, LINE_MAX, text, strlen(text));
}

/* Returns the columns of the UTF-8 character that begins with byte c: 0 inside
 * a character; 2 from U+0800 on, where wide ones are. */
static unsigned columns(unsigned char c)
{
    return (c & 0xc0) == 0x80 ? 0 : c >= 0xe0 ? 2 : 1;
}

/* Returns the bytes of text that fit into `width` columns. */
static size_t fitting(const char *text, unsigned width)
{
    unsigned used = 0;
    size_t n = 0;

    for (; text[n] != '\0'; n++) {
        used += columns((unsigned char)text[n]);
        if (used > width) {
            break;
        }
    }
    return n;
}

/* ---- lines ---- */

static char *next_line(struct view *v)
{
    assert(v->n < LINES);
    return v->lines[v->n++];
}

static void bar_line(struct view *v)
{
    int64_t now = v->p->now_us, end = v->end_us;
    unsigned size = v->p->width / 3 < BAR_MAX ? v->p->width / 3 : BAR_MAX;
    char bar[BAR_MAX + 4] = "", *line = next_line(v);
    unsigned full = 0;

    if (end > 0) {
        full = now >= end ? size
               : now <= 0
                   ? 0
                   : (unsigned)((double)size * (double)now / (double)end);
        bar[0] = '[';
        memset(bar + 1, '#', full);
        memset(bar + 1 + full, '-', size - full);
        memcpy(bar + 1 + size, "] ", 3);
    }
    snprintf(line, LINE_MAX, "%.*s%s%s%s%s%s",
             (int)fitting(v->p->title, TITLE_MAX), v->p->title,
             v->p->title[0] == '\0' ? "" : "  ", bar, clock_text(now).s,
             end <= 0    ? ""
             : now > end ? "; starts ended at "
                         : " of ",
             end > 0 ? clock_text(end).s : "");
}

static void rate_lines(struct view *v)
{
    const struct tally *t = v->t;

    snprintf(
        next_line(v), LINE_MAX,
        "requests  %s/s sent, %s/s ended, %u in flight, %llu ended in "
        "all%s",
        cell_number(v->f.sent_per_s).text, cell_number(v->f.ended_per_s).text,
        t->n_in_flight, (unsigned long long)recent_ended(t),
        tally_requests(t) == 0 && t->counts.n_warm > 0 ? " (warm-up)" : "");
    snprintf(next_line(v), LINE_MAX, "tokens    %s/s, own lag p99 %s",
             cell_number(v->f.tokens_per_s).text,
             cell_figure(&v->f.metrics[RECENT_LAG], 0.99, true).text);
}

static void latency_line(struct view *v)
{
    static const char *const names[] = {"TTFT", "ITL", "E2E"};
    char *line = next_line(v);
    int used = snprintf(line, LINE_MAX, "p50, p99  ");

    for (int i = 0; i < 3; i++) {
        const struct histogram *h = &v->f.metrics[i];

        used += snprintf(line + used, (size_t)(LINE_MAX - used), "%s%s %s, %s",
                         i == 0 ? "" : "; ", names[i],
                         cell_figure(h, 0.5, true).text,
                         cell_figure(h, 0.99, true).text);
    }
}

static bool is_failure(enum outcome o)
{
    return o == OUTCOME_REFUSED || o == OUTCOME_FAILED ||
           o == OUTCOME_TIMEOUT || o == OUTCOME_UNSENT;
}

/* Returns the most frequent reason of a failure, or NULL. */
static const struct tally_why *main_reason(const struct tally *t)
{
    const struct tally_why *best = NULL;

    for (uint32_t i = 0; i < t->n_whys; i++) {
        const struct tally_why *w = &t->whys[i];

        if (is_failure((enum outcome)w->outcome) &&
            (best == NULL || w->n > best->n)) {
            best = w;
        }
    }
    return best;
}

/* Writes "3 refused, 1 timeout" of all kinds but OK.  Returns the length. */
static int kinds_text(const struct tally *t, char *out, size_t size)
{
    int used = 0;

    out[0] = '\0';
    for (int i = OUTCOME_OK + 1; i < OUTCOMES; i++) {
        if (t->counts.n_outcomes[i] > 0) {
            used += snprintf(out + used, size - (size_t)used, "%s%llu %s",
                             used == 0 ? "" : ", ",
                             (unsigned long long)t->counts.n_outcomes[i],
                             outcome_names[i]);
        }
    }
    return used;
}

static void failure_line(struct view *v)
{
    const struct tally_why *why = main_reason(v->t);
    char kinds[LINE_MAX / 2], text[REASON_MAX] = "";

    if (kinds_text(v->t, kinds, sizeof kinds) == 0) {
        return;
    }
    if (why != NULL) {
        log_escape(text, sizeof text, why->why, strlen(why->why));
    }
    snprintf(next_line(v), LINE_MAX, "not ok    %.180s%s%.90s", kinds,
             text[0] == '\0' ? "" : "; mostly: ", text);
}

static unsigned percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (unsigned)(100 * part / whole);
}

static void cluster_line(struct view *v)
{
    const struct cluster_point *c = &v->p->cluster;
    char suspended[40];

    if (!v->p->has_cluster) {
        return;
    }
    suspended[0] = '\0';
    if (c->n_suspended > 0) {
        snprintf(suspended, sizeof suspended, ", %llu suspended",
                 (unsigned long long)c->n_suspended);
    }
    snprintf(next_line(v), LINE_MAX,
             "cluster   %u workers, %u waiting, %u running%s, pages %u %% "
             "held, %u %% cached",
             c->n_workers, c->n_waiting, c->n_running, suspended,
             percent(c->pages_held, c->pages_total),
             percent(c->pages_cached, c->pages_total));
}

static void draw(struct view *v)
{
    struct progress *p = v->p;

    bar_line(v);
    rate_lines(v);
    latency_line(v);
    failure_line(v);
    cluster_line(v);
    if (p->n_drawn > 0) {
        fprintf(p->to, "\033[%uA", p->n_drawn);
    }
    for (unsigned i = 0; i < v->n; i++) {
        /* A character in the last column would wrap on some terminals. */
        fprintf(p->to, "%.*s\033[K\n", (int)fitting(v->lines[i], p->width - 1),
                v->lines[i]);
    }
    fputs("\033[J", p->to);
    p->n_drawn = v->n;
}

static void plain(struct view *v)
{
    FILE *to = v->p->to;

    rate_lines(v);
    latency_line(v);
    failure_line(v);
    cluster_line(v);
    fprintf(to, "%s", clock_text(v->p->now_us).s);
    if (v->end_us > 0) {
        fprintf(to, " of %s", clock_text(v->end_us).s);
    }
    for (unsigned i = 0; i < v->n; i++) {
        /* Without the spaces that align values on a terminal. */
        size_t name = (size_t)(strstr(v->lines[i], "  ") - v->lines[i]);
        const char *value = v->lines[i] + name;

        fprintf(to, "; %.*s%s", (int)name, v->lines[i],
                value + strspn(value, " ") - 1);
    }
    fputc('\n', to);
}

/* ---- the view ---- */

struct progress *progress_new(FILE *to, unsigned width, const char *title)
{
    struct progress *p = memory_must(calloc(1, sizeof *p));

    p->to = to;
    p->width = width;
    escape(p->title, title == NULL ? "" : title);
    return p;
}

static bool is_due(const struct progress *p)
{
    int64_t least = p->width > 0 ? DRAW_US : PLAIN_US;

    return p->drawn ? p->now_us - p->last_us >= least
                    : p->width > 0 || p->now_us >= least;
}

void progress_show(struct progress *p, const struct tally *t, int64_t now_us,
                   int64_t end_us)
{
    struct view v = {.p = p, .t = t, .end_us = end_us};

    p->now_us = now_us;
    if (!is_due(p)) {
        return;
    }
    p->drawn = true;
    p->last_us = now_us;
    recent_take(&p->recent, t, now_us, &v.f);
    (p->width > 0 ? draw : plain)(&v);
    fflush(p->to);
    recent_figures_fini(&v.f);
}

void progress_cluster(struct progress *p, const struct cluster_point *c)
{
    p->cluster = *c;
    p->has_cluster = true;
}

static void clear(struct progress *p)
{
    if (p->n_drawn > 0) {
        fprintf(p->to, "\033[%uA\033[J", p->n_drawn);
        p->n_drawn = 0;
    }
}

void progress_event(struct progress *p, const char *text)
{
    char line[LINE_MAX];

    escape(line, text);
    clear(p);
    fprintf(p->to, "%s: %s\n", clock_text(p->now_us).s, line);
    fflush(p->to);
    p->drawn = p->drawn && p->width == 0; /* lines are drawn again at once */
}

void progress_free(struct progress **p)
{
    if (*p == NULL) {
        return;
    }
    clear(*p);
    fflush((*p)->to);
    recent_fini(&(*p)->recent);
    free(*p);
    *p = NULL;
}

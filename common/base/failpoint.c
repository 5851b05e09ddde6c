/* The implementation of fail points.  Only programs of tests/faults contain
 * it. */
#include "common/base/failpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/affix.h"
#include "common/base/splitmix.h"

#define EXIT_SETUP   2
#define EXIT_CODES   255
#define SLEEP_MS_MAX 3600000
#define WORD         64 /* bytes of the longest word of a rule */

static const struct {
    const char *name;
    bool fails;
    const char *text;
} points[FAILPOINTS] = {
#define X(id, name, fails, text) {name, fails, text},
    FAILPOINT_MAP(X)
#undef X
};

/* The largest argument that an action takes in brackets; 0: no argument. */
static const struct {
    const char *name;
    uint32_t max;
} actions[FAILPOINT_ACTIONS] = {
    [FAILPOINT_KILL] = {"kill", 0},
    [FAILPOINT_STOP] = {"stop", 0},
    [FAILPOINT_SEGV] = {"segv", 0},
    [FAILPOINT_ABORT] = {"abort", 0},
    [FAILPOINT_EXIT] = {"exit", EXIT_CODES},
    [FAILPOINT_SLEEP] = {"sleep", SLEEP_MS_MAX},
    [FAILPOINT_SPIN] = {"spin", 0},
    [FAILPOINT_ERROR] = {"error", 0},
};

static struct failpoint_rules active;
static _Atomic uint64_t counts[FAILPOINTS];

/* ---- the grammar ---- */

/* Copies the text up to one of `ends` to out[WORD].  Returns false if the
 * text is empty or too long. */
static bool take_word(const char **at, const char *ends, char *out)
{
    size_t n = strcspn(*at, ends);

    if (n == 0 || n >= WORD) {
        return false;
    }
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n;
    return true;
}

/* Reads decimal digits only, min..max. */
static bool take_number(const char **at, uint64_t min, uint64_t max,
                        uint64_t *out)
{
    char *end;

    if (**at < '0' || **at > '9') {
        return false;
    }
    errno = 0;
    *out = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0 && *out >= min && *out <= max;
}

static enum status take_point(const char **at, struct failpoint_rule *r,
                              struct error *e)
{
    char word[WORD];
    unsigned i = 0;

    if (!take_word(at, "=;", word) || !skip_char(at, '=')) {
        return error_set(e, ST_INVALID_ARGUMENT, "POINT=ACTION is wanted");
    }
    while (i < FAILPOINTS && strcmp(points[i].name, word) != 0) {
        i++;
    }
    if (i == FAILPOINTS) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "there is no point %s; see --list-failpoints", word);
    }
    r->point = (enum failpoint)i;
    return ST_OK;
}

static enum status take_action(const char **at, struct failpoint_rule *r,
                               struct error *e)
{
    char word[WORD] = "";
    uint64_t of = 0;
    unsigned i = 0;

    (void)take_word(at, "(@%;", word);
    while (i < FAILPOINT_ACTIONS && strcmp(actions[i].name, word) != 0) {
        i++;
    }
    if (i == FAILPOINT_ACTIONS) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "\"%s\" is none of kill, stop, segv, abort, "
                         "exit(CODE), sleep(MS), spin, error",
                         word);
    }
    if (actions[i].max > 0 &&
        !(skip_char(at, '(') && take_number(at, 0, actions[i].max, &of) &&
          skip_char(at, ')'))) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s(N) is wanted, N at most %u", word, actions[i].max);
    }
    if (i == FAILPOINT_ERROR && !points[r->point].fails) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s cannot fail",
                         points[r->point].name);
    }
    r->action = (enum failpoint_action)i;
    r->of = (uint32_t)of;
    return ST_OK;
}

static bool take_chance(const char **at, struct failpoint_rule *r)
{
    uint64_t p, q;

    if (!take_number(at, 0, UINT32_MAX, &p) || !skip_char(at, '/') ||
        !take_number(at, 1, UINT32_MAX, &q) || p > q) {
        return false;
    }
    r->p = (uint32_t)p;
    r->q = (uint32_t)q;
    return !skip_char(at, '#') || take_number(at, 0, UINT64_MAX, &r->seed);
}

static enum status take_when(const char **at, struct failpoint_rule *r,
                             struct error *e)
{
    if (skip_char(at, '@') && !take_number(at, 1, UINT64_MAX, &r->nth)) {
        return error_set(e, ST_INVALID_ARGUMENT, "@N is wanted, N from 1");
    }
    if (r->nth == 0 && skip_char(at, '%') && !take_chance(at, r)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%%P/Q or %%P/Q#SEED is wanted, P at most Q");
    }
    if (**at != ';' && **at != '\0') {
        return error_set(e, ST_INVALID_ARGUMENT, "\"%s\" is too much", *at);
    }
    return ST_OK;
}

enum status failpoint_parse(const char *text, struct failpoint_rules *out,
                            struct error *e)
{
    const char *at = text != NULL ? text : "";

    *out = (struct failpoint_rules){.n = 0};
    while (*at != '\0') {
        struct failpoint_rule *r = &out->rule[out->n];
        enum status st;

        if (out->n == FAILPOINT_RULES) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "more than %d rules are too many",
                             FAILPOINT_RULES);
        }
        st = take_point(&at, r, e);
        st = st == ST_OK ? take_action(&at, r, e) : st;
        st = st == ST_OK ? take_when(&at, r, e) : st;
        if (st != ST_OK) {
            return error_wrap(e, "rule %u", out->n + 1);
        }
        out->n++;
        (void)skip_char(&at, ';'); /* a final ';' is allowed */
    }
    return ST_OK;
}

/* ---- when a rule applies ---- */

bool failpoint_due(const struct failpoint_rule *r, uint64_t count)
{
    if (r->nth > 0) {
        return count == r->nth;
    }
    return r->q == 0 ||
           splitmix_of(splitmix_of(r->seed ^ (uint64_t)r->point << 56) ^
                       count) %
                   r->q <
               r->p;
}

/* ---- actions ---- */

static void sleep_ms(uint32_t ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static void crash(int signal_number)
{
    signal(signal_number,
           SIG_DFL); /* a sanitizer may have installed a handler */
    raise(signal_number);
}

static void act(const struct failpoint_rule *r)
{
    switch (r->action) {
    case FAILPOINT_KILL:
        kill(getpid(), SIGKILL);
        break;
    case FAILPOINT_STOP:
        kill(getpid(), SIGSTOP);
        break;
    case FAILPOINT_SEGV:
        crash(SIGSEGV);
        break;
    case FAILPOINT_ABORT:
        crash(SIGABRT);
        break;
    case FAILPOINT_EXIT:
        _exit((int)r->of);
    case FAILPOINT_SLEEP:
        sleep_ms(r->of);
        break;
    case FAILPOINT_SPIN:
        for (volatile bool on = true; on;) {
        }
        break;
    case FAILPOINT_ERROR:
    case FAILPOINT_ACTIONS:
        break;
    }
}

bool failpoint_hit(enum failpoint point)
{
    uint64_t count;
    bool fails = false;

    if (active.n == 0) {
        return false;
    }
    count = atomic_fetch_add(&counts[point], 1) + 1;
    for (unsigned i = 0; i < active.n; i++) {
        const struct failpoint_rule *r = &active.rule[i];

        if (r->point != point || !failpoint_due(r, count)) {
            continue;
        }
        dprintf(STDERR_FILENO, "failpoint point=%s action=%s count=%llu\n",
                points[point].name, actions[r->action].name,
                (unsigned long long)count);
        act(r);
        fails = fails || r->action == FAILPOINT_ERROR;
    }
    return fails;
}

/* ---- the program ---- */

static void list(void)
{
    for (unsigned i = 0; i < FAILPOINTS; i++) {
        printf("%-30s %s\n", points[i].name, points[i].text);
    }
}

void failpoint_start(int argc, char **argv)
{
    struct error e;

    if (argc == 2 && strcmp(argv[1], "--list-failpoints") == 0) {
        list();
        exit(EXIT_SUCCESS);
    }
    if (failpoint_parse(getenv("SLUICE_FAILPOINTS"), &active, &e) != ST_OK) {
        fprintf(stderr, "%s: SLUICE_FAILPOINTS: %s\n",
                program_invocation_short_name, e.text);
        exit(EXIT_SETUP);
    }
}

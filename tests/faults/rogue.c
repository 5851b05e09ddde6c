/* rogue - Attacks of a faulty peer on real daemons.
 *
 *     rogue --list
 *     rogue CASE... --workers ENDPOINT --clients ENDPOINT [--model NAME]
 *     rogue CASE... --listen ENDPOINT      cases named router-*: a worker
 *                                          connects to it
 *     rogue CASE... --listen ENDPOINT --ctl PATH    cases named list-*
 *
 * Prints a line per case: its name, held or BROKEN, and the observation.  Exit
 * code: 0 if all daemons behave as proto/README.md requires, 1 if not, 2 on an
 * error in the command line. */
#include "tests/faults/rogue.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const struct rogue_table *const tables[] = {
    &rogue_hellos, &rogue_lies,    &rogue_clients,
    &rogue_raws,   &rogue_routers, &rogue_lists};

#define N_TABLES (sizeof tables / sizeof tables[0])

bool rogue_saw(struct rogue_at *at, bool as_wanted, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(at->saw, sizeof at->saw, fmt, args);
    va_end(args);
    return as_wanted;
}

const char *rogue_name(const char *what)
{
    static char names[8][64];
    static unsigned n;
    char *name = names[n % 8];

    snprintf(name, sizeof names[0], "%s-%d-%u", what, (int)getpid(), n++);
    return name;
}

void rogue_id(uint8_t id[16])
{
    (void)!getrandom(id, 16, 0);
    id[0] |= 1;
}

static int usage(const char *why)
{
    fprintf(stderr,
            "rogue: %s\n"
            "usage: rogue --list\n"
            "       rogue CASE... --workers ENDPOINT --clients ENDPOINT "
            "[--model NAME]\n"
            "       rogue CASE... --listen ENDPOINT [--ctl PATH]\n",
            why);
    return 2;
}

static const char *kind_name(enum rogue_needs needs)
{
    static const char *const names[] = {[ROGUE_ROUTER] = "router",
                                        [ROGUE_WORKER] = "worker",
                                        [ROGUE_CTL] = "ctl"};

    return names[needs];
}

static int list(void)
{
    for (size_t t = 0; t < N_TABLES; t++) {
        for (size_t i = 0; i < tables[t]->n; i++) {
            const struct rogue_case *c = &tables[t]->cases[i];

            printf("%-32s %-7s %s\n", c->name, kind_name(c->needs), c->rule);
        }
    }
    return 0;
}

static const struct rogue_case *find(const char *name)
{
    for (size_t t = 0; t < N_TABLES; t++) {
        for (size_t i = 0; i < tables[t]->n; i++) {
            if (strcmp(tables[t]->cases[i].name, name) == 0) {
                return &tables[t]->cases[i];
            }
        }
    }
    return NULL;
}

/* Stores an option's value.  Returns false if the option is unknown. */
static bool take_option(struct rogue_at *at, const char *name,
                        const char *value)
{
    const char **to = strcmp(name, "--workers") == 0   ? &at->workers
                      : strcmp(name, "--clients") == 0 ? &at->clients
                      : strcmp(name, "--listen") == 0  ? &at->listen
                      : strcmp(name, "--ctl") == 0     ? &at->ctl
                      : strcmp(name, "--model") == 0   ? &at->model
                                                       : NULL;

    if (to != NULL) {
        *to = value;
    }
    return to != NULL;
}

static bool can_run(const struct rogue_at *at, const struct rogue_case *c)
{
    switch (c->needs) {
    case ROGUE_ROUTER:
        return at->workers != NULL && at->clients != NULL;
    case ROGUE_WORKER:
        return at->listen != NULL;
    case ROGUE_CTL:
        return at->listen != NULL && at->ctl != NULL;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct rogue_at at = {.model = "tiny-hybrid"};
    const struct rogue_case *cases[128];
    unsigned n = 0, broken = 0;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return list();
    }
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            if (i + 1 == argc || !take_option(&at, argv[i], argv[i + 1])) {
                return usage(argv[i]);
            }
            i++;
        } else if (n == 128 || (cases[n++] = find(argv[i])) == NULL) {
            return usage(argv[i]);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        if (!can_run(&at, cases[i])) {
            return usage(cases[i]->name);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        bool held = cases[i]->run(&at, cases[i]);

        printf("%s %s: %s\n", cases[i]->name, held ? "held" : "BROKEN", at.saw);
        fflush(stdout);
        broken += !held;
    }
    return n == 0 ? usage("no case") : broken > 0;
}

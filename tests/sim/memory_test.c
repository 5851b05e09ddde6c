/* memory_test - No allocation of a cluster may fail without a sentence.
 *
 *     memory_test [--all] [--jobs N] [--seeds FROM..TO | --scripts |
 *                 --script NAME]
 *     memory_test --one SEED|SCRIPT ALLOCATION [RUN]
 *
 * Runs scripts and seeds in which a chosen allocation of the cores fails, alone
 * or with RUN that follow.  Whatever the simulator checks must hold: tokens,
 * ledgers, ends of requests.  Afterwards nothing that the cores allocated is
 * left.  By default a share of the allocations is tried, always the same one;
 * of the first script, every one.  --all tries every one.  With
 * SLUICE_MEMORY=all the default is every one of the scripts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "tests/sim/failing.h"
#include "tests/sim/sim.h"

#define SEEDS_FROM 1
#define SEEDS_TO   15
#define TRIES      4 /* of a seed, by default */
#define JOBS_MAX   64
#define RUN        30 /* allocations that fail after the first, in one of 3 */

/* A run: of a script, or of a seed. */
struct subject {
    const struct script *script; /* NULL: the seed */
    uint64_t seed;
    char name[32];
};

/* Allocation `at` fails, and `run` after it; at 0: none. */
struct failure {
    uint64_t at, run;
};

/* A process that runs with a failure. */
struct job {
    pid_t pid;
    struct failure failure;
};

struct tries {
    struct sim sim;
    struct subject subject;
    uint64_t first, step;      /* allocations of the subject that fail */
    bool both;                 /* each alone, and every third with a run */
    struct job jobs[JOBS_MAX]; /* [n_jobs] that run */
    uint32_t n_jobs, jobs_max;
    bool in_job;            /* this process is one of them, */
    struct failure failure; /* with this failure */
    uint64_t n_tried, n_failed;
};

static struct tries tries;

static void quiet(void *arg, enum log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void print_line(void *arg, enum log_level level, const char *line)
{
    (void)arg;
    (void)level;
    printf("%s\n", line);
}

static struct subject subject_of(const struct script *script, uint64_t seed)
{
    struct subject x = {.script = script, .seed = seed};

    if (script) {
        snprintf(x.name, sizeof(x.name), "%s", script->name);
    } else {
        snprintf(x.name, sizeof(x.name), "%" PRIu64, seed);
    }
    return x;
}

static bool simulate(const struct subject *x, bool verbose)
{
    struct sim *s = &tries.sim;

    sim_short = false;
    return x->script ? sim_play(s, x->script, verbose)
                     : sim_run(s, x->seed, (struct seeds_with){0}, verbose);
}

/* Prints what is wrong after a run, and returns whether nothing is. */
static bool check(const struct subject *x, const struct failure *f, bool fine)
{
    const struct sim *s = &tries.sim;
    const char *missed =
        fine && f->at == 0 && x->script ? x->script->missed(s) : NULL;

    if (!fine || missed) {
        printf("%s %" PRIu64 " %" PRIu64 ": %s\n", x->name, f->at, f->run,
               missed ? missed : s->what);
        fine = false;
    } else if (failing.live != 0) {
        printf("%s %" PRIu64 " %" PRIu64 ": %" PRId64 " allocations are left\n",
               x->name, f->at, f->run, failing.live);
        fine = false;
    }
    fflush(stdout);
    return fine;
}

/* ---- one process for each failure ---- */

/* Waits for one of the processes. */
static void reap(void)
{
    int code;
    pid_t pid = wait(&code);

    for (uint32_t i = 0; i < tries.n_jobs; i++) {
        const struct job *j = &tries.jobs[i];

        if (j->pid != pid) {
            continue;
        }
        if (!WIFEXITED(code) || WEXITSTATUS(code) > 1) {
            printf("%s %" PRIu64 " %" PRIu64 ": crashed\n", tries.subject.name,
                   j->failure.at, j->failure.run);
        }
        tries.n_failed += code != 0;
        tries.jobs[i] = tries.jobs[--tries.n_jobs];
    }
}

/* Goes on with the failure in a process of its own, since that may crash. */
static void try(uint64_t at, uint64_t run)
{
    struct job j = {.failure = {at, run}};

    if (tries.n_jobs == tries.jobs_max) {
        reap();
    }
    fflush(stdout);
    j.pid = fork();
    if (j.pid < 0) {
        perror("sim_memory_test: fork");
        exit(2);
    }
    if (j.pid == 0) {
        tries.in_job = true;
        tries.failure = j.failure;
        failing.fail_at = at;
        failing.run = run;
        failing.before = NULL;
        return;
    }
    tries.jobs[tries.n_jobs++] = j;
    tries.n_tried++;
}

static void before(uint64_t n)
{
    if (n < tries.first || (n - tries.first) % tries.step != 0) {
        return;
    }
    if (tries.both || n % 3 != 0) {
        try(n, 0);
    }
    if (n % 3 == 0 && !tries.in_job) {
        try(n, RUN);
    }
}

/* Runs the subject; at the allocations that are chosen, it goes on both with
 * and without a failure. */
static void try_subject(void)
{
    bool fine;

    failing = (struct failing){.before = before};
    fine =
        check(&tries.subject, &tries.failure, simulate(&tries.subject, false));
    if (tries.in_job) {
        _exit(!fine);
    }
    while (tries.n_jobs > 0) {
        reap();
    }
    tries.n_failed += !fine;
}

static void try_script(const struct script *script, bool all)
{
    tries.subject = subject_of(script, 0);
    tries.first = 1;
    tries.step = all ? 1 : script->step;
    tries.both = true;
    failing = (struct failing){0};
    (void)simulate(&tries.subject, false); /* makes what the simulator keeps */
    try_subject();
}

static void try_seed(uint64_t seed, bool all)
{
    tries.subject = subject_of(NULL, seed);
    failing = (struct failing){0};
    (void)simulate(&tries.subject, false);
    tries.step = all ? 1 : failing.n / TRIES + 1;
    tries.first = 1 + mix64(seed) % tries.step;
    tries.both = false;
    try_subject();
}

/* ---- the command line ---- */

static const struct script *script_of(const char *name)
{
    for (uint32_t i = 0; i < SCRIPTS; i++) {
        if (strcmp(scripts[i]->name, name) == 0) {
            return scripts[i];
        }
    }
    return NULL;
}

static bool run_one(int argc, char **argv)
{
    struct subject x =
        subject_of(script_of(argv[2]), strtoull(argv[2], NULL, 10));
    struct failure f = {.at = strtoull(argv[3], NULL, 10),
                        .run = argc > 4 ? strtoull(argv[4], NULL, 10) : 0};

    (void)simulate(&x, false);
    failing = (struct failing){.fail_at = f.at, .run = f.run};
    log_setup(LOG_DEBUG, print_line, NULL);
    return check(&x, &f, simulate(&x, true));
}

/* Returns whether tests/run --all runs this. */
static bool everything(void)
{
    const char *which = getenv("SLUICE_MEMORY");

    return which != NULL && strcmp(which, "all") == 0;
}

/* The scripts and the seeds to run. */
struct options {
    uint64_t from, to;
    bool all, scripts, seeds;
    const char *script; /* NULL: all */
};

static struct options parse(int argc, char **argv)
{
    struct options o = {SEEDS_FROM, SEEDS_TO, false, true, true, NULL};

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--script") == 0) {
            o.script = value;
            o.seeds = false;
        } else if (strcmp(argv[i], "--all") == 0) {
            o.all = true;
        } else if (strcmp(argv[i], "--scripts") == 0) {
            o.seeds = false;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            (void)sscanf(value, "%" SCNu64 "..%" SCNu64, &o.from, &o.to);
            o.scripts = false;
        } else if (strcmp(argv[i], "--jobs") == 0) {
            tries.jobs_max = (uint32_t)strtoul(value, NULL, 10);
        }
    }
    if (tries.jobs_max < 1 || tries.jobs_max > JOBS_MAX) {
        tries.jobs_max = 1;
    }
    return o;
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);

    log_setup(LOG_OFF, quiet, NULL);
    if (argc >= 4 && strcmp(argv[1], "--one") == 0) {
        return !run_one(argc, argv);
    }
    for (uint32_t i = 0; i < SCRIPTS && o.scripts; i++) {
        if (!o.script || strcmp(o.script, scripts[i]->name) == 0) {
            try_script(scripts[i], o.all || everything());
        }
    }
    for (uint64_t seed = o.from; seed <= o.to && o.seeds; seed++) {
        try_seed(seed, o.all);
    }
    printf("memory: %" PRIu64 " allocations failed, %" PRIu64 " faults\n",
           tries.n_tried, tries.n_failed);
    return tries.n_failed > 0;
}

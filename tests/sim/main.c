/* sluice-sim - Runs many seeds in several processes; prints one line of
 * verdict. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "tests/sim/sim.h"

#define JOBS_MAX      64
#define SEEDS_DEFAULT 3000 /* or $SLUICE_SIM_SEEDS */
/* Larger arrays come from the system and go back there: most of a worker's are
 * never touched in its short life, and would be zeroed otherwise. */
#define MMAP_BYTES (256 << 10)
#define SHOWN_MAX  20 /* limit on printed failures */
/* From this number of seeds on, a cell without a hit is a failure.  Cells of
 * stages have their own limit, because three seeds in ten have stages. */
#define CELLS_SEEDS       5000
#define STAGE_CELLS_SEEDS 20000

#ifdef SLUICE_PLANTS
enum plant plant_active = PLANT_NONE;
#endif

/* The share of one process. */
struct share {
    uint64_t next; /* current seed, or the first one left */
    uint64_t n_failed, first_failed;
    struct sim_counts counts;
};

struct task {
    uint64_t from, to;
    uint32_t jobs;
    bool verbose, print_hash, first; /* first: stop at a failure */
    struct seeds_with with;
    const char *regressions;
    struct share *share; /* [jobs], shared with the children */
};

static const struct sim *logging;

static void log_line(void *arg, enum log_level level, const char *line)
{
    (void)arg;
    (void)level;
    if (logging) {
        sim_log(logging, "  %s", line);
    }
}

static void add(struct sim_counts *to, const struct sim_counts *from)
{
    uint64_t *a = (uint64_t *)to;
    const uint64_t *b = (const uint64_t *)from;

    _Static_assert(sizeof(*to) % sizeof(uint64_t) == 0, "only counters");
    for (size_t i = 0; i < sizeof(*to) / sizeof(uint64_t); i++) {
        a[i] += b[i];
    }
}

static void report(const struct task *t, const struct sim *s)
{
    struct sim_options o; /* as drawn */

    options_draw(&o, s->seed, t->with);
    printf("seed %" PRIu64 ": %s", s->seed, s->what);
    if (s->failed_request >= 0) {
        printf(" (request %d)", s->failed_request);
    }
    printf(", at %.6f s, options %016" PRIx64 "\n",
           (double)(s->failed_us - SIM_START_US) / 1e6, options_hash(&o));
}

static void run_seed(const struct task *t, struct share *l, struct sim *s)
{
    bool fine;

    logging = t->verbose ? s : NULL;
    fine = sim_run(s, l->next, t->with, t->verbose);
    logging = NULL;
    add(&l->counts, &s->counts);
    if (t->print_hash) {
        printf("%" PRIu64 " %016" PRIx64 "\n", s->seed, s->hash);
    }
    if (!fine) {
        if (l->n_failed++ == 0) {
            l->first_failed = s->seed;
        }
        if (l->n_failed <= SHOWN_MAX) {
            report(t, s);
        }
    }
    fflush(stdout);
}

static bool any_failed(const struct task *t)
{
    for (uint32_t i = 0; i < t->jobs; i++) {
        if (t->share[i].n_failed) {
            return true;
        }
    }
    return false;
}

static void run_job(const struct task *t, struct share *l)
{
    struct sim *s = calloc(1, sizeof(*s));

    if (!s) {
        abort();
    }
    for (; l->next <= t->to; l->next += t->jobs) {
        if (t->first && any_failed(t)) {
            break;
        }
        run_seed(t, l, s);
    }
    free(s);
}

static pid_t start(const struct task *t, uint32_t i)
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        run_job(t, &t->share[i]);
        fflush(stdout);
        _exit(0);
    }
    if (pid < 0) {
        perror("sluice-sim: fork");
        exit(2);
    }
    return pid;
}

/* Reports the seed of a child that crashed, and continues after that seed. */
static bool crashed(const struct task *t, struct share *l, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return false;
    }
    if (l->n_failed++ == 0) {
        l->first_failed = l->next;
    }
    printf("seed %" PRIu64 ": crashed, %s %d\n", l->next,
           WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    l->next += t->jobs;
    return l->next <= t->to && l->n_failed < SHOWN_MAX;
}

static void run_jobs(const struct task *t)
{
    pid_t pids[JOBS_MAX];
    uint32_t running = t->jobs;
    int status;

    for (uint32_t i = 0; i < t->jobs; i++) {
        t->share[i].next = t->from + i;
        pids[i] = start(t, i);
    }
    while (running) {
        pid_t pid = wait(&status);

        for (uint32_t i = 0; i < t->jobs; i++) {
            if (pids[i] != pid) {
                continue;
            }
            if (crashed(t, &t->share[i], status)) {
                pids[i] = start(t, i);
            } else {
                running--;
            }
        }
    }
}

static uint32_t print_deeds(const struct cells *c, int from, int to)
{
    uint32_t empty = 0;

    for (int deed = from; deed < to; deed++) {
        printf(" %s=%" PRIu64, deed_names[deed], c->deeds[deed]);
        empty += c->deeds[deed] == 0;
    }
    return empty;
}

/* Prints the cells of replicas of several stages, and returns how many are
 * empty. */
static uint32_t print_stage_cells(const struct cells *c)
{
    uint32_t empty = 0;

    printf("; stages leader-lost/lost/edge-cut/stands");
    for (int state = CELL_SUBMITTED; state < CELL_STATES; state++) {
        if (state == CELL_SUSPENDED) {
            continue; /* replicas stay strict */
        }
        printf(" %s", cell_state_names[state]);
        for (int event = 0; event < STAGE_EVENTS; event++) {
            printf("%c%" PRIu64, event ? '/' : '=',
                   c->stage_hits[state][event]);
            empty += c->stage_hits[state][event] == 0;
        }
    }
    return empty + print_deeds(c, DEED_ASSEMBLED, DEED_GIVEN);
}

static uint32_t print_cells(const struct cells *c)
{
    uint32_t empty = 0;

    for (int state = 0; state < CELL_STATES; state++) {
        printf(" %s", cell_state_names[state]);
        for (int event = 0; event < CELL_EVENTS; event++) {
            printf("%c%" PRIu64, event ? '/' : '=', c->hits[state][event]);
            empty +=
                c->hits[state][event] == 0 &&
                cell_exists((enum cell_state)state, (enum cell_event)event);
        }
    }
    printf(";");
    return empty + print_deeds(c, 0, DEED_ASSEMBLED);
}

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Prints all cells.  Returns how many are empty but should not be. */
static uint32_t missed(const struct task *t, const struct sim_counts *c)
{
    uint32_t empty = print_cells(&c->cells), of_stages = 0;

    if (t->with.stages != SEEDS_NONE || t->with.offers != SEEDS_NONE) {
        of_stages = print_stage_cells(&c->cells);
    }
    if (t->with.offers != SEEDS_NONE) {
        printf("; offers");
        of_stages += print_deeds(&c->cells, DEED_GIVEN, DEED_WEB_STREAM);
    }
    if (t->with.gateways != SEEDS_NONE) {
        printf("; gateways");
        of_stages += print_deeds(&c->cells, DEED_WEB_STREAM, DEED_KEY_NAME);
    }
    if (t->with.keys != SEEDS_NONE) {
        printf("; keys");
        of_stages += print_deeds(&c->cells, DEED_KEY_NAME, DEEDS);
    }
    return (c->seeds < CELLS_SEEDS ? 0 : empty) +
           (c->seeds < STAGE_CELLS_SEEDS ? 0 : of_stages);
}

static bool verdict(const struct task *t, double seconds)
{
    struct sim_counts c = {0};
    uint64_t n_failed = 0, first = UINT64_MAX;
    uint32_t empty;
    bool fine;

    for (uint32_t i = 0; i < t->jobs; i++) {
        add(&c, &t->share[i].counts);
        n_failed += t->share[i].n_failed;
        if (t->share[i].n_failed && t->share[i].first_failed < first) {
            first = t->share[i].first_failed;
        }
    }
    printf("sim: %" PRIu64 " seeds, %" PRIu64 " failed, frames %" PRIu64
           " lost %" PRIu64 " doubled %" PRIu64 " reordered %" PRIu64
           " flipped %" PRIu64 " cuts %" PRIu64 "+%" PRIu64 " kills %" PRIu64
           "+%" PRIu64 " pauses %" PRIu64 " requests %" PRIu64
           " tokens %" PRIu64 " plans %" PRIu64 " failed-plans %" PRIu64
           " moved %" PRIu64 " (%" PRIu64 " with tokens)"
           "; cells cancel/remove/disconnect/worker-lost/router-lost",
           c.seeds, n_failed, c.frames, c.lost, c.doubled, c.reordered,
           c.flipped, c.cuts, c.one_ways, c.kills, c.router_kills, c.pauses,
           c.requests, c.tokens, c.plans, c.failed_plans, c.moved,
           c.moved_tokens);
    empty = missed(t, &c);
    fine = n_failed == 0 && empty == 0;
    printf("; %.0f seeds/s, %.0f s of virtual time; %s",
           (double)c.seeds / seconds, (double)c.virtual_ms / 1e3,
           fine ? "ok" : "FAILED");
    if (empty) {
        printf(", %u cells are empty", empty);
    }
    if (n_failed) {
        printf(", first at seed %" PRIu64, first);
    }
    printf("\n");
    return fine;
}

/* Finds the features with which the seed still draws these options: as drawn
 * now, or as older seeds found their faults: admission is strict, no model has
 * windows and no worker drafts.  Of those: as drawn, without keys, also without
 * gateways, also without offers, or without any. */
static bool find_options(struct task *t, uint64_t seed, uint64_t hash)
{
    static const struct seeds_with tries[] = {
        {SEEDS_DRAWN, SEEDS_DRAWN, SEEDS_DRAWN, SEEDS_DRAWN, SEEDS_DRAWN,
         SEEDS_DRAWN, SEEDS_DRAWN},
        {SEEDS_DRAWN, SEEDS_DRAWN, SEEDS_DRAWN, SEEDS_DRAWN, SEEDS_NONE,
         SEEDS_NONE, SEEDS_NONE},
        {SEEDS_DRAWN, SEEDS_DRAWN, SEEDS_DRAWN, SEEDS_NONE, SEEDS_NONE,
         SEEDS_NONE, SEEDS_NONE},
        {SEEDS_DRAWN, SEEDS_DRAWN, SEEDS_NONE, SEEDS_NONE, SEEDS_NONE,
         SEEDS_NONE, SEEDS_NONE},
        {SEEDS_DRAWN, SEEDS_NONE, SEEDS_NONE, SEEDS_NONE, SEEDS_NONE,
         SEEDS_NONE, SEEDS_NONE},
        {SEEDS_NONE, SEEDS_NONE, SEEDS_NONE, SEEDS_NONE, SEEDS_NONE, SEEDS_NONE,
         SEEDS_NONE}};
    struct sim_options o;

    for (uint32_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        t->with = tries[i];
        options_draw(&o, seed, t->with);
        if (options_hash(&o) == hash) {
            return true;
        }
    }
    t->with = tries[0];
    return false;
}

static uint64_t options_of(uint64_t seed)
{
    const struct seeds_with none = {SEEDS_NONE, SEEDS_NONE, SEEDS_NONE,
                                    SEEDS_NONE, SEEDS_NONE, SEEDS_NONE,
                                    SEEDS_NONE};
    struct sim_options o;

    options_draw(&o, seed, none);
    return options_hash(&o);
}

/* Runs lines of "seed options-hash sentence"; # begins a comment. */
static bool run_regressions(struct task *t)
{
    FILE *f = fopen(t->regressions, "r");
    char line[512];
    double start_s = now_s();

    if (!f) {
        fprintf(stderr, "sluice-sim: %s: %s\n", t->regressions,
                strerror(errno));
        exit(2);
    }
    while (fgets(line, sizeof(line), f)) {
        uint64_t seed, hash;

        if (sscanf(line, "%" SCNu64 " %" SCNx64, &seed, &hash) != 2) {
            continue;
        }
        if (!find_options(t, seed, hash)) {
            printf("stale: the seed now draws other options (hash without "
                   "stages %016" PRIx64 "): %s",
                   options_of(seed), line);
        }
        t->share[0].next = t->from = t->to = seed;
        run_job(t, &t->share[0]);
    }
    (void)fclose(f);
    return verdict(t, now_s() - start_s);
}

static void usage(void)
{
    printf(
        "usage: sluice-sim [OPTION]...\n"
        "  --seeds A..B        seeds, or a single seed A (default:\n"
        "                      1..$SLUICE_SIM_SEEDS, or 1..3000)\n"
        "  --jobs N            processes (default: 1)\n"
        "  --verbose           log of all events, for a single seed\n"
        "  --hash              hash of all deliveries, for each seed\n"
        "  --first             stop at the first failure\n"
        "  --plant NAME        planted bug to activate (default: NONE)\n"
        "  --list-plants       list of the planted bugs\n"
        "  --regressions FILE  seeds of FILE in place of --seeds\n"
        "  --stages WHICH      seeds with replicas of several stages: all,\n"
        "                      none or drawn (default: drawn, 3 in 10)\n"
        "  --offers WHICH      seeds with workers without layers at first:\n"
        "                      all, none or drawn (default: drawn, 1 in "
        "10)\n"
        "  --gateways WHICH    seeds with HTTP gateways: all, none or drawn\n"
        "                      (default: drawn, 1 in 4)\n"
        "  --keys WHICH        seeds whose nodes have keys: all, none or "
        "drawn\n"
        "                      (default: drawn, 1 in 4)\n"
        "  --expected WHICH    seeds with --admission expected: all, none or\n"
        "                      drawn (default: drawn, 1 in 3)\n"
        "  --windows WHICH     seeds whose models have window layers: all,\n"
        "                      none or drawn (default: drawn, 1 in 4)\n"
        "  --drafts WHICH      seeds whose workers draft: all, none or drawn\n"
        "                      (default: drawn, 1 in 2)\n");
}

static void list_plants(void)
{
#define X(name, text) printf("%s: %s\n", #name, text);
    PLANT_MAP(X)
#undef X
}

static bool set_plant(const char *name)
{
#ifdef SLUICE_PLANTS
#define X(plant, text)                \
    if (strcmp(name, #plant) == 0) {  \
        plant_active = PLANT_##plant; \
        return true;                  \
    }
    PLANT_MAP(X)
#undef X
#endif
    fprintf(stderr, "sluice-sim: unknown plant %s; see --list-plants\n", name);
    return false;
}

static bool parse_seeds(const char *text, struct task *t)
{
    char *end;

    t->from = t->to = strtoull(text, &end, 10);
    if (end[0] == '.' && end[1] == '.') {
        t->to = strtoull(end + 2, &end, 10);
    }
    return *end == '\0' && t->to >= t->from;
}

static bool parse_which(const char *text, enum seeds *which)
{
    static const char *const names[] = {
        [SEEDS_DRAWN] = "drawn", [SEEDS_NONE] = "none", [SEEDS_ALL] = "all"};

    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *which = (enum seeds)i;
            return true;
        }
    }
    return false;
}

static bool parse(int argc, char **argv, struct task *t)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(a, "--verbose") == 0) {
            t->verbose = true;
        } else if (strcmp(a, "--hash") == 0) {
            t->print_hash = true;
        } else if (strcmp(a, "--first") == 0) {
            t->first = true;
        } else if (strcmp(a, "--list-plants") == 0) {
            list_plants();
            exit(0);
        } else if (strcmp(a, "--seeds") == 0 && parse_seeds(value, t)) {
            i++;
        } else if (strcmp(a, "--stages") == 0 &&
                   parse_which(value, &t->with.stages)) {
            i++;
        } else if (strcmp(a, "--offers") == 0 &&
                   parse_which(value, &t->with.offers)) {
            i++;
        } else if (strcmp(a, "--gateways") == 0 &&
                   parse_which(value, &t->with.gateways)) {
            i++;
        } else if (strcmp(a, "--keys") == 0 &&
                   parse_which(value, &t->with.keys)) {
            i++;
        } else if (strcmp(a, "--expected") == 0 &&
                   parse_which(value, &t->with.expected)) {
            i++;
        } else if (strcmp(a, "--windows") == 0 &&
                   parse_which(value, &t->with.windows)) {
            i++;
        } else if (strcmp(a, "--drafts") == 0 &&
                   parse_which(value, &t->with.drafts)) {
            i++;
        } else if (strcmp(a, "--jobs") == 0) {
            t->jobs = (uint32_t)strtoul(value, NULL, 10);
            i++;
        } else if (strcmp(a, "--regressions") == 0) {
            t->regressions = value;
            i++;
        } else if (strcmp(a, "--plant") == 0 && set_plant(value)) {
            i++;
        } else {
            return false;
        }
    }
    if (t->verbose || t->print_hash || t->regressions) {
        t->jobs = 1;
    }
    return t->jobs >= 1 && t->jobs <= JOBS_MAX;
}

int main(int argc, char **argv)
{
    const char *seeds = getenv("SLUICE_SIM_SEEDS");
    struct task t = {.from = 1, .to = SEEDS_DEFAULT, .jobs = 1};
    double start_s = now_s();

    if (seeds) {
        t.to = strtoull(seeds, NULL, 10);
    }
    if (t.to < 1 || !parse(argc, argv, &t)) {
        usage();
        return 2;
    }
    t.share = mmap(NULL, t.jobs * sizeof(*t.share), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.share == MAP_FAILED) {
        perror("sluice-sim");
        return 2;
    }
    log_setup(t.verbose ? LOG_DEBUG : LOG_OFF, log_line, NULL);
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    if (t.regressions) {
        return run_regressions(&t) ? 0 : 1;
    }
    run_jobs(&t);
    return verdict(&t, now_s() - start_s) ? 0 : 1;
}

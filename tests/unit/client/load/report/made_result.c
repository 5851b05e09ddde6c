#include "tests/unit/client/load/report/made_result.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/client/load/figures/samples.h"

static char *copy(const char *text)
{
    char *new = strdup(text);

    assert(new != NULL);
    return new;
}

struct result made_result(void)
{
    struct result r = {.title = copy("a made result"),
                       .target = copy("tcp://127.0.0.1:7071"),
                       .model = copy("tiny-hybrid"),
                       .command =
                           copy("sluice-load --rate 100 --slo ttft=40ms"),
                       .objectives = {.ttft_us = 40000, .attain = 0.99},
                       .lag_max_us = 10000};

    return r;
}

struct run *made_run(struct result *r, enum run_role role, double load,
                     uint64_t n, double slow, bool mixed)
{
    struct run *run = result_add(r);
    struct draws d = {n + r->n_runs};

    run->role = role;
    run->load = load;
    run->plan = copy("100 requests/s, Poisson; 100 tokens in, 1..64 out");
    run->started = copy("2024-05-01T12:00:00Z");
    run->tally = tally_new(&r->objectives);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t gaps[SAMPLES_GAPS];
        struct sample s = sample_draw(&d, i, gaps);
        struct pulse p = {.at_us = s.due_us, .n_in_flight = (uint32_t)i % 30};

        if (!mixed) {
            int64_t ttft = (int64_t)(slow * 9000 * exp(draw_normal(&d) / 4));

            s = sample_ok(s.due_us, ttft, 1 + (uint32_t)draw_below(&d, 60),
                          (uint32_t)(slow * (double)draw_below(&d, 9000)),
                          gaps);
        }
        tally_sample(run->tally, &s, gaps);
        tally_pulse(run->tally, &p);
    }
    run->tally->counts.n_checked = n / 2;
    run->tally->counts.n_differ = mixed ? 3 : 0;
    return run;
}

void made_cluster(struct run *run)
{
    struct load_event e = {
        .at_us = 2500000, .text = "kill -9 4711", .exit_code = 0};

    for (int64_t i = 0; i < RESULT_POINTS + 100; i++) {
        const struct cluster_point p = {.at_us = i * 500000,
                                        .n_workers = 2,
                                        .n_waiting = (uint32_t)i,
                                        .pages_total = 4096,
                                        .pages_free = 4096 - (uint64_t)i,
                                        .slots_granted = 7,
                                        .windows_held = (uint64_t)i * 3,
                                        .n_suspended = (uint64_t)i % 100,
                                        .host_total = 64,
                                        .host_used = (uint64_t)i % 64};

        run_point(run, &p);
    }
    run_event(run, &e);
    e.at_us = 4000000;
    e.exit_code = -1;
    run_event(run, &e);
    run->audited = run->audit_ok = true;
    run->draft_rows = 1000;
    run->drafts_verified = 4000;
    run->drafts_accepted = 3220;
    snprintf(run->audit, sizeof run->audit,
             "every block and slot of 2 workers is accounted for");
}

void made_search(struct result *r)
{
    const struct search_options o = {
        .first = 8, .tolerance = 0.05, .attain = 0.99, .repeats = 3};
    double load;

    r->searched = true;
    search_init(&r->search, &o);
    while (search_next(&r->search, &load)) {
        enum run_role role = r->search.kind == SEARCH_CONFIRM  ? RUN_CONFIRM
                             : r->search.kind == SEARCH_BEYOND ? RUN_BEYOND
                                                               : RUN_TRIAL;

        made_run(r, role, load, 60, load > 30 ? 9 : 1, false);
        search_take(&r->search, load > 30 ? 200 : 400, 400, true);
    }
}

char *made_text(void (*print)(FILE *to, const struct result *r),
                const struct result *r)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    assert(f != NULL);
    print(f, r);
    fclose(f);
    return text;
}

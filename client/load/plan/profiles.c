#include <stddef.h>
#include <string.h>

#include "client/load/plan/plan.h"
#include "common/base/near.h"
#include "common/base/quote.h"

const struct plan_profile plan_profiles[] = {
    {"chat",
     "1024 tokens in, 256 out, one a second",
     {.rate = "1", .prompt = "1024", .output = "256"}},
    {"long",
     "16384 tokens in, 256 out, one each 10 s",
     {.rate = "0.1", .prompt = "16384", .output = "256"}},
    {"burst",
     "512 tokens in, 128 out, one a second and 8 more for 2 s of each 10 s",
     {.rate = "1", .bursts = "8x2s/10s", .prompt = "512", .output = "128"}},
    {"agent",
     "sessions of 4 to 8 turns that share a system prompt of 1024 tokens, "
     "think exp:2s, and branch",
     {.rate = "0.2",
      .prompt = "256..1024",
      .output = "lognormal:128,0.6",
      .prefix = "1024x4",
      .turns = "4..8",
      .turn_prompt = "lognormal:256,0.8",
      .turn_think = "exp:2s",
      .branches = "0.2x3"}},
    {.name = NULL},
};

static const struct plan_profile *find(const char *name)
{
    const struct plan_profile *p = plan_profiles;

    while (p->name != NULL && strcmp(p->name, name) != 0) {
        p++;
    }
    return p->name != NULL ? p : NULL;
}

static enum status refuse(const char *name, struct error *e)
{
    struct near near = near_to(name, strlen(name));

    for (const struct plan_profile *p = plan_profiles; p->name != NULL; p++) {
        near_offer(&near, p->name);
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "--profile %s is unknown; give %s%schat, long, burst, "
                     "agent or trace:FILE",
                     quote(name).text, near.best != NULL ? near.best : "",
                     near.best != NULL ? ", or one of " : "");
}

static void fill(const char **option, const char *value)
{
    if (*option == NULL) {
        *option = value;
    }
}

enum status plan_profile_apply(struct plan_options *o, struct error *e)
{
    const struct plan_profile *p;
    const struct plan_options *from;

    if (o->profile == NULL) {
        return ST_OK;
    }
    p = find(o->profile);
    if (p == NULL) {
        return refuse(o->profile, e);
    }
    from = &p->options;
    if (o->rate == NULL && o->concurrency == 0 && o->trace == NULL) {
        o->rate = from->rate;
        fill(&o->bursts, from->bursts);
    }
    fill(&o->output, from->output);
    fill(&o->turn_prompt, from->turn_prompt);
    fill(&o->turn_think, from->turn_think);
    if (o->dataset == NULL && o->trace == NULL) {
        fill(&o->prompt, from->prompt);
        fill(&o->prefix, from->prefix);
        fill(&o->turns, from->turns);
        fill(&o->branches, from->branches);
    }
    o->profile = NULL;
    return ST_OK;
}

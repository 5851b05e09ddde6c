#include "tests/sim/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

#define UNIT     64 /* tokens of a unit of the index */
#define RECENT   16 /* requests that a repeated prompt is taken from */
#define TENANTS  3
#define CUTS     2
#define BRANCHES 2

static void *allocate(size_t n)
{
    void *p = malloc(n + 1);

    if (!p) {
        abort();
    }
    return p;
}

static uint32_t longest(const struct sim *s, const struct sim_request *request)
{
    uint32_t context = s->options.models[request->model].context;
    uint32_t most = context - request->max_tokens;

    return most < s->options.prompt_max ? most : s->options.prompt_max;
}

static uint32_t token_of(const struct sim *s, const struct sim_request *request,
                         uint64_t x)
{
    return request->as_text
               ? 32 + (uint32_t)(x % 90)
               : (uint32_t)(x % s->options.models[request->model].vocab);
}

/* Token i of a family's text, or of a branch of it. */
static uint64_t text(const struct sim *s, uint64_t family, uint64_t branch,
                     uint32_t i)
{
    return mix64(s->seed * 3 + mix64(family << 40 | branch << 32 | i));
}

/* Draws what follows a common prefix. */
static void draw_rest(struct sim *s, struct sim_request *request, uint32_t from)
{
    for (uint32_t i = from; i < request->n_prompt; i++) {
        request->prompt[i] = token_of(s, request, rng_u64(&s->will));
    }
}

/* Cuts are at any position, not only at units. */
static void draw_family(struct sim *s, struct sim_request *request)
{
    uint32_t most = s->options.prompt_max, n = request->n_prompt;
    uint64_t family = rng_below(&s->will, s->options.pools.prompts.n_families);
    uint64_t which = rng_below(&s->will, CUTS + 1);
    uint64_t branch = rng_below(&s->will, BRANCHES + 1); /* the last: none */
    uint32_t cut = (uint32_t)(text(s, family, 8 + which, 0) % most) + 1;
    uint32_t end;

    cut = which == CUTS || cut > n ? n : cut;
    end = cut + (uint32_t)(text(s, family, 8 + which, 1) % most);
    end = branch == BRANCHES ? cut : end < n ? end : n;
    for (uint32_t i = 0; i < end; i++) {
        request->prompt[i] =
            token_of(s, request, text(s, family, i < cut ? 7 : branch, i));
    }
    draw_rest(s, request, end);
}

/* Finds a recent prompt that this request could have. */
static const struct sim_request *find_same(struct sim *s,
                                           const struct sim_request *request)
{
    uint32_t back = 1 + (uint32_t)rng_below(&s->will, RECENT);
    const struct sim_request *old;

    if (back > request->number) {
        return NULL;
    }
    old = &s->requests[request->number - back];
    return old->model == request->model && !old->web &&
                   old->defect == DEFECT_NONE && old->n_prompt > 0 &&
                   old->n_prompt <= longest(s, request)
               ? old
               : NULL;
}

static void draw_same(struct sim *s, struct sim_request *request,
                      const struct sim_request *old)
{
    uint32_t first = old->n_prompt < UNIT ? old->n_prompt : UNIT;

    request->as_text = old->as_text;
    request->n_prompt = old->n_prompt;
    request->prompt = allocate(old->n_prompt * sizeof(*old->prompt));
    memcpy(request->prompt, old->prompt,
           old->n_prompt * sizeof(*request->prompt));
    if (rng_below(&s->will, 3) == 0) {
        request->prompt[rng_below(&s->will, first)] =
            token_of(s, request, rng_u64(&s->will));
    }
}

/* Returns whether the request is one of those that must fail, whose length is
 * part of the reason. */
static bool is_odd(const struct sim_request *request)
{
    return request->defect == DEFECT_EMPTY ||
           request->defect == DEFECT_CONTEXT || request->defect == DEFECT_TOKEN;
}

void prompts_draw(struct sim *s, struct sim_request *request)
{
    const struct prompt_draw *d = &s->options.pools.prompts;
    const struct sim_request *old = NULL;
    bool family = !is_odd(request) && rng_chance(&s->will, d->family_of);

    if (!is_odd(request) && rng_chance(&s->will, d->same_of)) {
        old = find_same(s, request);
    }
    if (old) {
        draw_same(s, request, old);
        return;
    }
    if (family && rng_below(&s->will, 2)) { /* longer than most */
        uint32_t most = longest(s, request);

        request->n_prompt = (uint32_t)rng_range(&s->will, most / 2 + 1, most);
    }
    request->as_text = request->as_text && request->n_prompt <= SIM_PROMPT_MAX;
    request->prompt = allocate(request->n_prompt * sizeof(*request->prompt));
    if (family) {
        draw_family(s, request);
    } else {
        draw_rest(s, request, 0);
    }
    if (request->defect == DEFECT_TOKEN) {
        request->prompt[rng_below(&s->will, request->n_prompt)] =
            s->options.models[request->model].vocab;
    }
}

void prompts_draw_cache(struct sim *s, struct sim_request *request)
{
    const struct prompt_draw *d = &s->options.pools.prompts;

    request->no_cache = rng_chance(&s->will, d->no_cache_of);
    request->tenant = (uint32_t)rng_below(&s->will, d->n_tenants);
}

/* Copies the kinds of the old prompt, and marks its tokens as generated. */
static void copy_kinds(struct sim_request *request,
                       const struct sim_request *old, uint32_t known)
{
    request->generated = calloc(request->n_prompt + 1, 1);
    if (!request->generated) {
        abort();
    }
    for (uint32_t i = 0; i < known; i++) {
        request->generated[i] =
            i >= old->n_prompt || (old->generated && old->generated[i]);
    }
}

void prompts_follow_draws(struct sim_request *request,
                          const struct sim_request *old, uint32_t choice,
                          uint32_t known)
{
    uint32_t next = old->sampling.draw_index;

    next += known > old->n_prompt ? known - old->n_prompt : 0;
    for (uint32_t i = known; i < old->n_prompt; i++) {
        next -= old->generated && old->generated[i];
    }
    request->sampling.draw_index = next;
    request->sampling.draw_choice = old->sampling.draw_choice + choice;
}

bool prompts_follow(struct sim *s, struct sim_request *request,
                    const struct sim_request *old, uint32_t choice,
                    uint32_t known, uint32_t more, bool continues)
{
    uint32_t context = s->options.models[old->model].context;
    uint32_t n = known + more;

    if (n + request->max_tokens > context) {
        return false;
    }
    request->n_prompt = n;
    request->prompt = allocate(n * sizeof(*request->prompt));
    for (uint32_t i = 0; i < known; i++) {
        request->prompt[i] = i < old->n_prompt
                                 ? old->prompt[i]
                                 : old->choices[choice].got[i - old->n_prompt];
    }
    draw_rest(s, request, known);
    request->tenant = old->tenant;
    if (continues) {
        request->continues = true;
        request->from = old->number;
        request->from_choice = choice;
        request->n_before = known;
        s->requests[old->number].cut = true; /* its memory may be passed on */
        copy_kinds(request, old, known);
    }
    return true;
}

#include "tests/faults/catalogue.h"

#include <stdio.h>
#include <string.h>

#define VOCAB        4000 /* models/tiny-hybrid, without special tokens */
#define PROMPT_SHARE 12   /* prompt ids per token of the longest stream */

uint64_t catalogue_draw(uint64_t *state, uint64_t below)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static void make_prompt(struct entry *e, uint32_t k, uint32_t longest,
                        uint64_t *rng)
{
    bool is_long = k % 8 == 7; /* several prefill chunks */

    if (k % 6 == 5) {
        snprintf(e->text, sizeof e->text, "Once upon a time, on day %u,", k);
        e->request.text = e->text;
        e->request.n_text = strlen(e->text);
        return;
    }
    e->request.n_ids =
        is_long ? CATALOGUE_PROMPT - catalogue_draw(rng, CATALOGUE_PROMPT / 2)
                : 1 + catalogue_draw(rng, 60);
    if (e->request.n_ids > PROMPT_SHARE * longest) {
        e->request.n_ids = PROMPT_SHARE * longest;
    }
    for (size_t i = 0; i < e->request.n_ids; i++) {
        e->ids[i] = (uint32_t)catalogue_draw(rng, VOCAB);
    }
    e->request.ids = e->ids;
}

static void make_sampling(struct client_request *r, uint32_t k)
{
    r->has_seed = true;
    r->sampling.seed = 1000 + k;
    r->sampling.temperature = k % 3 == 0 ? 0 : 0.5f + 0.1f * (float)(k % 7);
    r->sampling.ignore_eos = k % 4 != 1;
    if (k % 5 == 1) {
        r->sampling.repetition_penalty = 1.2f;
        r->sampling.presence_penalty = 0.5f;
        r->sampling.frequency_penalty = 0.25f;
    }
    if (k % 5 == 2) {
        r->sampling.top_k = 40;
        r->sampling.top_p = 0.9f;
    }
    if (k % 5 == 3) {
        r->sampling.min_p = 0.05f;
    }
    r->sampling.n_top_logprobs = k % 9 == 4 ? 3 : 0;
    r->sampling.logprobs = k % 9 == 4;
    r->n = k % 12 == 2 ? CATALOGUE_CHOICES : 1;
    r->no_text = k % 10 == 9;
}

static void make_stops(struct entry *e, uint32_t k)
{
    static const char *const texts[2] = {" the ", "\n\n"};

    if (k % 7 != 3) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        e->stops[i] = (struct client_stop){texts[i], strlen(texts[i])};
    }
    e->request.stops = e->stops;
    e->request.n_stops = 2;
}

void catalogue_make(struct entry entries[CATALOGUE], uint32_t longest)
{
    static const uint32_t least[4] = {1, 10, 60, 150};
    static const uint32_t most[4] = {8, 60, 150, CATALOGUE_LONGEST};

    memset(entries, 0, CATALOGUE * sizeof *entries);
    for (uint32_t k = 0; k < CATALOGUE; k++) {
        struct entry *e = &entries[k];
        uint64_t rng = 77 + k;
        uint32_t n;

        e->request = client_request_default();
        e->request.model = "tiny-hybrid";
        make_prompt(e, k, longest, &rng);
        make_sampling(&e->request, k);
        make_stops(e, k);
        n = least[k % 4] +
            (uint32_t)catalogue_draw(&rng, most[k % 4] - least[k % 4] + 1);
        e->request.max_tokens = n < longest ? n : longest;
    }
}

/* try_prompt_route.c - the choice of experts of prompt tokens, and the sum of
 * their outputs; see try_prompt.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/try_prompt.h"

#define SAMPLES  48
#define GROUP_WG 1024
#define SUM_WG   256
#define MOST     7 /* tiles of 8 logits of a work-group */

/* ---- programs ---- */

cl_kernel try_prompt_build(struct try_prompt *r, const char *file,
                           const char *kernel, bool of_experts,
                           const char *defines)
{
    const struct try_layer *l = r->l;
    const bool nv = strncmp(file, "nv", 2) == 0;
    const char *const files[] = {"common.cl", nv ? "nv.cl" : file,
                                 nv ? file : NULL, NULL};
    char bits[64] = "";

    if (of_experts && l->bits) {
        snprintf(bits, sizeof(bits), "-DW_FORMAT=%u -DW_BITS=%u -DW_GROUP=%u",
                 l->format, l->bits, l->group);
    }
    return try_kernel(
        r->t, files, kernel,
        "-DH=%u -DI=0 -DEPS=1e-6f -DKV_DTYPE=1 -DW_DTYPE=1 -DOPERAND_DTYPE=1 "
        "-DBLOCK_TOKENS=16 -DMETA_ROWS=0 -DMETA_TOKENS=0 -DN_EXPERTS=%u "
        "-DTOP_K=%u -DTOP_K_NORMED=1 -DEXPERT_DIM=%u -DALTERNATE=%u "
        "-DSHARED=%u -DPAIRS=%u -DN_ALL=%u -DACTIVATION=%u "
        "-DCLAMP_LIMIT=7.0f -DCLAMP_ALPHA=1.702f %s %s",
        l->h, l->experts, l->top_k, l->dim, l->alternate, l->shared, r->pairs,
        r->all, l->activation, bits, defines);
}

/* most: tiles of 8 logits of a work-group. */
static void build_logits(struct try_prompt *r, uint32_t most)
{
    const uint32_t octets = (r->logit_rows + 7) / 8;
    char defines[64];

    snprintf(defines, sizeof(defines), "-DWG=%d -DMOST=%u", GROUP_WG, most);

    r->logits_of =
        (struct try_launch){try_prompt_build(r, "nv_route_prefill.cl",
                                             "experts_logits", false, defines),
                            2,
                            {(octets + most - 1) / most, 1},
                            {128, 1}};
}

bool try_prompt_route(struct try_prompt *r)
{
    char wg[32];

    build_logits(r, MOST);
    r->choose = (struct try_launch){try_prompt_build(r, "nv_route_prefill.cl",
                                                     "experts_choose", false,
                                                     "-DWG=1024 -DMOST=7"),
                                    1,
                                    {1},
                                    {128}};
    r->group = (struct try_launch){try_prompt_build(r, "nv_route_prefill.cl",
                                                    "experts_group", false,
                                                    "-DWG=1024 -DMOST=7"),
                                   1,
                                   {1},
                                   {GROUP_WG}};
    snprintf(wg, sizeof(wg), "-DWG=%u", SUM_WG);
    r->sum = (struct try_launch){
        try_prompt_build(r, "nv_experts_sum.cl", "experts_sum", false, wg),
        2,
        {(r->l->h / 4 + SUM_WG - 1) / SUM_WG, 1},
        {SUM_WG, 1}};
    return r->logits_of.kernel && r->choose.kernel && r->group.kernel &&
           r->sum.kernel;
}

/* ---- launches ---- */

static void set_logits(void *arg, uint32_t i)
{
    struct try_prompt *r = arg;
    const uint64_t z = 0;

    (void)i;
    r->logits_of.groups[1] = (r->n + 31) / 32;
    try_args(r->logits_of.kernel, "mUmUmUmUmUmUuu", r->logits, z, r->x, z,
             r->ss, z, r->gamma, z, r->router, z, r->gamma, TRY_NONE, r->first,
             r->n);
}

static void set_choose(void *arg, uint32_t i)
{
    struct try_prompt *r = arg;
    const uint64_t z = 0;

    (void)i;
    r->choose.groups[0] = (r->n + 3) / 4;
    try_args(r->choose.kernel, "mUmUmUmUuu", r->ids, z, r->weights, z,
             r->counts, z, r->logits, z, r->first, r->n);
}

static void set_group(void *arg, uint32_t i)
{
    struct try_prompt *r = arg;
    const uint64_t z = 0;

    (void)i;
    r->group.groups[0] = (r->n * r->pairs + GROUP_WG - 1) / GROUP_WG;
    try_args(r->group.kernel, "mUmUmUmUuuuu", r->order, z, r->tiles, z,
             r->counts, z, r->ids, z, r->first * r->pairs, r->n * r->pairs,
             try_prompt_tiles(r), r->tile->pairs);
}

static void set_sum(void *arg, uint32_t i)
{
    struct try_prompt *r = arg;
    const uint64_t z = 0;

    (void)i;
    r->sum.groups[1] = r->n;
    try_args(r->sum.kernel, "mUmUmUmUmUmUmUu", r->x, z, r->next, z, r->ss, z,
             r->y, z, r->weights, z, r->gamma, TRY_NONE, r->gamma, z, r->n);
}

/* ---- checks ---- */

double try_prompt_scale(uint32_t t)
{
    return 1.0 /
           sqrt(1.5 + (double)try_value(SEED_SS, t, 1.0f, TRY_F32) + TRY_EPS);
}

static void check_logits(struct try_prompt *r)
{
    const uint32_t h = r->l->h, rows = r->logit_rows;
    float *all = malloc((size_t)r->most * rows * 4), got[SAMPLES];
    double want[SAMPLES];

    try_must(all ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "logits");
    try_read(r->t, r->logits, 0, (size_t)r->most * rows * 4, all);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const uint32_t t = i < 2 ? r->most - 1 - i : i * 2654435761u % r->most;
        const uint32_t e = i < 4 ? rows - 1 - i % rows : i * 40503u % rows;

        want[i] = 0;
        for (uint32_t k = 0; k < h; k++) {
            const float v =
                try_value(SEED_X, (uint64_t)t * h + k, 1.0f, TRY_F32) *
                try_value(SEED_GAMMA, k, 1.0f, TRY_F32);

            want[i] +=
                (double)v * (double)try_value(SEED_ROUTER, (uint64_t)e * h + k,
                                              0.1f, TRY_BF16);
        }
        want[i] *= try_prompt_scale(t);
        got[i] = all[(size_t)t * rows + e];
    }
    try_near(r->t, "logits", got, want, SAMPLES, (h / 8 + 8) * 0x1p-24);
    free(all);
}

/* Each chosen expert has a logit not below those of the others. */
static void check_choice(struct try_prompt *r)
{
    const uint32_t rows = r->logit_rows, k = r->l->top_k;
    float *all = malloc((size_t)r->most * rows * 4);
    uint32_t wrong = 0;

    try_must(all ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "logits");
    try_read(r->t, r->logits, 0, (size_t)r->most * rows * 4, all);
    try_read(r->t, r->ids, 0, (size_t)r->most * r->pairs * 4, r->chosen);
    for (uint32_t t = 0; t < r->most; t++) {
        const float *l = all + (size_t)t * rows;
        const uint32_t *ids = r->chosen + (size_t)t * r->pairs;

        for (uint32_t i = 0; i < k; i++) {
            uint32_t before = 0;

            for (uint32_t e = 0; e < r->l->experts; e++) {
                before += l[e] > l[ids[i]] || (l[e] == l[ids[i]] && e < ids[i]);
            }
            wrong += before != i;
        }
        wrong += r->pairs > k && ids[k] != r->l->experts;
    }
    if (wrong) {
        printf("WRONG %s: %u experts\n", r->l->name, wrong);
        r->t->n_wrong++;
    }
    free(all);
}

/* Each pair is in one tile, of its expert, and no tile is too large. */
static void check_groups(struct try_prompt *r)
{
    const uint32_t first = r->first * r->pairs, n = r->n * r->pairs;
    const uint32_t n_tiles = try_prompt_tiles(r);
    uint32_t *order = malloc(n * 4), *of = malloc(n_tiles * 12);
    uint8_t *seen = calloc(1, n);
    uint32_t wrong = 0, all = 0;

    try_must(order && of && seen ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "tiles");
    try_read(r->t, r->order, 0, n * 4, order);
    try_read(r->t, r->tiles, 0, n_tiles * 12, of);
    for (uint32_t i = 0; i < n_tiles; i++) {
        const uint32_t count = of[i * 3 + 2];

        wrong += count > r->tile->pairs;
        for (uint32_t p = 0; p < count && of[i * 3 + 1] + p < n; p++) {
            const uint32_t pair = order[of[i * 3 + 1] + p];

            if (pair < first || pair >= first + n || seen[pair - first]++ ||
                r->chosen[pair] != of[i * 3]) {
                wrong++;
            }
            all++;
        }
    }
    if (wrong || all != n) {
        printf("WRONG %s: %u of %u pairs are not in their tile, %u are\n",
               r->l->name, wrong, n, all);
        r->t->n_wrong++;
    }
    free(order);
    free(of);
    free(seen);
}

void try_prompt_alone(struct try_prompt *r)
{
    const size_t row = r->logit_rows * 4, all = r->most * row;
    uint8_t *want = malloc(all), *got = malloc(all);
    const uint32_t ranges[][2] = {{1, 1}, {r->most - 3, 3}, {5, 33}};

    try_must(want && got ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "logits");
    try_read(r->t, r->logits, 0, all, want);
    for (uint32_t i = 0; i < 3; i++) {
        r->first = ranges[i][0];
        r->n = ranges[i][1];
        try_repoison(r->t, r->logits, all);
        set_logits(r, 0);
        try_run(r->t, &r->logits_of);
        try_read(r->t, r->logits, 0, all, got);
        try_same(r->t, "logits alone", got + r->first * row,
                 want + r->first * row, r->n * row);
    }
    r->first = 0;
    r->n = r->most;
    set_logits(r, 0);
    try_run(r->t, &r->logits_of);
    free(want);
    free(got);
}

void try_prompt_sum(struct try_prompt *r)
{
    const struct try_layer *l = r->l;
    const size_t n = (size_t)r->most * l->h;
    struct try_launch portable = {
        try_prompt_build(r, "route.cl", "experts_sum", false, "-DWG=64"),
        2,
        {(l->h / 8 + 63) / 64, r->most},
        {64, 1}};
    const size_t bytes[] = {n * 4, n * 2, n / 8 * 4};
    const cl_mem of[] = {r->x, r->next, r->ss};
    static const char *const names[] = {"sum", "sum's operand",
                                        "sum's squares"};
    const uint64_t z = 0;
    uint8_t *got[2][3];

    for (uint32_t i = 0; i < 2 && portable.kernel; i++) {
        try_refill(r->t, r->x, TRY_F32, n, SEED_X, 1.0f);
        if (i == 0) {
            try_args(portable.kernel, "mUmUmUmUmUmUmUu", r->x, z, r->next, z,
                     r->ss, z, r->y, z, r->weights, z, r->gamma, TRY_NONE,
                     r->gamma, z, r->most);
            try_run(r->t, &portable);
        } else {
            set_sum(r, 0);
            try_run(r->t, &r->sum);
        }
        for (uint32_t b = 0; b < 3; b++) {
            got[i][b] = malloc(bytes[b]);
            try_must(got[i][b] ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "sums");
            try_read(r->t, of[b], 0, bytes[b], got[i][b]);
        }
    }
    for (uint32_t b = 0; b < 3 && portable.kernel; b++) {
        try_same(r->t, names[b], got[1][b], got[0][b], bytes[b]);
        free(got[0][b]);
        free(got[1][b]);
    }
}

void try_prompt_choice(struct try_prompt *r)
{
    set_logits(r, 0);
    try_run(r->t, &r->logits_of);
    check_logits(r);
    set_choose(r, 0);
    try_run(r->t, &r->choose);
    set_group(r, 0); /* leaves the counts at 0 */
    try_run(r->t, &r->group);
    check_choice(r);
}

void try_prompt_group(struct try_prompt *r)
{
    set_choose(r, 0);
    try_run(r->t, &r->choose);
    set_group(r, 0);
    try_run(r->t, &r->group);
    check_groups(r);
}

/* ---- times ---- */

/* choose comes last, as it leaves counts. */
void try_prompt_times(struct try_prompt *r)
{
    printf("%-20s logits %.1f us", r->l->name,
           try_chain(r->t, &r->logits_of, set_logits, r));
    printf(", group %.1f us", try_chain(r->t, &r->group, set_group, r));
    printf(", sum %.1f us", try_chain(r->t, &r->sum, set_sum, r));
    printf(", choose %.1f us\n", try_chain(r->t, &r->choose, set_choose, r));
}

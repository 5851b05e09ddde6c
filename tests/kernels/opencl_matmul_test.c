/* Tests which kernels the opencl backend chooses for products, on devices that
 * this machine does not have.
 *
 * The linker puts the functions __wrap_.. below in front of those that build
 * and launch (-Wl,--wrap): a compiler that rejects chosen programs, and
 * launches that are only recorded. */
#include <stdio.h>
#include <string.h>

#include "common/model/weight_format.h"
#include "kernels/opencl/chain.h"
#include "kernels/opencl/experts.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/program.h"
#include "kernels/opencl/matmul.h"
#include "kernels/opencl/operators.h"
#include "tests/unit/cmocka.h"

#define LAYERS_MAX (MATMUL_CHOICES / 4 + 1)
#define MADE_MAX   2048
#define OTHERS     64 /* most programs and kernels of other operators */

/* ---- a driver that can fail ---- */

struct made {
    struct opencl_kernel kernel; /* kernel of the first launch */
    char program[512];
};

static struct made made[MADE_MAX];
static uint32_t n_made;
static const char *refused[2]; /* rejects programs with all of these in their
                                * text */
static const struct made *launched;

static bool is_refused(const char *program)
{
    return refused[0] && strstr(program, refused[0]) &&
           (!refused[1] || strstr(program, refused[1]));
}

/* Chooses as opencl_choose() does: one kernel for a variant and a program. */
enum status __wrap_opencl_choose(struct opencl *c, struct opencl_kernel **out,
                                 const struct opencl_variant *table, uint32_t n,
                                 const struct opencl_shape *shape,
                                 const char *defines, struct error *e);
enum status __wrap_opencl_choose(struct opencl *c, struct opencl_kernel **out,
                                 const struct opencl_variant *table, uint32_t n,
                                 const struct opencl_shape *shape,
                                 const char *defines, struct error *e)
{
    struct made *m = &made[n_made];
    int used;

    (void)shape;
    assert_int_equal(n, 1);
    if (table->fits && !table->fits(c, NULL)) {
        return error_set(e, ST_INTERNAL, "no kernel fits");
    }
    assert_true(n_made < MADE_MAX);
    used = snprintf(m->program, sizeof m->program, "%s %u %u %u %s ",
                    table->file, table->wg, table->tile_rows, table->tile_cols,
                    defines ? defines : "");
    assert_in_range(used, 1, sizeof m->program - 1);
    if (is_refused(m->program)) {
        return error_set(e, ST_INTERNAL, "refused");
    }
    m->kernel = (struct opencl_kernel){.variant = table};
    for (uint32_t i = 0; i < n_made; i++) {
        if (made[i].kernel.variant == table &&
            strcmp(made[i].program, m->program) == 0) {
            *out = &made[i].kernel;
            return ST_OK;
        }
    }
    *out = &m->kernel;
    n_made++;
    return ST_OK;
}

void __wrap_opencl_scratch(struct opencl *c, enum opencl_part part,
                           struct opencl_tensor *out, size_t rows, size_t cols,
                           size_t item);
void __wrap_opencl_scratch(struct opencl *c, enum opencl_part part,
                           struct opencl_tensor *out, size_t rows, size_t cols,
                           size_t item)
{
    (void)c, (void)part, (void)out, (void)rows, (void)cols, (void)item;
}

/* Records launches of products only, and only if there is anything to
 * compute. */
void __wrap_opencl_launch(struct opencl_call *a, uint32_t dims,
                          const size_t *global, const size_t *local,
                          uint64_t bytes);
void __wrap_opencl_launch(struct opencl_call *a, uint32_t dims,
                          const size_t *global, const size_t *local,
                          uint64_t bytes)
{
    (void)local, (void)bytes;
    if (dims == 2 && global[1] > 0) {
        launched = (const struct made *)(const void *)a->kernel;
    }
}

static uint32_t count_programs(void)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_made; i++) {
        uint32_t j = 0;

        while (strcmp(made[j].program, made[i].program) != 0) {
            j++;
        }
        n += i == j;
    }
    return n;
}

/* ---- a shard ---- */

struct fixture {
    struct shard_weights w;
    struct opencl_layer layers[LAYERS_MAX];
    struct opencl_operators all;
};

static struct opencl_tensor matrix(uint32_t rows, uint32_t cols)
{
    static int memory; /* memory exists, and is never read */

    return (struct opencl_tensor){.mem = (cl_mem)(void *)&memory,
                                  .item = 2,
                                  .dtype = DTYPE_BF16,
                                  .rows = rows,
                                  .cols = cols};
}

/* Shapes of Qwen3.5-0.8B. */
static struct opencl_layer layer_of(enum mixer_kind kind)
{
    struct opencl_layer l = {.kind = kind,
                             .gate_up = matrix(7168, 1024),
                             .down = matrix(1024, 3584)};

    if (kind == MIXER_ATTENTION) {
        l.attention.in = matrix(5120, 1024);
        l.attention.o = matrix(1024, 2048);
    } else {
        l.deltanet.in = matrix(8224, 1024);
        l.deltanet.out = matrix(1024, 2048);
    }
    return l;
}

/* Makes a shard on an NVIDIA device, or another one for 0, with nothing
 * rejected. */
static void make_shard(struct fixture *f, uint32_t nvidia)
{
    memset(f, 0, sizeof *f);
    memset(refused, 0, sizeof refused);
    n_made = 0;
    f->w.end = 2;
    f->w.shape.hidden = 1024;
    f->layers[0] = layer_of(MIXER_DELTANET);
    f->layers[1] = layer_of(MIXER_ATTENTION);
    f->all.shared.w = &f->w;
    f->all.shared.model.layers = f->layers;
    f->all.shared.model.head = matrix(248320, 1024);
    f->all.shared.device.nvidia = nvidia;
    f->all.shared.device.units = 132;
    f->all.shared.health.failed.code =
        ST_UNAVAILABLE; /* so that arguments are not set */
}

static void refuse(const char *a, const char *b)
{
    refused[0] = a;
    refused[1] = b;
}

static void set_up_shard(struct fixture *f)
{
    struct error e;

    if (opencl_matmul_setup(&f->all.shared, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

/* Returns the arithmetic that computes a product of w: one per file, but
 * wgmma's may differ. */
static const char *arithmetic(struct fixture *f, const struct opencl_tensor *w,
                              uint32_t n_gen, uint32_t n_prompt)
{
    const struct opencl_layer *l = f->layers;
    const struct opencl_tensor absent = {0};

    f->all.shared.step.n_gen = n_gen;
    f->all.shared.step.n_tokens = n_gen + n_prompt;
    launched = NULL;
    if (w == &l[0].gate_up) {
        opencl_project_silu(&f->all.shared, w, &absent);
    } else if (w == &l[0].deltanet.in || w == &l[1].attention.in) {
        opencl_project(&f->all.shared, w, &absent, &absent);
    } else {
        opencl_project_add(&f->all.shared, &absent, w, &absent, &absent);
    }
    assert_non_null(launched);
    return strstr(launched->program, "-DWGMMA=1")
               ? "wgmma"
               : launched->kernel.variant->file;
}

/* The arithmetic must be the same for any number of tokens, in either kind. */
static void check_one_arithmetic(struct fixture *f)
{
    static const uint32_t tokens[] = {1,   2,   8,    9,    32,  33,
                                      64,  65,  128,  129,  200, 256,
                                      257, 512, 1024, 1025, 5000};
    const struct opencl_layer *l = f->layers;
    const struct opencl_tensor *of[] = {&l[0].deltanet.in, &l[0].deltanet.out,
                                        &l[1].attention.in, &l[0].gate_up,
                                        &l[0].down};

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *gen = arithmetic(f, of[i], 1, 0);
        const char *prompt = arithmetic(f, of[i], 0, 1);

        for (size_t j = 0; j < sizeof tokens / sizeof *tokens; j++) {
            assert_string_equal(arithmetic(f, of[i], tokens[j], 0), gen);
            assert_string_equal(arithmetic(f, of[i], 0, tokens[j]), prompt);
        }
    }
}

/* ---- tests ---- */

/* Whatever the compiler rejects, on any device: a token's bits do not depend on
 * the number of other tokens. */
static void test_one_arithmetic(void **state)
{
    static const char gate_up[] = "-DN=3584 -DK=1024 ";
    static const struct {
        const char *a, *b;
    } of[] = {
        {NULL, NULL},
        {"-DTOKENS=1 ", NULL},
        {"-DTOKENS=8 ", gate_up},
        {"-DTOKENS=32 ", gate_up},
        {"-DTILE_T=128 ", gate_up},
        {"-DTILE_W=256 ", NULL},
        {"-DWGMMA=1 ", gate_up},
        {"-DWGMMA=1 -DTILE_T=64 ", NULL},
        {"-DTILE_W=32 ", gate_up},
        {"-DROUND=2 ", NULL},
        {"nv_matmul_prefill", NULL},
        {"nv_norm_fold", NULL},
    };
    static const uint32_t devices[] = {0, 75, 80, 86, 90, 100, 120};
    struct fixture f;

    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        for (size_t j = 0; j < sizeof of / sizeof *of; j++) {
            make_shard(&f, devices[i]);
            refuse(of[j].a, of[j].b);
            set_up_shard(&f);
            check_one_arithmetic(&f);
            opencl_matmul_free(&f.all.shared);
        }
    }
}

/* Only a product that is rejected, or cannot be cut, becomes portable. */
static void test_refused_alone(void **state)
{
    struct fixture f;

    (void)state;
    make_shard(&f, 90);
    refuse("-DTOKENS=32 ", "-DN=3584 -DK=1024 ");
    set_up_shard(&f);
    assert_string_equal(arithmetic(&f, &f.layers[0].gate_up, 1, 0),
                        "products+matmul");
    assert_string_equal(arithmetic(&f, &f.layers[0].gate_up, 0, 1), "wgmma");
    assert_string_equal(arithmetic(&f, &f.layers[0].down, 1, 0),
                        "nv_matmul_decode");
    assert_false(opencl_matmul_decodes_nv(&f.all.shared, &f.layers[0].gate_up));
    assert_true(opencl_matmul_decodes_nv(&f.all.shared, &f.layers[0].down));
    opencl_matmul_free(&f.all.shared);
    make_shard(&f, 86);
    set_up_shard(&f);
    assert_string_equal(arithmetic(&f, &f.layers[0].gate_up, 0, 1),
                        "nv_matmul_prefill");
    assert_true(opencl_matmul_decodes_nv(&f.all.shared, &f.layers[0].gate_up));
    opencl_matmul_free(&f.all.shared);
}

static void expect_chains(struct fixture *f, bool first, bool last)
{
    const struct opencl_tensor y = {0};
    struct error e;

    set_up_shard(f);
    assert_int_equal(opencl_chain_setup(&f->all.shared, &e), ST_OK);
    f->all.shared.step.n_gen = f->all.shared.step.n_tokens = 1;
    assert_int_equal(opencl_chain_takes(&f->all.shared, 0, &y), first);
    assert_int_equal(opencl_chain_takes(&f->all.shared, 1, &y), last);
    opencl_chain_free(&f->all.shared);
    opencl_matmul_free(&f->all.shared);
}

/* A single token uses a chain, with the same bits as among others.  So there is
 * no chain where a product has other kernels. */
static void test_chains(void **state)
{
    struct fixture f;

    (void)state;
    make_shard(&f, 90);
    expect_chains(&f, true, true);
    make_shard(&f, 90);
    refuse("-DTOKENS=8 ", "-DN=3584 -DK=1024 ");
    expect_chains(&f, false, false);
    make_shard(&f, 90);
    refuse("-DTOKENS=32 ", "-DN=5120 -DK=1024 "); /* in of the last layer */
    expect_chains(&f, false, true);
    make_shard(&f, 90);
    refuse("nv_matmul_prefill", NULL);
    expect_chains(&f, true, true);
    make_shard(&f, 90); /* two products before the last mixer */
    f.layers[1].attention.rest[0] = matrix(1024, 1024);
    expect_chains(&f, false, true);
    make_shard(&f, 90);
    f.w.shape.activation.kind = ACTIVATION_GELU;
    expect_chains(&f, false, false);
    make_shard(&f, 90);
    f.layers[0].ffn_norm = matrix(1, 1024);
    expect_chains(&f, false, true);
}

/* Makes the last layer's feed-forward one of experts, with NVIDIA's kernels. */
static void make_experts(struct fixture *f, struct opencl_experts *x,
                         struct experts_kernels kernels[2])
{
    static struct opencl_kernel route;
    struct opencl_layer *l = &f->layers[1];

    make_shard(f, 90);
    *x = (struct opencl_experts){.layers = kernels};
    memset(kernels, 0, 2 * sizeof *kernels);
    kernels[1].n_ways = EXPERTS_WAYS;
    kernels[1].route[0] = &route;
    f->all.experts = x;
    f->w.shape.n_experts = 8;
    f->w.shape.top_k = 2;
    f->w.shape.expert_dim = 512;
    l->ffn = FFN_EXPERTS;
    l->gate_up = l->down = (struct opencl_tensor){0};
    l->experts.router = matrix(8, 1024);
    l->experts.gate_up = matrix(8 * 1024, 1024);
    l->experts.down = matrix(8 * 1024, 512);
}

/* A layer with experts is chained if NVIDIA's kernels compute these, and if
 * nothing but the router is between its products. */
static void test_chains_of_experts(void **state)
{
    struct experts_kernels kernels[2];
    struct opencl_experts x;
    struct fixture f;
    struct opencl_layer *l = &f.layers[1];

    (void)state;
    make_experts(&f, &x, kernels);
    expect_chains(&f, true, true);
    make_experts(&f, &x, kernels);
    kernels[1].n_ways = EXPERTS_WAYS - 1;
    expect_chains(&f, true, false);
    make_experts(&f, &x, kernels);
    kernels[1].route[0] = NULL;
    expect_chains(&f, true, false);
    make_experts(&f, &x, kernels);
    l->experts.router_bias = matrix(1, 8);
    expect_chains(&f, true, false);
    make_experts(&f, &x, kernels);
    l->experts.down_bias = matrix(8, 1024);
    expect_chains(&f, true, false);
    make_experts(&f, &x, kernels);
    l->experts.router.dtype = DTYPE_F32;
    expect_chains(&f, true, false);
    make_experts(&f, &x, kernels);
    l->gate_up = matrix(1024, 1024); /* a shared expert of another form */
    expect_chains(&f, true, false);
    make_experts(&f, &x, kernels);
    f.w.shape.gate_up_alternate = true;
    expect_chains(&f, true, false);
    make_experts(&f, &x, kernels);
    f.w.shape.n_experts = f.w.shape.top_k = 33;
    l->experts.gate_up = matrix(33 * 1024, 1024);
    l->experts.down = matrix(33 * 1024, 512);
    expect_chains(&f, true, false);
    make_experts(&f, &x, kernels);
    l->experts.down.bits = 8;
    expect_chains(&f, true, false);
}

static void quantise(struct opencl_tensor *w, uint32_t bits, uint32_t group)
{
    w->item = 1;
    w->bits = bits;
    w->group = group;
}

static void make_quantised(struct fixture *f, uint32_t bits, uint32_t group)
{
    make_shard(f, 90);
    quantise(&f->layers[0].deltanet.in, bits, group);
    quantise(&f->layers[0].deltanet.out, bits, group);
    quantise(&f->layers[1].attention.in, bits, group);
    quantise(&f->layers[1].attention.o, bits, group);
    for (size_t i = 0; i < 2; i++) {
        quantise(&f->layers[i].gate_up, bits, group);
        quantise(&f->layers[i].down, bits, group);
    }
}

/* A chain also serves weights of few bits, if all four matrices are quantised
 * alike. */
static void test_chains_of_few_bits(void **state)
{
    struct fixture f;

    (void)state;
    make_quantised(&f, 8, 64);
    expect_chains(&f, true, true);
    make_quantised(&f, 4, 32);
    expect_chains(&f, true, true);
    make_quantised(&f, 8, 64);
    quantise(&f.layers[1].attention.in, 4, 64);
    expect_chains(&f, false, true);
    make_quantised(&f, 8, 64);
    quantise(&f.layers[1].attention.in, 8, 32);
    expect_chains(&f, false, true);
    make_quantised(&f, 8, 64);
    quantise(&f.layers[1].down, 0, 0);
    expect_chains(&f, true, false);
}

/* The MTP layer has steps of its own: the last layer's chain ends before it,
 * even if the matrix of its first product has another form. */
static void test_chains_before_mtp_layer(void **state)
{
    const struct mtp_weights mtp = {0};
    struct fixture f;

    (void)state;
    make_shard(&f, 90);
    f.w.mtp = &mtp;
    f.all.shared.model.mtp.fc = matrix(1024, 2048);
    f.layers[2] = layer_of(MIXER_ATTENTION);
    quantise(&f.layers[2].attention.in, 8, 64);
    expect_chains(&f, true, true);
}

/* n attention layers whose matrices all have different shapes; 4 each. */
static void make_shapes(struct fixture *f, uint32_t n)
{
    make_shard(f, 0);
    f->w.end = n;
    f->all.shared.model.head.mem = NULL;
    for (uint32_t i = 0; i < n; i++) {
        struct opencl_layer *l = &f->layers[i];

        *l = layer_of(MIXER_ATTENTION);
        l->attention.in.rows += 8 * i;
        l->attention.o.rows += 8 * i;
        l->gate_up.rows += 8 * i;
        l->down.rows += 8 * i;
    }
}

/* No model's matrices have so many shapes and forms; more are an error. */
static void test_most_choices(void **state)
{
    struct fixture f;
    struct error e;

    (void)state;
    make_shapes(&f, MATMUL_CHOICES / 4);
    set_up_shard(&f);
    assert_int_equal(f.all.matmul->n_choices, MATMUL_CHOICES);
    opencl_matmul_free(&f.all.shared);
    make_shapes(&f, MATMUL_CHOICES / 4 + 1);
    assert_int_equal(opencl_matmul_setup(&f.all.shared, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text,
                        "the shard stores matrices in more than 432 forms");
    opencl_matmul_free(&f.all.shared);
}

#define DTYPE_FORMS 7 /* plain ones and affine ones of a dtype */

/* Sets the i-th form of a matrix; bf16 forms come first. */
static void store_as(struct opencl_tensor *t, uint32_t i)
{
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};

    if (i >= 3 * DTYPE_FORMS) {
        t->format = (enum weight_format)(WEIGHT_FP8 + i - 3 * DTYPE_FORMS);
        t->bits = weight_format_bits(t->format);
        t->group = weight_format_group(t->format);
        return;
    }
    t->dtype = dtypes[i / 7];
    t->bits = i % 7 == 0 ? 0 : i % 7 < 4 ? 4 : 8;
    t->group = i % 7 == 0 ? 0 : 32u << (i % 7 - 1) % 3;
}

/* Two layers of each of n forms, one of each kind. */
static void make_forms(struct fixture *f, uint32_t nvidia, uint32_t n)
{
    make_shard(f, nvidia);
    f->w.end = 2 * n;
    for (uint32_t i = 0; i < 2 * n; i++) {
        struct opencl_layer *l = &f->layers[i];

        *l = layer_of(i % 2 ? MIXER_ATTENTION : MIXER_DELTANET);
        store_as(&l->attention.in, i / 2);
        store_as(&l->attention.o, i / 2);
        store_as(&l->deltanet.in, i / 2);
        store_as(&l->deltanet.out, i / 2);
        store_as(&l->gate_up, i / 2);
        store_as(&l->down, i / 2);
        l->deltanet.out.cols = 4096; /* no two are alike */
    }
}

static void check_room(void)
{
    assert_in_range(count_programs() + OTHERS, OTHERS, OPENCL_PROGRAMS_MAX);
    assert_in_range(n_made + OTHERS, OTHERS, OPENCL_KERNELS_MAX);
}

/* A model may store its layers in all forms.  With NVIDIA's kernels for all of
 * them there are the most kernels: those of bf16 alone and, if wgmma is
 * rejected last, those of the other forms besides. */
static void test_all_forms(void **state)
{
    struct fixture f;

    (void)state;
    make_forms(&f, 0, MATMUL_FORMS);
    set_up_shard(&f);
    assert_int_equal(f.all.matmul->n_choices, 6 * MATMUL_FORMS + 1);
    check_room();
    opencl_matmul_free(&f.all.shared);
    make_forms(&f, 90, DTYPE_FORMS);
    refuse("-DWGMMA=1 ", "-DN=248320 ");
    set_up_shard(&f);
    assert_int_equal(f.all.matmul->n_choices, 6 * DTYPE_FORMS + 1);
    check_room();
    print_message("%u programs, %u kernels\n", count_programs(), n_made);
    opencl_matmul_free(&f.all.shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_arithmetic),
        cmocka_unit_test(test_refused_alone),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_chains_of_experts),
        cmocka_unit_test(test_chains_of_few_bits),
        cmocka_unit_test(test_chains_before_mtp_layer),
        cmocka_unit_test(test_most_choices),
        cmocka_unit_test(test_all_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

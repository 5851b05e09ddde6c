/* Which kernels the products of the opencl backend are given, on devices of
 * which there is none here.
 *
 * The linker puts the functions __wrap_.. below in front of those that build
 * (-Wl,--wrap): a compiler that refuses what it is told to. */
#include <stdio.h>
#include <string.h>

#include "kernels/opencl/launch.h"
#include "kernels/opencl/matmul.h"
#include "kernels/opencl/memory.h"
#include "kernels/opencl/program.h"
#include "tests/unit/cmocka.h"

#define LAYERS_MAX 42
#define MADE_MAX   2048
#define OTHERS     64 /* programs and kernels of other operators, at most */

/* ---- the driver, as it may be ---- */

struct made {
    struct opencl_kernel kernel;
    char program[512];
};

static struct made made[MADE_MAX];
static uint32_t n_made;
static const char *refused[2]; /* a program with all of these in its text */

static bool is_refused(const char *program)
{
    return refused[0] && strstr(program, refused[0]) &&
           (!refused[1] || strstr(program, refused[1]));
}

/* As opencl_choose() does: one for a variant and a program. */
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
    struct opencl c;
};

static struct opencl_tensor matrix(uint32_t rows, uint32_t cols)
{
    static int memory; /* there is some: never looked at */

    return (struct opencl_tensor){.mem = (cl_mem)(void *)&memory,
                                  .item = 2,
                                  .dtype = DTYPE_BF16,
                                  .rows = rows,
                                  .cols = cols};
}

/* As Qwen3.5-0.8B has them. */
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

/* On a device of NVIDIA's, or 0; with nothing refused. */
static void make_shard(struct fixture *f, uint32_t nvidia)
{
    memset(f, 0, sizeof *f);
    memset(refused, 0, sizeof refused);
    n_made = 0;
    f->w.end = 2;
    f->w.shape.hidden = 1024;
    f->layers[0] = layer_of(MIXER_DELTANET);
    f->layers[1] = layer_of(MIXER_ATTENTION);
    f->c.w = &f->w;
    f->c.layers = f->layers;
    f->c.head = matrix(248320, 1024);
    f->c.device.nvidia = nvidia;
    f->c.device.units = 132;
    f->c.failed.code = ST_UNAVAILABLE; /* arguments go nowhere */
}

static void refuse(const char *a, const char *b)
{
    refused[0] = a;
    refused[1] = b;
}

static void set_up_shard(struct fixture *f)
{
    struct error e;

    if (opencl_matmul_setup(&f->c, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

/* ---- tests ---- */

/* n layers of attention, no matrix of which has another's shape; 4 each. */
static void make_shapes(struct fixture *f, uint32_t n)
{
    make_shard(f, 0);
    f->w.end = n;
    f->c.head.mem = NULL;
    for (uint32_t i = 0; i < n; i++) {
        struct opencl_layer *l = &f->layers[i];

        *l = layer_of(MIXER_ATTENTION);
        l->attention.in.rows += 8 * i;
        l->attention.o.rows += 8 * i;
        l->gate_up.rows += 8 * i;
        l->down.rows += 8 * i;
    }
}

/* No model's matrices have so many shapes and forms; whoever brings them is
 * told. */
static void test_most_choices(void **state)
{
    struct fixture f;
    struct error e;

    (void)state;
    make_shapes(&f, 37);
    f.layers[36].down.mem = NULL; /* 36 * 4 + 3 */
    set_up_shard(&f);
    assert_int_equal(f.c.matmul->n_choices, MATMUL_CHOICES);
    opencl_matmul_free(&f.c);
    make_shapes(&f, 37);
    assert_int_equal(opencl_matmul_setup(&f.c, &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "more than 147 forms of matrices in a shard");
    opencl_matmul_free(&f.c);
}

/* The i-th way to store a matrix: those of bf16 first. */
static void store_as(struct opencl_tensor *t, uint32_t i)
{
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};

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

/* A model may store its layers in all forms there are.  Kernels of NVIDIA's
 * for all of them: those of bf16 alone, and most where wgmma is refused last,
 * for the others then come besides. */
static void test_all_forms(void **state)
{
    struct fixture f;

    (void)state;
    make_forms(&f, 0, MATMUL_FORMS);
    set_up_shard(&f);
    assert_int_equal(f.c.matmul->n_choices, 6 * MATMUL_FORMS + 1);
    check_room();
    opencl_matmul_free(&f.c);
    make_forms(&f, 90, MATMUL_FORMS / 3);
    refuse("-DWGMMA=1 ", "-DN=248320 ");
    set_up_shard(&f);
    assert_int_equal(f.c.matmul->n_choices, 6 * MATMUL_FORMS / 3 + 1);
    check_room();
    print_message("%u programs, %u kernels\n", count_programs(), n_made);
    opencl_matmul_free(&f.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_most_choices),
        cmocka_unit_test(test_all_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

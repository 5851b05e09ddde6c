#include "worker/model/shard.h"

#include <math.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define TINY "models/tiny-hybrid"

static struct shard *load(const char *dir, uint32_t begin, uint32_t end)
{
    struct model_config c;
    struct shard *s;
    struct error e = {.code = ST_OK};

    if (config_load(&c, dir, &e) != ST_OK ||
        shard_load(&s, &c, dir, begin, end, NULL, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return s;
}

static void assert_tensor(const struct tensor *t, uint32_t rows, uint32_t cols)
{
    assert_non_null(t->data);
    assert_int_equal((uintptr_t)t->data % 64, 0);
    assert_int_equal(t->dtype, DTYPE_BF16);
    assert_int_equal(t->rows, rows);
    assert_int_equal(t->cols, cols);
}

static void loads_tiny_hybrid(void **state)
{
    struct shard *s = load(TINY, 0, 8);
    const struct shard_weights *w = shard_weights(s);
    const struct deltanet_weights *d = &w->layers[0].mixer.deltanet;
    const struct attention_weights *a = &w->layers[3].mixer.attention;

    (void)state;
    assert_tensor(&w->embed, 4096, 256);
    assert_ptr_equal(w->head.data, w->embed.data);
    assert_int_equal(w->layers[0].kind, MIXER_DELTANET);
    assert_int_equal(w->layers[3].kind, MIXER_ATTENTION);
    assert_tensor(&d->qkv, 1024, 256);
    assert_tensor(&d->z, 512, 256);
    assert_tensor(&d->a, 4, 256);
    assert_tensor(&d->out, 256, 512);
    assert_tensor(&a->q, 1024, 256);
    assert_tensor(&a->o, 256, 512);
    assert_null(a->q_bias);
    assert_non_null(a->q_norm);
    assert_tensor(&w->layers[7].mlp.down, 256, 512);
    assert_int_equal(shard_report(s)->n_tensors, 6 * 14 + 2 * 11 + 2);
    assert_int_equal(shard_report(s)->n_unknown, 0);
    assert_int_equal(shard_report(s)->n_aside, 15);
    shard_free(&s);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_tiny_hybrid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests what a step must read of a model with experts. */
#include "tests/bench/demand.h"
#include "tests/unit/cmocka.h"

#define H  8
#define IM 4
#define E  4

static const char data[1]; /* matrices exist, and are never read */

static struct tensor matrix(uint32_t rows, uint32_t cols)
{
    return (struct tensor){
        .data = data, .dtype = DTYPE_BF16, .rows = rows, .cols = cols};
}

static struct layer_weights layer(void)
{
    struct layer_weights l = {.kind = MIXER_WINDOW, .ffn = FFN_EXPERTS};

    l.mixer.attention.q = matrix(H, H);
    l.mixer.attention.k = matrix(H, H);
    l.mixer.attention.v = matrix(H, H);
    l.mixer.attention.o = matrix(H, H);
    l.experts.router = matrix(E, H);
    l.experts.gate_up = matrix(E * 2 * IM, H);
    l.experts.down = matrix(E * H, IM);
    return l;
}

static void assert_close(double a, double b)
{
    assert_true(a > b - 1e-9 && a < b + 1e-9);
}

/* One token reads its own experts; two read fewer than twice as many; many read
 * all.  A token is multiplied with its own alone. */
static void a_step_reads_the_experts_that_are_chosen(void **state)
{
    const struct layer_weights layers[2] = {layer(), layer()};
    const struct shard_weights w = {
        .shape = {.n_experts = E, .top_k = 1}, .end = 2, .layers = layers};
    const double every = 2 * (4 * H * H + E * H), expert = 2 * (3 * IM * H);
    struct demand d;

    (void)state;
    demand_of(&d, &w);
    assert_close(d.weights, every);
    assert_close(demand_all_bytes(&d), 2 * (every + E * expert));
    assert_close(demand_weight_bytes(&d, 1), 2 * (every + expert));
    assert_close(demand_weight_bytes(&d, 2), 2 * (every + 1.75 * expert));
    assert_true(demand_weight_bytes(&d, 200) > 0.999 * demand_all_bytes(&d));
    assert_close(demand_prefill_flops(&d, 3), 2 * 3 * (every + expert));
}

/* A draft reads the MTP layer, behind the last one, with fc and the head. */
static void a_draft_reads_the_mtp_layer_alone(void **state)
{
    struct layer_weights layers[3] = {layer(), layer(), layer()};
    const struct mtp_weights mtp = {.fc = matrix(H, 2 * H)};
    const struct shard_weights w = {.shape = {.n_experts = E, .top_k = 1},
                                    .begin = 5,
                                    .end = 7,
                                    .head = matrix(100, H),
                                    .layers = layers,
                                    .mtp = &mtp};
    struct demand d;

    (void)state;
    layers[2].ffn = FFN_DENSE;
    layers[2].mlp = (struct mlp_weights){
        .gate = matrix(IM, H), .up = matrix(IM, H), .down = matrix(H, IM)};
    demand_of_draft(&d, &w);
    assert_close(d.weights, 2 * H * H + 4 * H * H + 3 * IM * H);
    assert_close(d.expert_weights, 0);
    assert_close(demand_decode_bytes(&d, 2, 10, 0),
                 2 * (6 * H * H + 3 * IM * H + 100 * H) + 2 * 10);
    demand_of(&d, &w); /* which no other step reads */
    assert_close(d.weights, 2 * (4 * H * H + E * H));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_reads_the_experts_that_are_chosen),
        cmocka_unit_test(a_draft_reads_the_mtp_layer_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

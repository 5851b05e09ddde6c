/* Workers of partial shards are assembled, and what that ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/log.h"
#include "router/limits.h"
#include "tests/unit/router/rig.h"

/* How many models may be asked of, and at how many places the first is. */
static uint32_t n_places(struct fake *admin)
{
    Sluice__V1__ListModelsRequest m = SLUICE__V1__LIST_MODELS_REQUEST__INIT;
    struct record *x =
        client_call(admin, METHOD_INFERENCE_LIST_MODELS, &m.base, 0);
    const Sluice__V1__ListModelsReply *reply;
    uint32_t n = 0;

    rig_run(admin->rig);
    assert_int_equal(x->status, ST_OK);
    reply = (const void *)x->reply;
    for (size_t i = 0; i < reply->n_models; i++) {
        n += reply->models[i]->n_workers;
    }
    return n;
}

static void assert_ring(struct fake *const *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(w[i]->assembly, w[0]->assembly);
        assert_int_equal(w[i]->stage, i);
        assert_int_equal(w[i]->n_stages, n);
        assert_string_equal(w[i]->next, w[(i + 1) % n]->endpoint);
    }
}

static void forms_in_any_order(void **state)
{
    static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const uint32_t at[4] = {0, 1, 3, 4};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *admin = rig_admin(rig, "a"), *w[3];

        for (int k = 0; k < 3; k++) {
            uint32_t s = orders[i][k];
            char name[8];

            assert_int_equal(n_places(admin), 0);
            snprintf(name, sizeof name, "w%u", s);
            w[s] = rig_stage(rig, name, at[s], at[s + 1]);
        }
        assert_ring(w, 3);
        assert_int_equal(n_places(admin), 1);
        rig_advance(rig, ASSEMBLE_US + 1000);
        rig_end(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_in_any_order),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

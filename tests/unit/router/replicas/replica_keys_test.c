/* The keys in Assemble: those of both neighbours, as the router authenticated
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

static struct fake *stage(struct rig *rig, uint32_t i, const uint32_t *at)
{
    char name[8];
    struct fake *f;

    snprintf(name, sizeof name, "w%u", i);
    f = fake_stage_new(rig, name, at[i], at[i + 1]);
    fake_key(f, name, BY_WORKER);
    fake_hello(f);
    assert_true(f->up);
    return f;
}

static void assert_neighbours(struct fake *const *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(w[i]->assembly, w[0]->assembly);
        assert_true(w[i]->has_keys);
        assert_memory_equal(w[i]->next_key, w[(i + 1) % n]->identity.key,
                            KEY_BYTES);
        assert_memory_equal(w[i]->previous_key,
                            w[(i + n - 1) % n]->identity.key, KEY_BYTES);
    }
}

static void assemble_names_the_keys_of_both_neighbours(void **state)
{
    static const uint32_t at[5] = {0, 1, 2, 3, 4}, halves[3] = {0, 2, 4};

    (void)state;
    for (uint32_t n = 2; n <= 4; n += 2) {
        struct rig *rig = rig_new(NULL);
        struct fake *w[4];

        for (uint32_t i = 0; i < n; i++) {
            w[i] = stage(rig, i, n == 2 ? halves : at);
        }
        assert_neighbours(w, n);
        rig_end(&rig);
    }
}

/* A worker that came back with another key is named by that one. */
static void a_rotated_key_is_in_the_next_assemble(void **state)
{
    static const uint32_t halves[3] = {0, 2, 4};
    struct rig *rig = rig_new(NULL);
    struct fake *w[2] = {stage(rig, 0, halves), stage(rig, 1, halves)};
    uint64_t first = w[0]->assembly;

    (void)state;
    fake_lost(w[1]);
    rig_run(rig);
    fake_key(w[1], "w1", BY_WORKER);
    fake_reconnect(w[0]);
    fake_reconnect(w[1]);
    rig_advance(rig, 10000000);
    assert_int_not_equal(w[0]->assembly, first);
    assert_neighbours(w, 2);
    rig_end(&rig);
}

static void without_keys_assemble_names_none(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[2];

    (void)state;
    rig_replica(rig, w, 2);
    assert_int_not_equal(w[0]->assembly, 0);
    assert_false(w[0]->has_keys);
    assert_false(w[1]->has_keys);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assemble_names_the_keys_of_both_neighbours),
        cmocka_unit_test(a_rotated_key_is_in_the_next_assemble),
        cmocka_unit_test(without_keys_assemble_names_none),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

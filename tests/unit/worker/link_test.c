/* The core links with common and proto alone: this program names its entry
 * points and links no kernels.  tests/house/rooms checks the includes. */
#include "tests/unit/cmocka.h"
#include "worker/worker_core.h"

static void links_without_kernels(void **state)
{
    struct worker_options o = {0};
    struct worker_core *none = NULL;

    (void)state;
    assert_null(worker_new(&o, NULL, NULL)); /* empty options */
    worker_free(&none);
    assert_non_null(worker_node_ops.tick);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_without_kernels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

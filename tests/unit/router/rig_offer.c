/* Assertions about the layers that an offer has received. */
#include "tests/unit/router/rig_offer.h"
#include "tests/unit/cmocka.h"

void assert_given(const struct fake *f, uint32_t begin, uint32_t end)
{
    if (f->n_assigns != 1 || f->begin != begin || f->end != end) {
        fail_msg("%s was given %u times, %u-%u, wanted %u-%u", f->name,
                 f->n_assigns, f->begin, f->end, begin, end);
    }
}

void assert_free(const struct fake *f)
{
    assert_int_equal(f->n_assigns, 0);
    assert_false(f->gone);
}

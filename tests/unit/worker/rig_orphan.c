/* A sequence that loses its session, and its adoption. */
#include "tests/unit/worker/rig_orphan.h"
#include "tests/unit/cmocka.h"

const struct rig_submit usual = {.id = 6, .n_prompt = 20, .max_tokens = 30};

struct rig *lost_after(uint32_t n, uint32_t depth)
{
    struct rig *r = rig_with_depth(depth);

    rig_submit(r, &usual);
    rig_turn(r);
    while (r->heard[1].n < n) {
        rig_step(r);
    }
    rig_lose(r);
    return r;
}

struct rig_submit having(uint32_t have)
{
    struct rig_submit s = usual;

    s.has_have = true;
    s.have = have;
    return s;
}

enum status adopt(struct rig *r, const struct rig_submit *s)
{
    uint64_t tag = rig_adopt(r, s);

    rig_turn(r);
    assert_true(r->ends[tag].ended);
    return r->ends[tag].status;
}

enum status adopt_message(struct rig *r, const struct rig_message *m)
{
    uint64_t tag = rig_send_submit(r, m);

    rig_turn(r);
    assert_true(r->ends[tag].ended);
    return r->ends[tag].status;
}

/* The ledger in a worker's Hello, and the version that it needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

struct bad {
    void (*spoil)(Sluice__V1__HelloRequest *m, struct fake *f);
    enum status status;
    const char *why;
};

#define BAD(name) static void name(Sluice__V1__HelloRequest *m, struct fake *f)
#define UNUSED    (void)m, (void)f
#define INVALID   ST_INVALID_ARGUMENT

BAD(ledger_broken)
{
    UNUSED;
    f->classes[0].held = 1;
}
static void pages(struct fake *f, uint32_t total, uint32_t free, uint32_t held)
{
    f->classes[3].total = total;
    f->classes[3].free = free;
    f->classes[3].held = held;
}
BAD(pages_broken)
{
    UNUSED;
    pages(f, 10, 9, 1);
    f->classes[0].free--;
}
BAD(more_free_than_pages)
{
    UNUSED;
    pages(f, 10, 7, 3);
    f->classes[2].total = f->classes[2].held = 3;
}
BAD(more_held_than_total)
{
    UNUSED;
    pages(f, 10, 7, 3);
    f->classes[0].free = 0;
    f->classes[1].held = 3;
    f->classes[1].free = 0;
}
BAD(more_blocks_than_pages)
{
    UNUSED;
    pages(f, 7, 7, 0);
}
BAD(blocks_without_pages)
{
    UNUSED;
    f->shard.pages_per_block = 0;
}
BAD(old_minor)
{
    UNUSED;
    m->version_minor = 1;
}
BAD(ledger_huge)
{
    UNUSED;
    f->classes[1].total = f->classes[1].free = UINT32_MAX;
}
BAD(ledger_used)
{
    UNUSED;
    f->ledger.grant = 1;
}
BAD(empty_pool)
{
    UNUSED;
    f->classes[0].total = f->classes[0].free = 0;
    f->classes[1].total = f->classes[1].free = 0;
}
static const struct bad table[] = {
    {ledger_broken, INVALID,
     "shard: its ledger's blocks do not add up: total 8, but 8 are free and"},
    {pages_broken, INVALID, "pages do not add up: 1 are held, but the blocks"},
    {more_free_than_pages, INVALID, "blocks do not add up: 8 are free, but"},
    {more_held_than_total, INVALID,
     "total 2, but 0 are free and 3 held, cached and"},
    {more_blocks_than_pages, INVALID, "8 blocks of 1 pages, but 7 pages in"},
    {blocks_without_pages, INVALID, "8 blocks of 0 pages, but"},
    {old_minor, ST_FAILED_PRECONDITION,
     "your version is 1.1, but a worker needs 1.2 or later: upgrade "
     "sluice-worker on its host"},
    {ledger_huge, INVALID, "4294967295 slots"},
    {ledger_used, INVALID, "must have session, snapshot and grant 0"},
    {empty_pool, INVALID, "neither blocks nor slots"},
};

static void send(struct fake *f, const Sluice__V1__HelloRequest *m)
{
    struct frame *frame = hello_make(&m->base);

    f->io.send(&f->io, (struct peer_id){1}, &frame);
    rig_run(f->rig);
}

static void bad_ledgers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *f = fake_worker_new(rig, "w1", 8, 2);
        Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
        struct router_worker_view v;

        fake_pages(f);
        m.version_major = WIRE_VERSION_MAJOR;
        m.version_minor = WIRE_VERSION_MINOR;
        m.role = SLUICE__V1__ROLE__ROLE_WORKER;
        m.name = wire_text("w1");
        m.worker = &f->shard;
        table[i].spoil(&m, f);
        send(f, &m);
        if (f->up || !f->refused || f->refusal != table[i].status ||
            strstr(f->why, table[i].why) == NULL) {
            fail_msg("row %zu: up %d status %d \"%s\", wanted \"%s\"", i, f->up,
                     (int)f->refusal, f->why, table[i].why);
        }
        assert_false(router_worker_view(rig->router, 0, &v));
        rig_free(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_ledgers),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* How many prompt tokens a step has. */
#include "tests/unit/cmocka.h"
#include "worker/plan/step_room.h"

#define CUT 64

/* Teaches a cost in microseconds. */
static void teach(struct step_room *r, double base, double row, double prompt)
{
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t rows = i * 7 % 40, prompts = i * 13 % 512;

        step_cost_note(&r->cost, rows, prompts,
                       (uint32_t)(base + row * rows + prompt * prompts));
    }
}

static struct step_room_plan plan(uint32_t rows, uint32_t most, bool decodes)
{
    return (struct step_room_plan){
        .rows = rows, .most = most, .cut = CUT, .decodes = decodes};
}

static void begins_with_whole_steps(void **state)
{
    struct step_room r;
    struct step_room_plan p = plan(1, 512, true);

    (void)state;
    step_room_init(&r, true, 1000);
    assert_int_equal(step_room_tokens(&r, &p), 512);
    assert_false(step_room_apart(&r, &p, 48, 512));
    assert_int_equal(r.n_bounded, 0);
}

static void off_is_off(void **state)
{
    struct step_room r;
    struct step_room_plan p = plan(1, 512, true);

    (void)state;
    step_room_init(&r, false, 0);
    teach(&r, 10000, 100, 500);
    step_room_note(&r, &p, 512);
    assert_int_equal(step_room_tokens(&r, &p), 512);
    assert_false(step_room_apart(&r, &p, 48, 512));
}

/* The fewest cuts with which prompts lose 1/ROOM_LOSS of their speed. */
static void keeps_most_of_the_speed(void **state)
{
    static const struct {
        double base, prompt;
        uint32_t most;
    } of[] = {{10000, 500, 512},
              {10000, 20, 2048},
              {50000, 5000, 512},
              {300, 30, 2048},
              {5000, 28, 4096}};

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct step_room r;
        struct step_room_plan p = plan(0, of[i].most, false);
        double all = (of[i].base + of[i].prompt * p.most) / p.most;
        double lost;
        uint32_t n;

        step_room_init(&r, true, 0);
        teach(&r, of[i].base, 0, of[i].prompt);
        n = step_room_tokens(&r, &p);
        assert_true(n % CUT == 0 && n > 0 && n < p.most);
        lost = 1 - all / ((of[i].base + of[i].prompt * n) / n);
        assert_true(lost <= 1.0 / ROOM_LOSS + 0.002);
        n -= CUT;
        lost = n == 0 ? 1 : 1 - all / ((of[i].base + of[i].prompt * n) / n);
        assert_true(lost >= 1.0 / ROOM_LOSS - 0.002);
        assert_int_equal(r.n_bounded, 1);
    }
}

static void stays_within_the_target(void **state)
{
    static const struct {
        uint32_t target_us, rows, room;
    } of[] = {{60500, 0, 101}, {60500, 40, 93}, {43000, 0, 66},
              {42000, 0, CUT}, {1, 0, CUT},     {10000000, 0, 192}};

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct step_room r;
        struct step_room_plan p = plan(of[i].rows, 512, true);
        uint32_t n;

        step_room_init(&r, true, of[i].target_us);
        teach(&r, 10000, 100, 500);
        n = step_room_tokens(&r, &p);
        assert_in_range(n, of[i].room - 1, of[i].room + 1);
        assert_false(step_room_exceeds(&r, &p, n));
        assert_int_equal(step_room_exceeds(&r, &p, n + 10),
                         of[i].target_us < 10000000);
        p.decodes = false; /* nobody waits for tokens */
        assert_in_range(step_room_tokens(&r, &p), 192, 320);
    }
}

/* Two plans lie between the tokens of a sequence. */
static void halves_the_target(void **state)
{
    struct step_room r;
    struct step_room_plan p = plan(0, 512, true);

    (void)state;
    step_room_init(&r, true, 121000);
    teach(&r, 10000, 100, 500);
    assert_int_equal(step_room_tokens(&r, &p), 192);
    p.halved = true;
    assert_in_range(step_room_tokens(&r, &p), 100, 102);
}

/* A step that is too small to divide is not bounded. */
static void small_steps_stay_whole(void **state)
{
    struct step_room r;
    struct step_room_plan p = plan(0, CUT, true);

    (void)state;
    step_room_init(&r, true, 1);
    teach(&r, 10000, 100, 500);
    assert_int_equal(step_room_tokens(&r, &p), CUT);
    p.most = 3;
    assert_int_equal(step_room_tokens(&r, &p), 3);
    p.most = 0;
    assert_int_equal(step_room_tokens(&r, &p), 0);
    p.most = CUT + 1;
    assert_int_equal(step_room_tokens(&r, &p), CUT);
}

/* The time that is lost is at most one part in ROOM_SPEND. */
static void what_is_left_out_is_paid_for(void **state)
{
    struct step_room r;
    struct step_room_plan p = plan(0, 512, false);
    double spent = 0, all = 0;

    (void)state;
    step_room_init(&r, true, 0);
    teach(&r, 10000, 100, 500);
    assert_false(step_room_apart(&r, &p, 192, 192));
    for (int i = 0; i < 1000; i++) {
        bool apart = step_room_apart(&r, &p, 48, 192);
        uint32_t n = apart ? 48 : 192;

        spent += apart ? 7500 : 0;
        all += 10000 + 500 * n;
        step_room_note(&r, &p, n);
        assert_true(spent <= all / ROOM_SPEND + ROOM_CREDIT * 10000 + 1);
    }
    assert_true(r.n_apart > 250);
    /* What is not spent does not grow beyond a few steps. */
    for (int i = 0; i < 1000; i++) {
        step_room_note(&r, &p, 192);
    }
    for (uint32_t i = 0; step_room_apart(&r, &p, 0, 192); i++) {
        assert_in_range(i, 0, ROOM_CREDIT - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_with_whole_steps),
        cmocka_unit_test(off_is_off),
        cmocka_unit_test(keeps_most_of_the_speed),
        cmocka_unit_test(stays_within_the_target),
        cmocka_unit_test(halves_the_target),
        cmocka_unit_test(small_steps_stay_whole),
        cmocka_unit_test(what_is_left_out_is_paid_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

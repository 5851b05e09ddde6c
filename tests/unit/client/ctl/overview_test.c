/* The tables and JSON of models, replicas and stages in sluicectl status. */
#include "client/ctl/overview.h"

#include <stdlib.h>
#include <string.h>

#include "common/wire/wire.h"
#include "tests/unit/cmocka.h"

/* A row of a worker with 100 blocks and 10 slots. */
struct row {
    const char *name, *model;
    uint32_t begin, end;
    uint64_t assembly;
    uint32_t stage, n_stages, step_us;
    bool no_replica;  /* the router sends no state of the replica */
    uint32_t windows; /* pages for them; 0: no window layers */
};

static void add(struct overview *o, const struct row *r)
{
    Sluice__V1__WorkerRow w = SLUICE__V1__WORKER_ROW__INIT;
    Sluice__V1__Ledger ledger = SLUICE__V1__LEDGER__INIT;
    Sluice__V1__ClassLedger blocks = SLUICE__V1__CLASS_LEDGER__INIT;
    Sluice__V1__ClassLedger slots = SLUICE__V1__CLASS_LEDGER__INIT;
    Sluice__V1__ClassLedger pages = SLUICE__V1__CLASS_LEDGER__INIT;
    Sluice__V1__ClassLedger windows = SLUICE__V1__CLASS_LEDGER__INIT;

    w.name = wire_text(r->name);
    w.model = wire_text(r->model);
    w.state = wire_text("up");
    w.layer_begin = r->begin;
    w.layer_end = r->end;
    w.n_layers = 8;
    w.n_sequences = 3;
    w.step_us = r->step_us;
    w.has_assembly = w.has_stage = w.has_n_stages = r->assembly != 0;
    w.assembly = r->assembly;
    w.stage = r->stage;
    w.n_stages = r->n_stages;
    w.has_replica = r->assembly != 0 && !r->no_replica;
    w.replica = wire_text("up");
    blocks.total = 100;
    blocks.held = 20;
    blocks.granted = 11;
    blocks.free = 69;
    slots.total = slots.free = r->assembly != 0 ? 10 : 0;
    ledger.blocks = &blocks;
    ledger.slots = &slots;
    pages.total = 130;
    pages.cached = 41;
    ledger.pages = &pages;
    windows.total = r->windows;
    windows.held = r->windows / 4;
    ledger.windows = r->windows > 0 ? &windows : NULL;
    w.n_prompt_tokens = r->assembly != 0 ? 1000 : 0;
    w.n_reused_tokens = r->assembly != 0 ? 620 : 0;
    w.ledger = &ledger;
    overview_add(o, &w);
}

static const struct row cluster[] = {
    {.name = "b1",
     .model = "tiny",
     .begin = 4,
     .end = 8,
     .assembly = 0xbbbbbbbb00000001,
     .stage = 1,
     .n_stages = 2,
     .step_us = 3000},
    {.name = "late", .model = "tiny", .begin = 4, .end = 8},
    {.name = "w", .model = "other", .end = 8, .step_us = 500},
    {.name = "b0",
     .model = "tiny",
     .end = 4,
     .assembly = 0xbbbbbbbb00000001,
     .n_stages = 2,
     .step_us = 1000},
    {.name = "a0",
     .model = "tiny",
     .end = 8,
     .assembly = 0xaaaaaaaa00000001,
     .n_stages = 2},
};

static struct overview *made(void)
{
    struct overview *o = overview_new();
    Sluice__V1__OfferRow offer = SLUICE__V1__OFFER_ROW__INIT;

    offer.name = wire_text("spare");
    offer.model = wire_text("other");
    offer.state = wire_text("offered");
    offer.n_stages = 4;
    offer.budget_bytes = 1 << 30;
    offer.speed = 5;
    overview_add_offer(o, &offer);
    offer.name = wire_text("busy");
    offer.state = wire_text("loading");
    offer.n_stages = 0;
    offer.speed = offer.budget_bytes = 0;
    offer.layer_begin = 2;
    offer.layer_end = 5;
    overview_add_offer(o, &offer);

    for (size_t i = 0; i < sizeof cluster / sizeof *cluster; i++) {
        add(o, &cluster[i]);
    }
    return o;
}

static void stages_are_printed_in_order(void **state)
{
    static const char *const words[] = {"\nother\n",
                                        "0 of 1",
                                        "w ",
                                        "none",
                                        "0.5 ms\n",
                                        "offers itself",
                                        "1 of 4",
                                        "spare",
                                        "offered",
                                        "\ntiny\n",
                                        "up bbbbbbbb",
                                        "0 of 2",
                                        "b0",
                                        "0-4 of 8",
                                        "[##++......] 20 + 11 of 100",
                                        "[..........] 0 + 0 of 10",
                                        "41 of 130 pages",
                                        "62 %",
                                        "1.0 ms, 25 %",
                                        "1 of 2",
                                        "b1",
                                        "4-8 of 8",
                                        "3.0 ms, 75 %",
                                        "up aaaaaaaa",
                                        "a0",
                                        "waits for other layers",
                                        "late"};
    struct overview *o = made();
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    const char *at, *next;

    (void)state;
    overview_print(o, f);
    fclose(f);
    at = text; /* in this order; column widths are ignored */
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        next = strstr(at, words[i]);
        if (next == NULL) {
            fail_msg("no \"%s\" where it should be in:\n%s", words[i], text);
        }
        at = next + 1;
    }
    free(text);
    overview_free(&o);
}

/* Only tables of models with window layers have a column for them. */
static void window_pages_have_a_column(void **state)
{
    (void)state;
    for (uint32_t windows = 0; windows <= 40; windows += 40) {
        const struct row row = {
            .name = "w", .model = "tiny", .end = 8, .windows = windows};
        struct overview *o = overview_new();
        json_t *j = json_object(), *stage;
        char *text = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&text, &n);

        add(o, &row);
        overview_print(o, f);
        fclose(f);
        assert_int_equal(strstr(text, "WINDOWS held + granted") != NULL,
                         windows > 0);
        assert_int_equal(strstr(text, " 10 + 0 of 40") != NULL, windows > 0);
        overview_json(o, j);
        stage = json_array_get(
            json_object_get(json_array_get(json_object_get(j, "replicas"), 0),
                            "stages"),
            0);
        assert_int_equal(json_object_get(stage, "windows") != NULL,
                         windows > 0);
        json_decref(j);
        free(text);
        overview_free(&o);
    }
}

static json_t *of(json_t *j, const char *list, size_t i)
{
    return json_array_get(json_object_get(j, list), i);
}

static const char *text_of(json_t *j, const char *name)
{
    return json_string_value(json_object_get(j, name));
}

static void json_has_the_same_rows(void **state)
{
    struct overview *o = made();
    json_t *j = json_object(), *r, *s;

    (void)state;
    overview_json(o, j);
    assert_int_equal(json_array_size(json_object_get(j, "replicas")), 3);
    assert_int_equal(json_array_size(json_object_get(j, "waiting")), 1);
    assert_string_equal(json_string_value(of(j, "waiting", 0)), "late");
    r = of(j, "offers", 0);
    assert_string_equal(text_of(r, "worker"), "spare");
    assert_int_equal(json_integer_value(json_object_get(r, "n_stages")), 4);
    assert_null(json_object_get(r, "layer_begin"));
    r = of(j, "offers", 1);
    assert_string_equal(text_of(r, "state"), "loading");
    assert_null(json_object_get(r, "speed"));
    assert_int_equal(json_integer_value(json_object_get(r, "layer_end")), 5);
    r = of(j, "replicas", 1);
    assert_string_equal(text_of(r, "model"), "tiny");
    assert_string_equal(text_of(r, "assembly"), "13527612317570695169");
    assert_int_equal(json_array_size(json_object_get(r, "stages")), 2);
    s = of(r, "stages", 1);
    assert_string_equal(text_of(s, "worker"), "b1");
    assert_int_equal(json_integer_value(json_object_get(s, "layer_begin")), 4);
    assert_true(json_real_value(json_object_get(s, "step_share")) == 0.75);
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(s, "blocks"), "granted")),
                     11);
    r = of(j, "replicas", 0);
    assert_string_equal(text_of(r, "model"), "other");
    assert_null(json_object_get(r, "assembly"));
    assert_int_equal(json_integer_value(json_object_get(r, "n_stages")), 1);
    json_decref(j);
    overview_free(&o);
}

static void a_missing_replica_state_is_the_workers(void **state)
{
    const struct row row = {.name = "w",
                            .model = "tiny",
                            .end = 8,
                            .assembly = 7,
                            .n_stages = 1,
                            .no_replica = true};
    struct overview *o = overview_new();
    json_t *j = json_object();
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    (void)state;
    add(o, &row);
    overview_json(o, j);
    assert_string_equal(text_of(of(j, "replicas", 0), "state"), "up");
    overview_print(o, f);
    fclose(f);
    assert_non_null(strstr(text, "up 00000000"));
    free(text);
    json_decref(j);
    overview_free(&o);
}

static void no_workers_print_nothing(void **state)
{
    struct overview *o = overview_new();
    json_t *j = json_object();

    (void)state;
    overview_json(o, j);
    assert_int_equal(json_array_size(json_object_get(j, "replicas")), 0);
    assert_int_equal(json_array_size(json_object_get(j, "waiting")), 0);
    json_decref(j);
    overview_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_printed_in_order),
        cmocka_unit_test(window_pages_have_a_column),
        cmocka_unit_test(json_has_the_same_rows),
        cmocka_unit_test(a_missing_replica_state_is_the_workers),
        cmocka_unit_test(no_workers_print_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

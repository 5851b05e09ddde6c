/* mtp_test.c - Whether a model can draft, and the reason if not. */
#include "common/model/mtp.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

static json_t *declaring(void)
{
    json_t *j = fixture_config("qwen3_5");

    json_object_set_new(j, "mtp_num_hidden_layers", json_integer(1));
    return j;
}

static void reports_what_it_found(void **state)
{
    struct model_config c = fixture_load_config(TINY_HYBRID);
    struct mtp_found m;

    (void)state;
    assert_int_equal(mtp_find_in(&m, &c, TINY_HYBRID, NULL), ST_OK);
    assert_true(m.usable);
    assert_int_equal(m.n_tensors, 15);
    assert_string_equal(m.text, "drafts: 1 layer, 15 tensors");
    c.n_mtp = 0;
    assert_int_equal(mtp_find_in(&m, &c, TINY_HYBRID, NULL), ST_OK);
    assert_false(m.usable);
    assert_string_equal(m.text, "config.json declares no MTP layer: no drafts");
    c.n_mtp = 3;
    assert_int_equal(mtp_find_in(&m, &c, TINY_HYBRID, NULL), ST_OK);
    assert_false(m.usable);
    assert_string_equal(m.text, "config.json declares 3 MTP layers, only one "
                                "is computed: no drafts");
}

static void expect_found(const char *dir, const char *text)
{
    struct model_config c = fixture_load_config(dir);
    struct mtp_found m;

    assert_int_equal(mtp_find_in(&m, &c, dir, NULL), ST_OK);
    assert_string_equal(m.text, text);
    assert_int_equal(m.usable, strncmp(text, "drafts", 6) == 0);
}

static void names_the_reason_for_no_drafts(void **state)
{
    static const char path[] = "absent/config.json";
    struct writer_options own = {.mtp = WRITER_MTP,
                                 .extra = "mtp.embed_tokens.weight"};
    json_t *j = declaring();
    const char *dir = fixture_model("absent", j, &(struct writer_options){0});

    (void)state;
    expect_found(dir, "config.json declares an MTP layer, but the weights are "
                      "not there: no drafts");
    assert_int_equal(remove(fixture_path("absent/model.safetensors")), 0);
    expect_found(dir, "drafts: 1 layer");
    expect_found(fixture_model("own", j, &own),
                 "config.json declares an MTP layer, but with its own "
                 "embedding or head, which is not supported: no drafts");
    json_object_set_new(j, "model_type", json_string("mistral"));
    json_object_set_new(j, "sliding_window", json_integer(16));
    assert_int_equal(json_dump_file(j, fixture_path(path), 0), 0);
    expect_found(dir, "config.json declares an MTP layer, but the model has "
                      "sliding windows, which is not supported: no drafts");
    json_object_set_new(j, "model_type", json_string("qwen3_5"));
    json_object_del(j, "sliding_window");
    json_object_set_new(j, "full_attention_interval", json_integer(9));
    assert_int_equal(json_dump_file(j, fixture_path(path), 0), 0);
    expect_found(dir, "config.json declares an MTP layer, but the model has "
                      "no attention layer: no drafts");
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_what_it_found),
        cmocka_unit_test(names_the_reason_for_no_drafts),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

/* Output of sluicectl: escaped text, aligned tables, messages as JSON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/ctl/columns.h"
#include "client/ctl/escape.h"
#include "client/ctl/json_message.h"
#include "proto/inference.pb-c.h"

struct escape_case {
    const char *in, *out;
};

static void control_characters_are_escaped(void **state)
{
    static const struct escape_case cases[] = {
        {"plain text", "plain text"},
        {"two\nlines\tand a tab", "two\nlines\tand a tab"},
        {"\x1b[2J", "\\x1b[2J"},
        {"a\rb", "a\\rb"},
        {"\x7f", "\\x7f"},
        {"\x01\x1f", "\\x01\\x1f"},
        {"C1 \xc2\x9b"
         "31m",
         "C1 \\x9b31m"},
        {"right to left \xe2\x80\xae!", "right to left \\u202e!"},
        {"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x90\xb1",
         "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x90\xb1"},
        {"no UTF-8 \xff\xc3", "no UTF-8 \\xff\\xc3"},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[256];
        size_t n = escape_text(cases[i].in, strlen(cases[i].in), out);

        out[n] = '\0';
        assert_string_equal(out, cases[i].out);
    }
}

static void escape_line_escapes_newlines(void **state)
{
    char out[64];

    (void)state;
    out[escape_line("a\n\tb\x1b", 5, out)] = '\0';
    assert_string_equal(out, "a\\n\\tb\\x1b");
}

static void infinity_and_nan_become_null(void **state)
{
    json_t *list = json_array();
    char *text;

    (void)state;
    json_array_append_new(list, json_number(-0.5));
    json_array_append_new(list, json_number(-INFINITY));
    json_array_append_new(list, json_number(NAN));
    text = json_dumps(list, JSON_COMPACT);
    assert_string_equal(text, "[-0.5,null,null]");
    free(text);
    json_decref(list);
}

static void escaping_never_outgrows_its_bound(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char in = (char)c, out[ESCAPE_GROWTH + 1] = {0};

        assert_in_range(escape_text(&in, 1, out), 1, ESCAPE_GROWTH);
    }
}

static void print_table(char *text, size_t cap)
{
    FILE *f = fmemopen(text, cap, "w");
    struct columns t;

    columns_init(&t, "name", "held", "what", NULL);
    columns_cell(&t, "%s", "w1");
    columns_cell(&t, "%u", 7);
    columns_cell(&t, "%s", "x");
    columns_cell(&t, "%s", "n\xc3\xa4me\x1b");
    columns_cell(&t, "%u", 12345);
    columns_cell(&t, "%s", "yy");
    columns_print(&t, f);
    columns_fini(&t);
    fclose(f);
}

static void tables_are_aligned_and_escaped(void **state)
{
    char text[512] = {0};

    (void)state;
    print_table(text, sizeof text);
    assert_string_equal(text, "name       held  what\n"
                              "w1            7  x\n"
                              "n\xc3\xa4me\\x1b  12345  yy\n");
}

/* A peer's name must not look like another row. */
static void a_row_is_one_line(void **state)
{
    char text[128] = {0};
    FILE *f = fmemopen(text, sizeof text, "w");
    struct columns t;

    (void)state;
    columns_init(&t, "name", "state", NULL);
    columns_cell(&t, "%s", "w1\nw2\tup");
    columns_cell(&t, "%s", "up");
    columns_print(&t, f);
    columns_fini(&t);
    fclose(f);
    assert_string_equal(text, "name        state\n"
                              "w1\\nw2\\tup  up\n");
}

/* Columns that do not fit follow below, each part with the key column. */
static void a_wide_table_is_printed_in_parts(void **state)
{
    static const struct {
        size_t width, n_keys;
        const char *text;
    } rows[] = {
        {0, 1, "NAME   A  B       C\nw1    10  twenty  3\n"},
        {19, 1, "NAME   A  B       C\nw1    10  twenty  3\n"},
        {18, 1, "NAME   A  B\nw1    10  twenty\n\nNAME  C\nw1    3\n"},
        {12, 1,
         "NAME   A\nw1    10\n\nNAME  B\nw1    twenty\n\nNAME  C\nw1    3"
         "\n"},
        {18, 2, "NAME   A  B\nw1    10  twenty\n\nNAME   A  C\nw1    10  3\n"},
        {1, 1,
         "NAME\nw1\n\nNAME   A\nw1    10\n\nNAME  B\nw1    twenty\n\nNAME  "
         "C\nw1    3\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256] = {0};
        FILE *f = fmemopen(text, sizeof text, "w");
        struct columns t;

        columns_init(&t, "NAME", "A", "B", "C", NULL);
        t.n_keys = rows[i].n_keys;
        columns_cell(&t, "w1");
        columns_cell(&t, "%d", 10);
        columns_cell(&t, "twenty");
        columns_cell(&t, "%d", 3);
        columns_print_within(&t, f, rows[i].width);
        fclose(f);
        columns_fini(&t);
        assert_string_equal(text, rows[i].text);
    }
}

static void bars_show_the_part_in_use(void **state)
{
    char bar[16];

    (void)state;
    bar_write(bar, 10, 0, 100);
    assert_string_equal(bar, "[..........]");
    bar_write(bar, 10, 1, 100); /* rounded up to one mark */
    assert_string_equal(bar, "[#.........]");
    bar_write(bar, 10, 100, 100);
    assert_string_equal(bar, "[##########]");
    bar_write(bar, 10, 5, 0);
    assert_string_equal(bar, "[..........]");
    bar_write(bar, 10, 200, 100);
    assert_string_equal(bar, "[##########]");
}

static void figures_have_units(void **state)
{
    char text[MICROS_TEXT];

    (void)state;
    bytes_write(text, 812);
    assert_string_equal(text, "812 B");
    bytes_write(text, 3u << 19);
    assert_string_equal(text, "1.5 MiB");
    micros_write(text, 85);
    assert_string_equal(text, "85 us");
    micros_write(text, 12345);
    assert_string_equal(text, "12.3 ms");
    micros_write(text, 3210000);
    assert_string_equal(text, "3.21 s");
}

static void a_chunk_becomes_json(void **state)
{
    Sluice__V1__GenerateChunk c = SLUICE__V1__GENERATE_CHUNK__INIT;
    Sluice__V1__GenerateFigures f = SLUICE__V1__GENERATE_FIGURES__INIT;
    uint32_t tokens[] = {7, 4095};
    char *text;
    json_t *j;

    (void)state;
    c.first_index = 3;
    c.n_tokens = 2;
    c.tokens = tokens;
    c.has_text = 1;
    c.text = (ProtobufCBinaryData){4, (uint8_t *)"a\"\nb"};
    c.finish = SLUICE__V1__FINISH__FINISH_LENGTH;
    f.seed = UINT64_MAX;
    f.total_us = 1u << 31;
    c.figures = &f;
    j = json_message(&c.base);
    text = json_dumps(j, JSON_COMPACT);
    assert_string_equal(
        text, "{\"first_index\":3,\"tokens\":[7,4095],\"text\":\"a\\\"\\nb\","
              "\"finish\":\"length\",\"figures\":{\"n_prompt\":0,"
              "\"n_generated\":0,\"queued_us\":0,\"first_token_us\":0,"
              "\"total_us\":2147483648,\"blocks\":0,\"slots\":0,"
              "\"seed\":\"18446744073709551615\",\"n_moves\":0},\"choice\":0,"
              "\"logprobs\":[],"
              "\"top_tokens\":[],\"top_logprobs\":[]}");
    free(text);
    json_decref(j);
}

static void a_receipt_becomes_json(void **state)
{
    Sluice__V1__Receipt r = SLUICE__V1__RECEIPT__INIT;
    Sluice__V1__SequenceRef s = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t id[16] = {0xde, 0xad, [15] = 1};
    json_t *j;

    (void)state;
    s.request_id = (ProtobufCBinaryData){16, id};
    r.sequence = &s;
    r.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE;
    r.blocks = 5;
    r.has_worker = 1;
    r.worker = (ProtobufCBinaryData){3, (uint8_t *)"w\xff!"};
    j = json_message(&r.base);
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(j, "sequence"), "request_id")),
                        "dead0000000000000000000000000001");
    assert_string_equal(json_string_value(json_object_get(j, "state")),
                        "decode");
    assert_int_equal(json_integer_value(json_object_get(j, "blocks")), 5);
    assert_string_equal(json_string_value(json_object_get(j, "worker")),
                        "w\\xff!");
    assert_null(json_object_get(j, "position"));
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(escape_line_escapes_newlines),
        cmocka_unit_test(infinity_and_nan_become_null),
        cmocka_unit_test(escaping_never_outgrows_its_bound),
        cmocka_unit_test(tables_are_aligned_and_escaped),
        cmocka_unit_test(a_row_is_one_line),
        cmocka_unit_test(a_wide_table_is_printed_in_parts),
        cmocka_unit_test(bars_show_the_part_in_use),
        cmocka_unit_test(figures_have_units),
        cmocka_unit_test(a_chunk_becomes_json),
        cmocka_unit_test(a_receipt_becomes_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

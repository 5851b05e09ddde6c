#include "common/model/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

#define MALFORMED "tests/vectors/malformed_models"

static enum status parse(const char *file, const char *bytes, size_t len,
                         struct error *e)
{
    enum status st;

    *e = (struct error){.code = ST_OK};
    if (strncmp(file, "index/", 6) == 0) {
        struct safetensors_index x;

        st = safetensors_index_parse(&x, bytes, len, e);
        if (st == ST_OK) {
            safetensors_index_fini(&x);
        }
    } else {
        struct safetensors s;

        st = safetensors_parse_file(&s, bytes, len, e);
        if (st == ST_OK) {
            safetensors_fini(&s);
        }
    }
    return st;
}

static void check_file(const char *file, const char *expect)
{
    char path[256], *bytes, *exact;
    size_t len;
    struct error e;
    enum status st;

    snprintf(path, sizeof path, MALFORMED "/%s", file);
    bytes = fixture_read(path, &len);
    /* A block of exactly this size, so that a sanitizer detects a read past
     * it. */
    exact = malloc(len > 0 ? len : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, len);
    st = parse(file, exact, len, &e);
    if ((st == ST_OK) != (strcmp(expect, "ok") == 0)) {
        fail_msg("%s: expected %s, was %s: %s", file, expect, status_name(st),
                 e.text);
    }
    if (st != ST_OK) {
        assert_int_not_equal(strlen(e.text), 0);
    }
    free(exact);
    free(bytes);
}

static void does_what_the_manifest_says(void **state)
{
    json_t *rows = json_load_file(MALFORMED "/manifest.json", 0, NULL), *row;
    size_t i;

    (void)state;
    assert_non_null(rows);
    json_array_foreach(rows, i, row)
    {
        check_file(json_string_value(json_object_get(row, "file")),
                   json_string_value(json_object_get(row, "expect")));
    }
    assert_int_equal(i, 75);
    json_decref(rows);
}

/* One broken file for each rule of the format, with its own message. */
static void has_words_for_each_rule(void **state)
{
    static const struct {
        const char *file, *text;
    } rows[] = {
        {"header_over_100MB", "at most 100000000 are allowed"},
        {"header_len_only", "but only 0 follow"},
        {"array", "does not start with {"},
        {"utf8_in_name", "not UTF-8"},
        {"duplicate_key", "the same key twice"},
        {"first_not_zero", "a hole of "},
        {"hole", "a hole of "},
        {"overlap", "overlap at byte"},
        {"size_mismatch", "by its shape and dtype"},
        {"shape_overflow2", "overflows"},
        {"bytes_overflow", "overflows"},
        {"truncated_data", "of the data, which has"},
        {"extra_data", "follow the last tensor"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[256], *bytes;
        struct error e;
        size_t len;

        snprintf(path, sizeof path, MALFORMED "/safetensors/bad_%s.safetensors",
                 rows[i].file);
        bytes = fixture_read(path, &len);
        assert_int_equal(parse("", bytes, len, &e), ST_DATA_LOSS);
        if (strstr(e.text, rows[i].text) == NULL) {
            fail_msg("%s: \"%s\" has no \"%s\"", rows[i].file, e.text,
                     rows[i].text);
        }
        free(bytes);
    }
}

/* Parses a file of this header and n bytes of data. */
static enum status parse_text(const char *header, size_t n, struct error *e)
{
    size_t len = strlen(header);
    char *bytes = calloc(1, 8 + len + n);
    enum status st;

    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (char)(len >> (8 * i));
    }
    memcpy(bytes + 8, header, len);
    st = parse("", bytes, 8 + len + n, e);
    free(bytes);
    return st;
}

#define T(name, begin, end)                            \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[2,2]," \
    "\"data_offsets\":[" #begin "," #end "]}"

/* Each rule has its own message, which names the tensor. */
static void says_what_is_wrong(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *text;
    } rows[] = {
        {"[]", 0, "does not start with {"},
        {"{" T("t", 0, 16) "}", 15, "ends at byte 16 of the data"},
        {"{" T("t", 0, 16) "}", 17, "1 bytes follow the last tensor"},
        {"{" T("a", 0, 16) "," T("b", 8, 24) "}", 24,
         "\"a\" and \"b\" overlap at byte 8"},
        {"{" T("a", 0, 16) "," T("b", 20, 36) "}", 36,
         "a hole of 4 bytes before tensor \"b\""},
        {"{" T("t", 0, 16) "," T("t", 16, 32) "}", 32, "the same key twice"},
        {"{" T("t", 0, 12) "}", 12, "12 bytes by its offsets, 16 by"},
        {"{" T("t", 16, 0) "}", 16, "ends before it begins"},
        {"{" T("\xff", 0, 16) "}", 16, "not UTF-8"},
        {"{\"t\":{\"dtype\":\"F33\"}}", 0, "unknown dtype \"F33\""},
        {"{\"t\":{\"shape\":[]}}", 0, "no dtype"},
        {"{\"t\":{\"dtype\":\"F32\"}}", 0, "no shape"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "data_offsets"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
         "\"data_offsets\":[0,0]}}",
         0, "overflows"},
        {"{\"t\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
         "1 bytes by its offsets"},
        {"{\"t\":3}", 0, "not an object"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "\"a\" is not a string"},
        {"{\"t\\u001b[2J\":3}", 0, "\"t\\x1b[2J\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error e;

        assert_int_equal(parse_text(rows[i].header, rows[i].data, &e),
                         ST_DATA_LOSS);
        if (strstr(e.text, rows[i].text) == NULL) {
            fail_msg("\"%s\" has no \"%s\"", e.text, rows[i].text);
        }
    }
}

static void reads_what_is_right(void **state)
{
    static const char header[] =
        "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
        "\"__metadata__\":{\"format\":\"pt\"},"
        "\"a\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]}}";
    struct safetensors s;
    struct error e;

    (void)state;
    assert_int_equal(safetensors_parse(&s, header, sizeof header - 1, 16, &e),
                     ST_OK);
    assert_int_equal(s.data, 8 + sizeof header - 1);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.tensors[0].name, "a");
    assert_string_equal(s.tensors[1].name, "b");
    assert_int_equal(s.tensors[1].dtype, SAFETENSORS_BF16);
    assert_int_equal(s.tensors[1].rank, 2);
    assert_int_equal(s.tensors[1].dims[1], 3);
    assert_int_equal(s.tensors[1].begin, 4);
    assert_int_equal(s.tensors[1].end, 16);
    safetensors_fini(&s);
    assert_null(s.tensors);
}

static void bounds_header(void **state)
{
    unsigned char first[8];
    uint64_t n, max = SAFETENSORS_HEADER_MAX;
    struct error e;

    (void)state;
    for (uint64_t extra = 0; extra < 2; extra++) {
        for (int i = 0; i < 8; i++) {
            first[i] = (unsigned char)((max + extra) >> (8 * i));
        }
        assert_int_equal(safetensors_header_bytes(&n, first, max + 99, &e),
                         extra == 0 ? ST_OK : ST_DATA_LOSS);
    }
    assert_non_null(strstr(e.text, "100000001"));
    memset(first, 0, sizeof first);
    first[0] = 10;
    assert_int_equal(safetensors_header_bytes(&n, first, 18, &e), ST_OK);
    assert_int_equal(n, 10);
    assert_int_equal(safetensors_header_bytes(&n, first, 17, &e), ST_DATA_LOSS);
    assert_int_equal(safetensors_header_bytes(&n, first, 7, &e), ST_DATA_LOSS);
}

static void bounds_name_and_rank(void **state)
{
    static char header[SAFETENSORS_NAME_MAX + 256];
    struct error e;

    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        snprintf(header, sizeof header,
                 "{\"%0*d\":{\"dtype\":\"U8\",\"shape\":[%s1,1,1,1,1,1,1,1],"
                 "\"data_offsets\":[0,1]}}",
                 SAFETENSORS_NAME_MAX + extra, 0, "");
        assert_int_equal(parse_text(header, 1, &e),
                         extra == 0 ? ST_OK : ST_DATA_LOSS);
        snprintf(header, sizeof header,
                 "{\"t\":{\"dtype\":\"U8\",\"shape\":[%s1,1,1,1,1,1,1,1],"
                 "\"data_offsets\":[0,1]}}",
                 extra == 0 ? "" : "1,");
        assert_int_equal(parse_text(header, 1, &e),
                         extra == 0 ? ST_OK : ST_DATA_LOSS);
    }
    assert_non_null(strstr(e.text, "9 dimensions"));
}

static void names_files_of_an_index(void **state)
{
    static const char text[] =
        "{\"weight_map\":{\"x\":\"b.safetensors\",\"y\":\"a.safetensors\","
        "\"z\":\"b.safetensors\"}}";
    struct safetensors_index x;
    struct error e;

    (void)state;
    assert_int_equal(safetensors_index_parse(&x, text, sizeof text - 1, &e),
                     ST_OK);
    assert_int_equal(x.n_files, 2);
    assert_string_equal(x.files[0], "b.safetensors");
    assert_string_equal(x.files[1], "a.safetensors");
    safetensors_index_fini(&x);
}

static void refuses_file_names(void **state)
{
    static const char *const names[] = {
        "..",
        "../a.safetensors",
        "a/b.safetensors",
        "/a.safetensors",
        ".safetensors",
        ".a.safetensors",
        "a.bin",
        "a.safetensors/",
        "",
    };
    char text[128];
    struct safetensors_index x;
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(text, sizeof text, "{\"weight_map\":{\"t\":\"%s\"}}",
                 names[i]);
        assert_int_equal(safetensors_index_parse(&x, text, strlen(text), &e),
                         ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "\"t\""));
    }
}

static void bounds_index(void **state)
{
    char *text = malloc(INDEX_BYTES_MAX + 1);
    struct safetensors_index x;
    struct error e;
    size_t len;

    (void)state;
    assert_non_null(text);
    for (int extra = 0; extra < 2; extra++) {
        len = (size_t)sprintf(text, "{\"weight_map\":{\"a\":\"0.safetensors\"");
        for (int i = 1; i < INDEX_FILES_MAX + extra; i++) {
            len += (size_t)sprintf(text + len, ",\"a%d\":\"%d.safetensors\"", i,
                                   i);
        }
        len += (size_t)sprintf(text + len, "}}");
        if (extra == 0) { /* and the largest allowed size */
            memset(text + len, ' ', INDEX_BYTES_MAX + 1 - len);
            assert_int_equal(
                safetensors_index_parse(&x, text, INDEX_BYTES_MAX, &e), ST_OK);
            assert_int_equal(x.n_files, INDEX_FILES_MAX);
            safetensors_index_fini(&x);
            len = INDEX_BYTES_MAX + 1;
        }
        assert_int_equal(safetensors_index_parse(&x, text, len, &e),
                         ST_INVALID_ARGUMENT);
    }
    assert_non_null(strstr(e.text, "more than 512 files"));
    free(text);
}

/* Writes an index of n tensors whose files alternate.  Returns its length. */
static size_t write_index(char *text, size_t n, size_t n_files)
{
    size_t len = (size_t)sprintf(text, "{\"weight_map\":{");

    for (size_t i = 0; i < n; i++) {
        len += (size_t)sprintf(text + len, "%s\"t%zu\":\"%zu.safetensors\"",
                               i == 0 ? "" : ",", i, i % n_files);
    }
    return len + (size_t)sprintf(text + len, "}}");
}

/* Each tensor is in another file than the one before it. */
static void compares_about_one_name_a_tensor(void **state)
{
    const size_t n = 20000;
    char *text = malloc(n * 48);
    struct safetensors_index x;
    struct error e;

    (void)state;
    assert_non_null(text);
    assert_int_equal(safetensors_index_parse(
                         &x, text, write_index(text, n, INDEX_FILES_MAX), &e),
                     ST_OK);
    assert_int_equal(x.n_files, INDEX_FILES_MAX);
    assert_string_equal(x.files[511], "511.safetensors");
    assert_in_range(x.n_compared, 1, n + n / 100);
    safetensors_index_fini(&x);
    free(text);
}

/* weight_map is an entry too. */
static void bounds_entries_of_an_index(void **state)
{
    char *text = malloc((size_t)INDEX_MEMBERS_MAX * 48);
    struct safetensors_index x;
    struct error e;
    size_t len;

    (void)state;
    assert_non_null(text);
    len = write_index(text, INDEX_MEMBERS_MAX - 1, 1);
    assert_int_equal(safetensors_index_parse(&x, text, len, &e), ST_OK);
    safetensors_index_fini(&x);
    len = write_index(text, INDEX_MEMBERS_MAX, 1);
    assert_int_equal(safetensors_index_parse(&x, text, len, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "524289 entries, at most 524288"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_what_the_manifest_says),
        cmocka_unit_test(has_words_for_each_rule),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(reads_what_is_right),
        cmocka_unit_test(bounds_header),
        cmocka_unit_test(bounds_name_and_rank),
        cmocka_unit_test(names_files_of_an_index),
        cmocka_unit_test(refuses_file_names),
        cmocka_unit_test(bounds_index),
        cmocka_unit_test(compares_about_one_name_a_tensor),
        cmocka_unit_test(bounds_entries_of_an_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

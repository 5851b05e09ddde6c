#include "common/model/gguf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/common/model/gguf_writer.h"
#include "tests/unit/worker/model/fixture.h"

static const float zeros[64];

/* One of everything. */
static struct gguf_file *full_file(uint32_t version, uint32_t alignment)
{
    static const char *const words[] = {"a", "", "longer"};
    static const int32_t numbers[] = {-1, 0, 7};
    static const uint64_t dims[] = {8, 3, 2};
    struct gguf_file *f = gguf_file_new(version, alignment);

    gguf_put_text(f, "general.architecture", "llama");
    gguf_put_u32(f, "llama.block_count", 12);
    gguf_put_f32(f, "real", 0.5F);
    gguf_put_bool(f, "flag", 1);
    gguf_put_raw(f, "i8", 1, "\xff", 1);
    gguf_put_raw(f, "u16", 2, "\xff\xff", 2);
    gguf_put_raw(f, "i16", 3, "\xfe\xff", 2);
    gguf_put_raw(f, "u64", 10, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    gguf_put_raw(f, "i64", 11, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    gguf_put_raw(f, "f64", 12, "\0\0\0\0\0\0\xe0\x3f", 8);
    gguf_put_texts(f, "words", 3, words);
    gguf_put_i32s(f, "numbers", 3, numbers);
    gguf_add_values(f, "b.weight", WRITE_F32, 3, dims, zeros);
    gguf_add_values(f, "a.weight", WRITE_F16, 1, dims, zeros);
    return f;
}

static enum status parse(struct gguf *g, const unsigned char *bytes, size_t len,
                         struct error *e)
{
    *e = (struct error){.code = ST_OK};
    return gguf_parse(g, bytes, len, len, NULL, e);
}

static void check_values(const struct gguf *g)
{
    const char *text;
    size_t at = 0, n;
    int64_t whole;
    double real;

    assert_true(gguf_whole(gguf_find(g, "llama.block_count"), 0, &whole));
    assert_int_equal(whole, 12);
    assert_true(gguf_whole(gguf_find(g, "i8"), 0, &whole));
    assert_int_equal(whole, -1);
    assert_true(gguf_whole(gguf_find(g, "u16"), 0, &whole));
    assert_int_equal(whole, 65535);
    assert_true(gguf_whole(gguf_find(g, "i16"), 0, &whole));
    assert_int_equal(whole, -2);
    assert_true(gguf_whole(gguf_find(g, "i64"), 0, &whole));
    assert_int_equal(whole, -1);
    assert_false(gguf_whole(gguf_find(g, "u64"), 0, &whole));
    assert_true(gguf_whole(gguf_find(g, "numbers"), 2, &whole));
    assert_int_equal(whole, 7);
    assert_false(gguf_whole(gguf_find(g, "numbers"), 3, &whole));
    assert_false(gguf_whole(gguf_find(g, "real"), 0, &whole));
    assert_true(gguf_real(gguf_find(g, "real"), 0, &real));
    assert_true(real == 0.5);
    assert_true(gguf_real(gguf_find(g, "f64"), 0, &real));
    assert_true(real == 0.5);
    assert_true(gguf_real(gguf_find(g, "numbers"), 0, &real));
    assert_true(real == -1);
    assert_true(gguf_find(g, "words")->array);
    assert_true(gguf_next_text(gguf_find(g, "words"), &at, &text, &n));
    assert_int_equal(n, 1);
    assert_true(gguf_next_text(gguf_find(g, "words"), &at, &text, &n));
    assert_int_equal(n, 0);
    assert_true(gguf_next_text(gguf_find(g, "words"), &at, &text, &n));
    assert_memory_equal(text, "longer", 6);
    assert_false(gguf_next_text(gguf_find(g, "words"), &at, &text, &n));
    assert_null(gguf_find(g, "word"));
}

static void reads_every_kind_of_value(void **state)
{
    static const uint32_t alignments[] = {0, 1, 64, 4096};

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        struct gguf_file *f = full_file(2 + i % 2, alignments[i / 2]);
        size_t len;
        unsigned char *bytes = gguf_bytes(f, &len);
        struct gguf g;
        struct error e;

        if (parse(&g, bytes, len, &e) != ST_OK) {
            fail_msg("%s", e.text);
        }
        check_values(&g);
        assert_int_equal(g.version, 2 + i % 2);
        assert_int_equal(g.n_tensors, 2);
        assert_string_equal(g.tensors[0].name, "b.weight");
        assert_int_equal(g.tensors[0].rank, 3);
        assert_int_equal(g.tensors[0].dims[0], 8);
        assert_int_equal(g.tensors[0].dims[3], 1);
        assert_int_equal(g.tensors[0].bytes, 192);
        assert_int_equal(g.tensors[1].type, GGUF_F16);
        assert_ptr_equal(gguf_find_tensor(&g, "a.weight"), &g.tensors[1]);
        gguf_fini(&g);
        free(bytes);
        gguf_file_free(&f);
    }
}

/* Each prefix is a download that is not complete; the zeros behind the last
 * tensor alone may be missing. */
static void refuses_every_prefix(void **state)
{
    struct gguf_file *f = full_file(3, 0);
    size_t len, whole;
    unsigned char *bytes = gguf_bytes(f, &len);
    struct gguf g;
    struct error e;

    (void)state;
    assert_int_equal(parse(&g, bytes, len, &e), ST_OK);
    whole = g.data + g.tensors[1].offset + g.tensors[1].bytes;
    gguf_fini(&g);
    for (size_t n = 0; n < whole; n++) {
        unsigned char *exact = malloc(n > 0 ? n : 1);

        memcpy(exact, bytes, n);
        if (parse(&g, exact, n, &e) != ST_DATA_LOSS) {
            fail_msg("%zu of %zu bytes: %s", n, len, e.text);
        }
        assert_int_not_equal(strlen(e.text), 0);
        free(exact);
    }
    assert_int_equal(parse(&g, bytes, whole, &e), ST_OK);
    gguf_fini(&g);
    free(bytes);
    gguf_file_free(&f);
}

static void names_a_length_that_is_needed(void **state)
{
    struct gguf_file *f = full_file(3, 0);
    size_t len, need = 0, runs = 0;
    unsigned char *bytes = gguf_bytes(f, &len);
    struct gguf g;
    struct error e;

    (void)state;
    for (size_t n = 0; gguf_parse(&g, bytes, n, len, &need, &e) != ST_OK;
         n = need, runs++) {
        assert_int_equal(e.code, ST_OUT_OF_RANGE);
        assert_true(need > n && need <= len);
    }
    assert_true(runs > 10);
    check_values(&g);
    gguf_fini(&g);
    free(bytes);
    gguf_file_free(&f);
}

/* ---- broken files ---- */

typedef void break_fn(struct gguf_file *f);

static void twice(struct gguf_file *f)
{
    gguf_put_u32(f, "real", 1);
}

static void tensor_twice(struct gguf_file *f)
{
    static const uint64_t dims[] = {8};

    gguf_add_values(f, "b.weight", WRITE_F32, 1, dims, zeros);
}

static void nested(struct gguf_file *f)
{
    gguf_put_raw(f, "x", 9, "\t\0\0\0\1\0\0\0\0\0\0\0", 12);
}

static void strange_items(struct gguf_file *f)
{
    gguf_put_raw(f, "x", 9, "\15\0\0\0\1\0\0\0\0\0\0\0", 12);
}

static void strange_value(struct gguf_file *f)
{
    gguf_put_raw(f, "x", 13, "\0\0\0\0", 4);
}

static void long_array(struct gguf_file *f)
{
    gguf_put_raw(f, "x", 9, "\0\0\0\0\1\0\100\0\0\0\0\0", 12);
}

static void endless_array(struct gguf_file *f)
{
    gguf_put_raw(f, "x", 9, "\0\0\0\0\377\377\377\377\377\377\377\377", 12);
}

static void long_string(struct gguf_file *f)
{
    gguf_put_raw(f, "x", 8, "\1\0\100\0\0\0\0\0", 8);
}

static void endless_string(struct gguf_file *f)
{
    gguf_put_raw(f, "x", 8, "\377\377\377\377\377\377\377\377", 8);
}

static void strange_bool(struct gguf_file *f)
{
    gguf_put_bool(f, "x", 2);
}

static void empty_key(struct gguf_file *f)
{
    gguf_put_u32(f, "", 2);
}

static void broken_key(struct gguf_file *f)
{
    gguf_put_u32(f, "k\xff", 2);
}

static void long_key(struct gguf_file *f)
{
    char key[GGUF_NAME_MAX + 2];

    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    gguf_put_u32(f, key, 2);
}

static void odd_alignment(struct gguf_file *f)
{
    gguf_put_u32(f, "general.alignment", 48);
}

static void no_alignment(struct gguf_file *f)
{
    gguf_put_u32(f, "general.alignment", 0);
}

static void great_alignment(struct gguf_file *f)
{
    gguf_put_u32(f, "general.alignment", GGUF_ALIGNMENT_MAX * 2);
}

static void real_alignment(struct gguf_file *f)
{
    gguf_put_f32(f, "general.alignment", 32);
}

static void add(struct gguf_file *f, uint32_t type, uint32_t rank, uint64_t a,
                uint64_t b, uint64_t c)
{
    const uint64_t dims[5] = {a, b, c, 1, 1};

    gguf_add(f, "x", type, rank, dims, zeros, 128);
}

static void strange_type(struct gguf_file *f)
{
    add(f, 4, 1, 32, 1, 1);
}

static void rank_0(struct gguf_file *f)
{
    add(f, WRITE_F32, 0, 32, 1, 1);
}

static void rank_5(struct gguf_file *f)
{
    add(f, WRITE_F32, 5, 32, 1, 1);
}

static void empty_dim(struct gguf_file *f)
{
    add(f, WRITE_F32, 2, 32, 0, 1);
}

static void half_block(struct gguf_file *f)
{
    add(f, WRITE_Q8_0, 2, 48, 2, 1);
}

static void overflow_one(struct gguf_file *f)
{
    add(f, WRITE_F32, 1, UINT64_C(1) << 62, 1, 1);
}

static void overflow_product(struct gguf_file *f)
{
    add(f, WRITE_F32, 3, UINT64_C(1) << 32, UINT64_C(1) << 32, 32);
}

static void exabytes(struct gguf_file *f)
{
    add(f, WRITE_F32, 1, UINT64_C(1) << 56, 1, 1);
}

static void too_much(struct gguf_file *f)
{
    add(f, WRITE_F32, 1, 33, 1, 1);
}

static void too_little(struct gguf_file *f)
{
    add(f, WRITE_F32, 1, 8, 1, 1);
}

static void refuses_what_is_broken(void **state)
{
    static const struct {
        break_fn *make;
        const char *text;
    } rows[] = {
        {twice, "the key \"real\" twice"},
        {tensor_twice, "two tensors have the name \"b.weight\""},
        {nested, "\"x\": an array of type 9 is not supported"},
        {strange_items, "\"x\": an array of type 13"},
        {strange_value, "\"x\": the unknown type 13"},
        {long_array, "\"x\": an array of 4194305 items, 4194304 are"},
        {endless_array, "items, 4194304 are allowed"},
        {long_string, "a string has 4194305 bytes, 4194304 are allowed"},
        {endless_string, "bytes, 4194304 are allowed"},
        {strange_bool, "\"x\": a bool is 2"},
        {empty_key, "a key \"\" is empty"},
        {broken_key, "a key \"k\\xff\" is empty, not UTF-8"},
        {long_key, "a key has 256 bytes, 255 are allowed"},
        {odd_alignment, "general.alignment is no power of two"},
        {no_alignment, "general.alignment is no power of two"},
        {great_alignment, "power of two from 1 to 65536"},
        {real_alignment, "general.alignment is no power of two"},
        {strange_type, "tensor \"x\" has the unknown type 4"},
        {rank_0, "tensor \"x\" has 0 dimensions, 1 to 4"},
        {rank_5, "tensor \"x\" has 5 dimensions, 1 to 4"},
        {empty_dim, "dimension 1 of tensor \"x\" is 0"},
        {half_block, "rows of 48 values, which are no blocks of 32"},
        {overflow_one, "the shape of tensor \"x\" overflows"},
        {overflow_product, "the shape of tensor \"x\" overflows"},
        {exabytes, "tensor \"x\" ends after the data"},
        {too_much, "tensor \"x\" ends after the data"},
        {too_little, "96 bytes follow the last tensor"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_file *f = full_file(3, 0);
        unsigned char *bytes, *exact;
        size_t len;
        struct gguf g;
        struct error e;

        rows[i].make(f);
        bytes = gguf_bytes(f, &len);
        exact = malloc(len);
        memcpy(exact, bytes, len);
        if (parse(&g, exact, len, &e) == ST_OK ||
            strstr(e.text, rows[i].text) == NULL) {
            fail_msg("row %zu: \"%s\" without \"%s\"", i, e.text, rows[i].text);
        }
        free(exact);
        free(bytes);
        gguf_file_free(&f);
    }
}

/* Numbers of the first 24 bytes, and the offset of a tensor. */
static void refuses_broken_numbers(void **state)
{
    static const struct {
        size_t at;
        unsigned char byte;
        const char *text;
    } rows[] = {
        {0, 'g', "does not begin with GGUF"},
        {4, 1, "version 1 is not supported; 2 and 3"},
        {4, 4, "version 4 is not supported"},
        {7, 3, "is not supported; 2 and 3, little-endian"},
        {10, 1, "65538 tensors and 12 values, 65536 and 65536 are allowed"},
        {15, 0x80, "tensors and 12 values"},
        {18, 1, "2 tensors and 65548 values"},
        {23, 0x80, "2 tensors and"},
        {16, 11, ""},
        {16, 13, ""},
        {8, 1, ""},
        {8, 3, ""},
    };
    struct gguf_file *f = full_file(3, 0);
    size_t len;
    unsigned char *bytes = gguf_bytes(f, &len);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char was = bytes[rows[i].at];
        struct gguf g;
        struct error e;

        bytes[rows[i].at] = rows[i].byte;
        if (parse(&g, bytes, len, &e) == ST_OK || e.text[0] == '\0' ||
            strstr(e.text, rows[i].text) == NULL) {
            fail_msg("row %zu: \"%s\" without \"%s\"", i, e.text, rows[i].text);
        }
        bytes[rows[i].at] = was;
    }
    free(bytes);
    gguf_file_free(&f);
}

/* Every byte of the header with every value: what is accepted keeps the
 * invariants. */
static void any_byte_may_be_wrong(void **state)
{
    struct gguf_file *f = full_file(3, 0);
    size_t len, n_ok = 0;
    unsigned char *bytes = gguf_bytes(f, &len);
    struct gguf g;
    struct error e;

    (void)state;
    for (size_t i = 0; i < len; i++) {
        unsigned char was = bytes[i];

        for (int v = 0; v < 256; v += i < 600 ? 1 : 51) {
            bytes[i] = (unsigned char)v;
            if (parse(&g, bytes, len, &e) != ST_OK) {
                assert_int_not_equal(strlen(e.text), 0);
                continue;
            }
            n_ok++;
            for (uint32_t t = 0; t < g.n_tensors; t++) {
                assert_true(g.data + g.tensors[t].offset + g.tensors[t].bytes <=
                            len);
            }
            gguf_fini(&g);
        }
        bytes[i] = was;
    }
    assert_true(n_ok > len);
    free(bytes);
    gguf_file_free(&f);
}

/* ---- limits ---- */

static void limits_are_exact(void **state)
{
    char key[GGUF_NAME_MAX + 1], *items = calloc(1, GGUF_ITEMS_MAX + 12);
    char *text = malloc(GGUF_STRING_MAX + 1);
    struct gguf_file *f = gguf_file_new(3, GGUF_ALIGNMENT_MAX);
    unsigned char *bytes;
    size_t len;
    struct gguf g;
    struct error e;

    (void)state;
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    gguf_put_u32(f, key, 1);
    memset(text, 't', GGUF_STRING_MAX);
    text[GGUF_STRING_MAX] = '\0';
    gguf_put_text(f, "text", text);
    memcpy(items, "\0\0\0\0\0\0\100\0\0\0\0\0", 12);
    gguf_put_raw(f, "items", 9, items, GGUF_ITEMS_MAX + 12);
    bytes = gguf_bytes(f, &len);
    if (parse(&g, bytes, len, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    assert_int_equal(gguf_find(&g, "items")->n, GGUF_ITEMS_MAX);
    gguf_fini(&g);
    free(bytes);
    free(items);
    free(text);
    gguf_file_free(&f);
}

/* Makes a file of many values or tensors. */
static enum status parse_many(uint32_t n_values, uint32_t n_tensors,
                              struct error *e)
{
    static const uint64_t dims[] = {8};
    struct gguf_file *f = gguf_file_new(3, 0);
    unsigned char *bytes;
    char name[16];
    size_t len;
    struct gguf g;
    enum status st;

    for (uint32_t i = 0; i < n_values; i++) {
        snprintf(name, sizeof name, "%u", i);
        gguf_put_u32(f, name, i);
    }
    for (uint32_t i = 0; i < n_tensors; i++) {
        snprintf(name, sizeof name, "%u", i);
        gguf_add(f, name, WRITE_F32, 1, dims, zeros, 32);
    }
    bytes = gguf_bytes(f, &len);
    st = parse(&g, bytes, len, e);
    if (st == ST_OK) {
        gguf_fini(&g);
    }
    free(bytes);
    gguf_file_free(&f);
    return st;
}

static void counts_are_limited(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(parse_many(GGUF_VALUES_MAX, GGUF_TENSORS_MAX, &e), ST_OK);
    assert_int_equal(parse_many(GGUF_VALUES_MAX + 1, 1, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "65536 are allowed"));
    assert_int_equal(parse_many(1, GGUF_TENSORS_MAX + 1, &e), ST_DATA_LOSS);
}

/* Writes a key and an array of n numbers of one byte, which stay 0. */
static size_t put_numbers(unsigned char *bytes, size_t at, char key, uint32_t n)
{
    memset(bytes + at, 0, 25);
    bytes[at] = 1;
    bytes[at + 8] = (unsigned char)key;
    bytes[at + 9] = 9;
    for (int i = 0; i < 4; i++) {
        bytes[at + 17 + (size_t)i] = (unsigned char)(n >> (8 * i));
    }
    return at + 25 + n;
}

/* 63 arrays of 4 MiB and one that fills the header.  Pages between them are
 * never touched. */
static void the_header_is_limited(void **state)
{
    unsigned char *bytes = calloc(1, GGUF_HEADER_MAX + 1);
    size_t at = 24;
    struct gguf g;
    struct error e;

    (void)state;
    assert_non_null(bytes);
    memcpy(bytes, "GGUF\3", 5);
    bytes[16] = 64;
    for (int i = 0; i < 63; i++) {
        at = put_numbers(bytes, at, (char)(i + 33), GGUF_ITEMS_MAX);
    }
    assert_int_equal(
        put_numbers(bytes, at, 'z', (uint32_t)(GGUF_HEADER_MAX - at - 25)),
        GGUF_HEADER_MAX);
    if (parse(&g, bytes, GGUF_HEADER_MAX, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    gguf_fini(&g);
    put_numbers(bytes, at, 'z', (uint32_t)(GGUF_HEADER_MAX + 1 - at - 25));
    assert_int_equal(parse(&g, bytes, GGUF_HEADER_MAX + 1, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "longer than 268435456 bytes"));
    free(bytes);
}

static void a_long_header_is_read_in_steps(void **state)
{
    const char *path = fixture_path("long.gguf");
    struct gguf_file *f = full_file(3, 0);
    char *text = malloc(3000001);
    unsigned char *bytes;
    size_t len;
    struct gguf g;
    struct error e;
    int fd;

    (void)state;
    memset(text, 't', 3000000);
    text[3000000] = '\0';
    gguf_put_text(f, "text", text);
    bytes = gguf_bytes(f, &len);
    fixture_write(path, bytes, len);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    if (gguf_read(&g, fd, len, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    check_values(&g);
    assert_int_equal(gguf_find(&g, "text")->bytes, 3000008);
    gguf_fini(&g);
    assert_int_equal(gguf_read(&g, fd, len + 1, &e), ST_DATA_LOSS);
    close(fd);
    free(text);
    free(bytes);
    gguf_file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_kind_of_value),
        cmocka_unit_test(refuses_every_prefix),
        cmocka_unit_test(names_a_length_that_is_needed),
        cmocka_unit_test(refuses_what_is_broken),
        cmocka_unit_test(refuses_broken_numbers),
        cmocka_unit_test(any_byte_may_be_wrong),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(counts_are_limited),
        cmocka_unit_test(the_header_is_limited),
        cmocka_unit_test(a_long_header_is_read_in_steps),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

/* Prompts: exact numbers of tokens, shared beginnings, conversations. */
#include "client/load/plan/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/load/plan/words.h"
#include "common/base/utf8.h"
#include "plan_fixture.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/text/small.h"
#include "text/tokenizer.h"

/* The model that comes with the repository: a real vocabulary. */
#define MODEL "models/tiny-hybrid"

static struct tokenizer *model, *small; /* the same as the makers' */
static char small_dir[] = "/tmp/sluice-prompt-XXXXXX";
static char small_file[64];

/* Writes a tokenizer that merges across blanks. */
static int make_tokenizers(void **state)
{
    json_t *root = fixture_small();
    struct error e;
    int rc;

    (void)state;
    assert_non_null(mkdtemp(small_dir));
    snprintf(small_file, sizeof small_file, "%s/tokenizer.json", small_dir);
    rc = json_dump_file(root, small_file, 0);
    json_decref(root);
    assert_int_equal(tokenizer_load(&small, small_file, &e), ST_OK);
    assert_int_equal(tokenizer_load(&model, MODEL "/tokenizer.json", &e),
                     ST_OK);
    return rc;
}

static int free_tokenizers(void **state)
{
    (void)state;
    tokenizer_free(&small);
    tokenizer_free(&model);
    unlink(small_file);
    rmdir(small_dir);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    fixture_fini();
    return 0;
}

static struct prompt_maker *maker(const struct prompt_options *o)
{
    struct prompt_maker *m;
    struct error e = {0};

    if (prompt_maker_new(&m, o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return m;
}

static void refused(const struct prompt_options *o, const char *has)
{
    struct prompt_maker *m;
    struct error e = {0};

    assert_int_not_equal(prompt_maker_new(&m, o, &e), ST_OK);
    assert_null(m);
    if (strstr(e.text, has) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", e.text, has);
    }
}

/* A session of one turn with these pieces. */
static struct plan_session *one_turn(const struct plan_piece *pieces,
                                     uint32_t n)
{
    static struct plan_session s;

    s.n_turns = 1;
    s.n_pieces = n;
    s.turns[0] = (struct plan_turn){.parent = -1, .n_pieces = n};
    for (uint32_t i = 0; i < n; i++) {
        s.pieces[i] = pieces[i];
        s.turns[0].n_new += pieces[i].n;
    }
    return &s;
}

/* Returns what a tokenizer counts in a text. */
static size_t counted(const struct tokenizer *t, const char *text, size_t n)
{
    size_t n_ids, cap = tokenizer_bound(t, n);
    uint32_t *ids = malloc((cap + 1) * sizeof *ids);
    struct error e;

    assert_non_null(ids);
    assert_int_equal(tokenizer_encode(t, text, n, 0, ids, cap, &n_ids, &e),
                     ST_OK);
    free(ids);
    return n_ids;
}

/* ---- ids ---- */

static void ids_have_the_planned_number_and_range(void **state)
{
    static const uint32_t vocabs[] = {1, 2, 7, 259, 32000, 151936};

    (void)state;
    for (size_t i = 0; i < sizeof vocabs / sizeof vocabs[0]; i++) {
        struct prompt_maker *m =
            maker(&(struct prompt_options){.vocab = vocabs[i]});
        struct plan_piece pieces[] = {{1, 100}, {2, 77}, {3, 1}};
        struct prompt out = {0};
        uint32_t different = 0;

        prompt_make(m, one_turn(pieces, 3), 0, NULL, &out);
        assert_int_equal(out.n_ids, 178);
        assert_int_equal(out.n_tokens, 178);
        assert_int_equal(out.n_text, 0);
        for (size_t k = 0; k < out.n_ids; k++) {
            assert_true(out.ids[k] < vocabs[i]);
            different += out.ids[k] != out.ids[0];
        }
        assert_true(different > 50 || vocabs[i] == 1);
        prompt_fini(&out);
        prompt_maker_free(&m);
    }
}

static void the_ends_of_a_vocabulary_are_not_drawn(void **state)
{
    struct prompt_maker *m = maker(&(struct prompt_options){.vocab = 128256});
    struct plan_piece piece = {1, 100000};
    struct prompt out = {0};

    (void)state;
    prompt_make(m, one_turn(&piece, 1), 0, NULL, &out);
    for (size_t k = 0; k < out.n_ids; k++) {
        assert_true(out.ids[k] >= 256 && out.ids[k] < 128256 - 1024);
    }
    prompt_fini(&out);
    prompt_maker_free(&m);
}

static void a_tokenizer_tells_which_ids_are_special(void **state)
{
    struct prompt_maker *m =
        maker(&(struct prompt_options){.vocab = 4096, .tokenizer = MODEL});
    struct plan_piece piece = {1, 100000};
    struct prompt out = {0};
    uint8_t drawn[4096] = {0};
    size_t n_special = 0, len;

    (void)state;
    prompt_make(m, one_turn(&piece, 1), 0, NULL, &out);
    for (size_t k = 0; k < out.n_ids; k++) {
        drawn[out.ids[k]] = 1;
    }
    for (uint32_t id = 0; id < 4096; id++) {
        bool special = tokenizer_is_special(model, id);

        assert_int_equal(drawn[id],
                         tokenizer_token(model, id, &len) != NULL && !special);
        n_special += special;
    }
    assert_true(n_special > 0);
    prompt_fini(&out);
    prompt_maker_free(&m);
}

/* ---- equal pieces ---- */

static void starts_equal(const struct prompt_options *o)
{
    struct prompt_maker *m = maker(o);
    struct plan_piece a[] = {{5, 300}, {6, 50}}, b[] = {{5, 300}, {7, 90}};
    struct prompt x = {0}, y = {0}, z = {0};

    prompt_make(m, one_turn(a, 1), 0, NULL, &x);
    prompt_make(m, one_turn(a, 2), 0, NULL, &y);
    prompt_make(m, one_turn(b, 2), 0, NULL, &z);
    if (o->vocab > 0) {
        assert_int_equal(x.n_ids, 300);
        assert_memory_equal(x.ids, y.ids, 300 * sizeof *x.ids);
        assert_memory_equal(x.ids, z.ids, 300 * sizeof *x.ids);
        assert_memory_not_equal(y.ids + 300, z.ids + 300, 50 * sizeof *x.ids);
    } else {
        assert_true(y.n_text > x.n_text && z.n_text > x.n_text);
        assert_memory_equal(x.text, y.text, x.n_text);
        assert_memory_equal(x.text, z.text, x.n_text);
        assert_memory_not_equal(y.text + x.n_text, z.text + x.n_text, 50);
    }
    prompt_fini(&x);
    prompt_fini(&y);
    prompt_fini(&z);
    prompt_maker_free(&m);
}

static void equal_pieces_are_equal_beginnings(void **state)
{
    (void)state;
    starts_equal(&(struct prompt_options){.vocab = 1000});
    starts_equal(&(struct prompt_options){0});
    starts_equal(&(struct prompt_options){.tokenizer = MODEL});
    starts_equal(&(struct prompt_options){.text_file = "README.md"});
    starts_equal(
        &(struct prompt_options){.tokenizer = MODEL, .text_file = "README.md"});
}

/* ---- text ---- */

static void text_is_exact(const struct prompt_options *o, uint32_t most)
{
    struct prompt_maker *m = maker(o);
    struct prompt out = {0};

    for (uint32_t n = 1; n < most; n += 1 + n / 3) {
        struct plan_piece pieces[] = {{n, n}, {n + 1, 2 * n}, {n + 2, 1}};

        prompt_make(m, one_turn(pieces, 3), 0, NULL, &out);
        assert_int_equal(out.n_ids, 0);
        assert_int_equal(out.n_tokens, 3 * n + 1);
        assert_int_equal(counted(model, out.text, out.n_text), 3 * n + 1);
        assert_true(utf8_valid(out.text, out.n_text, NULL));
    }
    prompt_fini(&out);
    prompt_maker_free(&m);
}

static void text_has_the_exact_number_of_tokens(void **state)
{
    (void)state;
    text_is_exact(&(struct prompt_options){.tokenizer = MODEL}, 3000);
    text_is_exact(
        &(struct prompt_options){.tokenizer = MODEL, .text_file = "README.md"},
        3000);
    text_is_exact(&(struct prompt_options){.tokenizer = MODEL,
                                           .text_file = MODEL "/val_text.txt"},
                  3000);
}

/* Its words have one token for most letters, and merges across blanks. */
static void a_tokenizer_without_words_gets_the_nearest(void **state)
{
    struct prompt_maker *m =
        maker(&(struct prompt_options){.tokenizer = small_dir});
    struct prompt out = {0};

    (void)state;
    for (uint32_t n = 1; n < 200; n++) {
        struct plan_piece piece = {n, n};
        size_t got;

        prompt_make(m, one_turn(&piece, 1), 0, NULL, &out);
        got = counted(small, out.text, out.n_text);
        assert_int_equal(out.n_tokens, got);
        assert_true(out.n_text > 0 && got + 1 >= n && got <= n + 1);
    }
    prompt_fini(&out);
    prompt_maker_free(&m);
}

static void text_without_a_tokenizer_is_common_words(void **state)
{
    struct prompt_maker *m = maker(&(struct prompt_options){0});
    struct plan_piece pieces[] = {{1, 100}, {2, 20}};
    struct prompt out = {0};
    size_t blanks = 0;

    (void)state;
    prompt_make(m, one_turn(pieces, 2), 0, NULL, &out);
    for (size_t i = 0; i < out.n_text; i++) {
        blanks += out.text[i] == ' ';
    }
    assert_int_equal(blanks, 119);
    assert_int_equal(out.n_tokens, 120);
    assert_true(out.text[0] != ' ');
    prompt_fini(&out);
    prompt_maker_free(&m);
}

static void text_of_a_file_keeps_its_order(void **state)
{
    const char *path = fixture_file("alpha beta\r\n gamma\tdelta\n");
    struct prompt_maker *m = maker(&(struct prompt_options){.text_file = path});
    struct plan_piece piece = {1, 40};
    struct prompt out = {0};

    (void)state;
    prompt_make(m, one_turn(&piece, 1), 0, NULL, &out);
    assert_non_null(
        memmem(out.text, out.n_text, "beta gamma delta alpha beta gamma", 33));
    prompt_fini(&out);
    prompt_maker_free(&m);
}

static void long_words_are_cut_between_characters(void **state)
{
    char text[400] = "";
    const char *path;
    struct prompt_maker *m;
    struct plan_piece piece = {1, 100};
    struct prompt out = {0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        strcat(text, "\xe6\xbc\xa2"); /* 300 bytes without a blank */
    }
    path = fixture_file(text);
    m = maker(&(struct prompt_options){.text_file = path});
    prompt_make(m, one_turn(&piece, 1), 0, NULL, &out);
    assert_true(utf8_valid(out.text, out.n_text, NULL));
    assert_true(memchr(out.text, ' ', out.n_text) != NULL);
    prompt_fini(&out);
    prompt_maker_free(&m);
}

static void bad_files_are_refused(void **state)
{
    const char *not_utf8 = fixture_file("abc \xff");
    const char *blank = fixture_file(" \n");

    (void)state;
    refused(&(struct prompt_options){.text_file = "/nowhere"}, "/nowhere");
    refused(&(struct prompt_options){.text_file = not_utf8}, "byte 4");
    refused(&(struct prompt_options){.text_file = blank}, "no word");
    refused(&(struct prompt_options){.tokenizer = "/nowhere"}, "/nowhere");
    refused(&(struct prompt_options){.tokenizer = "docs"}, "no tokenizer.json");
}

/* A file of zeroes is read, and then refused for another reason. */
static void a_text_has_a_limit(void **state)
{
    const char *path = fixture_file("");

    (void)state;
    assert_int_equal(truncate(path, (off_t)WORDS_FILE_BYTES_MAX), 0);
    refused(&(struct prompt_options){.text_file = path}, "NUL");
    assert_int_equal(truncate(path, (off_t)WORDS_FILE_BYTES_MAX + 1), 0);
    refused(&(struct prompt_options){.text_file = path},
            "at most 67108864 are allowed");
}

/* ---- conversations ---- */

/* Turn 2 is a child of turn 1, and turn 3 of turn 0. */
static struct plan_session *tree(void)
{
    static struct plan_session s;
    static const int32_t parents[] = {-1, 0, 1, 0};

    s.n_turns = 4;
    s.n_pieces = 5;
    for (uint32_t i = 0; i < 5; i++) {
        s.pieces[i] = (struct plan_piece){.seed = i, .n = 10 + i};
    }
    for (uint32_t i = 0; i < 4; i++) {
        s.turns[i] = (struct plan_turn){.parent = parents[i],
                                        .first_piece = i + 1,
                                        .n_pieces = 1,
                                        .n_new = 11 + i};
    }
    s.turns[0].first_piece = 0;
    s.turns[0].n_pieces = 2;
    s.turns[0].n_new = 21;
    s.turns[0].n_system = 1;
    return &s;
}

static void a_child_continues_its_ancestors_in_ids(void **state)
{
    struct prompt_maker *m = maker(&(struct prompt_options){.vocab = 1000});
    uint32_t said[2][3] = {{1, 2, 3}, {4, 5, 6}};
    struct prompt_answer answers[4] = {{.ids = said[0], .n_ids = 3},
                                       {.ids = said[1], .n_ids = 2}};
    struct prompt root = {0}, child = {0}, leaf = {0};

    (void)state;
    prompt_make(m, tree(), 0, answers, &root);
    prompt_make(m, tree(), 1, answers, &child);
    prompt_make(m, tree(), 2, answers, &leaf);
    assert_int_equal(root.n_ids, 21);
    assert_int_equal(child.n_ids, 21 + 3 + 12);
    assert_int_equal(leaf.n_ids, 21 + 3 + 12 + 2 + 13);
    assert_int_equal(leaf.n_tokens, leaf.n_ids);
    assert_memory_equal(child.ids, root.ids, 21 * sizeof *root.ids);
    assert_memory_equal(child.ids + 21, said[0], 3 * sizeof *root.ids);
    assert_memory_equal(leaf.ids, child.ids, 36 * sizeof *root.ids);
    assert_memory_equal(leaf.ids + 36, said[1], 2 * sizeof *root.ids);
    prompt_fini(&root);
    prompt_fini(&child);
    prompt_fini(&leaf);
    prompt_maker_free(&m);
}

static void a_conversation_is_cut_into_messages(void **state)
{
    struct prompt_maker *m =
        maker(&(struct prompt_options){.tokenizer = MODEL, .messages = true});
    char said[] = "Yes, certainly.";
    struct prompt_answer answers[4] = {{.text = said, .n_text = 15}};
    static const char *const roles[] = {"system", "user", "assistant", "user"};
    static const size_t tokens[] = {10, 11, 0, 14};
    struct prompt p = {0};
    size_t at = 0, total = 0;

    (void)state;
    prompt_make(m, tree(), 3, answers, &p);
    assert_int_equal(p.n_messages, 4);
    for (size_t i = 0; i < 4; i++) {
        const char *text = p.text + p.messages[i].at;
        size_t n = counted(model, text, p.messages[i].n);

        assert_string_equal(p.messages[i].role, roles[i]);
        assert_int_equal(p.messages[i].at, at);
        assert_true(text[0] != ' ');
        if (tokens[i] > 0) {
            assert_int_equal(n, tokens[i]);
        } else {
            assert_memory_equal(text, said, p.messages[i].n);
        }
        total += n;
        at += p.messages[i].n;
    }
    assert_int_equal(at, p.n_text);
    assert_int_equal(p.n_tokens, total);
    prompt_fini(&p);
    prompt_maker_free(&m);
}

static void a_text_continues_with_the_answer(void **state)
{
    struct prompt_maker *m = maker(&(struct prompt_options){0});
    char said[] = " Yes.";
    struct prompt_answer answers[4] = {{.text = said, .n_text = 5}};
    struct prompt root = {0}, child = {0};

    (void)state;
    prompt_make(m, tree(), 0, answers, &root);
    prompt_make(m, tree(), 3, answers, &child);
    assert_int_equal(child.n_messages, 0);
    assert_memory_equal(child.text, root.text, root.n_text);
    assert_memory_equal(child.text + root.n_text, " Yes. ", 6);
    prompt_fini(&root);
    prompt_fini(&child);
    prompt_maker_free(&m);
}

static void buffers_are_reused(void **state)
{
    struct prompt_maker *m = maker(&(struct prompt_options){.messages = true});
    struct plan_piece piece = {1, 1000};
    struct prompt p = {0};
    char *text;

    (void)state;
    prompt_make(m, one_turn(&piece, 1), 0, NULL, &p);
    text = p.text;
    piece.n = 10;
    prompt_make(m, one_turn(&piece, 1), 0, NULL, &p);
    assert_ptr_equal(p.text, text);
    assert_int_equal(p.n_messages, 1);
    assert_int_equal(p.n_tokens, 10);
    prompt_fini(&p);
    assert_null(p.text);
    prompt_maker_free(&m);
}

/* ---- datasets ---- */

static struct plan_session *of_entry(const struct plan_entry *entry)
{
    static struct plan_session s;

    s.n_turns = 1;
    s.n_pieces = 0;
    s.turns[0] = (struct plan_turn){.parent = -1, .entry = entry};
    return &s;
}

static void rows_are_sent_as_they_are(void **state)
{
    static const uint32_t ids[] = {7, 8, 9};
    struct plan_entry texts = {.text = "Hello world", .n_text = 11};
    struct plan_entry numbers = {.ids = ids, .n_ids = 3};
    struct plan_entry messages = {.messages = "[{\"role\":\"user\"}]",
                                  .n_messages = 17};
    struct prompt_maker *text = maker(&(struct prompt_options){0});
    struct prompt_maker *both =
        maker(&(struct prompt_options){.vocab = 4096, .tokenizer = MODEL});
    struct prompt p = {0};

    (void)state;
    prompt_make(text, of_entry(&texts), 0, NULL, &p);
    assert_int_equal(p.n_text, 11);
    assert_memory_equal(p.text, "Hello world", 11);
    assert_int_equal(p.n_ids, 0);
    prompt_make(text, of_entry(&numbers), 0, NULL, &p);
    assert_int_equal(p.n_ids, 3);
    assert_int_equal(p.n_text, 0);
    assert_memory_equal(p.ids, ids, sizeof ids);
    prompt_make(text, of_entry(&messages), 0, NULL, &p);
    assert_ptr_equal(p.json, messages.messages);
    assert_int_equal(p.n_json, 17);
    prompt_make(both, of_entry(&texts), 0, NULL, &p);
    assert_null(p.json);
    assert_int_equal(p.n_text, 0);
    assert_int_equal(p.n_ids, counted(model, "Hello world", 11));
    assert_int_equal(p.n_tokens, p.n_ids);
    prompt_fini(&p);
    prompt_maker_free(&text);
    prompt_maker_free(&both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_have_the_planned_number_and_range),
        cmocka_unit_test(the_ends_of_a_vocabulary_are_not_drawn),
        cmocka_unit_test(a_tokenizer_tells_which_ids_are_special),
        cmocka_unit_test(equal_pieces_are_equal_beginnings),
        cmocka_unit_test(text_has_the_exact_number_of_tokens),
        cmocka_unit_test(a_tokenizer_without_words_gets_the_nearest),
        cmocka_unit_test(text_without_a_tokenizer_is_common_words),
        cmocka_unit_test_teardown(text_of_a_file_keeps_its_order, remove_files),
        cmocka_unit_test_teardown(long_words_are_cut_between_characters,
                                  remove_files),
        cmocka_unit_test_teardown(a_text_has_a_limit, remove_files),
        cmocka_unit_test_teardown(bad_files_are_refused, remove_files),
        cmocka_unit_test(a_child_continues_its_ancestors_in_ids),
        cmocka_unit_test(a_conversation_is_cut_into_messages),
        cmocka_unit_test(a_text_continues_with_the_answer),
        cmocka_unit_test(buffers_are_reused),
        cmocka_unit_test(rows_are_sent_as_they_are),
    };

    return cmocka_run_group_tests(tests, make_tokenizers, free_tokenizers);
}

/* grammar_fixture.c - A small vocabulary whose tokens cross all borders. */
#include "grammar_fixture.h"

const struct grammar_style fixture_strict,
    fixture_free = {.any_order = true, .spaces = true};

static const char *const words[] = {"\": ",
                                    "\":",
                                    "\",",
                                    "\", \"",
                                    "\"}",
                                    "{\"",
                                    "[\"",
                                    "\"]",
                                    "]}",
                                    "}}",
                                    "[]",
                                    "{}",
                                    "true",
                                    "false",
                                    "null",
                                    "name",
                                    "\"name\"",
                                    "abc",
                                    "ab",
                                    "12",
                                    "123",
                                    "0.5",
                                    "-1",
                                    "\\n",
                                    "\\u00",
                                    "\xC3\xA9",
                                    "\xE2\x82\xAC",
                                    " \"",
                                    ", \"",
                                    ": ",
                                    ", ",
                                    "a\"",
                                    "aaaaaaaaaaaaaaaa",
                                    "true}",
                                    "1,",
                                    "1}",
                                    "e\xC3",
                                    "\n  ",
                                    "ame\":",
                                    "ab",
                                    "date",
                                    "-0",
                                    "\xF0\x9F\x98\x80"};

#define N_WORDS (sizeof words / sizeof *words)

uint32_t fixture_n_vocab(void)
{
    return 1 + 256 + N_WORDS;
}

size_t fixture_token(void *arg, uint32_t id, const char **bytes)
{
    static char all[256];

    (void)arg;
    if (id == FIXTURE_END) {
        *bytes = NULL;
        return 0;
    }
    if (id <= 256) {
        all[id - 1] = (char)(id - 1);
        *bytes = &all[id - 1];
        return 1;
    }
    *bytes = words[id - 257];
    return strlen(*bytes);
}

struct grammar_vocab *fixture_vocab(void)
{
    static const uint32_t end = FIXTURE_END;
    struct grammar_vocab *v;
    struct error e;

    assert_int_equal(grammar_vocab_new(&v, fixture_n_vocab(), fixture_token,
                                       NULL, &end, 1, &e),
                     ST_OK);
    return v;
}

struct grammar *fixture_grammar(const struct grammar_vocab *v,
                                enum grammar_kind kind, const char *text,
                                const struct grammar_style *style)
{
    struct grammar *g;
    struct error e = {0};

    if (grammar_compile(&g, v, kind, text, strlen(text), style, &e) != ST_OK) {
        fail_msg("%s: %s", text, e.text);
    }
    return g;
}

bool fixture_matches(struct grammar *g, const char *text)
{
    struct constraint *c;
    struct error e;
    size_t taken;
    bool is;

    assert_int_equal(constraint_new(&c, g, &e), ST_OK);
    is = constraint_accept_text(c, text, strlen(text), &taken, &e) == ST_OK &&
         constraint_complete(c);
    constraint_free(&c);
    return is;
}

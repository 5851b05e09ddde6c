/* Manual pages, completion and sample files from a table of options. */
#include "common/base/option_generate.h"

#include <string.h>

#include "common/base/option_hint.h"
#include "tests/unit/cmocka.h"

#define TEST_OPTIONS(X)                                                        \
    X(model, LIST, "NAME=DIR", NULL, "a 'model' of `it`", 0, 0)                \
    X(level, STRING, "LEVEL", "info", "log level: debug, info or off", 0, 0)   \
    X(device, STRING, "NAME", "cpu",                                           \
      "compute device: cpu, opencl (the first), or its number", 0, 0)          \
    X(api, STRING, "NAME", "auto",                                             \
      "route: chat, text, or auto: chat for text", 0, 0)                       \
    X(load, STRING, "NAME", NULL, "load: chat, burst, trace:FILE; see x", 0,   \
      0)                                                                       \
    X(bits, U32, "N", "4", "bits: 4 or 8", 0, 0)                               \
    X(target, STRING, "URL", NULL, "the server: a router, or another", 0, 0)   \
    X(greedy, F64, "T", NULL, "temperature, 0 to 2; 0: greedy or not", 0, 0)   \
    X(key, STRING, "KEY", NULL, "API key (default: $TEST_KEY, or none)", 0, 0) \
    X(log, STRING, "FILE", NULL, "a log: [1] or [2]", 0, 0)                    \
    X(cache, STRING, "DIR", NULL, ".dot\\slash", 0, 0)                         \
    X(pin, FLAG, NULL, NULL, "pinned", 0, 0)                                   \
    X(help, FLAG, NULL, NULL, "help", 0, 0)

OPTION_TABLE(test_options, TEST_OPTIONS);

static const struct option_verb verbs[] = {
    {"run", "[WORD]", "run it",
     "Paragraph one.\n\nexamples:\n  run 'x' --y\n\n  run 2\n",
     test_options_rows, 2},
    {"stop", "MODEL_DIR", "stop it", NULL, NULL, 0},
    {"group", "check|apply FILE", "all of it", NULL, NULL, 0}};

static const struct option_program daemon_program = {
    .name = "sluice-test",
    .summary = "test it",
    .role = "test",
    .section = 8,
    .usage = "usage: sluice-test [options]\n       sluice-test x\n\nDoes it.\n",
    .more = "\nexamples:\n  sluice-test\n\nexit codes: 0 good,\n     2 bad\n",
    .rows = test_options_rows,
    .n_rows = OPTION_COUNT(test_options_rows)};

static const struct option_program tool = {
    .name = "tool",
    .summary = "use it",
    .section = 1,
    .usage = "usage: tool VERB\n\nUses it.\n",
    .more = "",
    .rows = test_options_rows,
    .n_rows = OPTION_COUNT(test_options_rows),
    .verbs = verbs,
    .n_verbs = OPTION_COUNT(verbs)};

static char text[32768];
static struct error e;

static void generate(const struct option_program *p, const char *kind)
{
    FILE *to = fmemopen(text, sizeof text, "w");

    assert_non_null(to);
    assert_int_equal(option_generate(to, p, kind, &e), ST_OK);
    fclose(to);
}

static void has(const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in:\n%s", part, text);
    }
}

static void lacks(const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("\"%s\" is in:\n%s", part, text);
    }
}

static void hints_follow_the_table(void **state)
{
    static const struct {
        enum option_hint hint;
        const char *words;
    } want[] = {{OPTION_HINT_NAMED_DIR, ""},
                {OPTION_HINT_WORDS, "debug info off"},
                {OPTION_HINT_WORDS, "cpu opencl"},
                {OPTION_HINT_WORDS, "chat text auto"},
                {OPTION_HINT_WORDS, "chat burst"},
                {OPTION_HINT_WORDS, "4 8"},
                {OPTION_HINT_NONE, ""},
                {OPTION_HINT_NONE, ""},
                {OPTION_HINT_NONE, ""},
                {OPTION_HINT_FILE, ""},
                {OPTION_HINT_DIR, ""},
                {OPTION_HINT_FLAG, ""},
                {OPTION_HINT_FLAG, ""}};

    (void)state;
    for (size_t i = 0; i < OPTION_COUNT(test_options_rows); i++) {
        char words[64] = "";
        enum option_hint hint =
            option_hint(&test_options_rows[i], words, sizeof words);

        if (hint != want[i].hint) {
            fail_msg("%s: %d", test_options_rows[i].name, (int)hint);
        }
        if (hint == OPTION_HINT_WORDS) {
            assert_string_equal(words, want[i].words);
        }
    }
    assert_int_equal(option_hint_operands("MODEL_DIR"), OPTION_HINT_DIR);
    assert_int_equal(option_hint_operands("A.json"), OPTION_HINT_FILE);
    assert_int_equal(option_hint_operands("WORKER"), OPTION_HINT_NONE);
    assert_int_equal(option_hint_operands(""), OPTION_HINT_FLAG);
}

static void words_that_do_not_fit_are_left_out(void **state)
{
    char words[10];

    (void)state;
    /* "debug info" and its NUL need 11 bytes, "debug off" 10. */
    assert_int_equal(option_hint(&test_options_rows[1], words, sizeof words),
                     OPTION_HINT_WORDS);
    assert_string_equal(words, "debug off");
}

static void a_manual_page_has_the_options(void **state)
{
    (void)state;
    generate(&daemon_program, "man");
    has(".TH SLUICE\\-TEST 8 ");
    has(".SH NAME\nsluice\\-test \\- test it\n");
    has("\\fBsluice\\-test\\fR [options]\n\\fBsluice\\-test\\fR x\n");
    has(".TP\n\\fB\\-\\-level\\fR \\fILEVEL\\fR\n"
        "log level: debug, info or off (default: info).\n");
    has("a \\(aqmodel\\(aq of \\(gait\\(ga; repeatable.\n");
    has("\n\\&.dot\\eslash.\n");
    has(".SH EXAMPLES\n.RS 4\n.nf\nsluice\\-test\n.fi\n.RE\n");
    has(".SH EXIT STATUS\n0 good,\n2 bad\n");
    has("\\fBSLUICE_TEST_CONFIG\\fR\n");
    has("/test.conf\\fR\n");
}

static void a_manual_page_has_the_verbs(void **state)
{
    (void)state;
    generate(&tool, "man");
    has(".SH VERBS\n.SS \"run [WORD]\"\nrun it.\n.PP\nParagraph one.\n"
        ".PP\nexamples:\n.PP\n.RS 4\n.nf\nrun \\(aqx\\(aq \\-\\-y\n\nrun 2\n"
        ".fi\n.RE\n.TP\n");
    has(".SS \"stop MODEL_DIR\"\n");
    has(".SH ENVIRONMENT\n.TP\n\\fBTEST_KEY\\fR\nDefault of \\-\\-key.\n");
}

static void bash_has_values_and_options(void **state)
{
    (void)state;
    generate(&tool, "bash");
    has("    'run --level') _tool_words 'debug info off' ;;\n");
    has("    *' --log') _tool_paths -f ;;\n");
    has("    *' --cache') _tool_paths -d ;;\n");
    has("    *' --key') : ;;\n");
    lacks("--pin') ");
    has("    run) options+=' --model --level' ;;\n");
    has("    '' | help) _tool_words 'help run stop group' ;;\n");
    has("    stop) _tool_paths -d ;;\n");
    has("    group) if [ \"$operands\" -eq 0 ]; then _tool_words 'check "
        "apply'; "
        "else _tool_paths -f; fi ;;\n");
    has("complete -F _tool tool\n");
    lacks("@");
}

static void zsh_has_values_and_options(void **state)
{
    (void)state;
    generate(&tool, "zsh");
    has("#compdef tool\n");
    has("'--level=[log level\\: debug, info or off]:LEVEL:(debug info off)'\n");
    has("'--log=[a log\\: \\[1\\] or \\[2\\]]:FILE:_files'\n");
    has("'*--model=[a '\\''model'\\'' of `it`]:NAME=DIR:");
    has("'--pin[pinned]'\n");
    has("'run:run it'\n");
    has("_arguments $specs '1:action:(check apply)' "
        "'*:check|apply FILE:_files'\n");
}

static void a_sample_is_all_comments(void **state)
{
    (void)state;
    generate(&daemon_program, "conf");
    has("\n# log level: debug, info or off\n#level = info\n");
    has("\n#pin = no\n");
    has("\n#cache = DIR\n");
    lacks("#help = ");
    for (const char *line = text; *line != '\0';
         line += strcspn(line, "\n") + 1) {
        assert_true(line[0] == '#' || line[0] == '\n');
        assert_in_range(strcspn(line, "\n"), 0, 80);
    }
}

static void refuses_other_kinds(void **state)
{
    char *asks[] = {"tool", "--generate", "man", NULL};
    char *bare[] = {"tool", "--generate", NULL};
    char *other[] = {"tool", "run", "--generate", NULL};

    (void)state;
    assert_string_equal(option_generate_kind(3, asks), "man");
    assert_string_equal(option_generate_kind(2, bare), "");
    assert_null(option_generate_kind(3, other));
    assert_null(option_generate_kind(1, bare));
    assert_int_equal(option_generate(stdout, &tool, "", &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(option_generate(stdout, &tool, "conf", &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(option_generate(stdout, &tool, "man5", &e),
                     ST_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hints_follow_the_table),
        cmocka_unit_test(words_that_do_not_fit_are_left_out),
        cmocka_unit_test(a_manual_page_has_the_options),
        cmocka_unit_test(a_manual_page_has_the_verbs),
        cmocka_unit_test(bash_has_values_and_options),
        cmocka_unit_test(zsh_has_values_and_options),
        cmocka_unit_test(a_sample_is_all_comments),
        cmocka_unit_test(refuses_other_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

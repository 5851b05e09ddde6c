#include "worker/model/progress.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define MIB 1048576ull

static char *text;
static size_t len;

static void begin(struct progress *p, bool terminal)
{
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    progress_init(p, out, terminal, 7000000);
}

/* Ends p and compares its whole output. */
static void said(struct progress *p, const char *want)
{
    progress_end(p);
    fclose(p->out);
    assert_string_equal(text, want);
    free(text);
}

static void is_quiet_about_short_loads(void **state)
{
    struct progress p;

    (void)state;
    begin(&p, true);
    progress_update(&p, 7000001, MIB, 2 * MIB);
    progress_update(&p, 7000000 + PROGRESS_QUIET_US - 1, 2 * MIB, 2 * MIB);
    said(&p, "");
}

static void writes_over_a_line_of_a_terminal(void **state)
{
    struct progress p;

    (void)state;
    begin(&p, true);
    progress_update(&p, 9000000, 100 * MIB, 400 * MIB);
    progress_update(&p, 9000000 + PROGRESS_TERMINAL_US - 1, 150 * MIB,
                    400 * MIB);
    progress_update(&p, 11000000, 200 * MIB, 400 * MIB);
    progress_update(&p, 11000001, 400 * MIB, 400 * MIB);
    said(&p, "\rreading weights: 25 % of 400.0 MiB, 50 MiB/s, 6 s left   "
             "\rreading weights: 50 % of 400.0 MiB, 50 MiB/s, 4 s left   "
             "\rreading weights: 100 % of 400.0 MiB, 4 s                  \n");
}

static void writes_lines_to_a_log(void **state)
{
    struct progress p;

    (void)state;
    begin(&p, false);
    progress_update(&p, 8000000, 100 * MIB, 4000 * MIB);
    progress_update(&p, 8000000 + PROGRESS_LOG_US - 1, 101 * MIB, 4000 * MIB);
    progress_update(&p, 8000000 + PROGRESS_LOG_US, 1100 * MIB, 4000 * MIB);
    progress_update(&p, 47000000, 4000 * MIB, 4000 * MIB);
    said(&p, "reading weights: 2 % of 4000.0 MiB, 100 MiB/s, 39 s left\n"
             "reading weights: 27 % of 4000.0 MiB, 100 MiB/s, 29 s left\n"
             "reading weights: 100 % of 4000.0 MiB, 40 s\n");
}

/* The message after a failed load starts on a new line. */
static void ends_its_line(void **state)
{
    struct progress p;

    (void)state;
    begin(&p, true);
    progress_update(&p, 8000000, MIB, 2 * MIB);
    progress_end(&p);
    said(&p, "\rreading weights: 50 % of 2.0 MiB, 1 MiB/s, 1 s left   \n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_quiet_about_short_loads),
        cmocka_unit_test(writes_over_a_line_of_a_terminal),
        cmocka_unit_test(writes_lines_to_a_log),
        cmocka_unit_test(ends_its_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

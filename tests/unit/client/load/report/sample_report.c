/* sample_report kill|search|hostile|empty html|json - Prints the report of a
 * made-up result, for tests with a browser and for screenshots. */
#include <stdio.h>
#include <string.h>

#include "client/load/report/report.h"
#include "tests/unit/client/load/report/sample_result.h"

static const struct {
    const char *name;
    void (*make)(struct result *out);
} results[] = {
    {"kill", sample_result_kill},
    {"search", sample_result_search},
    {"hostile", sample_result_hostile},
    {"empty", sample_result_empty},
};

int main(int argc, char **argv)
{
    struct result r = {0};
    struct error e = {0};
    enum status st = ST_INVALID_ARGUMENT;

    for (size_t i = 0; argc == 3 && i < sizeof results / sizeof *results; i++) {
        if (strcmp(argv[1], results[i].name) == 0) {
            results[i].make(&r);
            st = strcmp(argv[2], "json") == 0 ? report_json(stdout, &r, &e)
                                              : report_html(stdout, &r, &e);
        }
    }
    result_fini(&r);
    if (st != ST_OK) {
        fprintf(stderr, "sample_report: %s\n", e.text);
    }
    return st == ST_OK ? 0 : 1;
}

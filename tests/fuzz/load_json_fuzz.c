/* Results as JSON: any bytes are refused with a sentence, or give a result that
 * can be printed, merged and written again. */
#include "client/load/report/report.h"
#include "tests/fuzz/fuzz.h"

static void write_json(const struct result *r, char **text, size_t *n)
{
    FILE *f = open_memstream(text, n);
    struct error e;

    FUZZ_CHECK(f != NULL);
    FUZZ_CHECK(report_json(f, r, &e) == ST_OK);
    fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct result r, again;
    struct error e = {0};
    char *text = NULL, *prose = NULL;
    size_t n_text, n_prose;
    FILE *f;

    if (report_parse(&r, (const char *)data, n, &e) != ST_OK) {
        FUZZ_CHECK(e.text[0] != '\0' && r.runs == NULL);
        return 0;
    }
    f = open_memstream(&prose, &n_prose);
    FUZZ_CHECK(f != NULL);
    report_summary(f, &r);
    report_compare(f, &r, &r);
    fclose(f);
    write_json(&r, &text, &n_text);
    FUZZ_CHECK(report_parse(&again, text, n_text, &e) == ST_OK);
    FUZZ_CHECK(again.n_runs == r.n_runs);
    if (r.n_runs > 0) {
        tally_merge(again.runs[0].tally, r.runs[0].tally);
    }
    result_fini(&r);
    result_fini(&again);
    free(text);
    free(prose);
    return 0;
}

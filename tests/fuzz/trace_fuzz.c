/* Trace files: any bytes are refused with a sentence, or give rows that are
 * sorted and within the limits. */
#include "client/load/plan/trace.h"
#include "tests/fuzz/fuzz.h"

static const struct trace_limits most = {.rows = 100, .blocks = 1000};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct error e = {0};
    struct trace *t;
    size_t n_blocks = 0;

    if (trace_parse(&t, (const char *)data, n, &most, &e) != ST_OK) {
        FUZZ_CHECK(t == NULL && e.text[0] == 'l');
        return 0;
    }
    FUZZ_CHECK(t->n_rows >= 1 && t->n_rows <= most.rows);
    FUZZ_CHECK(t->rows[0].at_us == 0);
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct trace_row *r = &t->rows[i];

        FUZZ_CHECK(i == 0 || r->at_us >= r[-1].at_us);
        FUZZ_CHECK(r->n_prompt >= 1 && r->n_prompt <= TRACE_TOKENS_MAX);
        FUZZ_CHECK(r->n_output >= 1 && r->n_output <= TRACE_TOKENS_MAX);
        FUZZ_CHECK(r->n_prompt + r->n_output <= t->total_max);
        FUZZ_CHECK(r->n_blocks <=
                   (r->n_prompt + TRACE_BLOCK - 1) / TRACE_BLOCK);
        FUZZ_CHECK(r->first_block + r->n_blocks <= t->n_blocks);
        n_blocks += r->n_blocks;
    }
    FUZZ_CHECK(n_blocks == t->n_blocks);
    trace_free(&t);
    return 0;
}

/* Recordings: any bytes are refused with a sentence that names the line, or
 * give requests and choices that refer to what is there. */
#include <stdio.h>
#include <string.h>

#include "router/replay/recording.h"
#include "tests/fuzz/fuzz.h"

static void check_request(const struct recording *r, uint32_t i)
{
    const struct recorded_request *q = &r->requests[i];

    FUZZ_CHECK(q->at_us <= r->end_us);
    FUZZ_CHECK(q->lost || (q->n_prompt > 0 && q->n_choices > 0));
    FUZZ_CHECK(q->choices + q->n_choices <= r->n_choices);
    FUZZ_CHECK(q->shared == 0 || (q->like < i && q->shared <= q->n_prompt));
    for (uint32_t c = q->choices; c < q->choices + q->n_choices; c++) {
        FUZZ_CHECK(r->choices[c].granted_us == RECORDING_NEVER ||
                   r->choices[c].place < r->n_places);
        FUZZ_CHECK(r->choices[c].end_us <= r->end_us);
        FUZZ_CHECK(r->choices[c].how < RECORD_ENDS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct recording *r;
    struct error e = {0};
    FILE *f;

    if (n == 0) {
        return 0;
    }
    f = fmemopen((void *)(uintptr_t)data, n, "r");
    FUZZ_CHECK(f != NULL);
    if (recording_read(&r, f, &e) != ST_OK) {
        FUZZ_CHECK(r == NULL && strncmp(e.text, "line ", 5) == 0);
    } else {
        FUZZ_CHECK(r->n_lines >= 2);
        for (uint32_t i = 0; i < r->n_requests; i++) {
            check_request(r, i);
        }
        for (uint32_t i = 0; i < r->n_costs; i++) {
            FUZZ_CHECK(r->costs[i].place < r->n_places);
        }
    }
    fclose(f);
    recording_free(&r);
    return 0;
}

/* Arbitrary bytes as a request for metrics, as they arrive: every prefix is
 * judged.  Once a request is complete, more bytes do not change its status. */
#include <string.h>

#include "common/scrape/scrape_request.h"
#include "fuzz.h"

static const char *const lines[] = {
    [SCRAPE_METRICS] = "GET /metrics HTTP/1.",
    [SCRAPE_READY] = "GET /ready HTTP/1.",
    [SCRAPE_LIVE] = "GET /live HTTP/1.",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    int status = 0;

    n = n < SCRAPE_REQUEST_MAX ? n : SCRAPE_REQUEST_MAX;
    for (size_t i = 1; i <= n; i++) {
        /* A block of its own, so that a read past its end is found. */
        char *request = malloc(i);
        enum scrape_page page = SCRAPE_METRICS;
        int now;

        FUZZ_CHECK(request != NULL);
        memcpy(request, data, i);
        now = scrape_judge(request, i, &page);
        FUZZ_CHECK(status == 0 || now == status);
        FUZZ_CHECK(now != 200 ||
                   memcmp(request, lines[page], strlen(lines[page])) == 0);
        (void)scrape_is_foreign(request, i);
        status = now;
        free(request);
    }
    return 0;
}

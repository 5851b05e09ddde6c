/* Which requests get the page, and which error the others get. */
#include "common/scrape/scrape_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static int judge_part(const char *request, size_t n)
{
    enum scrape_page page;

    return scrape_judge(request, n, &page);
}

static int judge(const char *request)
{
    return judge_part(request, strlen(request));
}

static void only_the_request_line_counts(void **state)
{
    (void)state;
    assert_int_equal(judge("GET /metrics HTTP/1.1\r\n\r\n"), 200);
    assert_int_equal(judge("GET /metrics HTTP/1.0\r\n\r\n"), 200);
    assert_int_equal(judge("GET /metrics HTTP/1.1\n\n"), 200);
    assert_int_equal(judge("GET /metrics HTTP/1.1\r\nHost: a\r\n"
                           "\x01\x02 garbage\r\n\r\nmore"),
                     200);
}

static void each_path_has_its_page(void **state)
{
    static const struct {
        const char *request;
        enum scrape_page page;
    } rows[] = {
        {"GET /metrics HTTP/1.1\n\n", SCRAPE_METRICS},
        {"GET /ready HTTP/1.1\n\n", SCRAPE_READY},
        {"GET /live HTTP/1.0\n\n", SCRAPE_LIVE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum scrape_page page = (enum scrape_page)(SCRAPE_LIVE + 1);

        assert_int_equal(
            scrape_judge(rows[i].request, strlen(rows[i].request), &page), 200);
        assert_int_equal(page, rows[i].page);
    }
}

static void other_requests_get_their_error(void **state)
{
    static const struct {
        const char *line;
        int status;
    } rows[] = {
        {"GET / HTTP/1.1", 404},
        {"GET /readyx HTTP/1.1", 404},
        {"GET /livez HTTP/1.1", 404},
        {"GET /ready/ HTTP/1.1", 404},
        {"POST /ready HTTP/1.1", 405},
        {"GET /metricsx HTTP/1.1", 404},
        {"GET /metrics?a=b HTTP/1.1", 404},
        {"GET /metric HTTP/1.1", 404},
        {"POST /metrics HTTP/1.1", 405},
        {"get /metrics HTTP/1.1", 405},
        {"HEAD /metrics HTTP/1.1", 405},
        {"GET /metrics HTTP/2.0", 400},
        {"GET /metrics HTTP/1.2", 400},
        {"GET /metrics", 400},
        {"GET  /metrics HTTP/1.1", 404},
        {" GET /metrics HTTP/1.1", 400},
        {"GET /metrics HTTP/1.1 ", 400},
        {"", 400},
        {"\x16\x03\x01", 400},
        {" HTTP/1.1", 400},
        {"GET HTTP/1.1", 404},
        {"x HTTP/1.1", 405},
    };
    char request[128];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(request, sizeof request, "%s\r\n\r\n", rows[i].line);
        if (judge(request) != rows[i].status) {
            fail_msg("\"%s\": %d, wanted %d", rows[i].line, judge(request),
                     rows[i].status);
        }
    }
}

/* Every prefix of a request is incomplete; the bytes arrive as they like. */
static void a_part_is_no_request(void **state)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

    (void)state;
    for (size_t n = 0; n < strlen(request); n++) {
        assert_int_equal(judge_part(request, n), 0);
    }
    assert_int_equal(judge(request), 200);
}

static void the_longest_request_is_accepted(void **state)
{
    static const char line[] = "GET /metrics HTTP/1.1\r\n";
    static char request[SCRAPE_REQUEST_MAX];

    (void)state;
    memset(request, 'x', sizeof request);
    memcpy(request, line, strlen(line));
    assert_int_equal(judge_part(request, sizeof request - 1), 0);
    assert_int_equal(judge_part(request, sizeof request), 431);
    memcpy(request + sizeof request - 4, "\r\n\r\n", 4);
    assert_int_equal(judge_part(request, sizeof request), 200);
}

/* No request reads past its end: each is in a block of its own length, which
 * the sanitizers guard. */
static void random_bytes_are_judged(void **state)
{
    static const char *const pieces[] = {
        "GET ", "/metrics", " HTTP/1.1", "\r",      "\n",     "\r\n",
        " ",    "x",        "1",         "HTTP/1.", "/ready", "/live"};
    static const char *const heads[] = {
        "GET /metrics HTTP/1.", "GET /ready HTTP/1.", "GET /live HTTP/1."};
    uint64_t seed = 1;
    unsigned n_pages[SCRAPE_LIVE + 1] = {0};

    (void)state;
    for (int round = 0; round < 200000; round++) {
        enum scrape_page page = SCRAPE_METRICS;
        char text[128], *block;
        size_t n = 0;
        int status;

        for (int i = 0; i < 8; i++) {
            const char *piece;

            seed = seed * 6364136223846793005u + 1442695040888963407u;
            piece = pieces[(seed >> 33) % (sizeof pieces / sizeof pieces[0])];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        }
        block = malloc(n);
        assert_non_null(block);
        memcpy(block, text, n);
        status = scrape_judge(block, n, &page);
        free(block);
        if (status == 200) {
            assert_memory_equal(text, heads[page], strlen(heads[page]));
            n_pages[page]++;
        }
    }
    for (int i = SCRAPE_METRICS; i <= SCRAPE_LIVE; i++) {
        assert_true(n_pages[i] > 0);
    }
}

/* Pages of a browser are recognised by what they cannot forge. */
static void foreign_pages_are_recognised(void **state)
{
    static const struct {
        const char *headers;
        bool foreign;
    } rows[] = {
        {"", false},
        {"Host: localhost:9464\r\n", false},
        {"host:127.0.0.1:9464 \r\n", false},
        {"HOST: [::1]\n", false},
        {"Host: evil.example:9464\r\n", true},
        {"hOST:\tevil.example\n", true},
        {"X-Host: evil.example\r\n", false},
        {"Host: localhost\r\nOrigin: http://evil.example\r\n", true},
        {"Host: localhost\r\nOrigin: null\r\n", true},
        {"Host: localhost\r\nOrigin: http://localhost:3000\r\n", false},
        {"Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", true},
        {"Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: cross-site\r\n", false},
        {"Sec-Fetch-Site: same-origin\r\n", false},
    };
    char request[256];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\n%s\r\n",
                 rows[i].headers);
        if (scrape_is_foreign(request, strlen(request)) != rows[i].foreign) {
            fail_msg("row %zu: %s", i, rows[i].headers);
        }
    }
}

static void a_long_origin_is_foreign(void **state)
{
    static char request[SCRAPE_REQUEST_MAX];
    int n = snprintf(request, sizeof request,
                     "GET /metrics HTTP/1.1\r\nOrigin: http://localhost/%0*d"
                     "\r\n\r\n",
                     300, 0);

    (void)state;
    assert_true(scrape_is_foreign(request, (size_t)n));
}

static void heads_have_the_length_of_the_body(void **state)
{
    static const int statuses[] = {200, 400, 403, 404, 405, 431, 503};
    char head[SCRAPE_HEAD_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        size_t n = scrape_head(head, statuses[i], SCRAPE_METRICS, SIZE_MAX);

        assert_true(n < sizeof head && n == strlen(head));
        assert_non_null(strstr(head, "\r\nContent-Length: 18446744073709551615"
                                     "\r\nConnection: close\r\n\r\n"));
        assert_int_equal(strstr(head, "version=0.0.4") != NULL,
                         statuses[i] == 200);
        assert_non_null(strchr(scrape_text(statuses[i]), '\n'));
    }
    (void)scrape_head(head, 200, SCRAPE_LIVE, 3);
    assert_null(strstr(head, "version=0.0.4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_request_line_counts),
        cmocka_unit_test(each_path_has_its_page),
        cmocka_unit_test(other_requests_get_their_error),
        cmocka_unit_test(a_part_is_no_request),
        cmocka_unit_test(the_longest_request_is_accepted),
        cmocka_unit_test(random_bytes_are_judged),
        cmocka_unit_test(foreign_pages_are_recognised),
        cmocka_unit_test(a_long_origin_is_foreign),
        cmocka_unit_test(heads_have_the_length_of_the_body),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

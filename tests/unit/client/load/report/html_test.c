/* The page of a report without a browser. */
#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/report/report.h"
#include "tests/unit/client/load/report/sample_result.h"
#include "tests/unit/cmocka.h"

#define RESULT "<script type=\"application/json\" id=\"result\">"

static char *page_of(void (*make)(struct result *))
{
    struct result r;
    struct error e = {0};
    char *page = NULL;
    size_t size;
    FILE *f = open_memstream(&page, &size);

    make(&r);
    assert_non_null(f);
    assert_int_equal(report_html(f, &r, &e), ST_OK);
    fclose(f);
    result_fini(&r);
    assert_int_equal(strlen(page), size);
    return page;
}

/* Returns the text between two texts, for free(). */
static char *between(const char *page, const char *from, const char *to)
{
    const char *a = strstr(page, from), *b;

    assert_non_null(a);
    a += strlen(from);
    b = strstr(a, to);
    assert_non_null(b);
    return strndup(a, (size_t)(b - a));
}

static unsigned times(const char *page, const char *text)
{
    unsigned n = 0;

    for (; (page = strstr(page, text)) != NULL; page++) {
        n++;
    }
    return n;
}

static void data_is_the_json_of_the_result(void **state)
{
    char *page = page_of(sample_result_kill);
    char *json = between(page, RESULT, "</script>"), *written = NULL;
    json_t *mine = json_loads(json, 0, NULL), *theirs;
    struct result r;
    struct error e;
    size_t size;
    FILE *f = open_memstream(&written, &size);

    (void)state;
    sample_result_kill(&r);
    assert_int_equal(report_json(f, &r, &e), ST_OK);
    fclose(f);
    theirs = json_loads(written, 0, NULL);
    assert_non_null(mine);
    assert_true(json_equal(mine, theirs));
    json_decref(mine);
    json_decref(theirs);
    result_fini(&r);
    free(written);
    free(json);
    free(page);
}

static void page_refers_to_nothing_outside(void **state)
{
    char *page = page_of(sample_result_kill);
    char *json = between(page, RESULT, "</script>");
    char *at = strstr(page, json);

    (void)state;
    memset(at, ' ', strlen(json));
    assert_null(strstr(page, "http:"));
    assert_null(strstr(page, "https:"));
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, "@import"));
    assert_null(strstr(page, "<link"));
    assert_null(strstr(page, "innerHTML"));
    assert_null(strstr(page, "eval("));
    assert_int_equal(times(page, "url("), 1);
    assert_non_null(strstr(page, "url(#hatch)"));
    free(json);
    free(page);
}

static void markup_in_texts_is_inert(void **state)
{
    char *page = page_of(sample_result_hostile), *json, *title;
    char *harmless = page_of(sample_result_kill);
    json_t *j;

    (void)state;
    assert_int_equal(times(page, "<script"), times(harmless, "<script"));
    assert_int_equal(times(page, "</script"), times(harmless, "</script"));
    assert_int_equal(times(page, "<!--"), 0);
    assert_int_equal(times(page, "\xe2\x80\xa8"), 0);
    assert_int_equal(times(page, "\xe2\x80\xa9"), 0);
    assert_int_equal(times(page, "\x1b"), 0);
    json = between(page, RESULT, "</script>");
    assert_null(strpbrk(json, "<>&"));
    j = json_loads(json, 0, NULL);
    assert_non_null(j);
    title = strdup(json_string_value(json_object_get(j, "title")));
    assert_non_null(strstr(title, "</script><script>document.title='owned'"));
    assert_non_null(strstr(title, "\xe2\x80\xa8\xe2\x80\xa9"));
    assert_non_null(strstr(title, "@RESULT@"));
    free(title);
    json_decref(j);
    free(json);
    free(page);
    free(harmless);
}

static void assert_allowed(const char *policy, const char *kind,
                           const char *text)
{
    unsigned char sum[32], base64[64];
    char want[128];

    assert_int_equal(
        EVP_Digest(text, strlen(text), sum, NULL, EVP_sha256(), NULL), 1);
    EVP_EncodeBlock(base64, sum, sizeof sum);
    snprintf(want, sizeof want, "%s 'sha256-%s';", kind, base64);
    assert_non_null(strstr(policy, want));
}

static void policy_allows_this_script_and_style_only(void **state)
{
    char *page = page_of(sample_result_hostile);
    char *policy = between(page, "Security-Policy\" content=\"", "\"");
    char *script = between(page, "<script>", "</script>");
    char *style = between(page, "<style>", "</style>");

    (void)state;
    assert_ptr_equal(strstr(policy, "default-src 'none';"), policy);
    assert_null(strstr(policy, "unsafe"));
    assert_allowed(policy, "script-src", script);
    assert_allowed(policy, "style-src", style);
    free(policy);
    free(script);
    free(style);
    free(page);
}

static void result_without_runs_has_a_page(void **state)
{
    struct result r = {0};
    struct error e = {0};
    char *page = NULL;
    size_t size;
    FILE *f = open_memstream(&page, &size);

    (void)state;
    assert_int_equal(report_html(f, &r, &e), ST_OK);
    fclose(f);
    assert_non_null(strstr(page, "</html>"));
    free(page);
}

static void full_disk_is_an_error(void **state)
{
    FILE *f = fopen("/dev/full", "w");
    struct result r;
    struct error e = {0};

    (void)state;
    sample_result_hostile(&r);
    assert_non_null(f);
    assert_int_equal(report_html(f, &r, &e), ST_UNAVAILABLE);
    assert_string_equal(e.text, "No space left on device");
    fclose(f);
    result_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_the_json_of_the_result),
        cmocka_unit_test(page_refers_to_nothing_outside),
        cmocka_unit_test(markup_in_texts_is_inert),
        cmocka_unit_test(policy_allows_this_script_and_style_only),
        cmocka_unit_test(result_without_runs_has_a_page),
        cmocka_unit_test(full_disk_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "gateway/args.h"

#include <string.h>

#include "common/base/quote.h"
#include "common/sampling/sampling.h"
#include "common/scrape/scrape.h"
#include "gateway/calls/route_table.h"
#include "gateway/calls/service.h"
#include "gateway/http/cors.h"
#include "gateway/http/pages.h"
#include "gateway/keys/keys.h"
#include "gateway/memory_share.h"
#include "gateway/openai/request.h"
#include "text/template/template_limits.h"
#include "text/text_limits.h"

typedef struct gateway_args option_this;

static const struct option_row rows[] = {GATEWAY_OPTIONS(OPTION_ROW)};

static const char usage[] =
    "usage: sluice-gateway [options]\n\n"
    "Serves the models of a router over HTTP, as the APIs of OpenAI and\n"
    "Anthropic.\n\n";

static const char examples[] =
    "\nexamples:\n"
    "  sluice-gateway --model tiny-hybrid=models/tiny-hybrid\n"
    "  sluice-gateway --listen 0.0.0.0:8443 --keys keys.txt \\\n"
    "      --tls-cert cert.pem --tls-key key.pem\n\n"
    "exit codes: 0 stopped by SIGTERM or SIGINT, 2 could not start\n";

const struct option_program gateway_program = {
    .name = "sluice-gateway",
    .summary = "serve the models of a router over HTTP, as OpenAI's API",
    .role = "gateway",
    .section = 8,
    .usage = usage,
    .more = examples,
    .rows = rows,
    .n_rows = OPTION_COUNT(rows)};

const struct limit_table gateway_limits[] = {
    {sampling_limits, &sampling_limits_n, NULL},
    {base_limits, &base_limits_n, NULL},
    {service_limits, &service_limits_n, NULL},
    {openai_limit_rows, &openai_limit_rows_n, NULL},
    {http_limits, &http_limits_n, NULL},
    {NULL, NULL, memory_share_print},
    {output_limits, &output_limits_n, NULL},
    {keys_limits, &keys_limits_n, NULL},
    {template_limits, &template_limits_n, NULL},
    {text_limits, &text_limits_n, NULL},
    {scrape_limits, &scrape_limits_n, NULL},
    {NULL, NULL, NULL},
};

static enum status check_proxies(const struct gateway_args *a, struct error *e)
{
    struct http_proxies p = {.n = 0};

    for (unsigned i = 0; i < a->trusted_proxy.n; i++) {
        if (!http_proxies_add(&p, a->trusted_proxy.item[i])) {
            return error_set(
                e, ST_INVALID_ARGUMENT,
                "--trusted-proxy %s: must be an address, a network "
                "such as 10.0.0.0/8, or unix",
                quote(a->trusted_proxy.item[i]).text);
        }
    }
    return ST_OK;
}

enum status gateway_args_check(const struct gateway_args *a,
                               enum output_format *format, struct error *e)
{
    if ((a->tls_cert == NULL) != (a->tls_key == NULL)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--tls-cert and --tls-key go together; give both");
    }
    if (a->tool_format != NULL &&
        !output_format_parse(a->tool_format, format)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--tool-format %s: must be plain, hermes, "
                         "qwen3-coder, llama3 or gpt-oss",
                         a->tool_format);
    }
    if (strcmp(a->unknown_fields, "ignore") != 0 &&
        strcmp(a->unknown_fields, "refuse") != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--unknown-fields %s: must be ignore or refuse",
                         quote(a->unknown_fields).text);
    }
    if (a->cors != NULL && !http_cors_valid(a->cors)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--cors %s: must be * or an origin such as "
                         "https://chat.example.com",
                         a->cors);
    }
    for (unsigned i = 0; i < a->allow_host.n; i++) {
        if (!http_page_host_valid(a->allow_host.item[i])) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "--allow-host %s: must be * or a host name such "
                             "as llm.example.com, without scheme and port",
                             quote(a->allow_host.item[i]).text);
        }
    }
    return check_proxies(a, e);
}

static void print_routes(void)
{
    struct route_table t;

    route_table_init(&t, dialects);
    for (size_t i = 0; i < t.n; i++) {
        const struct route *r = &t.rows[i];

        printf("%-4s %-22s %s%s\n", r->method == HTTP_GET ? "GET" : "POST",
               r->path, r->help, r->is_public ? " (no key)" : "");
    }
}

static enum status print_key(const char *tenant, struct error *e)
{
    struct keys_new key;
    enum status st = keys_new_line(&key, tenant, e);

    if (st == ST_OK) {
        printf("key, shown once:        %s\n"
               "line for the key file:  %s\n",
               key.key, key.line);
    }
    memset(&key, 0, sizeof key);
    return st;
}

enum status gateway_args_print(const struct gateway_args *a, bool *done,
                               struct error *e)
{
    /* --help prevails over the routes.  It does not over the key, which has a
     * value, so that a script may rely on it. */
    *done = a->new_key != NULL || (a->list_routes && !a->help);
    if (a->new_key != NULL) {
        return print_key(a->new_key, e);
    }
    if (*done) {
        print_routes();
    }
    return ST_OK;
}

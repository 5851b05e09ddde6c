/* route_index.c - The page of "/", for people who open the port. */
#include <string.h>

#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"

/* Links are relative: a proxy may serve the page under a prefix. */
static const char page[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<title>sluice</title>\n<h1>sluice</h1>\n"
    "<p>This is an API in the form of OpenAI's. Its base URL is this address "
    "and <code>/v1</code>.</p>\n<ul>\n"
    "<li><a href=\"v1/models\">/v1/models</a>: the models</li>\n"
    "<li><a href=\"metrics\">/metrics</a>: figures for Prometheus</li>\n"
    "<li><a href=\"health\">/health</a>, <a href=\"ready\">/ready</a>: the "
    "state</li>\n</ul>\n"
    "<p>Documentation: <code>docs/http.md</code> of sluice, installed in "
    "<code>share/doc/sluice</code>, and <code>man sluice-gateway</code>.</p>\n"
    "</html>\n";

void route_index(struct service *c, struct http_exchange *x,
                 struct tenant *tenant)
{
    struct http_answer a = {.status = 200,
                            .content_type = "text/html; charset=utf-8",
                            .body = page,
                            .n = sizeof page - 1};
    struct respond_headers h;

    (void)tenant;
    respond_headers_init(&h, c, x);
    respond(c, x, &h, &a);
}

/* scrape_request.h - The HTTP requests that a metrics endpoint answers.
 *
 *     GET /metrics HTTP/1.1 CR LF  ...headers...  CR LF CR LF
 *     GET /ready   HTTP/1.1 CR LF  ...
 *     GET /live    HTTP/1.1 CR LF  ...
 *
 * The request line is compared byte by byte.  Of the headers only those by
 * which a web page is recognised count (scrape_is_foreign).  This is no HTTP
 * parser, and any other request gets an error.
 *
 * Threading: none.  Memory: the caller's.  Limits: SCRAPE_REQUEST_MAX. */
#ifndef COMMON_SCRAPE_SCRAPE_REQUEST_H
#define COMMON_SCRAPE_SCRAPE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define SCRAPE_REQUEST_MAX 4096 /* bytes of a request, with its headers */
#define SCRAPE_HEAD_BYTES  256  /* bytes of an answer's head */

enum scrape_page { SCRAPE_METRICS, SCRAPE_READY, SCRAPE_LIVE };

/* Judges the first n bytes of a request, n <= SCRAPE_REQUEST_MAX.  Returns 0 if
 * the blank line has not arrived and may still fit, else the HTTP status: 200
 * for a request of a page, which is then in *page; 400, 404, 405 or 431 (too
 * long) for any other. */
int scrape_judge(const char *request, size_t n, enum scrape_page *page);

/* Returns true if a web page of another machine made the request, whose n bytes
 * have their blank line: a Host or Origin header with a name that is not local
 * (common/base/local_host.h), or Sec-Fetch-Site: cross-site, unless a person
 * follows a link (Sec-Fetch-Mode: navigate).  Prometheus and curl send Host
 * only. */
bool scrape_is_foreign(const char *request, size_t n);

/* Writes the head of an answer with this status and n_body bytes of body to
 * out, [SCRAPE_HEAD_BYTES].  page matters with status 200 only.  Returns its
 * length. */
size_t scrape_head(char *out, int status, enum scrape_page page, size_t n_body);

/* Returns the body of an answer that is not metrics: one line. */
const char *scrape_text(int status);

#endif

/* http_metrics.h - Counters of the HTTP server.
 *
 * Threading: the server's thread. */
#ifndef GATEWAY_HTTP_HTTP_METRICS_H
#define GATEWAY_HTTP_HTTP_METRICS_H

#include "common/base/metric.h"

#define HTTP_METRICS(X)                                                     \
    X(connections, GAUGE, "open connections")                               \
    X(exchanges, GAUGE, "requests without the end of their response")       \
    X(request_bytes, GAUGE, "memory of heads and bodies of requests")       \
    X(accepted, COUNTER, "connections accepted")                            \
    X(connections_refused, COUNTER, "connections over the limit")           \
    X(accept_failures, COUNTER,                                             \
      "failures to accept, for example without "                            \
      "descriptors")                                                        \
    X(tls_failures, COUNTER, "TLS handshakes that failed or took too long") \
    X(handled, COUNTER, "requests given to the gateway")                    \
    X(responses_2xx, COUNTER, "responses of success")                       \
    X(responses_3xx, COUNTER, "responses of redirection")                   \
    X(responses_4xx, COUNTER, "responses about errors of clients")          \
    X(responses_5xx, COUNTER, "responses about errors of the server")       \
    X(refused_malformed, COUNTER, "requests with errors of syntax")         \
    X(refused_limit, COUNTER, "requests over a limit of HTTP")              \
    X(timeouts_request, COUNTER, "requests that arrived too slowly")        \
    X(timeouts_idle, COUNTER, "connections closed without a request")       \
    X(stalled_readers, COUNTER, "connections whose clients took no output") \
    X(gone, COUNTER, "exchanges whose clients left before the end")         \
    X(bytes_in, COUNTER, "bytes received")                                  \
    X(bytes_out, COUNTER, "bytes sent")
METRIC_TABLE(http_metrics, HTTP_METRICS);
METRIC_SET(http_metrics, "sluice_gateway_http", NULL);

#endif

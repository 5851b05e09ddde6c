/* unary_bench - measures a call to a worker through the router, and raw ZeroMQ.
 *
 *     unary_bench ENDPOINT ROUNDS CALLS
 *
 * The call is Admin/Audit of a cluster of one small worker, because it makes
 * the router ask the worker: two hops each way, as through the raw broker
 * (raw_broker.h), which carries frames of the same length.  One call at a time;
 * ROUNDS rounds of CALLS, sluice and raw in turn, so that both run under the
 * same load.  Prints one line of JSON: microseconds of each round, and the
 * ratios of the medians over the rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "client/lib/client.h"
#include "common/wire/frame.h"
#include "proto/admin.pb-c.h"
#include "tests/bench/machine.h"
#include "tests/bench/raw_broker.h"

#define ROUNDS_MAX 64
#define WARM_CALLS 500

struct bench {
    struct client *client;
    void *raw;
    uint32_t request_bytes, reply_bytes; /* per frame */
    size_t n_calls;
    double *took_us; /* [n_calls] per round */
};

struct figure {
    double p50, p99;
};

static void die(const char *what)
{
    fprintf(stderr, "unary_bench: %s\n", what);
    exit(1);
}

static void take_reply(void *arg, const ProtobufCMessage *reply)
{
    const Sluice__V1__AuditAllReply *m = (const void *)reply;
    struct bench *b = arg;

    if (m->n_workers != 1 || m->n_differences > 0) {
        die("wanted an audit of one worker, without a difference");
    }
    b->reply_bytes = FRAME_HEADER + ENVELOPE_HEADER +
                     (uint32_t)protobuf_c_message_get_packed_size(reply);
}

static void call_sluice(struct bench *b)
{
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    struct error e;

    if (client_call(b->client, METHOD_ADMIN_AUDIT, &nothing.base, 0, take_reply,
                    b, &e) != ST_OK) {
        die(e.text);
    }
}

static void call_raw(struct bench *b)
{
    uint8_t buffer[RAW_BYTES_MAX] = {0};

    memcpy(buffer, &b->reply_bytes, sizeof b->reply_bytes);
    if (zmq_send(b->raw, buffer, b->request_bytes, 0) !=
            (int)b->request_bytes ||
        zmq_recv(b->raw, buffer, sizeof buffer, 0) != (int)b->reply_bytes) {
        die("the raw broker failed");
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static struct figure run_round(struct bench *b, void (*call)(struct bench *b))
{
    for (size_t i = 0; i < b->n_calls; i++) {
        double begin = machine_now();

        call(b);
        b->took_us[i] = (machine_now() - begin) * 1e6;
    }
    qsort(b->took_us, b->n_calls, sizeof *b->took_us, by_value);
    return (struct figure){b->took_us[b->n_calls / 2],
                           b->took_us[b->n_calls * 99 / 100]};
}

static double median(const struct figure *f, int n, size_t offset)
{
    double v[ROUNDS_MAX];

    for (int i = 0; i < n; i++) {
        memcpy(&v[i], (const char *)&f[i] + offset, sizeof v[i]);
    }
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void print_rounds(const char *name, const struct figure *f, int n)
{
    printf("\"%s\": {\"p50_us\": %.1f, \"p99_us\": %.1f, \"rounds\": [", name,
           median(f, n, offsetof(struct figure, p50)),
           median(f, n, offsetof(struct figure, p99)));
    for (int i = 0; i < n; i++) {
        printf("%s[%.1f, %.1f]", i > 0 ? ", " : "", f[i].p50, f[i].p99);
    }
    printf("]}, ");
}

static void print(const struct bench *b, const struct figure *ours,
                  const struct figure *raw, int n)
{
    const size_t p50 = offsetof(struct figure, p50);
    const size_t p99 = offsetof(struct figure, p99);

    printf("{\"calls\": %zu, \"request_bytes\": %u, \"reply_bytes\": %u, ",
           b->n_calls, b->request_bytes, b->reply_bytes);
    print_rounds("sluice", ours, n);
    print_rounds("raw", raw, n);
    printf("\"p50_ratio\": %.3f, \"p99_ratio\": %.3f}\n",
           median(ours, n, p50) / median(raw, n, p50),
           median(ours, n, p99) / median(raw, n, p99));
}

static void open_all(struct bench *b, const char *endpoint,
                     const struct raw_broker *broker)
{
    struct client_config config = {.endpoint = endpoint,
                                   .admin = true,
                                   .key = getenv("SLUICE_KEY"),
                                   .trust = getenv("SLUICE_TRUST")};
    struct error e;

    if (client_open(&b->client, &config, &e) != ST_OK) {
        die(e.text);
    }
    b->raw = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
    if (b->raw == NULL || zmq_connect(b->raw, broker->endpoint) != 0) {
        die("no connection to the raw broker");
    }
    b->request_bytes = FRAME_HEADER + ENVELOPE_HEADER;
    for (int i = 0; i < WARM_CALLS; i++) {
        call_sluice(b);
        call_raw(b);
    }
}

int main(int argc, char **argv)
{
    struct figure ours[ROUNDS_MAX], raw[ROUNDS_MAX];
    int rounds = argc == 4 ? atoi(argv[2]) : 0;
    struct bench b = {.n_calls = argc == 4 ? strtoul(argv[3], NULL, 10) : 0};
    struct raw_broker broker;

    if (rounds < 1 || rounds > ROUNDS_MAX || b.n_calls == 0) {
        fputs("usage: unary_bench ENDPOINT ROUNDS CALLS\n", stderr);
        return 2;
    }
    b.took_us = calloc(b.n_calls, sizeof *b.took_us);
    if (b.took_us == NULL) {
        return 1;
    }
    raw_broker_start(&broker);
    open_all(&b, argv[1], &broker);
    for (int i = 0; i < rounds; i++) {
        ours[i] = run_round(&b, call_sluice);
        raw[i] = run_round(&b, call_raw);
    }
    print(&b, ours, raw, rounds);
    raw_broker_end(&broker);
    client_close(&b.client);
    free(b.took_us);
    return 0;
}

/* stream_clients - token events/s that clients receive in order.
 *
 *     stream_clients ENDPOINT CONNECTIONS STREAMS SECONDS ROUTER_PID
 *
 * CONNECTIONS processes each hold a connection of the C library with its share
 * of STREAMS requests, which restart when they end.  An event is one (request,
 * index), received once and in order; a gap or a repetition ends the run with
 * exit code 1.  After a second of warm-up, counts for SECONDS and prints one
 * line of JSON; router_cpu_s is the processor time of ROUTER_PID in them. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "proto/inference.pb-c.h"
#include "tests/bench/child.h"
#include "tests/bench/machine.h"
#include "tests/bench/process.h"

#define CONNECTIONS_MAX 64
#define STREAMS_MAX     256 /* per connection */
#define PROMPT          32
#define MAX_TOKENS      4000

/* Shared with the children; each writes its own count, in its own cache
 * line. */
struct count {
    _Alignas(64) atomic_uint_fast64_t events;
    atomic_uint_fast64_t chunks;
    atomic_bool bad;
};

struct stream {
    struct client *client;
    struct count *count;
    uint32_t next_index;
};

static void begin(struct stream *s);

static void die(struct count *count, const char *what)
{
    fprintf(stderr, "stream_clients: %s\n", what);
    atomic_store(&count->bad, true);
    exit(1);
}

static void on_chunk(void *arg, const ProtobufCMessage *message)
{
    const Sluice__V1__GenerateChunk *m = (const void *)message;
    struct stream *s = arg;

    if (m->n_tokens > 0 && m->first_index != s->next_index) {
        die(s->count, "a stream has a gap or a repetition");
    }
    for (size_t i = 0; i < m->n_tokens; i++) {
        if (m->tokens[i] != 1 + (s->next_index + i) % 1000) {
            die(s->count, "a token is not the one of its index");
        }
    }
    s->next_index += (uint32_t)m->n_tokens;
    atomic_fetch_add_explicit(&s->count->events, m->n_tokens,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&s->count->chunks, 1, memory_order_relaxed);
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct stream *s = arg;

    (void)reply, (void)retry_after_ms;
    if (status != ST_OK) {
        die(s->count, e != NULL ? e->text : status_name(status));
    }
    if (s->next_index != MAX_TOKENS) {
        die(s->count, "a stream ended early");
    }
    begin(s);
}

static void begin(struct stream *s)
{
    static const struct client_call_ops ops = {on_chunk, on_end};
    static uint64_t last;
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    uint32_t prompt[PROMPT] = {0};
    uint64_t id[2] = {(uint64_t)getpid(), ++last};

    s->next_index = 0;
    sampling.has_ignore_eos = sampling.ignore_eos = 1;
    m.sampling = &sampling;
    m.request_id = (ProtobufCBinaryData){sizeof id, (uint8_t *)id};
    m.n_tokens = PROMPT;
    m.tokens = prompt;
    m.has_max_tokens = m.has_want_text = 1;
    m.max_tokens = MAX_TOKENS;
    m.want_text = 0;
    if (client_begin(s->client, METHOD_INFERENCE_GENERATE, &m.base, 0, &ops, s,
                     NULL) != ST_OK) {
        die(s->count, "a generation could not be sent");
    }
}

static void serve(const char *endpoint, struct count *count, int n_streams)
{
    struct client_config config = {.endpoint = endpoint,
                                   .key = getenv("SLUICE_KEY"),
                                   .trust = getenv("SLUICE_TRUST")};
    static struct stream streams[STREAMS_MAX];
    struct client *c;
    struct error e;

    if (client_open(&c, &config, &e) != ST_OK) {
        die(count, e.text);
    }
    for (int i = 0; i < n_streams; i++) {
        streams[i] = (struct stream){.client = c, .count = count};
        begin(&streams[i]);
    }
    for (;;) {
        client_turn(c, 1000);
    }
}

struct sum {
    double at_s, cpu_s;
    uint64_t events, chunks;
};

static struct sum look(struct count *counts, int n, int pid)
{
    struct sum s = {.at_s = machine_now(), .cpu_s = process_cpu_s(pid)};

    for (int i = 0; i < n; i++) {
        s.events += atomic_load(&counts[i].events);
        s.chunks += atomic_load(&counts[i].chunks);
    }
    return s;
}

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds,
                         (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&t, NULL);
}

static void print(const struct sum *a, const struct sum *b, int connections,
                  int streams)
{
    double s = b->at_s - a->at_s;
    uint64_t events = b->events - a->events;

    printf("{\"connections\": %d, \"streams\": %d, \"seconds\": %.3f, "
           "\"events\": %" PRIu64 ", \"events_s\": %.0f, \"tokens_a_chunk\": "
           "%.3f, \"router_cpu_s\": %.2f, \"events_a_cpu_s\": %.0f}\n",
           connections, streams, s, events, (double)events / s,
           (double)events / (double)(b->chunks - a->chunks),
           b->cpu_s - a->cpu_s, (double)events / (b->cpu_s - a->cpu_s));
}

int main(int argc, char **argv)
{
    int n = argc == 6 ? atoi(argv[2]) : 0;
    int streams = argc == 6 ? atoi(argv[3]) : 0;
    pid_t children[CONNECTIONS_MAX];
    struct count *counts;
    struct sum from, to;
    bool bad = false;

    if (n < 1 || n > CONNECTIONS_MAX || streams < n ||
        streams > n * STREAMS_MAX) {
        fputs("usage: stream_clients ENDPOINT CONNECTIONS STREAMS SECONDS "
              "ROUTER_PID\n",
              stderr);
        return 2;
    }
    counts = mmap(NULL, CONNECTIONS_MAX * sizeof *counts,
                  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED) {
        return 1;
    }
    for (int i = 0; i < n; i++) {
        children[i] = child_new();
        if (children[i] == 0) {
            serve(argv[1], &counts[i], streams / n);
        }
    }
    nap(1);
    from = look(counts, n, atoi(argv[5]));
    nap(strtod(argv[4], NULL));
    to = look(counts, n, atoi(argv[5]));
    for (int i = 0; i < n; i++) {
        bad |= atomic_load(&counts[i].bad);
    }
    bad |= children_end(children, n) > 0 || to.events == from.events;
    print(&from, &to, n, streams / n * n);
    return bad ? 1 : 0;
}

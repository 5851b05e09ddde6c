/* cycles - Submits, cancels, removes and disconnects N requests.
 *
 *     cycles ENDPOINT N [SEED]
 *
 * A few connections keep up to STREAMS requests open each.  A fate is drawn
 * for each request at its start: it completes, it is cancelled or removed
 * (whole, or one choice) after some tokens, its call is given up, or its
 * connection is dropped.  Some requests have several choices, penalties or
 * logprobs, or end by a token or text.
 *
 * At the end no memory may be held: every block and slot is free or cached, no
 * audit finds a difference, and the router lists no sequence.  Prints the times
 * from cancel to receipt.  The exit code is 0 if all checks hold. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/client.h"
#include "common/base/monotonic.h"
#include "proto/admin.pb-c.h"
#include "proto/inference.pb-c.h"

#define CONNECTIONS    4
#define STREAMS        8 /* per connection */
#define PROMPT_MAX     40
#define MAX_TOKENS_MAX 20
#define N_MAX          3 /* choices */
#define VOCAB          4000
#define QUIET_S        60 /* longest time without any end */
#define SETTLE_TRIES   400

enum fate { RUN, CANCEL, REMOVE, GIVE_UP, DROP, FATES };

struct stream {
    struct connection *on;
    bool open, asked;
    uint8_t id[16];
    uint64_t call;
    enum fate fate;
    uint32_t n, next_index[N_MAX]; /* next_index: per choice */
    uint32_t after;                /* tokens of choice 0 before the fate */
    int64_t asked_us;
    uint32_t expects; /* ends to come: the call's, the cancel's */
};

struct connection {
    struct client *client;
    struct stream streams[STREAMS];
    bool wants_drop;
};

static struct {
    uint64_t seed;
    uint64_t begun, ended, wanted;
    uint64_t fates[FATES], receipts, tokens, refused;
    uint64_t *took_us; /* [n_took] cancel to receipt */
    size_t n_took;
    struct connection connections[CONNECTIONS];
} soak;

static void die(const char *what, const char *why)
{
    printf("cycles: FAILED: %s%s%s (seed %" PRIu64 ", after %" PRIu64
           " cycles)\n",
           what, why[0] == '\0' ? "" : ": ", why, soak.seed, soak.ended);
    exit(1);
}

/* splitmix64, Steele et al., 2014 */
static uint64_t draw(uint64_t below)
{
    static uint64_t state;
    uint64_t z;

    if (state == 0) {
        state = soak.seed;
    }
    z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static void settle(struct stream *s)
{
    if (--s->expects == 0) {
        s->open = false;
        soak.ended++;
    }
}

static void on_receipt_end(void *arg, enum status status,
                           const ProtobufCMessage *reply, const struct error *e,
                           uint32_t retry_after_ms)
{
    struct stream *s = arg;
    const Sluice__V1__Receipt *r = (const Sluice__V1__Receipt *)reply;

    (void)retry_after_ms;
    if (status == ST_OK) {
        soak.receipts++;
        soak.took_us[soak.n_took++] = (uint64_t)(monotonic_us() - s->asked_us);
        if (r->sequence->request_id.len != sizeof s->id ||
            memcmp(r->sequence->request_id.data, s->id, sizeof s->id) != 0) {
            die("a receipt names another sequence", "");
        }
    } else if (status != ST_UNAVAILABLE || !s->on->wants_drop) {
        die("no receipt", e != NULL ? e->text : status_name(status));
    }
    settle(s);
}

/* Also cancels a stream whose End has arrived; the state is then FINISHED. */
static void ask(struct stream *s)
{
    static const struct client_call_ops ops = {NULL, on_receipt_end};
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__CancelRequest cancel = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__RemoveRequest removal = SLUICE__V1__REMOVE_REQUEST__INIT;
    enum status st;

    ref.request_id = (ProtobufCBinaryData){sizeof s->id, s->id};
    ref.has_choice = s->n > 1 && draw(2) == 0;
    ref.choice = ref.has_choice ? (uint32_t)draw(s->n) : 0;
    cancel.sequence = removal.sequence = &ref;
    s->asked_us = monotonic_us();
    s->expects++;
    st = s->fate == CANCEL
             ? client_begin(s->on->client, METHOD_INFERENCE_CANCEL,
                            &cancel.base, 0, &ops, s, NULL)
             : client_begin(s->on->client, METHOD_INFERENCE_REMOVE,
                            &removal.base, 0, &ops, s, NULL);
    if (st != ST_OK) {
        die("cannot send a cancel", status_name(st));
    }
}

static void on_chunk(void *arg, const ProtobufCMessage *message)
{
    struct stream *s = arg;
    const Sluice__V1__GenerateChunk *m =
        (const Sluice__V1__GenerateChunk *)message;

    if (m->choice >= s->n) {
        die("a chunk has an unknown choice", "");
    }
    if (m->n_tokens > 0 && m->first_index != s->next_index[m->choice]) {
        die("a stream has a gap", "");
    }
    s->next_index[m->choice] += (uint32_t)m->n_tokens;
    soak.tokens += m->n_tokens;
}

/* A stream may end by its fate, or reach its end before. */
static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct stream *s = arg;

    (void)reply;
    (void)retry_after_ms;
    if (status == ST_RESOURCE_EXHAUSTED) {
        soak.refused++;
    } else if (status != ST_OK && status != ST_CANCELLED &&
               !(status == ST_UNAVAILABLE && s->on->wants_drop)) {
        die("a stream failed", e != NULL ? e->text : status_name(status));
    }
    s->asked = true; /* no fate follows an end */
    settle(s);
}

/* Some requests have parameters that keep more state than ids and a seed. */
static void draw_options(Sluice__V1__GenerateRequest *m, struct stream *s)
{
    static ProtobufCBinaryData stop[] = {{1, (uint8_t *)"e"},
                                         {2, (uint8_t *)"qz"}};
    static uint32_t stop_tokens[] = {11, 258, 261, 313};

    s->n = draw(4) == 0 ? 2 + (uint32_t)draw(N_MAX - 1) : 1;
    m->has_n = 1;
    m->n = s->n;
    if (draw(4) == 0) {
        m->n_stop = 2;
        m->stop = stop;
    }
    if (draw(4) == 0) {
        m->sampling->n_stop_tokens = 4;
        m->sampling->stop_tokens = stop_tokens;
    }
    if (draw(4) == 0) {
        m->sampling->has_top_logprobs = 1;
        m->sampling->top_logprobs = 1 + (uint32_t)draw(TOP_LOGPROBS_MAX);
    }
    if (draw(4) == 0) {
        m->sampling->has_repetition_penalty = 1;
        m->sampling->repetition_penalty = 1.25f;
        m->sampling->has_frequency_penalty = 1;
        m->sampling->frequency_penalty = 0.5f;
    }
}

static void begin(struct connection *k, struct stream *s)
{
    static const struct client_call_ops ops = {on_chunk, on_end};
    static const unsigned odds[] = {RUN,    RUN,    CANCEL,  CANCEL,
                                    CANCEL, REMOVE, GIVE_UP, GIVE_UP};
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    uint32_t prompt[PROMPT_MAX];
    enum status st;

    *s = (struct stream){.on = k, .open = true, .expects = 1};
    for (size_t i = 0; i < sizeof s->id; i++) {
        s->id[i] = (uint8_t)draw(256);
    }
    m.n_tokens = 1 + draw(PROMPT_MAX);
    for (size_t i = 0; i < m.n_tokens; i++) {
        prompt[i] = (uint32_t)draw(VOCAB);
    }
    m.tokens = prompt;
    m.request_id = (ProtobufCBinaryData){sizeof s->id, s->id};
    m.model = (ProtobufCBinaryData){0, NULL};
    m.has_max_tokens = m.has_want_text = 1;
    m.max_tokens = 1 + (uint32_t)draw(MAX_TOKENS_MAX);
    m.want_text = draw(2) == 0;
    sampling.has_ignore_eos = 1;
    sampling.ignore_eos = 1;
    m.sampling = &sampling;
    draw_options(&m, s);
    s->fate = (enum fate)odds[draw(sizeof odds / sizeof odds[0])];
    if (draw(200) == 0) {
        s->fate = DROP;
    }
    s->after = (uint32_t)draw(m.max_tokens);
    st = client_begin(k->client, METHOD_INFERENCE_GENERATE, &m.base, 0, &ops, s,
                      &s->call);
    if (st != ST_OK) {
        die("cannot send a request", status_name(st));
    }
    soak.begun++;
    soak.fates[s->fate]++;
}

static void meet_fate(struct stream *s)
{
    s->asked = true;
    switch (s->fate) {
    case CANCEL:
    case REMOVE:
        ask(s);
        break;
    case GIVE_UP:
        client_give_up(s->on->client, s->call);
        break;
    case DROP:
        s->on->wants_drop = true;
        break;
    default:
        break;
    }
}

static void run_connection(struct connection *k)
{
    for (size_t i = 0; i < STREAMS; i++) {
        struct stream *s = &k->streams[i];

        if (!s->open && soak.begun < soak.wanted) {
            begin(k, s);
        }
        if (s->open && !s->asked && s->next_index[0] >= s->after) {
            meet_fate(s);
        }
    }
    if (k->wants_drop) {
        client_drop(k->client); /* ends its streams UNAVAILABLE */
        k->wants_drop = false;
    }
    client_turn(k->client, 0);
}

static struct client *open_client(const char *endpoint, bool admin)
{
    struct client_config config = {
        .endpoint = endpoint, .name = "cycles", .admin = admin};
    struct client *c;
    struct error e;

    if (client_open(&c, &config, &e) != ST_OK) {
        die("no connection", e.text);
    }
    return c;
}

static void run(const char *endpoint)
{
    uint64_t last = 0;
    time_t changed = time(NULL);

    for (int i = 0; i < CONNECTIONS; i++) {
        soak.connections[i].client = open_client(endpoint, false);
    }
    while (soak.ended < soak.wanted) {
        for (int i = 0; i < CONNECTIONS; i++) {
            run_connection(&soak.connections[i]);
        }
        client_turn(soak.connections[soak.ended % CONNECTIONS].client, 1);
        if (soak.ended != last) {
            last = soak.ended;
            changed = time(NULL);
        } else if (time(NULL) - changed > QUIET_S) {
            die("no request has ended for a minute", "");
        }
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        client_close(&soak.connections[i].client);
    }
}

struct left {
    uint64_t blocks, slots, total_blocks, total_slots;
    size_t n_workers, n_sequences;
    uint32_t differences;
    uint64_t violations, strikes;
    char text[512];
};

static void take_workers(void *arg, const ProtobufCMessage *reply)
{
    struct left *l = arg;
    const Sluice__V1__ListWorkersReply *m =
        (const Sluice__V1__ListWorkersReply *)reply;

    l->blocks = l->slots = l->total_blocks = l->total_slots = 0;
    l->n_workers = m->n_workers;
    for (size_t i = 0; i < m->n_workers; i++) {
        const Sluice__V1__ClassLedger *b = m->workers[i]->ledger->blocks;
        const Sluice__V1__ClassLedger *s = m->workers[i]->ledger->slots;

        l->total_blocks += b->total;
        l->total_slots += s->total;
        l->blocks += b->total - b->free - b->cached;
        l->slots += s->total - s->free - s->cached;
    }
}

static void take_sequences(void *arg, const ProtobufCMessage *reply)
{
    struct left *l = arg;

    l->n_sequences =
        ((const Sluice__V1__ListSequencesReply *)reply)->n_sequences;
}

static void take_audit(void *arg, const ProtobufCMessage *reply)
{
    struct left *l = arg;
    const Sluice__V1__AuditAllReply *m =
        (const Sluice__V1__AuditAllReply *)reply;

    l->differences = m->n_differences;
    for (size_t i = 0; i < m->n_workers; i++) {
        if (m->workers[i]->has_text) {
            snprintf(l->text, sizeof l->text, "%.*s",
                     (int)m->workers[i]->text.len,
                     (const char *)m->workers[i]->text.data);
        }
    }
}

static void take_status(void *arg, const ProtobufCMessage *reply)
{
    struct left *l = arg;
    const Sluice__V1__StatusReply *m = (const Sluice__V1__StatusReply *)reply;

    l->violations = m->ledger_violations;
    l->strikes = m->n_strikes;
}

static void call(struct client *c, enum method m, const ProtobufCMessage *r,
                 client_reply_fn *take, struct left *l)
{
    struct error e;

    if (client_call(c, m, r, 0, take, l, &e) != ST_OK) {
        die("an admin's call failed", e.text);
    }
}

/* After the last receipt, the last ledgers follow within one report. */
static void look(const char *endpoint, struct left *l)
{
    const struct timespec pause = {.tv_nsec = 25000000};
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    Sluice__V1__StatusRequest status = SLUICE__V1__STATUS_REQUEST__INIT;
    Sluice__V1__ListRequest all = SLUICE__V1__LIST_REQUEST__INIT;
    struct client *c = open_client(endpoint, true);

    for (int i = 0; i < SETTLE_TRIES; i++) {
        call(c, METHOD_ADMIN_LIST_WORKERS, &all.base, take_workers, l);
        call(c, METHOD_ADMIN_LIST_SEQUENCES, &all.base, take_sequences, l);
        if (l->blocks + l->slots + l->n_sequences == 0) {
            break;
        }
        nanosleep(&pause, NULL);
    }
    call(c, METHOD_ADMIN_AUDIT, &nothing.base, take_audit, l);
    call(c, METHOD_ADMIN_STATUS, &status.base, take_status, l);
    client_close(&c);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void print_figures(double seconds)
{
    qsort(soak.took_us, soak.n_took, sizeof *soak.took_us, by_value);
    printf("cycles: %" PRIu64 " in %.1f s: %" PRIu64 " completed, %" PRIu64
           " cancelled, %" PRIu64 " removed, %" PRIu64 " given up, %" PRIu64
           " connections dropped; %" PRIu64 " refused\n",
           soak.ended, seconds, soak.fates[RUN], soak.fates[CANCEL],
           soak.fates[REMOVE], soak.fates[GIVE_UP], soak.fates[DROP],
           soak.refused);
    printf("cycles: %" PRIu64 " tokens; %zu receipts", soak.tokens,
           soak.n_took);
    if (soak.n_took > 0) {
        printf(", cancel to receipt p50 %.2f ms, p99 %.2f ms, max %.2f ms",
               (double)soak.took_us[soak.n_took / 2] / 1e3,
               (double)soak.took_us[soak.n_took * 99 / 100] / 1e3,
               (double)soak.took_us[soak.n_took - 1] / 1e3);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    struct left l = {0};
    int64_t began = monotonic_us();

    if (argc < 3) {
        fputs("usage: cycles ENDPOINT N [SEED]\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    soak.wanted = strtoull(argv[2], NULL, 10);
    soak.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    soak.took_us = calloc(soak.wanted + 1, sizeof *soak.took_us);
    if (soak.took_us == NULL || soak.wanted == 0) {
        die("N must be 1 or more, and fit into memory", "");
    }
    run(argv[1]);
    print_figures((double)(monotonic_us() - began) / 1e6);
    look(argv[1], &l);
    printf("cycles: still held: %" PRIu64 " of %" PRIu64 " blocks, %" PRIu64
           " of %" PRIu64 " slots; %zu sequences; audit of %zu workers: %u "
           "differences; %" PRIu64 " ledger violations, %" PRIu64 " strikes\n",
           l.blocks, l.total_blocks, l.slots, l.total_slots, l.n_sequences,
           l.n_workers, l.differences, l.violations, l.strikes);
    if (l.n_workers == 0 || l.total_blocks == 0 || l.blocks + l.slots > 0 ||
        l.n_sequences > 0 || l.differences > 0 ||
        l.violations + l.strikes > 0) {
        die("a sequence or a difference is left", l.text);
    }
    free(soak.took_us);
    return 0;
}

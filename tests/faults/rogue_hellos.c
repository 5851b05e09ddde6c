/* Peers with an invalid Hello, or with a second one. */
#include <stdio.h>
#include <string.h>

#include "tests/faults/rogue.h"
#include "tests/faults/rogue_node.h"

typedef void spoil_fn(struct rogue_shard *s);

struct absurd {
    spoil_fn *spoil;
    enum status status; /* expected status of the refusal */
};

static bool is_refused(const void *arg)
{
    const struct rogue_node *n = arg;

    return n->n_refused > 0 || n->n_up > 0;
}

/* Writes the observation and returns whether n was refused with this status. */
static bool refused_as(struct rogue_at *at, struct rogue_node *n,
                       enum status wanted)
{
    bool well =
        rogue_run(&n, 1, is_refused, n) && n->n_up == 0 && n->refused == wanted;

    return rogue_saw(at, well, "%s \"%s\"",
                     n->n_up > 0 ? "let in" : status_name(n->refused), n->why);
}

static bool run_absurd(struct rogue_at *at, const struct rogue_case *c)
{
    const struct absurd *a = c->arg;
    struct rogue_node *n =
        rogue_node_new(at->workers, BY_WORKER, rogue_name("absurd"));
    bool well;

    a->spoil(&n->shard);
    well = refused_as(at, n, a->status);
    rogue_node_free(&n);
    return well;
}

static char long_name[200];

#define ABSURD(name, code)                                       \
    static void spoil_##name(struct rogue_shard *s);             \
    static const struct absurd name = {spoil_##name, ST_##code}; \
    static void spoil_##name(struct rogue_shard *s)
#define TOTAL(i, n) (s->classes[i].total = s->classes[i].free = (n))

/* clang-format off */
ABSURD(no_layers, INVALID_ARGUMENT)      { s->m.layer_end = s->m.n_layers = 0; }
ABSURD(layers_past_end, INVALID_ARGUMENT) { s->m.layer_end = 5; }
ABSURD(no_block, INVALID_ARGUMENT)       { s->m.block_tokens = 0; }
ABSURD(block_max, INVALID_ARGUMENT)      { s->m.block_tokens = UINT32_MAX; }
ABSURD(no_context, INVALID_ARGUMENT)     { s->m.context = 0; }
ABSURD(context_past, INVALID_ARGUMENT)   { s->m.context = 4194305; }
ABSURD(no_vocab, INVALID_ARGUMENT)       { s->m.vocab = 0; }
ABSURD(vocab_past, INVALID_ARGUMENT)     { s->m.vocab = 16777217; }
ABSURD(no_rows, INVALID_ARGUMENT)        { s->m.max_rows = 0; }
ABSURD(rows_past, INVALID_ARGUMENT)      { s->m.max_rows = 513; }
ABSURD(bytes_max, INVALID_ARGUMENT)      { s->m.block_bytes = UINT64_MAX; }
ABSURD(pool_max, INVALID_ARGUMENT)       { s->m.pool_bytes = UINT64_MAX; }
ABSURD(pages_past, INVALID_ARGUMENT)     { s->m.pages_per_block = 65537; }
ABSURD(blocks_past, INVALID_ARGUMENT)    { TOTAL(0, 1073741825); }
ABSURD(no_pages, INVALID_ARGUMENT)       { TOTAL(3, 0); }
ABSURD(pages_other, INVALID_ARGUMENT)    { s->classes[3].free -= 1; }
ABSURD(slots_max, INVALID_ARGUMENT)      { TOTAL(1, UINT32_MAX); }
ABSURD(ledger_sum, INVALID_ARGUMENT)     { s->classes[0].held = 1; }
ABSURD(model_empty, INVALID_ARGUMENT)    { s->m.model.len = 0; }
ABSURD(model_utf8, INVALID_ARGUMENT)     { s->model[0] = '\xff'; }
ABSURD(fingerprint, INVALID_ARGUMENT)    { s->m.fingerprint.len = 15; }
/* clang-format on */

ABSURD(layers_max, INVALID_ARGUMENT)
{
    s->m.layer_end = s->m.n_layers = UINT32_MAX;
}
ABSURD(ledger_wraps, INVALID_ARGUMENT)
{
    s->classes[0].free = UINT32_MAX;
    s->classes[0].held = ROGUE_PAGES + 1;
}

ABSURD(model_long, INVALID_ARGUMENT)
{
    memset(long_name, 'a', sizeof long_name);
    s->m.model = (ProtobufCBinaryData){129, (uint8_t *)long_name};
}

/* A stage of two that names an endpoint which honest workers would dial. */
static void be_stage(struct rogue_shard *s, const char *endpoint)
{
    s->m.layer_end = s->m.n_layers - 1;
    s->m.has_hidden = s->m.has_stage_endpoint = true;
    s->m.hidden = 64;
    s->m.stage_endpoint = wire_text(endpoint);
}
ABSURD(stage_distant, INVALID_ARGUMENT)
{
    be_stage(s, "tcp://192.0.2.1:7070");
}
ABSURD(stage_named, INVALID_ARGUMENT)
{
    be_stage(s, "tcp://example.org:7070");
}
ABSURD(stage_two_hosts, INVALID_ARGUMENT)
{
    be_stage(s, "tcp://127.0.0.1:1;192.0.2.1:7070");
}
ABSURD(stage_abstract, INVALID_ARGUMENT)
{
    be_stage(s, "ipc://@stage");
}

/* ---- roles and ports ---- */

static bool run_worker_at_clients(struct rogue_at *at,
                                  const struct rogue_case *c)
{
    struct rogue_node *n =
        rogue_node_new(at->clients, BY_WORKER, rogue_name("lost"));
    bool well = refused_as(at, n, ST_PERMISSION_DENIED);

    (void)c;
    rogue_node_free(&n);
    return well;
}

static bool run_client_at_workers(struct rogue_at *at,
                                  const struct rogue_case *c)
{
    struct rogue_node *n =
        rogue_node_new(at->workers, BY_CLIENT, rogue_name("lost"));
    bool well = refused_as(at, n, ST_PERMISSION_DENIED);

    (void)c;
    rogue_node_free(&n);
    return well;
}

static bool run_name_taken(struct rogue_at *at, const struct rogue_case *c)
{
    const char *name = rogue_name("twin");
    struct rogue_node *pair[2] = {rogue_node_new(at->workers, BY_WORKER, name)};
    bool well = rogue_run_up(pair[0]);

    (void)c;
    pair[1] = rogue_node_new(at->workers, BY_WORKER, name);
    well = well && rogue_run(pair, 2, is_refused, pair[1]) &&
           pair[1]->n_up == 0 && pair[0]->n_down == 0;
    rogue_saw(at, well, "the second: %s \"%s\", the first lost %u sessions",
              status_name(pair[1]->refused), pair[1]->why, pair[0]->n_down);
    rogue_node_free(&pair[1]);
    rogue_node_free(&pair[0]);
    return well;
}

static bool has_end(const void *arg)
{
    return ((const struct rogue_node *)arg)->n_ends > 0;
}

/* Sends another Hello on a connection that has a session. */
static bool run_two_hellos(struct rogue_at *at, const struct rogue_case *c)
{
    struct rogue_node *n =
        rogue_node_new(at->clients, BY_CLIENT, rogue_name("twice"));
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
    Sluice__V1__ListModelsRequest list = SLUICE__V1__LIST_MODELS_REQUEST__INIT;
    bool well = rogue_run_up(n);

    (void)c;
    m.version_major = WIRE_VERSION_MAJOR;
    m.role = SLUICE__V1__ROLE__ROLE_WORKER;
    m.name = wire_text("another");
    for (uint64_t i = 0; well && i < 50; i++) {
        struct frame *f;

        m.nonce = 1000 + i;
        f = hello_make(&m.base);
        (void)n->session.io->send(n->session.io, n->session.id, &f);
    }
    well = well && peer_call(n->peer, METHOD_INFERENCE_LIST_MODELS, &list.base,
                             0, 0, NULL) == ST_OK;
    well = well && rogue_run(&n, 1, has_end, n) && n->status == ST_OK &&
           n->n_down == 0;
    rogue_saw(at, well, "a call after 50 more Hellos: %s, sessions lost: %u",
              status_name(n->status), n->n_down);
    rogue_node_free(&n);
    return well;
}

/* Offers the correct workers' model with other weights or vocabulary. */
static bool run_false_model(struct rogue_at *at, const struct rogue_case *c)
{
    struct rogue_node *n =
        rogue_node_new(at->workers, BY_WORKER, rogue_name("false"));
    bool well;

    (void)c;
    n->shard.m.model = wire_text(at->model);
    well = rogue_run(&n, 1, is_refused, n) && n->n_up == 0;
    rogue_saw(at, well, "%s \"%s\"",
              n->n_up > 0 ? "let in" : status_name(n->refused), n->why);
    rogue_node_free(&n);
    return well;
}

#define REFUSED(absurd, text)                                       \
    {                                                               \
        "hello-" text, ROGUE_ROUTER, "refused", run_absurd, &absurd \
    }

static const struct rogue_case cases[] = {
    REFUSED(no_layers, "no-layers"),
    REFUSED(layers_past_end, "layers-past-end"),
    REFUSED(layers_max, "layers-max"),
    REFUSED(no_block, "no-block"),
    REFUSED(block_max, "block-max"),
    REFUSED(no_context, "no-context"),
    REFUSED(context_past, "context-past-limit"),
    REFUSED(no_vocab, "no-vocab"),
    REFUSED(vocab_past, "vocab-past-limit"),
    REFUSED(no_rows, "no-rows"),
    REFUSED(rows_past, "rows-past-limit"),
    REFUSED(bytes_max, "bytes-max"),
    REFUSED(pool_max, "pool-max"),
    REFUSED(pages_past, "pages-past-limit"),
    REFUSED(blocks_past, "blocks-past-limit"),
    REFUSED(no_pages, "no-pages"),
    REFUSED(pages_other, "pages-sum"),
    REFUSED(slots_max, "slots-max"),
    REFUSED(ledger_sum, "ledger-sum"),
    REFUSED(ledger_wraps, "ledger-wraps"),
    REFUSED(model_empty, "model-empty"),
    REFUSED(model_utf8, "model-no-utf8"),
    REFUSED(model_long, "model-long"),
    REFUSED(fingerprint, "fingerprint-short"),
    REFUSED(stage_distant, "stage-distant"),
    REFUSED(stage_named, "stage-named"),
    REFUSED(stage_two_hosts, "stage-two-hosts"),
    REFUSED(stage_abstract, "stage-abstract"),
    {"worker-at-clients", ROGUE_ROUTER, "PERMISSION_DENIED",
     run_worker_at_clients, NULL},
    {"client-at-workers", ROGUE_ROUTER, "PERMISSION_DENIED",
     run_client_at_workers, NULL},
    {"name-taken", ROGUE_ROUTER, "refused, the first stays", run_name_taken,
     NULL},
    {"two-hellos", ROGUE_ROUTER, "refused, the session stays", run_two_hellos,
     NULL},
    {"false-model", ROGUE_ROUTER, "refused: it is another model",
     run_false_model, NULL},
};

const struct rogue_table rogue_hellos = {cases, sizeof cases / sizeof cases[0]};

/* Every number of every message that a peer may send, at every extreme.  The
 * test walks the fields by the schema's descriptors.  After each message, a
 * correct client's request on a correct worker goes on as before, and the
 * router's account of that worker is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

static const uint64_t extremes[] = {
    0,          1,         2,          15,         31,         64,
    65,         511,       513,        999,        1001,       39999,
    40001,      65536,     600001,     0x7fffffff, 0x80000000, 0xffffffff,
    1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX,
};

#define N_EXTREMES (sizeof extremes / sizeof *extremes)

struct world {
    struct rig *rig;
    struct fake *w, *c; /* without faults */
    struct fake *villain;
    uint32_t n_villains;
    uint8_t id;
};

/* The canary: a request of two tokens from end to end. */
static void all_is_well(struct world *d)
{
    struct router_worker_view v;
    struct record *x;
    uint8_t id = d->id = d->id % 250 + 1;
    int slot;

    x = client_generate(d->c, id, 10, 2);
    rig_run(d->rig);
    worker_make(d->w, worker_sequence_of(d->w, id), 2,
                SLUICE__V1__FINISH__FINISH_LENGTH);
    worker_step(d->w);
    rig_run(d->rig);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->n_tokens, 2);
    assert_true(router_worker_view(d->rig->router, 0, &v));
    assert_int_equal(v.granted_blocks, 0);
    assert_int_equal(v.free_blocks, 64);
    for (slot = 0; d->c->records[slot] != x; slot++) {
    }
    d->c->records[slot] = NULL; /* so that the rig does not fill up */
    record_free(x);
}

static void begin(struct world *d)
{
    memset(d, 0, sizeof *d);
    d->rig = rig_new(NULL);
    d->w = rig_worker(d->rig, "honest", 64, 8);
    d->c = rig_client(d->rig, "c1");
    all_is_well(d);
}

/* Creates a fake with a name that is not in quarantine. */
static struct fake *villain(struct world *d, uint8_t role)
{
    struct fake *f = d->villain;
    char name[32];

    if (f != NULL) {
        fake_lost(f);
        snprintf(f->name, sizeof f->name, "evil%u", ++d->n_villains);
        fake_reconnect(f); /* ends its open calls */
        fake_forget(f);
        return f;
    }
    snprintf(name, sizeof name, "evil%u", ++d->n_villains);
    if (role == BY_WORKER) {
        f = fake_worker_new(d->rig, name, 64, 8);
        f->shard.model = wire_text("evil");
    } else {
        f = fake_new(d->rig, role, name);
    }
    d->villain = f;
    fake_hello(f);
    assert_true(f->up);
    return f;
}

struct attack {
    uint8_t role;
    enum method method;
    ProtobufCMessage *(*make)(struct fake *f);
};

static bool set(void *at, const ProtobufCFieldDescriptor *f, uint64_t v)
{
    uint32_t low = (uint32_t)v;

    switch (f->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_FLOAT: /* bit patterns: NaN, -0, the smallest */
        memcpy(at, &low, sizeof low);
        return v <= UINT32_MAX;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        memcpy(at, &v, sizeof v);
        return true;
    default:
        return false;
    }
}

/* Sets number `which` in m, counted depth first, to v.  Returns -1 once it is
 * set. */
static int spoil(ProtobufCMessage *m, int which, uint64_t v, bool *fits)
{
    for (unsigned i = 0; i < m->descriptor->n_fields && which >= 0; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        char *at = (char *)m + f->offset;

        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n;
            memcpy(&n, (char *)m + f->quantifier_offset, sizeof n);
            if (n == 0) {
                continue;
            }
            at = *(char **)(void *)at; /* the first element */
        } else if (f->label == PROTOBUF_C_LABEL_OPTIONAL &&
                   f->type != PROTOBUF_C_TYPE_MESSAGE &&
                   f->quantifier_offset != 0) {
            protobuf_c_boolean yes = 1;
            if (f->type != PROTOBUF_C_TYPE_BYTES) {
                memcpy((char *)m + f->quantifier_offset, &yes, sizeof yes);
            }
        }
        if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            ProtobufCMessage *inner;
            memcpy(&inner, at, sizeof inner);
            if (inner != NULL) {
                which = spoil(inner, which, v, fits);
            }
        } else if (f->type == PROTOBUF_C_TYPE_UINT32 ||
                   f->type == PROTOBUF_C_TYPE_ENUM ||
                   f->type == PROTOBUF_C_TYPE_FLOAT ||
                   f->type == PROTOBUF_C_TYPE_UINT64 ||
                   f->type == PROTOBUF_C_TYPE_FIXED64) {
            if (which-- == 0) {
                *fits = set(at, f, v);
            }
        }
    }
    return which;
}

static uint8_t id[16] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
static Sluice__V1__SequenceRef ref;
static Sluice__V1__Sampling sampling;
static uint32_t tokens[3], first[1], count[1], finish[1], st[1];
static uint64_t grant[1];
static uint32_t width[1], top_tokens[1], bias_tokens[1], stop_tokens[1];
static float logprobs[2], biases[1];
static Sluice__V1__ClassLedger classes[4];
static Sluice__V1__Ledger ledger;

static Sluice__V1__Ledger *copy_ledger(struct fake *f)
{
    f->ledger.snapshot++;
    ledger = f->ledger;
    memcpy(classes, f->classes, sizeof classes);
    ledger.blocks = &classes[0];
    ledger.slots = &classes[1];
    ledger.checkpoints = &classes[2];
    ledger.pages = &classes[3];
    return &ledger;
}

static ProtobufCMessage *make_generate(struct fake *f)
{
    static Sluice__V1__GenerateRequest m;

    (void)f;
    sluice__v1__generate_request__init(&m);
    sluice__v1__sampling__init(&sampling);
    m.request_id = (ProtobufCBinaryData){16, id};
    m.model = wire_text("tiny");
    m.tokens = tokens;
    m.n_tokens = 3;
    m.sampling = &sampling;
    sampling.n_bias_tokens = sampling.n_biases = sampling.n_stop_tokens = 1;
    sampling.bias_tokens = bias_tokens;
    sampling.biases = biases;
    sampling.stop_tokens = stop_tokens;
    bias_tokens[0] = stop_tokens[0] = 7;
    biases[0] = 1;
    tokens[0] = 1;
    return &m.base;
}

static Sluice__V1__SequenceRef *make_ref(void)
{
    sluice__v1__sequence_ref__init(&ref);
    ref.request_id = (ProtobufCBinaryData){16, id};
    return &ref;
}

static ProtobufCMessage *make_cancel(struct fake *f)
{
    static Sluice__V1__CancelRequest m;

    (void)f;
    sluice__v1__cancel_request__init(&m);
    m.sequence = make_ref();
    return &m.base;
}

static ProtobufCMessage *make_remove(struct fake *f)
{
    static Sluice__V1__RemoveRequest m;

    (void)f;
    sluice__v1__remove_request__init(&m);
    m.sequence = make_ref();
    return &m.base;
}

static ProtobufCMessage *make_detokenize(struct fake *f)
{
    static Sluice__V1__DetokenizeRequest m;

    (void)f;
    sluice__v1__detokenize_request__init(&m);
    m.model = wire_text("tiny");
    m.tokens = tokens;
    m.n_tokens = 3;
    return &m.base;
}

static ProtobufCMessage *make_list(struct fake *f)
{
    static Sluice__V1__ListRequest m;

    (void)f;
    sluice__v1__list_request__init(&m);
    return &m.base;
}

static ProtobufCMessage *make_watch(struct fake *f)
{
    static Sluice__V1__WatchRequest m;

    (void)f;
    sluice__v1__watch_request__init(&m);
    return &m.base;
}

static ProtobufCMessage *make_report(struct fake *f)
{
    static Sluice__V1__ReportMessage m;

    sluice__v1__report_message__init(&m);
    m.ledger = copy_ledger(f);
    return &m.base;
}

static ProtobufCMessage *make_step(struct fake *f)
{
    static Sluice__V1__StepOutputMessage m;

    sluice__v1__step_output_message__init(&m);
    m.step = ++f->step;
    m.ledger = copy_ledger(f);
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state = 1;
    m.n_tokens = 1;
    grant[0] = 1;
    first[0] = finish[0] = st[0] = 0;
    count[0] = 1;
    m.grant = grant;
    m.first_index = first;
    m.count = count;
    m.finish = finish;
    m.state = st;
    m.tokens = tokens;
    tokens[0] = 1;
    m.n_width = m.n_top_tokens = 1;
    m.n_logprobs = 2;
    m.width = width;
    m.logprobs = logprobs;
    m.top_tokens = top_tokens;
    width[0] = 2;
    logprobs[0] = logprobs[1] = -1;
    top_tokens[0] = 3;
    return &m.base;
}

static const struct attack attacks[] = {
    {BY_CLIENT, METHOD_INFERENCE_GENERATE, make_generate},
    {BY_CLIENT, METHOD_INFERENCE_CANCEL, make_cancel},
    {BY_CLIENT, METHOD_INFERENCE_REMOVE, make_remove},
    {BY_CLIENT, METHOD_INFERENCE_DETOKENIZE, make_detokenize},
    {BY_ADMIN, METHOD_ADMIN_LIST_WORKERS, make_list},
    {BY_ADMIN, METHOD_ADMIN_LIST_SEQUENCES, make_list},
    {BY_ADMIN, METHOD_ADMIN_WATCH, make_watch},
    {BY_WORKER, METHOD_REGISTRY_REPORT, make_report},
    {BY_WORKER, METHOD_REGISTRY_STEP_OUTPUT, make_step},
};

/* Grants a sequence to f, so that rows of grant 1 have a meaning. */
static void give_it_work(struct world *d, struct fake *f)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling s = SLUICE__V1__SAMPLING__INIT;
    struct record *x;

    m.model = wire_text("evil");
    m.sampling = &s;
    s.has_top_logprobs = true;
    s.top_logprobs = 1;
    x = client_generate_with(d->c, 255, 10, 5, &m, 0);
    rig_run(d->rig);
    assert_int_equal(f->last_grant, 1);
    x->in_order = true;
}

static void send(struct world *d, const struct attack *a, int which,
                 uint64_t value, bool *more)
{
    struct fake *f = villain(d, a->role);
    ProtobufCMessage *m;
    bool fits = false;

    if (a->role == BY_WORKER) {
        give_it_work(d, f);
    }
    m = a->make(f);
    *more = spoil(m, which, value, &fits) < 0;
    if (*more && fits) {
        if (a->role == BY_WORKER) {
            assert_int_equal(peer_oneway(f->peer, a->method, m), ST_OK);
        } else {
            client_call(f, a->method, m, 0);
        }
        rig_run(d->rig);
    }
    fake_lost(f);
    rig_run(d->rig);
    fake_forget(d->c);
    all_is_well(d);
}

static void every_number_at_every_extreme(void **state)
{
    uint32_t n = 0;

    (void)state;
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        struct world d;
        bool more = true;

        begin(&d);
        for (int which = 0; more; which++) {
            for (size_t v = 0; v < N_EXTREMES && more; v++) {
                send(&d, &attacks[i], which, extremes[v], &more);
                n++;
            }
        }
        rig_free(&d.rig);
    }
    assert_true(n > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_at_every_extreme),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

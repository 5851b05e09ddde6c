#include "tests/sim/network.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "tests/sim/sim.h"

#define NO_FLIGHT UINT32_MAX

void network_init(struct network *n)
{
    *n = (struct network){.free_flight = NO_FLIGHT};
}

void network_fini(struct network *n)
{
    for (uint32_t i = 0; i < n->n_flights; i++) {
        frame_free(&n->flights[i].frame);
    }
    free(n->flights);
    free(n->conns);
    *n = (struct network){0};
}

struct conn *network_conn(struct network *n, uint32_t number)
{
    return number && number <= n->n_conns ? &n->conns[number - 1] : NULL;
}

static void *grown(void *p, uint32_t *capacity, size_t size)
{
    *capacity = *capacity ? *capacity * 2 : 64;
    p = realloc(p, *capacity * size);
    if (!p) {
        abort();
    }
    return p;
}

static uint32_t flight_take(struct network *n)
{
    uint32_t i = n->free_flight;

    if (i != NO_FLIGHT) {
        n->free_flight = n->flights[i].next;
        return i;
    }
    if (n->n_flights == n->flights_capacity) {
        n->flights =
            grown(n->flights, &n->flights_capacity, sizeof(*n->flights));
    }
    return n->n_flights++;
}

static struct frame *flight_land(struct network *n, uint32_t i)
{
    struct frame *f = n->flights[i].frame;

    n->flights[i].frame = NULL;
    n->flights[i].next = n->free_flight;
    n->free_flight = i;
    return f;
}

uint32_t network_session(const struct network *n, uint32_t node)
{
    for (uint32_t i = n->n_conns; i; i--) {
        const struct conn *c = &n->conns[i - 1];

        if (c->node == node && c->listener == SIM_ROUTER) {
            return c->open[END_PEER] && c->session ? i : 0;
        }
    }
    return 0;
}

static uint32_t node_at(const struct conn *c, enum conn_end end)
{
    return end == END_ROUTER ? c->listener : c->node;
}

/* Returns the end of a connection at which a node is. */
static enum conn_end end_of(const struct conn *c, uint32_t node)
{
    return node == c->listener ? END_ROUTER : END_PEER;
}

static int64_t delay(struct sim *s)
{
    return s->options.delay_us +
           (int64_t)rng_below(&s->chance, s->options.jitter_us);
}

static bool chance(struct sim *s, uint32_t of)
{
    return !s->calm && rng_chance(&s->chance, of);
}

static void deliver(struct sim *s, uint32_t flight, uint64_t unused)
{
    struct flight *l = &s->network.flights[flight];
    struct conn *c = network_conn(&s->network, l->conn);
    struct sim_node *node = &s->nodes[node_at(c, l->to)];
    uint32_t number = l->conn;
    enum conn_end to = l->to;
    struct frame *f;
    bool from_worker;

    (void)unused;
    if (node->paused_us > sim_now(s) && c->open[to]) {
        clock_add(&s->clock, node->paused_us, deliver, flight, 0);
        return;
    }
    c->in_flight[to]--;
    f = flight_land(&s->network, flight);
    if (!c->open[to]) {
        frame_free(&f);
        return;
    }
    if (c->cut_us[to] > sim_now(s)) {
        s->counts.lost++;
        frame_free(&f);
        return;
    }
    s->counts.frames++;
    s->hash = XXH3_64bits_withSeed(f->data, f->bytes,
                                   s->hash ^ (uint64_t)sim_now(s) ^ number);
    if (c->listener == SIM_ROUTER) {
        sniff(s, number, to, f);
    } else {
        replicas_sniff(s, number, to, f);
    }
    from_worker = to == END_ROUTER && c->listener == SIM_ROUTER &&
                  node_is_worker(c->node);
    if (from_worker) {
        holds_replace(s, number, &f);
        forged_replace(s, number, &f);
    }
    node->ops->recv(node->core, (struct peer_id){number}, &f);
    if (from_worker) {
        forged_check(s, number);
    }
    auditor_received(s, node->number);
    node_soon(s, node->number);
}

/* Schedules one copy of a frame; a late one may arrive out of order. */
static void fly(struct sim *s, uint32_t conn, enum conn_end to, struct frame *f,
                int64_t late_us)
{
    struct conn *c = network_conn(&s->network, conn);
    int64_t at = sim_now(s) + delay(s);
    uint32_t i = flight_take(&s->network);

    if (late_us) {
        at += late_us;
    } else {
        at = at > c->last_us[to] ? at : c->last_us[to] + 1;
        c->last_us[to] = at;
    }
    c->in_flight[to]++;
    s->network.flights[i] = (struct flight){f, conn, NO_FLIGHT, to};
    clock_add(&s->clock, at, deliver, i, 0);
}

static struct frame *copy(const struct frame *f)
{
    struct frame *copied = frame_new(f->bytes);

    memcpy(copied->data, f->data, f->bytes);
    return copied;
}

/* Replaces the body of a stage's message by garbage, in a valid frame. */
static void spoil(struct sim *s, struct frame **f)
{
    struct frame_header h;
    struct envelope e;
    struct frame *spoiled;
    uint32_t at = 0;

    if (frame_check((*f)->data, (*f)->bytes, &h, NULL) != ST_OK ||
        h.n_ordered == 0 || !envelope_next(*f, &h, &at, &e) ||
        e.kind != ENVELOPE_ONEWAY || e.body_bytes == 0) {
        return;
    }
    spoiled = copy(*f);
    for (uint32_t i = 0; i < e.body_bytes; i++) {
        spoiled->data[e.body - (*f)->data + i] = (uint8_t)rng_u64(&s->chance);
    }
    frame_seal(spoiled, &h);
    frame_free(f);
    *f = spoiled;
    s->counts.cells.deeds[DEED_GARBAGE]++;
}

static int64_t lateness(struct sim *s)
{
    return rng_octave(&s->chance, 10, 200000);
}

enum status network_send(struct sim *s, uint32_t node, struct peer_id to,
                         struct frame **fp)
{
    struct conn *c = network_conn(&s->network, to.v);
    enum conn_end from = c ? end_of(c, node) : END_PEER;
    enum conn_end there = from == END_ROUTER ? END_PEER : END_ROUTER;
    struct frame *f = *fp;
    int64_t late_us = 0;

    *fp = NULL;
    if (!c || !c->open[from]) {
        frame_free(&f);
        return ST_UNAVAILABLE;
    }
    if (from == END_ROUTER && c->listener == SIM_ROUTER) {
        crowd_sent(s, to.v, f);
    }
    if (c->in_flight[there] >= s->options.send_limit) {
        s->counts.lost++;
        frame_free(&f);
        return ST_RESOURCE_EXHAUSTED;
    }
    if (!c->standing || !c->open[there] || chance(s, s->options.drop_of)) {
        s->counts.lost++;
        frame_free(&f);
        return ST_OK;
    }
    if (c->listener != SIM_ROUTER && chance(s, s->options.stages.garbage_of)) {
        spoil(s, &f);
    }
    if (s->options.offers.n && from == END_ROUTER) {
        offers_spoil(s, c->node, &f);
    }
    if (chance(s, s->options.double_of)) {
        s->counts.doubled++;
        fly(s, to.v, there, copy(f), lateness(s));
    }
    if (chance(s, s->options.flip_of)) {
        struct frame *whole = f; /* the sender may share this frame */

        f = copy(whole);
        frame_free(&whole);
        s->counts.flipped++;
        f->data[rng_below(&s->chance, f->bytes)] ^=
            (uint8_t)(1u << rng_below(&s->chance, 8));
    }
    if (chance(s, s->options.reorder_of)) {
        s->counts.reordered++;
        late_us = lateness(s);
    }
    fly(s, to.v, there, f, late_us);
    return ST_OK;
}

static void deliver_opened(struct sim *s, uint32_t number, uint64_t unused)
{
    struct conn *c = network_conn(&s->network, number);
    struct sim_node *node = &s->nodes[c->node];

    (void)unused;
    if (!c->open[END_PEER] || c->lost_sent[END_PEER]) {
        return;
    }
    if (node->paused_us > sim_now(s)) {
        clock_add(&s->clock, node->paused_us, deliver_opened, number, 0);
        return;
    }
    c->standing = true;
    node->ops->opened(node->core, (struct peer_id){number});
    node_soon(s, c->node);
}

static void deliver_lost(struct sim *s, uint32_t number, uint64_t end)
{
    struct conn *c = network_conn(&s->network, number);
    struct sim_node *node = &s->nodes[node_at(c, (enum conn_end)end)];

    if (!c->open[end]) {
        return;
    }
    if (node->paused_us > sim_now(s)) {
        clock_add(&s->clock, node->paused_us, deliver_lost, number, end);
        return;
    }
    if (node->number == SIM_ROUTER) {
        cells_disconnect(s, c->node);
    }
    c->open[end] = false;
    c->lost_received = c->lost_received || end == END_ROUTER;
    sim_log(s, "%s lost connection %u", node->name, number);
    node->ops->lost(node->core, (struct peer_id){number});
    if (node->number == SIM_ROUTER) {
        auditor_lost(s, number);
    }
    node_soon(s, node->number);
}

static void send_lost(struct sim *s, uint32_t number, enum conn_end end,
                      int64_t at_us)
{
    struct conn *c = network_conn(&s->network, number);

    if (c->open[end] && !c->lost_sent[end]) {
        c->lost_sent[end] = true;
        clock_add(&s->clock, at_us, deliver_lost, number, end);
    }
}

/* Connects to a listener, which may refuse, or never answer. */
static void try_open(struct sim *s, uint32_t number, uint64_t unused)
{
    struct conn *c = network_conn(&s->network, number);

    (void)unused;
    if (!c->open[END_PEER]) {
        return;
    }
    if (s->nodes[c->listener].core && !chance(s, 100) && keys_admit(s, c)) {
        c->open[END_ROUTER] = true;
        clock_add(&s->clock, sim_now(s) + delay(s), deliver_opened, number, 0);
    } else if (s->calm || rng_below(&s->chance, 4)) {
        send_lost(s, number, END_PEER, sim_now(s) + delay(s));
    }
}

struct peer_id network_open(struct sim *s, uint32_t node, uint32_t listener)
{
    struct network *n = &s->network;
    uint32_t number;

    if (n->n_conns == n->conns_capacity) {
        n->conns = grown(n->conns, &n->conns_capacity, sizeof(*n->conns));
    }
    number = ++n->n_conns;
    n->conns[number - 1] = (struct conn){.node = node, .listener = listener};
    n->conns[number - 1].open[END_PEER] = true;
    if (node_is_worker(node)) {
        const struct fake_shard shard =
            options_shard(&s->options, node - SIM_FIRST_WORKER);

        n->conns[number - 1].begin = shard.begin;
        n->conns[number - 1].end = shard.end;
    }
    clock_add(&s->clock, sim_now(s) + delay(s), try_open, number, 0);
    return (struct peer_id){number};
}

/* Closes one end; the other end is notified after frames sent before. */
static void end_close(struct sim *s, uint32_t number, enum conn_end end,
                      int64_t after_us)
{
    struct conn *c = network_conn(&s->network, number);
    enum conn_end other = end == END_PEER ? END_ROUTER : END_PEER;
    int64_t at = sim_now(s) + delay(s) + after_us;

    c->open[end] = false;
    send_lost(s, number, other,
              at > c->last_us[other] ? at : c->last_us[other] + 1);
}

void network_close(struct sim *s, uint32_t node, struct peer_id who)
{
    struct conn *c = network_conn(&s->network, who.v);
    enum conn_end end = c ? end_of(c, node) : END_PEER;

    if (c && c->open[end]) {
        s->counts.cells.deeds[DEED_HALF_OPEN] +=
            end == END_PEER && c->session && c->cut_us[end] > sim_now(s);
        end_close(s, who.v, end, 0);
    }
}

void network_cut(struct sim *s, uint32_t number, int64_t notice_us)
{
    struct conn *c = network_conn(&s->network, number);

    for (int end = 0; end < ENDS; end++) {
        c->cut_us[end] = INT64_MAX;
        send_lost(s, number, (enum conn_end)end,
                  sim_now(s) + notice_us + rng_octave(&s->chance, 10, 100000));
    }
}

void network_forget(struct sim *s, uint32_t node)
{
    struct network *n = &s->network;

    for (uint32_t i = 1; i <= n->n_conns; i++) {
        struct conn *c = network_conn(n, i);
        enum conn_end end = end_of(c, node);

        if ((c->listener == node || c->node == node) && c->open[end]) {
            end_close(s, i, end,
                      s->options.faulty ? rng_octave(&s->chance, 10, 1000000)
                                        : 0);
        }
    }
}

#include "common/wire/door_rules.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US 1000000

struct door_address {
    struct table_node by_address;
    uint32_t n; /* connections, 1 or more */
    uint32_t n_shaking;
};

#define ADDRESS_OF(node) LIST_OF(node, struct door_address, by_address)

static int64_t cost_us(const struct door_rules *r)
{
    return SECOND_US / (int64_t)r->limits.rate;
}

void door_rules_init(struct door_rules *r, const struct door_limits *limits,
                     int64_t now_us)
{
    assert(limits->rate > 0 && limits->rate <= SECOND_US);
    *r = (struct door_rules){.limits = *limits, .now_us = now_us};
    r->credit_us = cost_us(r) * (int64_t)limits->burst;
    table_init(&r->addresses, limits->connections);
}

void door_rules_fini(struct door_rules *r)
{
    assert(r->n == 0);
    table_fini(&r->addresses);
}

static uint64_t address_v4(const uint8_t b[4])
{
    if (b[0] == 127) {
        return 127;
    }
    return (uint64_t)b[0] << 24 | (uint64_t)b[1] << 16 | (uint64_t)b[2] << 8 |
           b[3];
}

static uint64_t address_v6(const struct in6_addr *a)
{
    uint64_t v = 0;

    if (IN6_IS_ADDR_V4MAPPED(a)) {
        return address_v4(a->s6_addr + 12);
    }
    for (int i = 0; i < 8; i++) {
        v = v << 8 | a->s6_addr[i];
    }
    return v;
}

uint64_t door_address(const struct sockaddr *from)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    uint8_t b[4];

    if (from->sa_family == AF_INET) {
        memcpy(&in, from, sizeof in);
        memcpy(b, &in.sin_addr, sizeof b);
        return address_v4(b);
    }
    if (from->sa_family == AF_INET6) {
        memcpy(&in6, from, sizeof in6);
        return address_v6(&in6.sin6_addr);
    }
    return DOOR_LOCAL;
}

static struct door_address *find(const struct door_rules *r, uint64_t address)
{
    struct table_node *n = table_find(&r->addresses, address);

    return n != NULL ? ADDRESS_OF(n) : NULL;
}

static void earn(struct door_rules *r, int64_t now_us)
{
    int64_t most = cost_us(r) * (int64_t)r->limits.burst;

    r->credit_us += now_us - r->now_us;
    r->credit_us = r->credit_us < most ? r->credit_us : most;
    r->now_us = now_us;
}

/* Counts are judged before the rate: a full port spends no credit. */
static enum door_verdict judge(const struct door_rules *r,
                               const struct door_address *a, uint64_t address)
{
    const struct door_limits *l = &r->limits;
    bool share = a != NULL && address != DOOR_LOCAL;

    if (r->n >= l->connections) {
        return DOOR_FULL;
    }
    if (share && a->n >= l->per_address) {
        return DOOR_ADDRESS;
    }
    if (r->n_shaking >= l->handshakes ||
        (share && a->n_shaking >= door_share(l->handshakes))) {
        return DOOR_SHAKING;
    }
    return r->credit_us < cost_us(r) ? DOOR_RATE : DOOR_OPEN;
}

enum door_verdict door_rules_enter(struct door_rules *r, uint64_t address,
                                   int64_t now_us)
{
    struct door_address *a = find(r, address);
    enum door_verdict v;

    earn(r, now_us);
    v = judge(r, a, address);
    if (v != DOOR_OPEN) {
        return v;
    }
    if (a == NULL) {
        a = calloc(1, sizeof *a);
        if (a == NULL) {
            return DOOR_RATE; /* it may connect again later */
        }
        table_add(&r->addresses, &a->by_address, address);
    }
    r->credit_us -= cost_us(r);
    r->n++;
    a->n++;
    r->n_shaking++;
    a->n_shaking++;
    return DOOR_OPEN;
}

void door_rules_spoke(struct door_rules *r, uint64_t address)
{
    struct door_address *a = find(r, address);

    assert(a != NULL && a->n_shaking > 0);
    r->n_shaking--;
    a->n_shaking--;
}

void door_rules_leave(struct door_rules *r, uint64_t address, bool spoke)
{
    struct door_address *a = find(r, address);

    assert(a != NULL && r->n > 0);
    if (!spoke) {
        door_rules_spoke(r, address);
    }
    r->n--;
    if (--a->n == 0) {
        table_remove(&r->addresses, &a->by_address);
        free(a);
    }
}

const char *door_verdict_text(enum door_verdict v)
{
    static const char *const texts[] = {
#define X(name, why) why,
        DOOR_VERDICTS(X)
#undef X
    };

    return texts[v];
}

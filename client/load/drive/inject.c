#include "client/load/drive/inject.h"

#include "common/base/splitmix.h"

/* Averages over about so many requests, to follow a load that rises. */
#define MEMORY 64

void inject_init(struct inject *in, double cancel, double disconnect,
                 double slow, uint64_t seed)
{
    *in = (struct inject){
        .cancel = cancel, .disconnect = disconnect, .slow = slow, .seed = seed};
}

/* Draws from 0..1, 1 excluded. */
static double draw(uint64_t seed, uint64_t number, uint64_t what)
{
    return (double)(splitmix_of(splitmix_of(splitmix_of(seed) ^ number) ^
                                what) >>
                    11) *
           0x1p-53;
}

enum inject_kind inject_kind_of(const struct inject *in, uint64_t number)
{
    double u = draw(in->seed, number, 1);

    if (u < in->cancel) {
        return INJECT_CANCEL;
    }
    if (u < in->cancel + in->disconnect) {
        return INJECT_DISCONNECT;
    }
    return u < in->cancel + in->disconnect + in->slow ? INJECT_SLOW
                                                      : INJECT_NONE;
}

static uint32_t class_of(uint32_t max_tokens)
{
    uint32_t c = 0;

    while (max_tokens > 0) {
        max_tokens >>= 1;
        c++;
    }
    return c;
}

struct inject_moment inject_moment_of(const struct inject *in, uint64_t number,
                                      uint32_t max_tokens)
{
    const struct inject_class *c = &in->classes[class_of(max_tokens)];
    struct inject_moment m = {INT64_MAX, UINT32_MAX};
    double u = draw(in->seed, number, 2);
    double events = c->events;

    if (c->n == 0) {
        events =
            max_tokens < INJECT_EVENTS_FIRST ? max_tokens : INJECT_EVENTS_FIRST;
    }
    if (c->n > 0 && draw(in->seed, number, 3) < 0.5) {
        m.after_us = (int64_t)(u * c->us);
    } else {
        m.after_events = (uint32_t)(u * events);
    }
    return m;
}

void inject_learn(struct inject *in, uint32_t max_tokens, int64_t took_us,
                  uint32_t n_events)
{
    struct inject_class *c = &in->classes[class_of(max_tokens)];
    double weight;

    c->n++;
    weight = 1.0 / (double)(c->n < MEMORY ? c->n : MEMORY);
    c->us += weight * ((double)took_us - c->us);
    c->events += weight * (n_events - c->events);
}

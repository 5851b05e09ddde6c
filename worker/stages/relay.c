#include "worker/stages/relay.h"

#include <stdlib.h>
#include <string.h>

#include "common/wire/method.h"

struct head {
    uint64_t after; /* Forwards that go first */
    uint32_t method, bytes;
};

void relay_init(struct relay *r, struct assembly *a)
{
    memset(r, 0, sizeof *r);
    r->assembly = a;
    arena_init(&r->arena);
}

void relay_fini(struct relay *r)
{
    arena_fini(&r->arena);
    free(r->memory);
    memset(r, 0, sizeof *r);
}

void relay_clear(struct relay *r, size_t most)
{
    r->begin = r->end = 0;
    r->arrived = r->passed = 0;
    r->most = most;
}

/* The messages are kept packed: one buffer with a bound in bytes, whatever
 * their number and kinds. */
/* Makes room for n bytes at the end.  Returns false if there is none. */
static bool reserve(struct relay *r, size_t n)
{
    size_t used = r->end - r->begin, want = used + n;
    size_t capacity = r->capacity;
    uint8_t *memory;

    if (want > r->most) {
        return false;
    }
    if (r->begin > 0) {
        memmove(r->memory, r->memory + r->begin, used);
        r->begin = 0;
        r->end = used;
    }
    if (want <= capacity) {
        return true;
    }
    while (capacity < want) {
        capacity = capacity == 0 ? 4096 : 2 * capacity;
    }
    memory = realloc(r->memory, capacity);
    if (memory == NULL) {
        return false;
    }
    r->memory = memory;
    r->capacity = capacity;
    return true;
}

void relay_send(struct relay *r, enum method method, const ProtobufCMessage *m)
{
    struct head h = {.after = r->arrived,
                     .method = (uint32_t)method,
                     .bytes = (uint32_t)wire_size(m)};

    /* Nothing is ahead of it: it must not wait for a microbatch that may never
     * come. */
    if (r->arrived == r->passed) {
        assembly_send(r->assembly, method, m);
        return;
    }
    if (r->capacity - r->end < sizeof h + h.bytes &&
        !reserve(r, sizeof h + h.bytes)) {
        assembly_break(r->assembly,
                       "%s found no room behind a microbatch: %zu bytes wait, "
                       "at most %zu may",
                       method_find((uint16_t)method)->method, r->end - r->begin,
                       r->most);
        return;
    }
    memcpy(r->memory + r->end, &h, sizeof h);
    r->end += sizeof h;
    r->end += wire_pack(m, r->memory + r->end);
}

/* The message was packed here, so it parses unless memory runs out. */
static void send_packed(struct relay *r, const struct head *h,
                        const uint8_t *body)
{
    ProtobufCMessage *m;
    struct error e;

    if (wire_unpack(&r->arena, method_find((uint16_t)h->method)->request, body,
                    h->bytes, &m, &e) == ST_OK) {
        assembly_send(r->assembly, (enum method)h->method, m);
    } else {
        assembly_break(r->assembly, "%s could not be passed on: %s",
                       method_find((uint16_t)h->method)->method, e.text);
    }
}

void relay_arrived(struct relay *r)
{
    r->arrived++;
}

void relay_passed(struct relay *r)
{
    r->passed++;
    while (r->begin < r->end) {
        struct head h;

        memcpy(&h, r->memory + r->begin, sizeof h);
        if (h.after > r->passed) {
            return;
        }
        send_packed(r, &h, r->memory + r->begin + sizeof h);
        r->begin += sizeof h + h.bytes;
    }
    r->begin = r->end = 0;
}

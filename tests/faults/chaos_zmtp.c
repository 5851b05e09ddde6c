#include "tests/faults/chaos_zmtp.h"

#define GREETING 64
#define MORE     1
#define LONG     2
#define COMMAND  4

void zmtp_init(struct zmtp *z)
{
    *z = (struct zmtp){.unit = ZMTP_GREETING};
}

static bool is_greeting(unsigned at, uint8_t byte)
{
    return at == 0    ? byte == 0xff
           : at == 9  ? byte == 0x7f
           : at == 10 ? byte >= 3
                      : true;
}

static struct zmtp_piece greeting(struct zmtp *z, const uint8_t *data, size_t n)
{
    struct zmtp_piece p = {.unit = ZMTP_GREETING};

    while (p.bytes < n && z->seen < GREETING) {
        if (!is_greeting(z->seen++, data[p.bytes++])) {
            z->unit = ZMTP_OTHER;
            return (struct zmtp_piece){.bytes = n, .unit = ZMTP_OTHER};
        }
    }
    p.ends = z->seen == GREETING;
    if (p.ends) {
        *z = (struct zmtp){.unit = ZMTP_MESSAGE};
    }
    return p;
}

/* The frame is complete: returns whether its unit ends with it. */
static bool frame_ends(struct zmtp *z)
{
    z->in_body = false;
    z->seen = 0;
    z->in_message =
        z->unit == ZMTP_MESSAGE ? (z->flags & MORE) != 0 : z->in_message;
    return z->unit == ZMTP_COMMAND || !z->in_message;
}

static struct zmtp_piece head(struct zmtp *z, const uint8_t *data, size_t n)
{
    struct zmtp_piece p = {0};
    bool whole = false;

    while (p.bytes < n && !whole) {
        uint8_t byte = data[p.bytes++];

        if (z->seen++ == 0) {
            z->flags = byte;
            z->size = 0;
            z->unit = (byte & COMMAND) != 0 ? ZMTP_COMMAND : ZMTP_MESSAGE;
            continue;
        }
        z->size = z->size << 8 | byte;
        whole = z->seen == ((z->flags & LONG) != 0 ? 9 : 2);
    }
    p.unit = z->unit;
    if (whole) {
        z->left = z->size;
        z->in_body = z->left > 0;
        p.ends = !z->in_body && frame_ends(z);
    }
    return p;
}

struct zmtp_piece zmtp_next(struct zmtp *z, const uint8_t *data, size_t n)
{
    struct zmtp_piece p = {.bytes = n, .unit = z->unit};

    if (z->unit == ZMTP_GREETING) {
        return greeting(z, data, n);
    }
    if (z->unit == ZMTP_OTHER) {
        return p;
    }
    if (!z->in_body) {
        return head(z, data, n);
    }
    if (p.bytes > z->left) {
        p.bytes = (size_t)z->left;
    }
    z->left -= p.bytes;
    p.body = z->unit == ZMTP_MESSAGE;
    p.ends = z->left == 0 && frame_ends(z);
    return p;
}

#include "common/wire/zmtp_scan.h"

#include <string.h>

#define GREETING_BYTES 64
#define FLAG_MORE      1
#define FLAG_LONG      2
#define FLAG_COMMAND   4
#define FLAGS          (FLAG_MORE | FLAG_LONG | FLAG_COMMAND)

void zmtp_scan_init(struct zmtp_scan *s)
{
    *s = (struct zmtp_scan){0};
}

/* libzmq also accepts older versions, whose frames have other heads. */
static bool is_greeting(unsigned at, uint8_t byte)
{
    static const char mechanism[20] = "NULL";

    return at == 0                ? byte == 0xff
           : at == 9              ? byte == 0x7f
           : at == 10             ? byte >= 3
           : at >= 12 && at <= 31 ? byte == (uint8_t)mechanism[at - 12]
                                  : true;
}

static size_t greeting(struct zmtp_scan *s, const uint8_t *data, size_t n)
{
    size_t at = 0;

    while (at < n && s->seen < GREETING_BYTES) {
        if (!is_greeting(s->seen++, data[at++])) {
            s->fault = ZMTP_GREETING;
            return n;
        }
    }
    if (s->seen == GREETING_BYTES) {
        s->greeted = true;
        s->seen = 0;
    }
    return at;
}

/* Flags are judged at once: bytes after a fault must not reach libzmq. */
static enum zmtp_fault judge_flags(uint8_t flags)
{
    return (flags & ~FLAGS) != 0      ? ZMTP_FLAGS
           : (flags & FLAG_MORE) != 0 ? ZMTP_PARTS
                                      : ZMTP_FINE;
}

static enum zmtp_fault judge_length(const struct zmtp_scan *s, uint64_t longest)
{
    if ((s->flags & FLAG_COMMAND) != 0) {
        return s->left == 0 || s->left > ZMTP_COMMAND_MAX ? ZMTP_COMMAND
                                                          : ZMTP_FINE;
    }
    return s->left > longest ? ZMTP_LENGTH : ZMTP_FINE;
}

/* A message counts when it is whole: one that never ends is no word. */
static void body_ends(struct zmtp_scan *s)
{
    s->in_body = false;
    s->spoke |= (s->flags & FLAG_COMMAND) == 0;
}

static void head_byte(struct zmtp_scan *s, uint8_t byte, uint64_t longest)
{
    if (s->seen++ == 0) {
        s->flags = byte;
        s->left = 0;
        s->fault = judge_flags(byte);
        return;
    }
    s->left = s->left << 8 | byte;
    if (s->seen == ((s->flags & FLAG_LONG) != 0 ? 9 : 2)) {
        s->fault = judge_length(s, longest);
        s->seen = 0;
        s->in_body = true;
        if (s->left == 0) {
            body_ends(s);
        }
    }
}

static size_t body(struct zmtp_scan *s, size_t n)
{
    size_t part = n < s->left ? n : (size_t)s->left;

    s->left -= part;
    if (s->left == 0) {
        body_ends(s);
    }
    return part;
}

enum zmtp_fault zmtp_scan(struct zmtp_scan *s, const uint8_t *data, size_t n,
                          uint64_t longest)
{
    size_t at = 0;

    while (at < n && s->fault == ZMTP_FINE) {
        if (!s->greeted) {
            at += greeting(s, data + at, n - at);
        } else if (s->in_body) {
            at += body(s, n - at);
        } else {
            head_byte(s, data[at++], longest);
        }
    }
    return s->fault;
}

const char *zmtp_fault_text(enum zmtp_fault f)
{
    static const char *const texts[] = {
#define X(name, what) what,
        ZMTP_FAULTS(X)
#undef X
    };

    return texts[f];
}

#include "common/wire/zmtp_scan.h"

#include <string.h>

#define GREETING_BYTES 64
#define FLAG_MORE      1
#define FLAG_LONG      2
#define FLAG_COMMAND   4
#define FLAGS          (FLAG_MORE | FLAG_LONG | FLAG_COMMAND)

#define MECHANISM_AT    12
#define MECHANISM_BYTES 20

/* Of CURVE, in the order of a connection. */
enum { HELLO, INITIATE, TRAFFIC };

void zmtp_scan_init(struct zmtp_scan *s, bool curve)
{
    *s = (struct zmtp_scan){.curve = curve};
}

/* libzmq also accepts older versions, whose frames have other heads. */
static enum zmtp_fault judge_greeting(const struct zmtp_scan *s, unsigned at,
                                      uint8_t byte)
{
    static const char mechanisms[2][MECHANISM_BYTES] = {"NULL", "CURVE"};
    bool valid = at == 0    ? byte == 0xff
                 : at == 9  ? byte == 0x7f
                 : at == 10 ? byte >= 3
                            : true;

    if (at >= MECHANISM_AT && at < MECHANISM_AT + MECHANISM_BYTES &&
        byte != (uint8_t)mechanisms[s->curve][at - MECHANISM_AT]) {
        return ZMTP_MECHANISM;
    }
    return valid ? ZMTP_FINE : ZMTP_GREETING;
}

static size_t greeting(struct zmtp_scan *s, const uint8_t *data, size_t n)
{
    size_t at = 0;

    while (at < n && s->seen < GREETING_BYTES) {
        s->fault = judge_greeting(s, s->seen++, data[at++]);
        if (s->fault != ZMTP_FINE) {
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
static enum zmtp_fault judge_flags(const struct zmtp_scan *s)
{
    bool command = (s->flags & FLAG_COMMAND) != 0;

    if ((s->flags & ~FLAGS) != 0) {
        return ZMTP_FLAGS;
    }
    if (s->curve && command != (s->commands < TRAFFIC)) {
        return ZMTP_COMMAND;
    }
    return (s->flags & FLAG_MORE) != 0 ? ZMTP_PARTS : ZMTP_FINE;
}

static enum zmtp_fault judge_curve(const struct zmtp_scan *s, uint64_t longest)
{
    if (s->commands == HELLO) {
        return s->left == ZMTP_HELLO ? ZMTP_FINE : ZMTP_COMMAND;
    }
    if (s->commands == INITIATE) {
        return s->left >= ZMTP_INITIATE &&
                       s->left <= ZMTP_INITIATE + ZMTP_METADATA
                   ? ZMTP_FINE
                   : ZMTP_COMMAND;
    }
    return s->left < ZMTP_MESSAGE_MIN + ZMTP_CURVE ? ZMTP_SHORT
           : s->left > longest + ZMTP_CURVE        ? ZMTP_LENGTH
                                                   : ZMTP_FINE;
}

static enum zmtp_fault judge_length(const struct zmtp_scan *s, uint64_t longest)
{
    if (s->curve) {
        return judge_curve(s, longest);
    }
    if ((s->flags & FLAG_COMMAND) != 0) {
        return s->left == 0 || s->left > ZMTP_COMMAND_MAX ? ZMTP_COMMAND
                                                          : ZMTP_FINE;
    }
    return s->left > longest ? ZMTP_LENGTH : ZMTP_FINE;
}

static void body_begins(struct zmtp_scan *s)
{
    s->in_body = true;
    if ((s->flags & FLAG_COMMAND) == 0) {
        s->bytes += s->left - (s->curve ? ZMTP_CURVE : 0);
    } else if (s->curve) {
        s->commands++;
    }
}

/* A message counts when it is whole: one that never ends is no word. */
static void body_ends(struct zmtp_scan *s)
{
    bool message = (s->flags & FLAG_COMMAND) == 0;

    s->in_body = false;
    s->spoke |= message;
    s->messages += message;
}

static void head_byte(struct zmtp_scan *s, uint8_t byte, uint64_t longest)
{
    if (s->seen++ == 0) {
        s->flags = byte;
        s->left = 0;
        s->fault = judge_flags(s);
        return;
    }
    s->left = s->left << 8 | byte;
    if (s->seen == ((s->flags & FLAG_LONG) != 0 ? 9 : 2)) {
        s->fault = judge_length(s, longest);
        s->seen = 0;
        if (s->fault != ZMTP_FINE) {
            return;
        }
        body_begins(s);
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

#include "text/stop_strings.h"

#include <stdlib.h>

#include "common/base/utf8.h"

#define NO_STRING 255

/* A node stands for a prefix of one or more strings.  Node 0 is the empty
 * prefix; it is no node's child, so 0 also means "no child". */
struct node {
    uint16_t child, sibling;
    uint16_t back;  /* the node of its longest suffix that is a prefix too */
    uint16_t depth; /* length of the prefix */
    uint8_t byte;   /* last byte of the prefix */
    uint8_t string; /* the longest string that is a suffix of it */
};

struct stop_strings {
    uint16_t lengths[STOP_STRINGS_MAX];
    uint32_t n_nodes;
    struct node nodes[];
};

_Static_assert(STOP_STRINGS_MAX *STOP_STRING_BYTES_MAX < UINT16_MAX,
               "nodes are numbered in 16 bits");

static enum status check(const struct stop_string *strings, size_t n,
                         struct error *e)
{
    if (n == 0 || n > STOP_STRINGS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%zu stop strings, 1 to %d are allowed", n,
                         STOP_STRINGS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        size_t bad;
        if (strings[i].n == 0 || strings[i].n > STOP_STRING_BYTES_MAX) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "stop string %zu has %zu bytes, 1 to %d are "
                             "allowed",
                             i, strings[i].n, STOP_STRING_BYTES_MAX);
        }
        if (!utf8_valid(strings[i].text, strings[i].n, &bad)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "stop string %zu is not UTF-8 at byte %zu", i,
                             bad);
        }
    }
    return ST_OK;
}

/* ---- the automaton ---- */

static uint16_t child_of(const struct stop_strings *s, uint16_t at,
                         uint8_t byte)
{
    uint16_t next = s->nodes[at].child;

    while (next != 0 && s->nodes[next].byte != byte) {
        next = s->nodes[next].sibling;
    }
    return next;
}

/* Returns the longest suffix of (prefix, byte) that is a node. */
/* Each call of `back` shortens the prefix, and each byte lengthens it by one
 * at most, so a scan is linear on average. */
static uint16_t step(const struct stop_strings *s, uint16_t at, uint8_t byte)
{
    uint16_t next;

    while ((next = child_of(s, at, byte)) == 0 && at != 0) {
        at = s->nodes[at].back;
    }
    return next;
}

static void insert(struct stop_strings *s, const struct stop_string *string,
                   uint8_t number)
{
    uint16_t at = 0;

    s->lengths[number] = (uint16_t)string->n;
    for (size_t i = 0; i < string->n; i++) {
        uint8_t byte = (uint8_t)string->text[i];
        uint16_t next = child_of(s, at, byte);

        if (next == 0) {
            next = (uint16_t)s->n_nodes++;
            s->nodes[next] = (struct node){.sibling = s->nodes[at].child,
                                           .depth = (uint16_t)(i + 1),
                                           .byte = byte,
                                           .string = NO_STRING};
            s->nodes[at].child = next;
        }
        at = next;
    }
    /* .string == NO_STRING) {] Among equal strings the first given counts. */
    if (s->nodes[at].string == NO_STRING) {
        s->nodes[at].string = number;
    }
}

/* Links nodes depth by depth, as each node needs those above it.  A node of
 * several strings is linked several times, with the same result. */
static void link_back(struct stop_strings *s, const struct stop_string *strings,
                      size_t n)
{
    uint16_t at[STOP_STRINGS_MAX] = {0};

    for (size_t depth = 0; depth < STOP_STRING_BYTES_MAX; depth++) {
        for (size_t i = 0; i < n; i++) {
            uint8_t byte;
            struct node *node;

            if (depth >= strings[i].n) {
                continue;
            }
            byte = (uint8_t)strings[i].text[depth];
            node = &s->nodes[child_of(s, at[i], byte)];
            node->back = depth == 0 ? 0 : step(s, s->nodes[at[i]].back, byte);
            /* A shorter string may end inside a longer one; the one that
             * begins first is preferred. */
            if (node->string == NO_STRING) {
                node->string = s->nodes[node->back].string;
            }
            at[i] = (uint16_t)(node - s->nodes);
        }
    }
}

enum status stop_strings_new(struct stop_strings **out,
                             const struct stop_string *strings, size_t n,
                             struct error *e)
{
    struct stop_strings *s;
    size_t bytes = 0;

    *out = NULL;
    if (check(strings, n, e) != ST_OK) {
        return ST_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < n; i++) {
        bytes += strings[i].n;
    }
    s = malloc(sizeof *s + (bytes + 1) * sizeof *s->nodes);
    if (s == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no memory for %zu bytes of stop strings", bytes);
    }
    s->nodes[0] = (struct node){.string = NO_STRING};
    s->n_nodes = 1;
    for (size_t i = 0; i < n; i++) {
        insert(s, &strings[i], (uint8_t)i);
    }
    link_back(s, strings, n);
    *out = s;
    return ST_OK;
}

void stop_strings_free(struct stop_strings **s)
{
    free(*s);
    *s = NULL;
}

/* ---- a stream ---- */

bool stop_scan_push(const struct stop_strings *s, struct stop_scan *scan,
                    const char *text, size_t n)
{
    for (size_t i = 0; i < n && !scan->found; i++) {
        const struct node *node;

        scan->at = step(s, scan->at, (uint8_t)text[i]);
        scan->n++;
        node = &s->nodes[scan->at];
        if (node->string != NO_STRING) {
            scan->found = true;
            scan->string = node->string;
            scan->begin = scan->n - s->lengths[node->string];
        }
    }
    return scan->found;
}

uint64_t stop_scan_certain(const struct stop_strings *s,
                           const struct stop_scan *scan)
{
    /* The automaton's depth is exactly the number of bytes that may still
     * become a string. */
    return scan->found ? scan->begin : scan->n - s->nodes[scan->at].depth;
}

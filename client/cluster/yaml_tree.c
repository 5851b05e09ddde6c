#include "client/cluster/yaml_tree.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "common/base/memory.h"
#include "common/base/quote.h"

struct reader {
    yaml_parser_t parser;
    struct faults *faults;
    size_t n_nodes;
    bool ended; /* a limit or a syntax error: nothing more is read */
};

static struct place place_of(const yaml_mark_t *m)
{
    return (struct place){(unsigned)m->line + 1, (unsigned)m->column + 1};
}

const char *yaml_tree_kind(enum tree_kind kind)
{
    static const char *const names[] = {
        [TREE_TEXT] = "a value", [TREE_LIST] = "a list", [TREE_MAP] = "a map"};

    return names[kind];
}

static void append(struct tree_node *to, struct tree_node *item)
{
    if (to->n == to->capacity) {
        to->capacity = to->capacity == 0 ? 8 : 2 * to->capacity;
        to->items =
            memory_must(realloc(to->items, to->capacity * sizeof *to->items));
    }
    to->items[to->n++] = item;
}

void yaml_tree_free(struct tree_node **root)
{
    struct tree_node *t = *root;

    if (t == NULL) {
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        yaml_tree_free(&t->items[i]);
    }
    free(t->items);
    free(t->text);
    free(t);
    *root = NULL;
}

/* Reads the next event.  Returns false after a syntax error. */
static bool next(struct reader *r, yaml_event_t *event)
{
    const yaml_parser_t *p = &r->parser;

    if (r->ended) {
        return false;
    }
    if (yaml_parser_parse(&r->parser, event)) {
        return true;
    }
    if (p->problem == NULL || p->error == YAML_READER_ERROR) {
        faults_add(r->faults, (struct place){0, 0},
                   "no YAML: %s at byte %zu; the file must be UTF-8 text",
                   p->problem != NULL ? p->problem : "it cannot be read",
                   p->problem_offset);
    } else {
        faults_add(r->faults, place_of(&p->problem_mark), "no YAML: %s%s%s",
                   p->problem, p->context != NULL ? ", " : "",
                   p->context != NULL ? p->context : "");
    }
    r->ended = true;
    return false;
}

static void end_at_limit(struct reader *r, struct place at, const char *what,
                         unsigned most)
{
    faults_add(r->faults, at, "more than %u %s; a cluster file has fewer", most,
               what);
    r->ended = true;
}

/* A null is plain: in quotes the same word is a text. */
static bool is_null(const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;

    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

static char *text_of(struct reader *r, const yaml_event_t *event,
                     struct place at)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;

    if (is_null(event)) {
        return memory_must(strdup(""));
    }
    if (n > TREE_TEXT_MAX) {
        faults_add(r->faults, at,
                   "a value of %zu bytes; at most %d are allowed", n,
                   TREE_TEXT_MAX);
        return memory_must(strdup(""));
    }
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 127) {
            faults_add(r->faults, at,
                       "%s has a line break or another control character; "
                       "write the value on one line",
                       quote_bytes(text, n).text);
            return memory_must(strdup(""));
        }
    }
    return memory_must(strndup(text, n));
}

static void refuse_extras(struct reader *r, const yaml_char_t *anchor,
                          const yaml_char_t *tag, struct place at)
{
    if (anchor != NULL) {
        faults_add(r->faults, at,
                   "the anchor &%.40s: anchors are not "
                   "supported; write the value where it is used",
                   (const char *)anchor);
    }
    if (tag != NULL) {
        faults_add(r->faults, at,
                   "the tag %.40s: tags are not supported; "
                   "remove it",
                   (const char *)tag);
    }
}

/* Reports and marks a key that the map has already. */
static void check_twice(struct reader *r, const struct tree_node *map,
                        struct tree_node *key)
{
    for (size_t i = 0; i < map->n; i += 2) {
        if (strcmp(map->items[i]->text, key->text) == 0) {
            faults_add(r->faults, key->at,
                       "%s is twice in this map, first in line %u; remove one",
                       quote(key->text).text, map->items[i]->at.line);
            key->twice = true;
            return;
        }
    }
}

/* Removes keys that are there twice, with their values. */
static void drop_twice(struct tree_node *map)
{
    size_t n = 0;

    for (size_t i = 0; i + 1 < map->n; i += 2) {
        if (map->items[i]->twice) {
            yaml_tree_free(&map->items[i]);
            yaml_tree_free(&map->items[i + 1]);
        } else {
            map->items[n++] = map->items[i];
            map->items[n++] = map->items[i + 1];
        }
    }
    map->n = n;
}

static struct tree_node *read_node(struct reader *r, const yaml_event_t *event,
                                   unsigned depth);

static struct tree_node *read_key(struct reader *r, const struct tree_node *map,
                                  const yaml_event_t *event, unsigned depth)
{
    struct tree_node *key = read_node(r, event, depth);

    if (key != NULL && key->kind != TREE_TEXT) {
        faults_add(r->faults, key->at, "a key must be a word, not %s",
                   yaml_tree_kind(key->kind));
        key->text = memory_must(strdup(""));
        r->ended = true;
    } else if (key != NULL) {
        check_twice(r, map, key);
    }
    return key;
}

/* Reads the items of a list, or the keys and values of a map. */
static void read_items(struct reader *r, struct tree_node *t, unsigned depth)
{
    yaml_event_type_t end =
        t->kind == TREE_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    yaml_event_t event;

    while (next(r, &event)) {
        bool key = t->kind == TREE_MAP && t->n % 2 == 0;
        bool at_end = event.type == end;
        struct tree_node *item = NULL;

        if (!at_end) {
            item = key ? read_key(r, t, &event, depth + 1)
                       : read_node(r, &event, depth + 1);
        }
        yaml_event_delete(&event);
        if (item != NULL) {
            append(t, item);
        }
        if (at_end || item == NULL) {
            return;
        }
    }
}

static void read_contents(struct reader *r, struct tree_node *t,
                          const yaml_event_t *event, unsigned depth)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        refuse_extras(r, event->data.scalar.anchor, event->data.scalar.tag,
                      t->at);
        t->text = text_of(r, event, t->at);
        break;
    case YAML_ALIAS_EVENT:
        faults_add(r->faults, t->at,
                   "the alias *%.40s: aliases are not supported; write the "
                   "value out",
                   (const char *)event->data.alias.anchor);
        t->text = memory_must(strdup(""));
        break;
    case YAML_MAPPING_START_EVENT:
        refuse_extras(r, event->data.mapping_start.anchor,
                      event->data.mapping_start.tag, t->at);
        t->kind = TREE_MAP;
        read_items(r, t, depth);
        if (!r->ended) {
            drop_twice(t);
        }
        break;
    default: /* a list: the parser gives no other event here */
        refuse_extras(r, event->data.sequence_start.anchor,
                      event->data.sequence_start.tag, t->at);
        t->kind = TREE_LIST;
        read_items(r, t, depth);
        break;
    }
}

/* Returns NULL at a limit. */
static struct tree_node *read_node(struct reader *r, const yaml_event_t *event,
                                   unsigned depth)
{
    struct place at = place_of(&event->start_mark);
    struct tree_node *t;

    if (depth > TREE_DEPTH_MAX) {
        end_at_limit(r, at, "levels of lists and maps", TREE_DEPTH_MAX);
        return NULL;
    }
    if (++r->n_nodes > TREE_NODES_MAX) {
        end_at_limit(r, at, "keys and values", TREE_NODES_MAX);
        return NULL;
    }
    t = memory_must(calloc(1, sizeof *t));
    t->at = at;
    read_contents(r, t, event, depth);
    return t;
}

/* Reads one document. */
static struct tree_node *read_document(struct reader *r)
{
    struct tree_node *root = NULL;
    yaml_event_t event;

    while (next(r, &event)) {
        yaml_event_type_t type = event.type;

        if (type == YAML_DOCUMENT_START_EVENT && root != NULL) {
            faults_add(r->faults, place_of(&event.start_mark),
                       "a second document; a cluster file has one");
            r->ended = true;
        } else if (type != YAML_STREAM_START_EVENT &&
                   type != YAML_DOCUMENT_START_EVENT &&
                   type != YAML_DOCUMENT_END_EVENT &&
                   type != YAML_STREAM_END_EVENT) {
            root = read_node(r, &event, 0);
        }
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT) {
            break;
        }
    }
    return root;
}

struct tree_node *yaml_tree_parse(const char *bytes, size_t n,
                                  struct faults *faults)
{
    struct reader r = {.faults = faults};
    struct tree_node *root;

    if (n > TREE_BYTES_MAX) {
        faults_add(faults, (struct place){0, 0},
                   "the file is %zu bytes long; at most %u are allowed", n,
                   TREE_BYTES_MAX);
        return NULL;
    }
    if (!yaml_parser_initialize(&r.parser)) {
        (void)memory_must(NULL);
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)bytes, n);
    root = read_document(&r);
    yaml_parser_delete(&r.parser);
    if (r.ended) {
        yaml_tree_free(&root);
    } else if (root == NULL) {
        faults_add(faults, (struct place){0, 0},
                   "the file is empty; deploy/cluster/cluster.yaml is an "
                   "example");
    }
    return root;
}

/* overview.c - Tables of models, replicas and stages for sluicectl status.
 *
 * Workers are listed in any order.  Each entry notes the index of the first
 * entry of its model and of its replica; sorting by these two indices groups
 * models and replicas without losing the order in which they appeared. */
#include "client/ctl/overview.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/columns.h"
#include "client/ctl/escape.h"
#include "client/ctl/json_message.h"
#include "common/base/memory.h"

#define BAR 10

/* A worker belongs to a replica, waits for other layers, or has none yet and
 * offers itself.  Rows of a model are printed in this order. */
enum place { REPLICA, WAITS, OFFERS };

struct entry {
    char *name, *model, *state;
    char *replica; /* state of the replica, else the worker's state */
    enum place place;
    uint32_t model_order, replica_order; /* index of the first such entry */
    uint32_t stage, n_stages;
    uint64_t assembly; /* 0: a replica of one stage */
    uint64_t replica_ms;
    uint32_t begin, end, n_layers;
    uint32_t n_sequences, step_us;
    uint64_t budget_bytes, speed; /* offers only; speed 0: loads its layers */
    Sluice__V1__ClassLedger blocks, slots, pages;
    Sluice__V1__ClassLedger windows; /* total 0: no window layers */
    uint64_t n_prompt_tokens, n_reused_tokens;
};

struct overview {
    struct entry *entries; /* [n] */
    uint32_t n, capacity;
    bool sorted;
};

/* ---- rows ---- */

struct overview *overview_new(void)
{
    struct overview *o = memory_must(calloc(1, sizeof *o));

    return o;
}

void overview_free(struct overview **o)
{
    struct overview *gone = *o;

    *o = NULL;
    for (uint32_t i = 0; gone != NULL && i < gone->n; i++) {
        free(gone->entries[i].name);
        free(gone->entries[i].model);
        free(gone->entries[i].state);
        free(gone->entries[i].replica);
    }
    if (gone != NULL) {
        free(gone->entries);
    }
    free(gone);
}

/* Finds the first entry of the newest entry's model, and of its replica.  A
 * replica of one stage has no assembly and is its own first entry. */
static void find_orders(struct overview *o)
{
    struct entry *e = &o->entries[o->n];
    uint32_t i;

    for (i = 0; i < o->n && strcmp(o->entries[i].model, e->model) != 0; i++) {
    }
    e->model_order = i;
    for (i = 0; i < o->n &&
                (e->assembly == 0 || o->entries[i].assembly != e->assembly);
         i++) {
    }
    e->replica_order = i;
}

static bool is_part(const Sluice__V1__WorkerRow *w)
{
    return w->layer_begin != 0 || w->layer_end != w->n_layers;
}

/* Appends e and takes its strings. */
static void add_entry(struct overview *o, const struct entry *e)
{
    if (o->n == o->capacity) {
        o->capacity = o->capacity == 0 ? 64 : 2 * o->capacity;
        o->entries =
            memory_must(realloc(o->entries, o->capacity * sizeof *o->entries));
    }
    o->entries[o->n] = *e;
    find_orders(o);
    o->n++;
    o->sorted = false;
}

void overview_add(struct overview *o, const Sluice__V1__WorkerRow *w)
{
    struct entry e = {
        .name = escape_copy(w->name.data, w->name.len),
        .model = escape_copy(w->model.data, w->model.len),
        .state = escape_copy(w->state.data, w->state.len),
        .replica = w->has_replica ? escape_copy(w->replica.data, w->replica.len)
                                  : escape_copy(w->state.data, w->state.len),
        .place = is_part(w) && !w->has_assembly ? WAITS : REPLICA,
        .stage = w->stage,
        .n_stages = w->has_assembly ? w->n_stages : 1,
        .assembly = w->assembly,
        .replica_ms = w->replica_ms,
        .begin = w->layer_begin,
        .end = w->layer_end,
        .n_layers = w->n_layers,
        .n_sequences = w->n_sequences,
        .step_us = w->step_us,
        .blocks = *w->ledger->blocks,
        .slots = *w->ledger->slots,
        .windows = SLUICE__V1__CLASS_LEDGER__INIT,
        .pages = *w->ledger->pages,
        .n_prompt_tokens = w->n_prompt_tokens,
        .n_reused_tokens = w->n_reused_tokens,
    };

    if (w->ledger->windows != NULL) {
        e.windows = *w->ledger->windows;
    }
    add_entry(o, &e);
}

void overview_add_offer(struct overview *o, const Sluice__V1__OfferRow *w)
{
    struct entry e = {
        .name = escape_copy(w->name.data, w->name.len),
        .model = escape_copy(w->model.data, w->model.len),
        .state = escape_copy(w->state.data, w->state.len),
        .place = OFFERS,
        .n_stages = w->n_stages,
        .begin = w->layer_begin,
        .end = w->layer_end,
        .budget_bytes = w->budget_bytes,
        .speed = w->speed,
        .blocks = SLUICE__V1__CLASS_LEDGER__INIT,
        .slots = SLUICE__V1__CLASS_LEDGER__INIT,
        .windows = SLUICE__V1__CLASS_LEDGER__INIT,
        .pages = SLUICE__V1__CLASS_LEDGER__INIT,
    };

    add_entry(o, &e);
}

static int by_number(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_place(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    int d = by_number(a->model_order, b->model_order);

    d = d != 0 ? d : by_number(a->place, b->place);
    d = d != 0 ? d : by_number(a->replica_order, b->replica_order);
    return d != 0 ? d : by_number(a->stage, b->stage);
}

/* Sorts before output.  qsort() is not stable, but the indices make every key
 * unique except among waiting workers and offers. */
static void sort_entries(struct overview *o)
{
    if (!o->sorted && o->n > 0) {
        qsort(o->entries, o->n, sizeof *o->entries, by_place);
    }
    o->sorted = true;
}

/* Return the number of entries from `first` on that have its model, or belong
 * to its replica. */
static uint32_t count_model(const struct overview *o, uint32_t first)
{
    uint32_t n = 1;

    while (first + n < o->n &&
           o->entries[first + n].model_order == o->entries[first].model_order) {
        n++;
    }
    return n;
}

static uint32_t count_replica(const struct overview *o, uint32_t first)
{
    const struct entry *e = &o->entries[first];
    uint32_t n = 1;

    while (first + n < o->n && e->place == REPLICA && e[n].place == REPLICA &&
           e[n].replica_order == e->replica_order) {
        n++;
    }
    return n;
}

/* Returns the stage's share of the replica's step time; 0 before any step. */
static double step_share(const struct entry *e, const struct entry *first,
                         uint32_t n)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += first[i].step_us;
    }
    return sum > 0 ? (double)e->step_us / (double)sum : 0;
}

/* ---- tables ---- */

static void cell_class(struct columns *t, const Sluice__V1__ClassLedger *l)
{
    char bar[BAR + 3];

    if (l->total == 0) {
        columns_cell(t, "none");
        return;
    }
    bar_parts(bar, BAR, l->held, l->granted, l->total);
    columns_cell(t, "%s %u + %u of %u", bar, l->held, l->granted, l->total);
}

/* The first stage of a replica has its state, and the first digits of its
 * assembly, which the logs use; further stages have an empty cell. */
static void cell_replica(struct columns *t, const struct entry *e, bool first)
{
    if (e->place == WAITS) {
        columns_cell(t, "waits for other layers");
    } else if (e->place == OFFERS) {
        columns_cell(t, e->speed > 0 ? "offers itself" : "loads its layers");
    } else if (!first) {
        columns_cell(t, " ");
    } else if (e->assembly != 0) {
        columns_cell(t, "%s %08" PRIx32, e->replica,
                     (uint32_t)(e->assembly >> 32));
    } else {
        columns_cell(t, "%s", e->state);
    }
}

static void cell_stage(struct columns *t, const struct entry *e)
{
    if (e->place == REPLICA) {
        columns_cell(t, "%u of %u", e->stage, e->n_stages);
    } else if (e->place == OFFERS && e->n_stages > 0) {
        columns_cell(t, "1 of %u", e->n_stages);
    } else {
        columns_cell(t, "-");
    }
}

static void cell_layers(struct columns *t, const struct entry *e)
{
    if (e->end == 0) {
        columns_cell(t, "-");
    } else if (e->place == OFFERS) {
        columns_cell(t, "%u-%u", e->begin, e->end);
    } else {
        columns_cell(t, "%u-%u of %u", e->begin, e->end, e->n_layers);
    }
}

static void cell_step(struct columns *t, const struct entry *e,
                      const struct entry *first, uint32_t n)
{
    if (e->step_us == 0) {
        columns_cell(t, "-");
    } else if (n > 1) {
        columns_cell(t, "%.1f ms, %.0f %%", e->step_us / 1e3,
                     100 * step_share(e, first, n));
    } else {
        columns_cell(t, "%.1f ms", e->step_us / 1e3);
    }
}

/* A shard without a pool, of an offer, has neither figure. */
static void cell_reuse(struct columns *t, const struct entry *e)
{
    if (e->pages.total == 0) {
        columns_cell(t, "-");
    } else {
        columns_cell(t, "%u of %u pages", e->pages.cached, e->pages.total);
    }
    if (e->n_prompt_tokens == 0) {
        columns_cell(t, "-");
    } else {
        columns_cell(t, "%.0f %%",
                     100 * (double)e->n_reused_tokens /
                         (double)e->n_prompt_tokens);
    }
}

/* with_windows: the table has a column for them. */
static void print_rows(struct columns *t, const struct entry *first, uint32_t n,
                       bool with_windows)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct entry *e = &first[i];

        cell_replica(t, e, i == 0);
        cell_stage(t, e);
        columns_cell(t, "%s", e->name);
        cell_layers(t, e);
        columns_cell(t, "%s", e->state);
        columns_cell(t, "%u", e->n_sequences);
        cell_class(t, &e->blocks);
        if (with_windows) {
            cell_class(t, &e->windows);
        }
        cell_class(t, &e->slots);
        cell_reuse(t, e);
        cell_step(t, e, first, n);
    }
}

static bool has_windows(const struct overview *o, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        if (o->entries[i].windows.total > 0) {
            return true;
        }
    }
    return false;
}

static void print_model(const struct overview *o, uint32_t first, uint32_t n,
                        FILE *to)
{
    bool windows = has_windows(o, first, n);
    struct columns t;

    if (windows) {
        columns_init(&t, "REPLICA", "STAGE", "WORKER", "LAYERS", "STATE",
                     "SEQUENCES", "BLOCKS held + granted",
                     "WINDOWS held + granted", "SLOTS held + granted", "CACHED",
                     "REUSED", "STEP", NULL);
    } else {
        columns_init(&t, "REPLICA", "STAGE", "WORKER", "LAYERS", "STATE",
                     "SEQUENCES", "BLOCKS held + granted",
                     "SLOTS held + granted", "CACHED", "REUSED", "STEP", NULL);
    }
    t.n_keys = 3; /* a replica has many stages */
    for (uint32_t i = first, k; i < first + n; i += k) {
        k = count_replica(o, i);
        print_rows(&t, &o->entries[i], k, windows);
    }
    fprintf(to, "\n%s\n", o->entries[first].model);
    columns_print(&t, to);
    columns_fini(&t);
}

void overview_print(struct overview *o, FILE *to)
{
    sort_entries(o);
    for (uint32_t i = 0, n; i < o->n; i += n) {
        n = count_model(o, i);
        print_model(o, i, n, to);
    }
}

/* ---- JSON ---- */

static void set_text(json_t *j, const char *name, const char *text)
{
    json_object_set_new(j, name, json_text(text, strlen(text)));
}

static json_t *json_stage(const struct entry *e, const struct entry *first,
                          uint32_t n)
{
    json_t *j = json_object();

    set_text(j, "worker", e->name);
    set_text(j, "state", e->state);
    json_set_count(j, "layer_begin", e->begin);
    json_set_count(j, "layer_end", e->end);
    json_object_set_new(j, "blocks", json_message(&e->blocks.base));
    json_object_set_new(j, "slots", json_message(&e->slots.base));
    if (e->windows.total > 0) {
        json_object_set_new(j, "windows", json_message(&e->windows.base));
    }
    json_object_set_new(j, "pages", json_message(&e->pages.base));
    json_set_count(j, "step_us", e->step_us);
    json_object_set_new(j, "step_share", json_real(step_share(e, first, n)));
    return j;
}

static json_t *json_replica(const struct entry *first, uint32_t n)
{
    json_t *j = json_object(), *stages = json_array();
    char assembly[24];

    set_text(j, "model", first->model);
    set_text(j, "state", first->assembly != 0 ? first->replica : first->state);
    json_set_count(j, "n_stages", first->n_stages);
    json_set_count(j, "n_sequences", first->n_sequences);
    if (first->assembly != 0) {
        snprintf(assembly, sizeof assembly, "%" PRIu64, first->assembly);
        set_text(j, "assembly", assembly);
        json_set_count(j, "up_ms", first->replica_ms);
    }
    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(stages, json_stage(&first[i], first, n));
    }
    json_object_set_new(j, "stages", stages);
    return j;
}

static json_t *json_offer(const struct entry *e)
{
    json_t *j = json_object();

    set_text(j, "worker", e->name);
    set_text(j, "model", e->model);
    set_text(j, "state", e->state);
    if (e->speed > 0) {
        json_set_count(j, "n_stages", e->n_stages);
        json_set_count(j, "budget_bytes", e->budget_bytes);
        json_set_count(j, "speed", e->speed);
    }
    if (e->end > 0) {
        json_set_count(j, "layer_begin", e->begin);
        json_set_count(j, "layer_end", e->end);
    }
    return j;
}

void overview_json(struct overview *o, json_t *j)
{
    json_t *replicas = json_array(), *waiting = json_array();
    json_t *offers = json_array();

    sort_entries(o);
    for (uint32_t i = 0, n; i < o->n; i += n) {
        const struct entry *e = &o->entries[i];

        n = count_replica(o, i);
        if (e->place == REPLICA) {
            json_array_append_new(replicas, json_replica(e, n));
        } else if (e->place == OFFERS) {
            json_array_append_new(offers, json_offer(e));
        } else {
            json_array_append_new(waiting, json_text(e->name, strlen(e->name)));
        }
    }
    json_object_set_new(j, "replicas", replicas);
    json_object_set_new(j, "waiting", waiting);
    json_object_set_new(j, "offers", offers);
}

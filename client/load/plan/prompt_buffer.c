#include "client/load/plan/prompt_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

/* Makes room for n more items after the first `used`. */
static void *reserved(void *items, size_t used, size_t n, size_t *size,
                      size_t item)
{
    if (n <= *size - used) {
        return items;
    }
    while (n > *size - used) {
        *size = *size == 0 ? 1024 : 2 * *size;
    }
    items = memory_must(realloc(items, *size * item));
    return items;
}

char *prompt_buffer_text(struct prompt *p, size_t n)
{
    p->text = reserved(p->text, p->n_text, n, &p->text_size, 1);
    return p->text + p->n_text;
}

uint32_t *prompt_buffer_ids(struct prompt *p, size_t n)
{
    p->ids = reserved(p->ids, p->n_ids, n, &p->ids_size, sizeof *p->ids);
    return p->ids + p->n_ids;
}

void prompt_buffer_add_text(struct prompt *p, const char *text, size_t n)
{
    if (n > 0) {
        memcpy(prompt_buffer_text(p, n), text, n);
        p->n_text += n;
    }
}

void prompt_buffer_add_ids(struct prompt *p, const uint32_t *ids, size_t n)
{
    if (n > 0) {
        memcpy(prompt_buffer_ids(p, n), ids, n * sizeof *ids);
        p->n_ids += n;
    }
}

void prompt_buffer_add_message(struct prompt *p, const char *role)
{
    p->messages = reserved(p->messages, p->n_messages, 1, &p->messages_size,
                           sizeof *p->messages);
    p->messages[p->n_messages++] =
        (struct prompt_message){.role = role, .at = p->n_text};
}

void prompt_buffer_clear(struct prompt *p)
{
    p->n_ids = 0;
    p->n_text = 0;
    p->n_messages = 0;
    p->json = NULL;
    p->n_json = 0;
    p->n_tokens = 0;
}

void prompt_fini(struct prompt *p)
{
    free(p->ids);
    free(p->text);
    free(p->messages);
    *p = (struct prompt){0};
}

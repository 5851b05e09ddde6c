#include "worker/stages/keeps.h"

#include <string.h>

void keeps_init(struct keeps *k, uint32_t capacity)
{
    k->capacity = capacity;
    k->n = 0;
}

/* Makes the region the i-th one. */
static void insert(struct keeps *k, uint32_t i, uint32_t at, uint32_t n)
{
    memmove(&k->of[i + 1], &k->of[i], (k->n - i) * sizeof k->of[0]);
    k->of[i].at = at;
    k->of[i].n = n;
    k->n++;
}

/* Returns the begin of the i-th region, or the capacity behind the last one. */
static uint32_t begin_of(const struct keeps *k, uint32_t i)
{
    return i < k->n ? k->of[i].at : k->capacity;
}

bool keeps_take(struct keeps *k, uint32_t n, uint32_t *at)
{
    uint32_t end = 0;

    for (uint32_t i = 0; i <= k->n && k->n < KEEPS_MAX; i++) {
        if (begin_of(k, i) - end >= n) {
            insert(k, i, end, n);
            *at = end;
            return true;
        }
        end = i < k->n ? k->of[i].at + k->of[i].n : end;
    }
    return false;
}

uint32_t keeps_room(const struct keeps *k)
{
    uint32_t end = 0, most = 0;

    for (uint32_t i = 0; i <= k->n && k->n < KEEPS_MAX; i++) {
        uint32_t gap = begin_of(k, i) - end;

        most = gap > most ? gap : most;
        end = i < k->n ? k->of[i].at + k->of[i].n : end;
    }
    return most;
}

bool keeps_put(struct keeps *k, uint32_t at, uint32_t n)
{
    uint32_t i = 0;

    while (i < k->n && k->of[i].at < at) {
        i++;
    }
    if (k->n == KEEPS_MAX || n > k->capacity || at > k->capacity - n ||
        begin_of(k, i) < at + n ||
        (i > 0 && k->of[i - 1].at + k->of[i - 1].n > at)) {
        return false;
    }
    insert(k, i, at, n);
    return true;
}

void keeps_free(struct keeps *k, uint32_t at)
{
    for (uint32_t i = 0; i < k->n; i++) {
        if (k->of[i].at == at) {
            k->n--;
            memmove(&k->of[i], &k->of[i + 1], (k->n - i) * sizeof k->of[0]);
            return;
        }
    }
}

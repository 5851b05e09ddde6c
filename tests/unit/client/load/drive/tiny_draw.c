#include "tests/unit/client/load/drive/tiny_plan.h"

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

double tiny_draw(uint64_t seed, uint64_t number, uint64_t what)
{
    return (double)(mix(mix(mix(seed + 7) ^ number) + what) >> 11) * 0x1p-53;
}

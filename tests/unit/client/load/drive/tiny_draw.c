#include "common/base/splitmix.h"
#include "tests/unit/client/load/drive/tiny_plan.h"

double tiny_draw(uint64_t seed, uint64_t number, uint64_t what)
{
    return (double)(splitmix_of(splitmix_of(splitmix_of(seed + 7) ^ number) +
                                what) >>
                    11) *
           0x1p-53;
}

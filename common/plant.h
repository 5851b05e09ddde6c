/* plant.h - bugs planted on purpose, to show that the simulator finds them.
 *
 * In the product PLANT(NAME) is false at compile time and leaves no code.
 * tests/sim compiles the cores once more with SLUICE_PLANTS, and there one
 * of them can be switched on for a run.
 *
 *     if (PLANT(LOST_RECEIPT)) {
 *         return;
 *     } */
#ifndef COMMON_PLANT_H
#define COMMON_PLANT_H

#include <stdbool.h>

/* name, what the planted code does wrong */
#define PLANT_MAP(X) X(NONE, "nothing")

#ifdef SLUICE_PLANTS

enum plant {
#define X(name, text) PLANT_##name,
    PLANT_MAP(X)
#undef X
        PLANTS
};

extern enum plant plant_active;

#define PLANT(name) (plant_active == PLANT_##name)

#else

#define PLANT(name) false

#endif

#endif

/* failing.h - The product's allocations, one of which can be made to fail.
 *
 * The test links copies of the product's libraries whose calls of malloc(),
 * free() and the like go here (CMakeLists.txt).  Those of the simulator itself
 * and of other libraries do not, but for jansson's, which the gateway directs
 * here too.
 *
 * Threading: one thread. */
#ifndef SIM_FAILING_H
#define SIM_FAILING_H

#include <stdbool.h>
#include <stdint.h>

struct failing {
    uint64_t n;       /* allocations so far, since it was zeroed */
    uint64_t fail_at; /* this one fails; 0: none */
    uint64_t run;     /* ... and so many after it */
    int64_t live;     /* allocations that are not freed */
    bool off; /* the start of a program: what is sized there may end it */
    /* Called before each, with its number; may change fail_at; NULL: none */
    void (*before)(uint64_t n);
};

extern struct failing failing;

#endif

/* rig_offer.h - Assertions about the layers that an offer has received. */
#ifndef TESTS_UNIT_ROUTER_RIG_OFFER_H
#define TESTS_UNIT_ROUTER_RIG_OFFER_H

#include "tests/unit/router/rig.h"

/* Fails the test unless f was assigned layers once, and these. */
void assert_given(const struct fake *f, uint32_t begin, uint32_t end);
/* Fails the test unless f was assigned none and its session is open. */
void assert_free(const struct fake *f);

#endif

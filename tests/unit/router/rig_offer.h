/* rig_offer.h - what became of an offer, for the tests of them. */
#ifndef TESTS_UNIT_ROUTER_RIG_OFFER_H
#define TESTS_UNIT_ROUTER_RIG_OFFER_H

#include "tests/unit/router/rig.h"

/* Fails the test unless it was given layers once, and these. */
void assert_given(const struct fake *f, uint32_t begin, uint32_t end);
/* Fails the test unless it was given none, and its session stands. */
void assert_free(const struct fake *f);

#endif

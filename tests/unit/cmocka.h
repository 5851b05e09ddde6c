/* cmocka.h - cmocka with what it needs before it. */
#ifndef TESTS_UNIT_CMOCKA_H
#define TESTS_UNIT_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif

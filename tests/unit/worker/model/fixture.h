/* fixture.h - directories and models for the tests of worker/model/. */
#ifndef TESTS_UNIT_WORKER_MODEL_FIXTURE_H
#define TESTS_UNIT_WORKER_MODEL_FIXTURE_H

#include <stddef.h>

#include <jansson.h>

#include "tests/bench/model_writer.h"
#include "worker/model/config.h"

#define TINY_HYBRID "models/tiny-hybrid"
#define CONFIGS     "tests/vectors/configs"

/* cmocka's group set-up and tear-down: an empty directory of the test's own,
 * removed with all that is in it. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* "its directory/name", until the next 8 calls. */
const char *fixture_path(const char *name);

/* A file's bytes with a NUL behind, to free().  Fails the test. */
char *fixture_read(const char *path, size_t *len);
void fixture_write(const char *path, const void *bytes, size_t len);

/* A tiny config of a family: 4 layers, hidden 32.  To json_decref(). */
json_t *fixture_config(const char *model_type);

/* The status of parsing j, and its message. */
enum status fixture_parse(struct model_config *c, const json_t *j,
                          struct error *e);

/* Write a config and a random model for it to directory name of the test's
 * own; its path. */
const char *fixture_model(const char *name, const json_t *config,
                          const struct writer_options *o);

/* Descriptors that the process has open. */
int fixture_open_files(void);

#endif

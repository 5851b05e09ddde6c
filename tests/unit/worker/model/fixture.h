/* fixture.h - directories and models for the tests of worker/model/. */
#ifndef TESTS_UNIT_WORKER_MODEL_FIXTURE_H
#define TESTS_UNIT_WORKER_MODEL_FIXTURE_H

#include <stddef.h>

#include <jansson.h>

#include "common/model/config.h"
#include "tests/bench/model_writer.h"
#include "worker/model/shard.h"

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

/* The same of a config that must parse, or the test fails. */
struct model_config fixture_parsed(const json_t *j);

/* A rope_scaling of kind llama3: frequency factors 1 and 4, 128 original
 * positions.  To json_decref(). */
json_t *fixture_llama3(double factor);

/* Write a config and a random model for it to directory name of the test's
 * own; its path. */
const char *fixture_model(const char *name, const json_t *config,
                          const struct writer_options *o);

/* The model in directory `from` again in directory name of the test's own,
 * as the official multimodal checkpoints are laid out: every tensor model.X
 * as model.language_model.X, and config.json in a text_config. */
const char *fixture_nest(const char *from, const char *name);

/* These load and fail the test if they cannot. */
struct model_config fixture_load_config(const char *dir);
struct shard *fixture_shard(const char *dir, uint32_t begin, uint32_t end);
struct shard *fixture_shard_all(const char *dir);

/* Loading all of dir fails with code and says text. */
void fixture_refused(const char *dir, enum status code, const char *text);

/* A tensor's bytes as the file dir/name has them, to free(). */
char *fixture_stored(const char *dir, const char *name, const char *tensor);

/* Descriptors that the process has open. */
int fixture_open_files(void);

#endif

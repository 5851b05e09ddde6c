/* fixture.h - Directories and models for the tests of worker/model/. */
#ifndef TESTS_UNIT_WORKER_MODEL_FIXTURE_H
#define TESTS_UNIT_WORKER_MODEL_FIXTURE_H

#include <stddef.h>

#include <jansson.h>

#include "common/model/config.h"
#include "tests/bench/model_writer.h"
#include "worker/model/shard.h"

#define TINY_HYBRID "models/tiny-hybrid"
#define CONFIGS     "tests/vectors/configs"

/* Set up and tear down a cmocka group: an empty directory for the test,
 * removed with its contents. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Returns "directory of the test/name", valid for the next 8 calls. */
const char *fixture_path(const char *name);

/* Returns a file's bytes with a NUL behind, to free(). Fails the test on an
 * error. */
char *fixture_read(const char *path, size_t *len);
void fixture_write(const char *path, const void *bytes, size_t len);

/* Returns a tiny config of a family: 4 layers, hidden 32. To json_decref(). */
json_t *fixture_config(const char *model_type);

/* Returns the status of parsing j, and its message. */
enum status fixture_parse(struct model_config *c, const json_t *j,
                          struct error *e);

/* The same for a config that must parse, or the test fails. */
struct model_config fixture_parsed(const json_t *j);

/* Returns a rope_scaling of kind llama3: frequency factors 1 and 4, 128
 * original positions. To json_decref(). */
json_t *fixture_llama3(double factor);

/* Writes a config and a random model for it to directory `name` of the test.
 * Returns its path. */
const char *fixture_model(const char *name, const json_t *config,
                          const struct writer_options *o);

/* Copies the model in directory `from` to directory `name` of the test, in
 * the layout of the official multimodal checkpoints: every tensor model.X as
 * model.language_model.X, and config.json in a text_config. */
const char *fixture_nest(const char *from, const char *name);

/* Load a model, and fail the test on an error. */
struct model_config fixture_load_config(const char *dir);
struct shard *fixture_shard(const char *dir, uint32_t begin, uint32_t end);
struct shard *fixture_shard_all(const char *dir);

/* Checks that loading all of dir fails with code and an error with text. */
void fixture_refused(const char *dir, enum status code, const char *text);

/* Returns a tensor's bytes as stored in the file dir/name, to free(). */
char *fixture_stored(const char *dir, const char *name, const char *tensor);

/* Counts the descriptors that the process has open. */
int fixture_open_files(void);

#endif

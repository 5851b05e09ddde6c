#include "kernels/opencl/host/program.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/log.h"
#include "kernels/opencl/host/cache.h"
#include "kernels/opencl/host/ptx.h"

#define OPTIONS_MAX   2048
#define WORDS_MAX     300 /* bytes of the compiler's log in an error text */
#define PIECES        10 /* source strings: five files, each behind its #line */
#define FILE_NAME_MAX 64 /* bytes of a file's name, with its 0 */

struct program {
    cl_program id;
    char *file, *defines;
};

struct opencl_programs {
    cl_context context;
    struct opencl_device device;
    const struct embedded *files;
    char options[OPTIONS_MAX];
    char dir[CACHE_PATH]; /* "": no cache */
    struct program programs[OPENCL_PROGRAMS_MAX];
    uint32_t n;
    struct opencl_programs_counts counts;
};

/* A program while it is built. */
struct build {
    const struct opencl_programs *p;
    const char *file, *pieces[PIECES];
    size_t sizes[PIECES];
    char options[2 * OPTIONS_MAX];
    char lines[PIECES / 2][128];
    struct cache_key key;
};

enum status opencl_programs_new(struct opencl_programs **out,
                                cl_context context,
                                const struct opencl_device *device,
                                const struct embedded *files,
                                const char *options, const char *dir,
                                struct error *e)
{
    struct opencl_programs *p = calloc(1, sizeof *p);

    *out = NULL;
    if (p == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (strlen(options) >= sizeof p->options ||
        (dir != NULL && strlen(dir) >= sizeof p->dir)) {
        free(p);
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the kernels' options or cache folder are too long");
    }
    p->context = context;
    p->device = *device;
    p->files = files;
    memcpy(p->options, options, strlen(options) + 1);
    if (dir == NULL) {
        cache_default(p->dir);
    } else {
        memcpy(p->dir, dir, strlen(dir) + 1);
    }
    *out = p;
    return ST_OK;
}

void opencl_programs_free(struct opencl_programs **self)
{
    struct opencl_programs *p = *self;

    for (uint32_t i = 0; p != NULL && i < p->n; i++) {
        clReleaseProgram(p->programs[i].id);
        free(p->programs[i].file);
        free(p->programs[i].defines);
    }
    free(p);
    *self = NULL;
}

void opencl_programs_counts(const struct opencl_programs *p,
                            struct opencl_programs_counts *out)
{
    *out = p->counts;
}

/* ---- source ---- */

static const struct embedded *find_file(const struct opencl_programs *p,
                                        const char *name)
{
    for (const struct embedded *f = p->files; f->name != NULL; f++) {
        size_t n = strlen(name);

        if (strncmp(f->name, name, n) == 0 && strcmp(f->name + n, ".cl") == 0) {
            return f;
        }
    }
    return NULL;
}

/* Includes the terminator, so that "ab" "c" and "a" "bc" differ. */
static void digest_text(XXH3_state_t *s, const char *text)
{
    XXH3_128bits_update(s, text, strlen(text) + 1);
}

/* Hashes everything that the binary depends on. */
static bool digest_source(struct build *b)
{
    const struct opencl_device *d = &b->p->device;
    XXH3_state_t *s = XXH3_createState();
    XXH128_canonical_t sum;

    if (s == NULL) {
        return false;
    }
    XXH3_128bits_reset(s);
    /* A binary fits one driver version only, so all four are in the hash. */
    digest_text(s, d->platform_name);
    digest_text(s, d->name);
    digest_text(s, d->version);
    digest_text(s, d->driver);
    digest_text(s, b->options);
    for (size_t i = 0; i < PIECES; i++) {
        XXH3_128bits_update(s, b->pieces[i], b->sizes[i]);
    }
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(s));
    memcpy(b->key.v, sum.digest, sizeof b->key.v);
    XXH3_freeState(s);
    return true;
}

/* Returns the folder of a kernel file under kernels/opencl, by its name. */
static const char *folder_of(const char *file)
{
    return strncmp(file, "nv", 2) == 0 ? "nv" : "portable";
}

/* Adds the i-th file of the source; nothing if this build lacks it. */
static void add_file(struct build *b, uint32_t i, const char *name)
{
    const struct embedded *f = name ? find_file(b->p, name) : NULL;

    if (f != NULL) {
        /* The newline ends a last line without one in the file before. */
        snprintf(b->lines[i], sizeof b->lines[i],
                 "\n#line 1 \"kernels/opencl/%s/%s\"\n", folder_of(f->name),
                 f->name);
    }
    b->pieces[2 * i] = b->lines[i];
    b->pieces[2 * i + 1] = f ? f->bytes : "";
    b->sizes[2 * i] = strlen(b->lines[i]);
    b->sizes[2 * i + 1] = f ? f->size : 0;
}

/* Returns the last file of "a+b", and the other in *first, "" if there is
 * none. */
static const char *split_name(const char *file, char first[FILE_NAME_MAX])
{
    const char *plus = strchr(file, '+');
    size_t n = plus != NULL ? (size_t)(plus - file) : 0;

    first[0] = '\0';
    if (plus == NULL || n >= FILE_NAME_MAX) {
        return file;
    }
    memcpy(first, file, n);
    first[n] = '\0';
    return plus + 1;
}

static enum status check_file(const struct opencl_programs *p, const char *file,
                              struct error *e)
{
    return find_file(p, file) != NULL
               ? ST_OK
               : error_set(e, ST_NOT_FOUND,
                           "this build has no kernels/opencl/%s/%s.cl",
                           folder_of(file), file);
}

static enum status prepare_source(struct build *b,
                                  const struct opencl_programs *p,
                                  const char *file, const char *defines,
                                  struct error *e)
{
    char first[FILE_NAME_MAX];
    enum status st;

    file = split_name(file, first);
    *b = (struct build){.p = p, .file = file};
    st = check_file(p, file, e);
    if (st == ST_OK && first[0] != '\0') {
        st = check_file(p, first, e);
    }
    if (st != ST_OK) {
        return st;
    }
    if (snprintf(b->options, sizeof b->options, "%s %s", p->options, defines) >=
        (int)sizeof b->options) {
        return error_set(e, ST_INTERNAL, "too many defines for %s.cl", file);
    }
    add_file(b, 0, "common");
    add_file(b, 1, "weights");
    add_file(b, 2, strncmp(file, "nv_", 3) == 0 ? "nv" : NULL);
    add_file(b, 3, first[0] != '\0' ? first : NULL);
    add_file(b, 4, file);
    return digest_source(b)
               ? ST_OK
               : error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
}

/* ---- build ---- */

/* Reports the first words of the compiler's log, on one line. */
static enum status report_rejection(const struct build *b, cl_program id,
                                    cl_int code, struct error *e)
{
    char words[WORDS_MAX + 1] = "", name[64], *all;
    size_t n = 0;

    clGetProgramBuildInfo(id, b->p->device.id, CL_PROGRAM_BUILD_LOG, 0, NULL,
                          &n);
    all = n > 0 ? calloc(1, n + 1) : NULL;
    if (all != NULL) {
        clGetProgramBuildInfo(id, b->p->device.id, CL_PROGRAM_BUILD_LOG, n, all,
                              NULL);
        snprintf(words, sizeof words, "%s", all);
        free(all);
    }
    /* An error text is one line, and a log must not pass control characters. */
    for (char *at = words; *at != '\0'; at++) {
        *at = *at < ' ' ? ' ' : *at;
    }
    return error_set(e, ST_INTERNAL,
                     "build kernels/opencl/%s/%s.cl for %s: %s: %s",
                     folder_of(b->file), b->file, b->p->device.name,
                     opencl_error_name(code, name, sizeof name), words);
}

static enum status from_source(const struct build *b, cl_program *out,
                               struct error *e)
{
    cl_device_id device = b->p->device.id;
    const char *pieces[PIECES];
    cl_int code;
    enum status st;
    char name[64];

    memcpy(pieces, b->pieces, sizeof pieces);
    *out = clCreateProgramWithSource(b->p->context, PIECES, pieces, b->sizes,
                                     &code);
    if (*out == NULL) {
        return error_set(e, ST_INTERNAL, "create the program %s.cl: %s",
                         b->file, opencl_error_name(code, name, sizeof name));
    }
    code = clBuildProgram(*out, 1, &device, b->options, NULL, NULL);
    if (code == CL_SUCCESS) {
        return ST_OK;
    }
    st = report_rejection(b, *out, code, e);
    clReleaseProgram(*out);
    *out = NULL;
    return st;
}

/* A driver may reject a binary at creation or at build: both count. */
static enum status from_binary(const struct build *b, cl_program *out,
                               const char *bytes, size_t n, struct error *e)
{
    cl_device_id device = b->p->device.id;
    const unsigned char *binary = (const unsigned char *)bytes;
    cl_int code, valid = CL_SUCCESS;
    enum status st;
    char name[64];

    *out = clCreateProgramWithBinary(b->p->context, 1, &device, &n, &binary,
                                     &valid, &code);
    if (*out == NULL || valid != CL_SUCCESS) {
        if (*out != NULL) {
            clReleaseProgram(*out);
            *out = NULL;
        }
        return error_set(e, ST_INTERNAL,
                         "%s.cl: the driver rejected a binary: %s", b->file,
                         opencl_error_name(code, name, sizeof name));
    }
    code = clBuildProgram(*out, 1, &device, b->options, NULL, NULL);
    if (code == CL_SUCCESS) {
        return ST_OK;
    }
    st = report_rejection(b, *out, code, e);
    clReleaseProgram(*out);
    *out = NULL;
    return st;
}

/* Returns the program's binary with one spare byte behind it, or NULL if there
 * is none. */
static char *binary_of(cl_program id, size_t *n)
{
    unsigned char *bytes;

    *n = 0;
    if (clGetProgramInfo(id, CL_PROGRAM_BINARY_SIZES, sizeof *n, n, NULL) !=
            CL_SUCCESS ||
        *n == 0 || *n > CACHE_BYTES_MAX) {
        return NULL;
    }
    bytes = calloc(1, *n + 1);
    if (bytes != NULL && clGetProgramInfo(id, CL_PROGRAM_BINARIES, sizeof bytes,
                                          &bytes, NULL) != CL_SUCCESS) {
        free(bytes);
        bytes = NULL;
    }
    return (char *)bytes;
}

/* ---- cache and build ---- */

static bool is_nvidia(const struct build *b)
{
    return b->p->device.nvidia > 0;
}

/* Reads the program from the cache; false if the cache has no usable file. */
static bool read_cached(struct opencl_programs *p, const struct build *b,
                        cl_program *out)
{
    struct error e;
    char *bytes;
    size_t n;
    enum cache_found found = p->dir[0] != '\0' && !p->device.caches
                                 ? cache_read(p->dir, &b->key, &bytes, &n)
                                 : CACHE_ABSENT;

    if (found == CACHE_HIT) {
        found = from_binary(b, out, bytes, n, &e) == ST_OK ? CACHE_HIT
                                                           : CACHE_BROKEN;
        free(bytes);
    }
    p->counts.read += found == CACHE_HIT;
    p->counts.refused += found == CACHE_BROKEN;
    return found == CACHE_HIT;
}

/* A cache that cannot be written only costs time at the next start. */
static void cache_binary(struct opencl_programs *p, const struct build *b,
                         const char *bytes, size_t n)
{
    if (p->dir[0] == '\0' || cache_write(p->dir, &b->key, bytes, n)) {
        return;
    }
    /* Once is enough in the log: the next programs would fail the same way. */
    if (p->counts.unwritten++ == 0) {
        log_warn("kernel-cache-unwritten", "dir=%s", p->dir);
    }
}

static enum status build_program(struct opencl_programs *p,
                                 const struct build *b, cl_program *out,
                                 struct error *e)
{
    enum status st = from_source(b, out, e);
    size_t n = 0;
    char *bytes;

    if (st != ST_OK) {
        return st;
    }
    p->counts.built++;
    /* Asking PoCL for a binary compiles everything again; see program.h. */
    bytes = p->device.caches ? NULL : binary_of(*out, &n);
    /* The first build gave PTX; the released instructions need a second. */
    if (bytes != NULL && is_nvidia(b) && ptx_release(bytes, &n, n + 1)) {
        clReleaseProgram(*out);
        st = from_binary(b, out, bytes, n, e);
    } else if (strstr(b->options, PROGRAM_OWN_SET) != NULL) {
        clReleaseProgram(*out);
        *out = NULL;
        st = error_set(
            e, ST_INTERNAL,
            "kernels/opencl/nv/%s.cl: its binary is not PTX for sm_90",
            b->file);
    }
    if (st == ST_OK && bytes != NULL) {
        cache_binary(p, b, bytes, n);
    }
    free(bytes);
    return st;
}

/* Takes ownership of id if it returns true. */
static bool remember_program(struct opencl_programs *p, cl_program id,
                             const char *file, const char *defines)
{
    struct program *new = &p->programs[p->n];

    *new = (struct program){id, strdup(file), strdup(defines)};
    if (new->file == NULL || new->defines == NULL) {
        free(new->file);
        free(new->defines);
        return false;
    }
    p->n++;
    return true;
}

enum status opencl_programs_get(struct opencl_programs *p, cl_program *out,
                                const char *file, const char *defines,
                                struct error *e)
{
    struct build b;
    enum status st;

    for (uint32_t i = 0; i < p->n; i++) {
        if (strcmp(p->programs[i].file, file) == 0 &&
            strcmp(p->programs[i].defines, defines) == 0) {
            *out = p->programs[i].id;
            return ST_OK;
        }
    }
    /* OPENCL_PROGRAMS_MAX covers a shard with every form of matrix. */
    if (p->n == OPENCL_PROGRAMS_MAX) {
        return error_set(e, ST_INTERNAL, "more than %d programs",
                         OPENCL_PROGRAMS_MAX);
    }
    st = prepare_source(&b, p, file, defines, e);
    if (st == ST_OK && !read_cached(p, &b, out)) {
        st = build_program(p, &b, out, e);
    }
    if (st == ST_OK && !remember_program(p, *out, file, defines)) {
        clReleaseProgram(*out);
        st = error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    return st;
}

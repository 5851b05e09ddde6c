#include "kernels/opencl/host/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/affix.h"
#define PLATFORMS_MAX 16
#define POCL          "Portable Computing Language"
/* From cl_nv_device_attribute_query; not in every CL/cl_ext.h. */
#define NV_MAJOR 0x4000
#define NV_MINOR 0x4001

static void text_of(cl_device_id id, cl_device_info what, char *out,
                    size_t size)
{
    out[0] = '\0';
    clGetDeviceInfo(id, what, size, out, NULL);
    out[size - 1] = '\0';
}

/* Returns 10 * major + minor, or 0 if the driver has no answer. */
static uint32_t capability(cl_device_id id)
{
    cl_uint major = 0, minor = 0;

    if (clGetDeviceInfo(id, NV_MAJOR, sizeof major, &major, NULL) !=
            CL_SUCCESS ||
        clGetDeviceInfo(id, NV_MINOR, sizeof minor, &minor, NULL) !=
            CL_SUCCESS) {
        return 0;
    }
    return major * 10 + minor;
}

/* Figures that a driver does not give stay 0 or empty. */
static void describe_device(struct opencl_device *d)
{
    cl_ulong memory = 0, largest = 0;
    cl_uint units = 0;
    cl_bool unified = CL_FALSE;
    char extensions[8192];

    text_of(d->id, CL_DEVICE_NAME, d->name, sizeof d->name);
    text_of(d->id, CL_DEVICE_VERSION, d->version, sizeof d->version);
    text_of(d->id, CL_DRIVER_VERSION, d->driver, sizeof d->driver);
    text_of(d->id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    clGetPlatformInfo(d->platform, CL_PLATFORM_NAME,
                      sizeof d->platform_name - 1, d->platform_name, NULL);
    clGetDeviceInfo(d->id, CL_DEVICE_TYPE, sizeof d->type, &d->type, NULL);
    clGetDeviceInfo(d->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory,
                    NULL);
    clGetDeviceInfo(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest,
                    &largest, NULL);
    clGetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof d->group_max,
                    &d->group_max, NULL);
    clGetDeviceInfo(d->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units,
                    NULL);
    clGetDeviceInfo(d->id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified,
                    &unified, NULL);
    /* PoCL keeps compiled kernels on disk by itself. */
    d->caches = strcmp(d->platform_name, POCL) == 0;
    d->memory = memory;
    d->largest = largest;
    d->units = units;
    d->host_memory = unified == CL_TRUE;
    /* The two queries are defined by this extension only. */
    if (strstr(extensions, "cl_nv_device_attribute_query") != NULL) {
        d->nvidia = capability(d->id);
    }
}

uint32_t opencl_devices(struct opencl_device *out, uint32_t most)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint n_platforms = 0;
    uint32_t n = 0;

    if (clGetPlatformIDs(PLATFORMS_MAX, platforms, &n_platforms) !=
        CL_SUCCESS) {
        return 0;
    }
    for (cl_uint i = 0; i < n_platforms && i < PLATFORMS_MAX; i++) {
        cl_device_id ids[OPENCL_DEVICES_MAX];
        cl_uint n_ids = 0;

        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, OPENCL_DEVICES_MAX,
                           ids, &n_ids) != CL_SUCCESS) {
            continue;
        }
        for (cl_uint j = 0; j < n_ids && j < OPENCL_DEVICES_MAX && n < most;
             j++) {
            out[n] = (struct opencl_device){
                .platform = platforms[i], .id = ids[j], .index = n};
            describe_device(&out[n++]);
        }
    }
    return n;
}

/* Returns whether text contains part, ignoring case; strcasestr() is GNU's. */
static bool has_part(const char *text, const char *part)
{
    for (; *text != '\0' && *part != '\0'; text++) {
        if (strncasecmp(text, part, strlen(part)) == 0) {
            return true;
        }
    }
    return false;
}

/* Counts the devices of a type.  Sets *at to the one that has the number. */
static uint32_t count_of(const struct opencl_device *all, uint32_t n,
                         cl_device_type type, uint32_t number, uint32_t *at)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < n; i++) {
        if ((all[i].type & type) != 0 && found++ == number) {
            *at = i;
        }
    }
    return found;
}

/* Finds GPU "opencl" or "opencl:N", or an accelerator if there is no GPU. */
static enum status find_gpu(uint32_t *out, const struct opencl_device *all,
                            const char *selector, uint32_t n, struct error *e)
{
    const char *colon = strchr(selector, ':');
    uint32_t number =
        colon != NULL ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
    uint32_t found = count_of(all, n, CL_DEVICE_TYPE_GPU, number, out);

    if (found == 0) {
        found = count_of(all, n, CL_DEVICE_TYPE_ACCELERATOR, number, out);
    }
    if (number < found) {
        return ST_OK;
    }
    return error_set(e, ST_NOT_FOUND,
                     "device %s: %u of the %u OpenCL devices are GPUs; "
                     "--device list prints them",
                     selector, found, n);
}

/* Returns whether the selector is "opencl", or "opencl:" and digits. */
static bool is_gpu(const char *selector)
{
    const char *rest = selector + strlen("opencl");

    return starts_with(selector, "opencl") &&
           (rest[0] == '\0' ||
            (rest[0] == ':' && rest[1] != '\0' && strlen(rest) <= 4 &&
             strspn(rest + 1, "0123456789") == strlen(rest + 1)));
}

static enum status find_number(uint32_t *out, const char *selector, uint32_t n,
                               struct error *e)
{
    unsigned long number = strtoul(selector, NULL, 10);

    *out = (uint32_t)number;
    return number < n
               ? ST_OK
               : error_set(e, ST_NOT_FOUND,
                           "device %s does not exist; there are %u OpenCL "
                           "devices, numbered from 0; --device list "
                           "prints them",
                           selector, n);
}

/* Ambiguous text is an error: the first match may not be the intended one. */
static enum status find_name(uint32_t *out, const struct opencl_device *all,
                             const char *selector, uint32_t n, struct error *e)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (has_part(all[i].name, selector) ||
            has_part(all[i].platform_name, selector)) {
            *out = found == 0 ? i : *out;
            found++;
        }
    }
    if (found == 1) {
        return ST_OK;
    }
    return error_set(e, ST_NOT_FOUND,
                     found == 0 ? "device %s: none of the %u OpenCL devices "
                                  "has this text in its name; --device list "
                                  "prints them"
                                : "device %s: several of the %u OpenCL "
                                  "devices have this text in their names; "
                                  "give a number instead; --device list "
                                  "prints them",
                     selector, n);
}

enum status opencl_device_find(struct opencl_device *out, const char *selector,
                               struct error *e)
{
    struct opencl_device all[OPENCL_DEVICES_MAX];
    uint32_t n = opencl_devices(all, OPENCL_DEVICES_MAX), at = 0;
    enum status st = ST_OK;

    if (n == 0) {
        return error_set(
            e, ST_NOT_FOUND,
            "device %s: this machine has no OpenCL device; install "
            "a driver with its file in /etc/OpenCL/vendors, or "
            "use --device cpu",
            selector);
    }
    if (is_gpu(selector)) {
        st = find_gpu(&at, all, selector, n, e);
    } else if (selector[0] != '\0' &&
               strspn(selector, "0123456789") == strlen(selector)) {
        st = find_number(&at, selector, n, e);
    } else {
        st = find_name(&at, all, selector, n, e);
    }
    if (st == ST_OK) {
        *out = all[at];
    }
    return st;
}

static const char *kind_name(const struct opencl_device *d)
{
    return (d->type & CL_DEVICE_TYPE_GPU) != 0           ? "gpu"
           : (d->type & CL_DEVICE_TYPE_ACCELERATOR) != 0 ? "accelerator"
                                                         : "cpu";
}

void opencl_devices_print(FILE *out)
{
    struct opencl_device all[OPENCL_DEVICES_MAX];
    uint32_t n = opencl_devices(all, OPENCL_DEVICES_MAX);

    fprintf(out, "cpu  the cpu backend: this machine's processors, with no "
                 "driver\n");
    for (uint32_t i = 0; i < n; i++) {
        const struct opencl_device *d = &all[i];

        fprintf(out,
                "%-3u  %s (%s), %.1f GiB, at most %.1f GiB at once; %s, "
                "%s, driver %s\n",
                d->index, d->name, kind_name(d), (double)d->memory / 0x1p30,
                (double)d->largest / 0x1p30, d->platform_name, d->version,
                d->driver);
    }
    if (n == 0) {
        fprintf(out, "No OpenCL device: /etc/OpenCL/vendors has no driver's "
                     "file, or no driver finds a device.\n");
    }
}

struct error_name {
    cl_int code;
    const char *name;
};

const char *opencl_error_name(cl_int code, char *text, size_t size)
{
#define X(name)     \
    {               \
        name, #name \
    }
    static const struct error_name names[] = {
        X(CL_DEVICE_NOT_FOUND),
        X(CL_DEVICE_NOT_AVAILABLE),
        X(CL_COMPILER_NOT_AVAILABLE),
        X(CL_MEM_OBJECT_ALLOCATION_FAILURE),
        X(CL_OUT_OF_RESOURCES),
        X(CL_OUT_OF_HOST_MEMORY),
        X(CL_BUILD_PROGRAM_FAILURE),
        X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        X(CL_INVALID_VALUE),
        X(CL_INVALID_DEVICE),
        X(CL_INVALID_CONTEXT),
        X(CL_INVALID_COMMAND_QUEUE),
        X(CL_INVALID_MEM_OBJECT),
        X(CL_INVALID_BINARY),
        X(CL_INVALID_PROGRAM_EXECUTABLE),
        X(CL_INVALID_KERNEL_NAME),
        X(CL_INVALID_ARG_INDEX),
        X(CL_INVALID_ARG_SIZE),
        X(CL_INVALID_KERNEL_ARGS),
        X(CL_INVALID_WORK_GROUP_SIZE),
        X(CL_INVALID_BUFFER_SIZE),
    };
#undef X
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].code == code) {
            snprintf(text, size, "%s (%" PRId32 ")", names[i].name, code);
            return text;
        }
    }
    snprintf(text, size, "OpenCL error %" PRId32, code);
    return text;
}

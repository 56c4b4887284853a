/* Copies and fills. All are done when the call returns; streams keep their order that way. */
#define _GNU_SOURCE
#include "runtime.h"

#include <string.h>
#include <sys/mman.h>

/* hipMemcpyKind */
enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT_KIND };

/* A range that is the device's must lie in one live allocation; one of the host is taken as it is.
 */
static Error check_range(const char *function, const char *role, const void *pointer, size_t size,
                         int must_be_device) {
    Allocation found;
    if (!pointer) return fail(INVALID_VALUE, "%s: the %s is null", function, role);
    if (find_allocation(pointer, &found)) {
        size_t left = found.size - ((uintptr_t)pointer - found.address);
        if (size > left)
            return fail(INVALID_VALUE,
                        "%s: %zu bytes at the %s %p, but its allocation of %zu bytes "
                        "ends after %zu",
                        function, size, role, pointer, found.size, left);
        return SUCCESS;
    }
    if (in_arena(pointer))
        return fail(INVALID_VALUE,
                    "%s: the %s %p is in no live allocation (freed, or out of bounds)", function,
                    role, pointer);
    if (must_be_device)
        return fail(INVALID_VALUE, "%s: the %s %p is host memory, the call says device memory",
                    function, role, pointer);
    return SUCCESS;
}

static Error copy(const char *function, void *to, const void *from, size_t size, int kind) {
    Error error = told_late();
    if (error || size == 0) return error;
    if (kind < HOST_TO_HOST || kind > DEFAULT_KIND)
        return fail(INVALID_VALUE, "%s: kind %d must be from 0 to 4", function, kind);
    int to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE;
    int from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE;
    error = check_range(function, "destination", to, size, to_device);
    if (!error) error = check_range(function, "source", from, size, from_device);
    if (!error) memmove(to, from, size);
    return error;
}

static Error copy_rows(const char *function, char *to, size_t to_pitch, const char *from,
                       size_t from_pitch, size_t width, size_t height, int kind) {
    if (width > to_pitch || width > from_pitch)
        return fail(INVALID_VALUE, "%s: width %zu must be at most the pitches %zu and %zu",
                    function, width, to_pitch, from_pitch);
    for (size_t row = 0; row < height; row++) {
        Error error = copy(function, to + row * to_pitch, from + row * from_pitch, width, kind);
        if (error) return error;
    }
    return SUCCESS;
}

static Error fill(const char *function, void *to, int value, size_t size) {
    if (size == 0) return SUCCESS;
    Error error = check_range(function, "destination", to, size, 1);
    if (error) return error;
    char *start = to, *end = start + size;
    if ((value & 0xFF) == 0 && size > (size_t)1 << 20) {
        /* Whole pages become zero by giving them back: a huge array of zeros takes no memory. */
        char *first = (char *)(((uintptr_t)start + 4095) & ~(uintptr_t)4095);
        char *last = (char *)((uintptr_t)end & ~(uintptr_t)4095);
        if (madvise(first, (size_t)(last - first), MADV_DONTNEED) == 0) {
            memset(start, 0, (size_t)(first - start));
            memset(last, 0, (size_t)(end - last));
            return SUCCESS;
        }
    }
    memset(to, value, size);
    return SUCCESS;
}

static Error on_stream(const void *stream) {
    int device;
    return check_stream(stream, &device);
}

EXPORT Error hipMemcpy(void *to, const void *from, size_t size, int kind) {
    return copy("hipMemcpy", to, from, size, kind);
}

EXPORT Error hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    Error error = on_stream(stream);
    return error ? error : copy("hipMemcpyAsync", to, from, size, kind);
}

EXPORT Error hipMemcpyHtoD(void *to, void *from, size_t size) {
    return copy("hipMemcpyHtoD", to, from, size, HOST_TO_DEVICE);
}

EXPORT Error hipMemcpyDtoH(void *to, void *from, size_t size) {
    return copy("hipMemcpyDtoH", to, from, size, DEVICE_TO_HOST);
}

EXPORT Error hipMemcpyDtoD(void *to, void *from, size_t size) {
    return copy("hipMemcpyDtoD", to, from, size, DEVICE_TO_DEVICE);
}

EXPORT Error hipMemcpyHtoDAsync(void *to, void *from, size_t size, void *stream) {
    Error error = on_stream(stream);
    return error ? error : copy("hipMemcpyHtoDAsync", to, from, size, HOST_TO_DEVICE);
}

EXPORT Error hipMemcpyDtoHAsync(void *to, void *from, size_t size, void *stream) {
    Error error = on_stream(stream);
    return error ? error : copy("hipMemcpyDtoHAsync", to, from, size, DEVICE_TO_HOST);
}

EXPORT Error hipMemcpyDtoDAsync(void *to, void *from, size_t size, void *stream) {
    Error error = on_stream(stream);
    return error ? error : copy("hipMemcpyDtoDAsync", to, from, size, DEVICE_TO_DEVICE);
}

EXPORT Error hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, int kind) {
    return copy_rows("hipMemcpy2D", to, to_pitch, from, from_pitch, width, height, kind);
}

EXPORT Error hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, int kind, void *stream) {
    Error error = on_stream(stream);
    if (error) return error;
    return copy_rows("hipMemcpy2DAsync", to, to_pitch, from, from_pitch, width, height, kind);
}

static Error copy_peer(const char *function, void *to, int to_device, const void *from,
                       int from_device, size_t size) {
    Error error = check_device(to_device);
    if (!error) error = check_device(from_device);
    return error ? error : copy(function, to, from, size, DEVICE_TO_DEVICE);
}

EXPORT Error hipMemcpyPeer(void *to, int to_device, const void *from, int from_device,
                           size_t size) {
    return copy_peer("hipMemcpyPeer", to, to_device, from, from_device, size);
}

EXPORT Error hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t size, void *stream) {
    Error error = on_stream(stream);
    return error ? error : copy_peer("hipMemcpyPeerAsync", to, to_device, from, from_device, size);
}

EXPORT Error hipMemset(void *to, int value, size_t size) {
    return fill("hipMemset", to, value, size);
}

EXPORT Error hipMemsetAsync(void *to, int value, size_t size, void *stream) {
    Error error = on_stream(stream);
    return error ? error : fill("hipMemsetAsync", to, value, size);
}

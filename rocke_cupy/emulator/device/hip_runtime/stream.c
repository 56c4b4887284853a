/* Streams and events. Work is done when it is queued, so every stream is always idle. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdlib.h>
#include <time.h>

enum { STREAM_MARK = 0x57AE, EVENT_MARK = 0xE7E2 };

typedef struct {
    int mark;
    int device;
    unsigned flags;
    int priority;
} Stream;

typedef struct {
    int mark;
    int recorded;
    unsigned flags;
    double milliseconds;
} Event;

enum { EVENT_DISABLE_TIMING = 2 };

/* Handles of the default streams that are no pointers: null, legacy (1) and per thread (2). */
static int is_default(const void *stream) { return (uintptr_t)stream <= 2; }

Error check_stream(const void *stream, int *device) {
    Error error = told_late();
    if (error) return error;
    *device = current_device();
    if (is_default(stream)) return check_device(*device);
    const Stream *real = stream;
    if (real->mark != STREAM_MARK)
        return fail(INVALID_HANDLE, "%p is not a stream, or was destroyed", stream);
    *device = real->device;
    return SUCCESS;
}

EXPORT Error hipStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    Error error = check_device(current_device());
    if (error) return error;
    Stream *made = malloc(sizeof *made);
    if (!made) return fail(OUT_OF_MEMORY, "no memory for a stream");
    *made = (Stream){STREAM_MARK, current_device(), flags, priority};
    *stream = made;
    return SUCCESS;
}

EXPORT Error hipStreamCreateWithFlags(void **stream, unsigned flags) {
    return hipStreamCreateWithPriority(stream, flags, 0);
}

EXPORT Error hipStreamCreate(void **stream) { return hipStreamCreateWithPriority(stream, 0, 0); }

EXPORT Error hipStreamDestroy(void *stream) {
    int device;
    if (is_default(stream)) return fail(INVALID_HANDLE, "the default stream cannot be destroyed");
    Error error = check_stream(stream, &device);
    if (error) return error;
    ((Stream *)stream)->mark = 0;
    free(stream);
    return SUCCESS;
}

EXPORT Error hipStreamGetFlags(void *stream, unsigned *flags) {
    int device;
    Error error = check_stream(stream, &device);
    if (!error) *flags = is_default(stream) ? 0 : ((Stream *)stream)->flags;
    return error;
}

EXPORT Error hipStreamGetPriority(void *stream, int *priority) {
    int device;
    Error error = check_stream(stream, &device);
    if (!error) *priority = is_default(stream) ? 0 : ((Stream *)stream)->priority;
    return error;
}

EXPORT int hipGetStreamDeviceId(void *stream) {
    int device;
    return check_stream(stream, &device) ? -1 : device;
}

EXPORT Error hipStreamSynchronize(void *stream) {
    int device;
    return check_stream(stream, &device);
}

EXPORT Error hipStreamQuery(void *stream) {
    int device;
    return check_stream(stream, &device);
}

typedef void (*StreamCallback)(void *stream, Error status, void *data);

EXPORT Error hipStreamAddCallback(void *stream, StreamCallback callback, void *data,
                                  unsigned flags) {
    int device;
    (void)flags;
    Error error = check_stream(stream, &device);
    if (!error) callback(stream, SUCCESS, data);
    return error;
}

EXPORT Error hipLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
    int device;
    Error error = check_stream(stream, &device);
    if (!error) function(data);
    return error;
}

static Error check_event(const Event *event) {
    if (!event || event->mark != EVENT_MARK)
        return fail(INVALID_HANDLE, "%p is not an event, or was destroyed", (const void *)event);
    return SUCCESS;
}

EXPORT Error hipEventCreateWithFlags(void **event, unsigned flags) {
    Event *made = malloc(sizeof *made);
    if (!made) return fail(OUT_OF_MEMORY, "no memory for an event");
    *made = (Event){EVENT_MARK, 0, flags, 0};
    *event = made;
    return SUCCESS;
}

EXPORT Error hipEventCreate(void **event) { return hipEventCreateWithFlags(event, 0); }

EXPORT Error hipEventDestroy(Event *event) {
    Error error = check_event(event);
    if (error) return error;
    event->mark = 0;
    free(event);
    return SUCCESS;
}

EXPORT Error hipEventRecord(Event *event, void *stream) {
    int device;
    Error error = check_event(event);
    if (!error) error = check_stream(stream, &device);
    if (error) return error;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    event->recorded = 1;
    return SUCCESS;
}

EXPORT Error hipEventSynchronize(Event *event) { return check_event(event); }
EXPORT Error hipEventQuery(Event *event) { return check_event(event); }

EXPORT Error hipStreamWaitEvent(void *stream, Event *event, unsigned flags) {
    int device;
    (void)flags;
    Error error = check_event(event);
    return error ? error : check_stream(stream, &device);
}

EXPORT Error hipEventElapsedTime(float *milliseconds, Event *start, Event *stop) {
    Error error = check_event(start);
    if (!error) error = check_event(stop);
    if (error) return error;
    if (!start->recorded || !stop->recorded)
        return fail(INVALID_HANDLE, "an event that was never recorded has no time");
    if ((start->flags | stop->flags) & EVENT_DISABLE_TIMING)
        return fail(INVALID_HANDLE, "an event made without timing has no time");
    *milliseconds = (float)(stop->milliseconds - start->milliseconds);
    return SUCCESS;
}

/* Capture: CuPy asks whether a stream is capturing before it synchronises. It never is. */
EXPORT Error hipStreamIsCapturing(void *stream, int *status) {
    *status = 0;
    return hipStreamQuery(stream);
}

EXPORT Error hipStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id) {
    *id = 0;
    return hipStreamIsCapturing(stream, status);
}

/* Error codes, and the sentence behind the last one of each thread. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local Error last_error;
static _Thread_local Error untold_error;
static _Thread_local Error message_error;
static _Thread_local char message[4096];

static const struct {
    Error error;
    const char *name, *text;
} known[] = {
    {SUCCESS, "hipSuccess", "no error"},
    {INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {OUT_OF_MEMORY, "hipErrorOutOfMemory", "out of memory"},
    {INVALID_CONFIGURATION, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {INVALID_DEVICE_FUNCTION, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {INVALID_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {INVALID_IMAGE, "hipErrorInvalidImage", "device kernel image is invalid"},
    {NO_BINARY_FOR_GPU, "hipErrorNoBinaryForGpu", "no kernel image is available for the device"},
    {FILE_NOT_FOUND, "hipErrorFileNotFound", "file not found"},
    {INVALID_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {NOT_FOUND, "hipErrorNotFound", "named symbol not found"},
    {PEER_ACCESS_ALREADY_ENABLED, "hipErrorPeerAccessAlreadyEnabled", "peer access is already on"},
    {PEER_ACCESS_NOT_ENABLED, "hipErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {LAUNCH_FAILURE, "hipErrorLaunchFailure", "unspecified launch failure"},
    {NOT_SUPPORTED, "hipErrorNotSupported", "operation not supported"},
    {UNKNOWN, "hipErrorUnknown", "unknown error"},
};

Error fail(Error error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fail_with_message(error);
}

Error fail_with_message(Error error) {
    message_error = error;
    last_error = error;
    return error;
}

/* Called from Python, in the thread that is about to get the error. */
EXPORT void rocke_set_message(const char *text) {
    size_t length = strnlen(text, sizeof message - 1);
    memcpy(message, text, length);
    /* A cut must not leave half of a UTF-8 character: CuPy decodes the text. */
    while (length > 0 && text[length] != 0 && ((unsigned char)text[length] & 0xC0) == 0x80)
        length--;
    message[length] = 0;
}

EXPORT const char *hipGetErrorName(Error error) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == error) return known[i].name;
    return "hipErrorUnknown";
}

EXPORT const char *hipGetErrorString(Error error) {
    /* The text outlives hipGetLastError: CuPy resets the error before it asks for the text. */
    if (error != SUCCESS && error == message_error && message[0]) return message;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == error) return known[i].text;
    return "unknown error";
}

Error tell_later(Error error) {
    untold_error = error;
    return error;
}

Error told_late(void) {
    Error error = untold_error;
    untold_error = SUCCESS;
    if (error) last_error = error;
    return error;
}

EXPORT Error hipGetLastError(void) {
    Error error = last_error;
    last_error = untold_error = SUCCESS;
    return error;
}

EXPORT Error hipPeekAtLastError(void) {
    untold_error = SUCCESS;
    return last_error;
}

EXPORT Error hipExtGetLastError(void) { return hipGetLastError(); }

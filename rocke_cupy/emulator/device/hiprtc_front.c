/* libhiprtc with another compiler for the package's own kernels.
 *
 * It stands in front of the real library and links it: what is not defined here is found there. A program of the package (its
 * first line says so) is compiled by the root's `bin/device-clang`, every other one by hipRTC as before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, COMPILATION = 6, INTERNAL = 11 };

extern char **environ;

typedef struct {
    char *data;
    size_t size;
} Bytes;

/* A program of the package, by hipRTC's handle of it. */
typedef struct Program {
    void *handle;
    Bytes source, code, log;
    struct Program *next;
} Program;

static Program *programs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static Program *find(void *handle) {
    pthread_mutex_lock(&lock);
    Program *program = programs;
    while (program && program->handle != handle) program = program->next;
    pthread_mutex_unlock(&lock);
    return program;
}

static void add(Program *program) {
    pthread_mutex_lock(&lock);
    program->next = programs;
    programs = program;
    pthread_mutex_unlock(&lock);
}

static void drop(void *handle) {
    pthread_mutex_lock(&lock);
    Program **link = &programs, *program;
    while (*link && (*link)->handle != handle) link = &(*link)->next;
    program = *link;
    if (program) *link = program->next;
    pthread_mutex_unlock(&lock);
    if (!program) return;
    free(program->source.data);
    free(program->code.data);
    free(program->log.data);
    free(program);
}

/* The whole of a file, with a zero byte after it; no data if it cannot be read. */
static Bytes read_file(const char *path) {
    Bytes bytes = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file) return bytes;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    if (size >= 0 && (bytes.data = calloc((size_t)size + 1, 1)))
        bytes.size = fread(bytes.data, 1, (size_t)size, file);
    fclose(file);
    return bytes;
}

static int write_file(const char *path, Bytes bytes) {
    FILE *file = fopen(path, "wb");
    if (!file) return 0;
    const int complete = fwrite(bytes.data, 1, bytes.size, file) == bytes.size;
    return !fclose(file) && complete;
}

/* Run the compiler, its messages into a file; its exit status, or -1. */
static int run(const char *folder, const char *log, const char *const *options, int count) {
    char script[4096];
    snprintf(script, sizeof script, "%s/bin/device-clang", getenv("ROCKE_EMULATOR_ROOT"));
    const char **words = calloc((size_t)count + 3, sizeof *words);
    if (!words) return -1;
    words[0] = script;
    words[1] = folder;
    memcpy(words + 2, options, (size_t)count * sizeof *words);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child;
    int status = -1;
    if (posix_spawn(&child, script, &actions, NULL, (char **)words, environ) == 0)
        while (waitpid(child, &status, 0) < 0) continue;
    posix_spawn_file_actions_destroy(&actions);
    free(words);
    return status;
}

static int compile(Program *program, const char *const *options, int count) {
    const char *temporary = getenv("TMPDIR");
    char folder[4096], source[4200], code[4200], log[4200];
    snprintf(folder, sizeof folder, "%s/rocke_cupy-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return INTERNAL;
    snprintf(source, sizeof source, "%s/source.hip", folder);
    snprintf(code, sizeof code, "%s/code", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    int result = INTERNAL;
    if (write_file(source, program->source)) {
        const int status = run(folder, log, options, count);
        free(program->log.data);
        free(program->code.data);
        program->log = read_file(log);
        program->code = read_file(code);
        result = status == 0 && program->code.size ? SUCCESS : COMPILATION;
    }
    unlink(source);
    unlink(code);
    unlink(log);
    rmdir(folder);
    return result;
}

EXPORT int hiprtcCreateProgram(void **handle, const char *source, const char *name, int headers,
                               const char *const *texts, const char *const *names) {
    const int result = REAL(hiprtcCreateProgram, void **, const char *, const char *, int,
                            const char *const *, const char *const *)(handle, source, name, headers,
                                                                      texts, names);
    if (result || strncmp(source, ROCKE_FIRST_LINE, strlen(ROCKE_FIRST_LINE))) return result;
    Program *program = calloc(1, sizeof *program);
    if (!program || !(program->source.data = strdup(source))) {
        free(program);
        return OUT_OF_MEMORY;
    }
    program->source.size = strlen(source);
    program->handle = *handle;
    add(program);
    return SUCCESS;
}

EXPORT int hiprtcDestroyProgram(void **handle) {
    drop(*handle);
    return REAL(hiprtcDestroyProgram, void **)(handle);
}

EXPORT int hiprtcCompileProgram(void *handle, int count, const char *const *options) {
    Program *program = find(handle);
    if (program) return compile(program, options, count);
    return REAL(hiprtcCompileProgram, void *, int, const char *const *)(handle, count, options);
}

EXPORT int hiprtcGetCodeSize(void *handle, size_t *size) {
    const Program *program = find(handle);
    if (!program) return REAL(hiprtcGetCodeSize, void *, size_t *)(handle, size);
    *size = program->code.size + 1; /* CuPy drops the last byte */
    return SUCCESS;
}

EXPORT int hiprtcGetCode(void *handle, char *code) {
    const Program *program = find(handle);
    if (!program) return REAL(hiprtcGetCode, void *, char *)(handle, code);
    memcpy(code, program->code.data, program->code.size + 1);
    return SUCCESS;
}

EXPORT int hiprtcGetProgramLogSize(void *handle, size_t *size) {
    const Program *program = find(handle);
    if (!program) return REAL(hiprtcGetProgramLogSize, void *, size_t *)(handle, size);
    *size = program->log.size + 1;
    return SUCCESS;
}

EXPORT int hiprtcGetProgramLog(void *handle, char *log) {
    const Program *program = find(handle);
    if (!program) return REAL(hiprtcGetProgramLog, void *, char *)(handle, log);
    memcpy(log, program->log.data ? program->log.data : "", program->log.size + 1);
    return SUCCESS;
}

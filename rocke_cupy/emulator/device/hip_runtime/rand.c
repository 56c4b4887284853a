/* hipRAND: NumPy draws the numbers. They are other numbers than a real device's. */
#include "runtime.h"

#include <stdatomic.h>
#include <stdlib.h>

/* hiprandStatus_t */
enum { OK = 0, NOT_INITIALIZED = 101, ALLOCATION_FAILED = 102, INTERNAL_ERROR = 999 };
enum { UNIFORM, NORMAL, LOG_NORMAL, INTEGERS, POISSON };

typedef struct {
    uint64_t id; /* what Python keeps the state under */
    uint64_t seed, offset;
} Generator;

EXPORT int hiprandCreateGenerator(Generator **generator, int kind) {
    static atomic_ullong next = 1;
    (void)kind;
    Generator *made = calloc(1, sizeof *made);
    if (!made) return ALLOCATION_FAILED;
    made->id = next++;
    *generator = made;
    return OK;
}

EXPORT int hiprandDestroyGenerator(Generator *generator) {
    free(generator);
    return OK;
}

EXPORT int hiprandGetVersion(int *version) {
    *version = 300000;
    return OK;
}

EXPORT int hiprandSetStream(Generator *generator, void *stream) {
    (void)stream;
    return generator ? OK : NOT_INITIALIZED;
}

static int seed(const char *caller, Generator *generator) {
    RandomSeed request = {generator->id, generator->seed, generator->offset};
    return ask_python(caller, RANDOM_SEED, &request) ? INTERNAL_ERROR : OK;
}

EXPORT int hiprandSetPseudoRandomGeneratorSeed(Generator *generator, unsigned long long value) {
    if (!generator) return NOT_INITIALIZED;
    generator->seed = value;
    return seed("hiprandSetPseudoRandomGeneratorSeed", generator);
}

EXPORT int hiprandSetGeneratorOffset(Generator *generator, unsigned long long value) {
    if (!generator) return NOT_INITIALIZED;
    generator->offset = value;
    return seed("hiprandSetGeneratorOffset", generator);
}

static int draw(const char *caller, Generator *generator, int distribution, int bytes, void *output,
                size_t count, double mean, double deviation) {
    if (!generator) return NOT_INITIALIZED;
    RandomDraw request = {distribution, bytes, generator->id, output, count, mean, deviation};
    return ask_python(caller, RANDOM_DRAW, &request) ? INTERNAL_ERROR : OK;
}

EXPORT int hiprandGenerate(Generator *generator, unsigned *output, size_t count) {
    return draw("hiprandGenerate", generator, INTEGERS, 4, output, count, 0, 0);
}

EXPORT int hiprandGenerateUniform(Generator *generator, float *output, size_t count) {
    return draw("hiprandGenerateUniform", generator, UNIFORM, 4, output, count, 0, 0);
}

EXPORT int hiprandGenerateUniformDouble(Generator *generator, double *output, size_t count) {
    return draw("hiprandGenerateUniformDouble", generator, UNIFORM, 8, output, count, 0, 0);
}

EXPORT int hiprandGenerateNormal(Generator *generator, float *output, size_t count, float mean,
                                 float deviation) {
    return draw("hiprandGenerateNormal", generator, NORMAL, 4, output, count, mean, deviation);
}

EXPORT int hiprandGenerateNormalDouble(Generator *generator, double *output, size_t count,
                                       double mean, double deviation) {
    return draw("hiprandGenerateNormalDouble", generator, NORMAL, 8, output, count, mean,
                deviation);
}

EXPORT int hiprandGenerateLogNormal(Generator *generator, float *output, size_t count, float mean,
                                    float deviation) {
    return draw("hiprandGenerateLogNormal", generator, LOG_NORMAL, 4, output, count, mean,
                deviation);
}

EXPORT int hiprandGenerateLogNormalDouble(Generator *generator, double *output, size_t count,
                                          double mean, double deviation) {
    return draw("hiprandGenerateLogNormalDouble", generator, LOG_NORMAL, 8, output, count, mean,
                deviation);
}

EXPORT int hiprandGeneratePoisson(Generator *generator, unsigned *output, size_t count,
                                  double mean) {
    return draw("hiprandGeneratePoisson", generator, POISSON, 4, output, count, mean, 0);
}

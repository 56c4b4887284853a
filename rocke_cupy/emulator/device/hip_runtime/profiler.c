/* roctx and roctracer: marks for a profiler. There is none, so they do nothing, and that is right.
 */
#define EXPORT __attribute__((visibility("default")))

EXPORT void roctxMarkA(const char *text) { (void)text; }
EXPORT int roctxRangePushA(const char *text) {
    (void)text;
    return 0;
}
EXPORT int roctxRangePop(void) { return 0; }
EXPORT void roctracer_start(void) {}
EXPORT void roctracer_stop(void) {}

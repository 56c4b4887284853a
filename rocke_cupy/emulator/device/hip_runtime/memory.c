/* Allocations: exact sizes, guards around each, addresses that are never used twice. */
#define _GNU_SOURCE
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Address space is free; memory is taken page by page as it is touched, so 40 GiB allocations work.
 */
#define ARENA_BYTES_WANTED ((size_t)32 << 40)
#define ARENA_BYTES_LEAST ((size_t)16 << 30)
#define PAGE_BYTES ((size_t)4096)
#define GUARD_BYTES ((size_t)1 << 20)
/* What one table of pages maps. */
#define TABLE_BYTES ((size_t)2 << 20)
/* Fresh memory holds this byte, not zeros: NaN as float16, bfloat16, float32 and float64. Larger
 * allocations stay zero, so that they cost nothing until they are touched. */
enum { POISON = 0xFF };
#define POISONED_UP_TO ((size_t)64 << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t arena, arena_end, next_address;
static Allocation *live; /* sorted by address */
static size_t live_count, live_capacity;
static size_t used_bytes[MAX_DEVICES];
static uint64_t generation; /* changes with the table */

static int reserve_arena(void) {
    if (arena) return 1;
    for (size_t size = ARENA_BYTES_WANTED; size >= ARENA_BYTES_LEAST; size /= 4) {
        void *start =
            mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED) continue;
        /* No transparent huge pages: one touched byte must not cost 2 MiB. */
        madvise(start, size, MADV_NOHUGEPAGE);
        arena = (uintptr_t)start;
        arena_end = arena + size;
        next_address = arena + GUARD_BYTES;
        return 1;
    }
    return 0;
}

static size_t page_round(size_t size) { return (size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1); }

/* Index of the first live allocation above `address`. */
static size_t above(uintptr_t address) {
    size_t low = 0, high = live_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (live[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static Error remember(uintptr_t address, size_t size, int device, MemoryKind kind) {
    if (live_count == live_capacity) {
        size_t capacity = live_capacity ? 2 * live_capacity : 256;
        Allocation *table = realloc(live, capacity * sizeof *table);
        if (!table) return fail(OUT_OF_MEMORY, "no memory for the table of allocations");
        live = table;
        live_capacity = capacity;
    }
    size_t index = above(address);
    memmove(&live[index + 1], &live[index], (live_count - index) * sizeof *live);
    live[index] = (Allocation){address, size, device, kind};
    live_count++;
    generation++;
    return SUCCESS;
}

static Error allocate_locked(void **pointer, size_t size, int device, MemoryKind kind) {
    size_t *used = &used_bytes[device];
    if (kind == DEVICE_MEMORY && size > DEVICE_MEMORY_BYTES - *used)
        return fail(OUT_OF_MEMORY,
                    "out of memory: %zu bytes wanted, %zu of the %zu of virtual device "
                    "%d are free",
                    size, DEVICE_MEMORY_BYTES - *used, DEVICE_MEMORY_BYTES, device);
    if (!reserve_arena())
        return fail(OUT_OF_MEMORY,
                    "the process may not reserve address space for the virtual device "
                    "(see ulimit -v)");
    size_t pages = page_round(size);
    if (pages + GUARD_BYTES > arena_end - next_address)
        return fail(OUT_OF_MEMORY, "the address space of the virtual device is used up");
    void *address = (void *)next_address;
    /* With its guard, so that all allocations are one mapping: the kernel allows 65,530 of them
     * (vm.max_map_count). Bounds are checked with the table, by the emulator and by copies. */
    if (mprotect(address, pages + GUARD_BYTES, PROT_READ | PROT_WRITE))
        return fail(OUT_OF_MEMORY, "the operating system refuses %zu bytes more", size);
    Error error = remember(next_address, size, device, kind);
    if (error) return error;
    if (size <= POISONED_UP_TO) memset(address, POISON, size);
    next_address += pages + GUARD_BYTES;
    if (kind == DEVICE_MEMORY) *used += size;
    *pointer = address;
    return SUCCESS;
}

Error allocate(void **pointer, size_t size, MemoryKind kind) {
    int device = current_device();
    Error error = check_device(device);
    if (error) return error;
    *pointer = NULL;
    if (size == 0) return SUCCESS;
    pthread_mutex_lock(&lock);
    error = allocate_locked(pointer, size, device, kind);
    pthread_mutex_unlock(&lock);
    return error;
}

Error adopt_variable(void *address, size_t size, int device) {
    Error error = SUCCESS;
    Allocation found;
    if (find_allocation(address, &found)) return SUCCESS;
    pthread_mutex_lock(&lock);
    error = remember((uintptr_t)address, size, device, MODULE_VARIABLE);
    pthread_mutex_unlock(&lock);
    return error;
}

/* Give the pages of a freed allocation back, and the tables of pages that no live one needs: tables
 * of a million allocations take 2 GiB. `index` is that of the next live allocation. The fresh
 * mapping is as its surroundings, so that the kernel makes one of them. */
static void give_back(uintptr_t start, uintptr_t end, size_t index) {
    uintptr_t low = start & ~(TABLE_BYTES - 1);
    uintptr_t high = (end + TABLE_BYTES - 1) & ~(TABLE_BYTES - 1);
    uintptr_t before = index ? page_round(live[index - 1].address + live[index - 1].size) : 0;
    uintptr_t after = index < live_count ? live[index].address : next_address;
    if (low < arena) low = arena;
    if (low < before) low = before;
    if (high > next_address) high = next_address;
    if (high > after) high = after;
    mmap((void *)low, high - low, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    madvise((void *)low, high - low, MADV_NOHUGEPAGE);
}

static Error release(void *pointer, const char *function) {
    if (!pointer) return SUCCESS;
    pthread_mutex_lock(&lock);
    size_t index = above((uintptr_t)pointer);
    if (index == 0 || live[index - 1].address != (uintptr_t)pointer ||
        live[index - 1].kind == MODULE_VARIABLE) {
        pthread_mutex_unlock(&lock);
        return fail(INVALID_VALUE, "%s: %p is not the start of a live allocation (freed twice?)",
                    function, pointer);
    }
    Allocation freed = live[index - 1];
    memmove(&live[index - 1], &live[index], (live_count - index) * sizeof *live);
    live_count--;
    generation++;
    if (freed.kind == DEVICE_MEMORY) used_bytes[freed.device] -= freed.size;
    /* The addresses are not used again: a later access is one to no allocation. */
    give_back(freed.address, freed.address + page_round(freed.size), index - 1);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int find_allocation(const void *pointer, Allocation *found) {
    uintptr_t address = (uintptr_t)pointer;
    pthread_mutex_lock(&lock);
    size_t index = above(address);
    int inside = index > 0 && address - live[index - 1].address < live[index - 1].size;
    if (inside) *found = live[index - 1];
    pthread_mutex_unlock(&lock);
    return inside;
}

int in_arena(const void *pointer) {
    return (uintptr_t)pointer >= arena && (uintptr_t)pointer < arena_end;
}

/* For Python: bytes from `pointer` to the end of its allocation; SIZE_MAX in memory of the host. */
EXPORT size_t rocke_room(const void *pointer) {
    Allocation found;
    if (find_allocation(pointer, &found))
        return found.size - ((uintptr_t)pointer - found.address);
    return in_arena(pointer) ? 0 : SIZE_MAX;
}

/* For Python: up to `capacity` live allocations that kernels of `device` may touch; how many there
 * are. */
EXPORT size_t rocke_allocations(Allocation *table, size_t capacity, int device, uint64_t *version) {
    unsigned peers = peers_of(device);
    size_t count = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < live_count; i++) {
        if (live[i].kind == MODULE_VARIABLE) continue; /* the emulator knows its own code objects */
        if (live[i].kind == DEVICE_MEMORY && !(peers >> live[i].device & 1)) continue;
        if (count < capacity) table[count] = live[i];
        count++;
    }
    *version = generation << 8 | peers;
    pthread_mutex_unlock(&lock);
    return count;
}

EXPORT uint64_t rocke_allocations_version(int device) {
    unsigned peers = peers_of(device);
    pthread_mutex_lock(&lock);
    uint64_t version = generation << 8 | peers;
    pthread_mutex_unlock(&lock);
    return version;
}

EXPORT Error hipMalloc(void **pointer, size_t size) {
    return allocate(pointer, size, DEVICE_MEMORY);
}
EXPORT Error hipFree(void *pointer) { return release(pointer, "hipFree"); }
EXPORT Error hipHostFree(void *pointer) { return release(pointer, "hipHostFree"); }

EXPORT Error hipHostMalloc(void **pointer, size_t size, unsigned flags) {
    (void)flags;
    return allocate(pointer, size, HOST_MEMORY);
}

EXPORT Error hipMallocManaged(void **pointer, size_t size, unsigned flags) {
    (void)flags;
    return allocate(pointer, size, MANAGED_MEMORY);
}

EXPORT Error hipMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    int device = current_device();
    Error error = check_device(device);
    if (error) return error;
    pthread_mutex_lock(&lock);
    *free_bytes = DEVICE_MEMORY_BYTES - used_bytes[device];
    pthread_mutex_unlock(&lock);
    *total_bytes = DEVICE_MEMORY_BYTES;
    return SUCCESS;
}

/* hipPointerAttribute_t and hipMemoryType of HIP 6 and later. */
typedef struct {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
    int is_managed;
    unsigned flags;
} PointerAttributes;

EXPORT Error hipPointerGetAttributes(PointerAttributes *attributes, const void *pointer) {
    static const int types[] = {
        [DEVICE_MEMORY] = 2, [HOST_MEMORY] = 1, [MANAGED_MEMORY] = 3, [MODULE_VARIABLE] = 2};
    Allocation found;
    memset(attributes, 0, sizeof *attributes);
    if (!find_allocation(pointer, &found)) {
        if (in_arena(pointer))
            return fail(INVALID_VALUE, "%p is in no live allocation of the virtual device",
                        pointer);
        attributes->device = -2; /* hipInvalidDeviceId: memory that HIP does not know */
        return SUCCESS;
    }
    attributes->type = types[found.kind];
    attributes->device = found.device;
    attributes->device_pointer = (void *)pointer;
    attributes->host_pointer = types[found.kind] == 2 ? NULL : (void *)pointer;
    attributes->is_managed = found.kind == MANAGED_MEMORY;
    return SUCCESS;
}

EXPORT Error hipMemAdvise(const void *pointer, size_t count, int advice, int device) {
    (void)pointer, (void)count, (void)advice; /* a hint: nothing to be faster here */
    return device < 0 ? SUCCESS : check_device(device);
}

EXPORT Error hipMemPrefetchAsync(const void *pointer, size_t count, int device, void *stream) {
    (void)pointer, (void)count, (void)stream;
    return device < 0 ? SUCCESS : check_device(device);
}

/* The devices and what they say of themselves: an MI355X as its data sheet and ROCm describe it. */
#include "runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ROCKE_HIP_VERSION
#error "define ROCKE_HIP_VERSION: what hipRuntimeGetVersion answers"
#endif

static const char architecture[] = "gfx950:sramecc+:xnack-";
#define PCI_BUS_ID "0000:%02x:00.0"
#define PCI_BUS(device) (5 + 16 * (device))

/* hipDeviceProp_tR0600, the structure of HIP 6 and later: public layout, 1472 bytes. */
typedef struct {
    char name[256];
    char uuid[16];
    char luid[8];
    unsigned luid_device_node_mask;
    size_t total_global_mem;
    size_t shared_mem_per_block;
    int regs_per_block;
    int warp_size;
    size_t mem_pitch;
    int max_threads_per_block;
    int max_threads_dim[3];
    int max_grid_size[3];
    int clock_rate;
    size_t total_const_mem;
    int major;
    int minor;
    size_t texture_alignment;
    size_t texture_pitch_alignment;
    int device_overlap;
    int multi_processor_count;
    int kernel_exec_timeout_enabled;
    int integrated;
    int can_map_host_memory;
    int compute_mode;
    int max_texture[40]; /* textures and surfaces, which this device does not have */
    size_t surface_alignment;
    int concurrent_kernels;
    int ecc_enabled;
    int pci_bus_id;
    int pci_device_id;
    int pci_domain_id;
    int tcc_driver;
    int async_engine_count;
    int unified_addressing;
    int memory_clock_rate;
    int memory_bus_width;
    int l2_cache_size;
    int persisting_l2_cache_max_size;
    int max_threads_per_multi_processor;
    int stream_priorities_supported;
    int global_l1_cache_supported;
    int local_l1_cache_supported;
    size_t shared_mem_per_multiprocessor;
    int regs_per_multiprocessor;
    int managed_memory;
    int is_multi_gpu_board;
    int multi_gpu_board_group_id;
    int host_native_atomic_supported;
    int single_to_double_precision_perf_ratio;
    int pageable_memory_access;
    int concurrent_managed_access;
    int compute_preemption_supported;
    int can_use_host_pointer_for_registered_mem;
    int cooperative_launch;
    int cooperative_multi_device_launch;
    size_t shared_mem_per_block_optin;
    int pageable_memory_access_uses_host_page_tables;
    int direct_managed_mem_access_from_host;
    int max_blocks_per_multi_processor;
    int access_policy_max_window_size;
    size_t reserved_shared_mem_per_block;
    int host_register_supported;
    int sparse_hip_array_supported;
    int host_register_read_only_supported;
    int timeline_semaphore_interop_supported;
    int memory_pools_supported;
    int gpu_direct_rdma_supported;
    unsigned gpu_direct_rdma_flush_writes_options;
    int gpu_direct_rdma_writes_ordering;
    unsigned memory_pool_supported_handle_types;
    int deferred_mapping_hip_array_supported;
    int ipc_event_supported;
    int cluster_launch;
    int unified_function_pointers;
    int reserved[63];
    int hip_reserved[32];
    char gcn_arch_name[256];
    size_t max_shared_memory_per_multi_processor;
    int clock_instruction_rate;
    unsigned arch;
    unsigned *hdp_mem_flush_cntl;
    unsigned *hdp_reg_flush_cntl;
    int cooperative_multi_device_unmatched[4];
    int is_large_bar;
    int asic_revision;
} Properties;

_Static_assert(offsetof(Properties, total_global_mem) == 288, "layout of hipDeviceProp_tR0600");
_Static_assert(offsetof(Properties, multi_processor_count) == 388,
               "layout of hipDeviceProp_tR0600");
_Static_assert(offsetof(Properties, shared_mem_per_multiprocessor) == 640, "its middle");
_Static_assert(offsetof(Properties, gcn_arch_name) == 1160, "its HIP part");
_Static_assert(offsetof(Properties, max_shared_memory_per_multi_processor) == 1416, "its HIP part");
_Static_assert(sizeof(Properties) == 1472, "its size");

static _Thread_local int selected_device;
static unsigned peer_masks[MAX_DEVICES]; /* bit d: kernels of this device may touch memory of d */
static pthread_mutex_t peers_lock = PTHREAD_MUTEX_INITIALIZER;

int device_count(void) {
    const char *wanted = getenv("ROCKE_EMULATOR_DEVICES");
    if (!wanted || !*wanted) return 1;
    long count = strtol(wanted, NULL, 10);
    return count < 0 ? 0 : count > MAX_DEVICES ? MAX_DEVICES : (int)count;
}

int current_device(void) { return selected_device; }

Error check_device(int device) {
    int count = device_count();
    if (count == 0)
        return fail(NO_DEVICE, "ROCKE_EMULATOR_DEVICES is 0: there is no virtual device");
    if (device < 0 || device >= count)
        return fail(INVALID_DEVICE,
                    "device %d must be from 0 to %d (ROCKE_EMULATOR_DEVICES is the "
                    "number of virtual devices)",
                    device, count - 1);
    return SUCCESS;
}

unsigned peers_of(int device) {
    pthread_mutex_lock(&peers_lock);
    unsigned mask = peer_masks[device] | 1u << device;
    pthread_mutex_unlock(&peers_lock);
    return mask;
}

EXPORT Error hipInit(unsigned flags) { return flags ? fail(INVALID_VALUE, "flags must be 0") : 0; }
EXPORT Error hipDriverGetVersion(int *version) {
    *version = ROCKE_HIP_VERSION;
    return SUCCESS;
}
EXPORT Error hipRuntimeGetVersion(int *version) {
    *version = ROCKE_HIP_VERSION;
    return SUCCESS;
}

EXPORT Error hipGetDeviceCount(int *count) {
    *count = device_count();
    return *count ? SUCCESS : check_device(0);
}

EXPORT Error hipGetDevice(int *device) {
    *device = selected_device;
    return check_device(selected_device);
}

EXPORT Error hipSetDevice(int device) {
    Error error = check_device(device);
    if (!error) selected_device = device;
    return error;
}

EXPORT Error hipDeviceSynchronize(void) {
    Error error = told_late();
    return error ? error : check_device(selected_device);
}

static void describe(Properties *p, int device) {
    memset(p, 0, sizeof *p);
    strcpy(p->name, "AMD Instinct MI355X (virtual, rocke_cupy.emulator)");
    snprintf(p->uuid, sizeof p->uuid, "rocke-virtual-%d", device);
    p->total_global_mem = DEVICE_MEMORY_BYTES;
    p->shared_mem_per_block = LDS_BYTES;
    p->shared_mem_per_multiprocessor = LDS_BYTES;
    p->max_shared_memory_per_multi_processor = LDS_BYTES;
    p->regs_per_block = 65536;
    p->regs_per_multiprocessor = 65536;
    p->warp_size = WARP_SIZE;
    p->mem_pitch = 0x7fffffff;
    p->max_threads_per_block = MAX_THREADS_PER_BLOCK;
    for (int i = 0; i < 3; i++) p->max_threads_dim[i] = MAX_THREADS_PER_BLOCK;
    p->max_grid_size[0] = 0x7fffffff;
    p->max_grid_size[1] = p->max_grid_size[2] = 65536;
    p->clock_rate = 2400000;
    p->total_const_mem = 0x7fffffff;
    p->major = 9;
    p->minor = 5;
    p->texture_alignment = p->texture_pitch_alignment = 256;
    p->multi_processor_count = COMPUTE_UNITS;
    p->can_map_host_memory = 1;
    p->concurrent_kernels = 1;
    p->ecc_enabled = 1;
    p->pci_bus_id = PCI_BUS(device);
    p->async_engine_count = 8;
    p->unified_addressing = 1;
    p->memory_clock_rate = 2000000;
    p->memory_bus_width = 8192;
    /* What HIP says of every AMD device. CuPy takes the number 14, which asks for it, for that of
     * the compute units, and makes so many times 2048 states for cupy.random.default_rng(). */
    p->global_l1_cache_supported = 1;
    p->local_l1_cache_supported = 1;
    p->l2_cache_size = 4 << 20;
    p->max_threads_per_multi_processor = 2048;
    p->managed_memory = 1;
    p->compute_preemption_supported = 0;
    p->max_blocks_per_multi_processor = 32;
    p->clock_instruction_rate = 100000;
    /* hipDeviceArch_t: all its features but surfaces and dynamic parallelism. */
    p->arch = 0x3FFFF & ~(1u << 14 | 1u << 16);
    p->is_large_bar = 1;
    strcpy(p->gcn_arch_name, architecture);
}

EXPORT Error hipGetDevicePropertiesR0600(Properties *properties, int device) {
    Error error = check_device(device);
    if (!error) describe(properties, device);
    return error;
}

/* Numbers of hipDeviceAttribute_t whose answer is 0: features that the device does not have. */
static const unsigned char absent[] = {1,  4,  6,  7,  9,  10, 11, 12, 13, 15, 16, 17, 18,
                                       62, 65, 66, 68, 69, 70, 73, 75, 77, 78, 79, 80, 88, 89, 90};

static int attribute(const Properties *p, int number, int *value) {
    switch (number) {
        case 0: *value = p->ecc_enabled; return 1;
        case 2: *value = p->async_engine_count; return 1;
        case 3: *value = p->can_map_host_memory; return 1;
        case 5: *value = p->clock_rate; return 1;
        case 8: *value = p->concurrent_kernels; return 1;
        case 14: *value = p->global_l1_cache_supported; return 1;
        case 19: *value = p->l2_cache_size; return 1;
        case 20: *value = p->local_l1_cache_supported; return 1;
        case 23: *value = p->major; return 1;
        case 24: *value = p->managed_memory; return 1;
        case 25: *value = p->max_blocks_per_multi_processor; return 1;
        case 26:
        case 27:
        case 28: *value = p->max_threads_dim[number - 26]; return 1;
        case 29:
        case 30:
        case 31: *value = p->max_grid_size[number - 29]; return 1;
        case 56: *value = p->max_threads_per_block; return 1;
        case 57: *value = p->max_threads_per_multi_processor; return 1;
        case 58: *value = 0x7fffffff; return 1;
        case 59: *value = p->memory_bus_width; return 1;
        case 60: *value = p->memory_clock_rate; return 1;
        case 61: *value = p->minor; return 1;
        case 63: *value = p->multi_processor_count; return 1;
        case 67: *value = p->pci_bus_id; return 1;
        case 71: *value = p->regs_per_block; return 1;
        case 72: *value = p->regs_per_multiprocessor; return 1;
        case 74:
        case 76: *value = LDS_BYTES; return 1;
        case 81:
        case 82: *value = (int)p->texture_alignment; return 1;
        case 83: *value = (int)p->total_const_mem; return 1;
        case 85: *value = p->unified_addressing; return 1;
        case 87: *value = p->warp_size; return 1;
        default: break;
    }
    *value = 0;
    return number >= 0 && number <= 255 && memchr(absent, number, sizeof absent);
}

EXPORT Error hipDeviceGetAttribute(int *value, int number, int device) {
    Error error = check_device(device);
    if (error) return error;
    Properties properties;
    describe(&properties, device);
    if (!attribute(&properties, number, value))
        return fail(INVALID_VALUE, "device attribute %d is not known to the virtual device",
                    number);
    return SUCCESS;
}

EXPORT Error hipDeviceGetPCIBusId(char *text, int length, int device) {
    Error error = check_device(device);
    if (!error) snprintf(text, (size_t)length, PCI_BUS_ID, PCI_BUS(device));
    return error;
}

EXPORT Error hipDeviceGetByPCIBusId(int *device, const char *text) {
    char own[32];
    for (int i = 0; i < device_count(); i++) {
        snprintf(own, sizeof own, PCI_BUS_ID, PCI_BUS(i));
        if (strcmp(own, text) == 0) {
            *device = i;
            return SUCCESS;
        }
    }
    return fail(INVALID_VALUE, "no device has the PCI bus id %s", text);
}

enum { LIMIT_STACK_SIZE = 0 }; /* hipLimit_t */
enum { STACK_BYTES = 1024 };
static size_t stack_bytes[MAX_DEVICES]; /* 0: the default */

size_t stack_bytes_of(int device) {
    return stack_bytes[device] ? stack_bytes[device] : STACK_BYTES;
}

static Error check_limit(const char *function, int limit) {
    Error error = check_device(current_device());
    if (error || limit == LIMIT_STACK_SIZE) return error;
    return fail(NOT_SUPPORTED, "%s: limit %d is not supported on the virtual device", function,
                limit);
}

EXPORT Error hipDeviceGetLimit(size_t *value, int limit) {
    Error error = check_limit("hipDeviceGetLimit", limit);
    if (!error) *value = stack_bytes_of(current_device());
    return error;
}

EXPORT Error hipDeviceSetLimit(int limit, size_t value) {
    Error error = check_limit("hipDeviceSetLimit", limit);
    if (error) return error;
    if (value < 1) return fail(INVALID_VALUE, "hipDeviceSetLimit: a stack must have 1 byte or more");
    stack_bytes[current_device()] = value;
    return SUCCESS;
}

EXPORT Error hipDeviceCanAccessPeer(int *can, int device, int peer) {
    Error error = check_device(device);
    if (!error) error = check_device(peer);
    if (!error) *can = device != peer;
    return error;
}

EXPORT Error hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    (void)flags;
    Error error = check_device(peer);
    if (error) return error;
    if (peer == selected_device) return fail(INVALID_DEVICE, "a device is not its own peer");
    pthread_mutex_lock(&peers_lock);
    unsigned before = peer_masks[selected_device];
    peer_masks[selected_device] |= 1u << peer;
    pthread_mutex_unlock(&peers_lock);
    if (before >> peer & 1)
        return fail(PEER_ACCESS_ALREADY_ENABLED, "device %d has access to device %d already",
                    selected_device, peer);
    return SUCCESS;
}

EXPORT Error hipDeviceDisablePeerAccess(int peer) {
    Error error = check_device(peer);
    if (error) return error;
    pthread_mutex_lock(&peers_lock);
    unsigned before = peer_masks[selected_device];
    peer_masks[selected_device] &= ~(1u << peer);
    pthread_mutex_unlock(&peers_lock);
    if (!(before >> peer & 1))
        return fail(PEER_ACCESS_NOT_ENABLED, "device %d has no access to device %d",
                    selected_device, peer);
    return SUCCESS;
}

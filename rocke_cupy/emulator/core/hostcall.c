/* The buffer through which a kernel calls the host (LLVM's amd/device-libs, ockl/src/hostcall_impl.cl; on the host's side
   clr, rocclr/device/devhostcall.cpp). A wave takes a packet from the free stack, fills it, pushes it on the ready stack,
   adds to the doorbell and raises an interrupt; then it spins until the host has cleared the packet's flag. Here the
   interrupt itself serves the packets, so that no wave ever spins and no listener is needed. */
#include "hostcall.h"

/* What the wave that waits and the host share of a packet. */
typedef struct PacketHeader {
    u64 next; /* index of a packet, with a tag above that tells its uses apart */
    u64 active;
    u32 service, control; /* bit 0 of control: ready */
} PacketHeader;

typedef u64 Payload[LANES][8];

/* An amd_signal_t of HSA, as far as a kernel uses it. */
typedef struct Signal {
    i64 kind, value;
    u64 mailbox; /* where the interrupt's number is stored; null would mean that nobody listens */
    u32 event, unused;
} Signal;

typedef struct HostcallBuffer {
    PacketHeader *headers;
    Payload *payloads;
    Signal *doorbell;
    u64 free_stack, ready_stack, index_mask;
    Signal signal;
    u64 mailbox;
} HostcallBuffer;

u64 rocke_hostcall_bytes(u32 packets) {
    return sizeof(HostcallBuffer) + packets * (sizeof(PacketHeader) + sizeof(Payload));
}

/* Lay out a buffer of `packets` packets, a power of two, in zeroed memory: all of them are free. */
void rocke_hostcall_start(HostcallBuffer *b, u32 packets) {
    b->payloads = (Payload *)(void *)(b + 1);
    b->headers = (PacketHeader *)(void *)(b->payloads + packets);
    b->doorbell = &b->signal;
    b->signal.mailbox = (u64)(uintptr_t)&b->mailbox;
    b->index_mask = packets - 1;
    /* Zero ends a stack, so packet 0 starts with a tag. */
    for (u32 k = 1; k < packets; k++) b->headers[k].next = k > 1 ? k - 1 : packets;
    b->free_stack = packets - 1;
}

void serve_hostcalls(Wave *w, const Instruction *in) {
    const Launch *l = &w->group->machine->launch;
    HostcallBuffer *b = l->hostcall;
    if (!b) return;
    u64 ready = __atomic_exchange_n(&b->ready_stack, 0, __ATOMIC_ACQUIRE);
    while (ready) {
        PacketHeader *packet = &b->headers[ready & b->index_mask];
        ready = packet->next; /* the wave owns the packet again once its flag is clear */
        if (l->serve(packet->service, packet->active, b->payloads[packet - b->headers])) {
            fail(w, in, FAULT_OTHER, -1, "the host refuses a call of the kernel");
            return;
        }
        __atomic_store_n(&packet->control, packet->control & ~1u, __ATOMIC_RELEASE);
    }
}

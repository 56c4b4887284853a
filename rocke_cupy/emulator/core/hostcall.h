/* Calls of a kernel into the host: printf, failed asserts. */
#ifndef ROCKE_HOSTCALL_H
#define ROCKE_HOSTCALL_H

#include "machine.h"

/* The host was interrupted: serve all packets that are ready. */
void serve_hostcalls(Wave *w, const Instruction *in);

#endif

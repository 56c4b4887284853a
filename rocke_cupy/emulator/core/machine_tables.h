/* The semantics tables, one for each file of ops/, each ended by a row without a name. */
#ifndef ROCKE_MACHINE_TABLES_H
#define ROCKE_MACHINE_TABLES_H

#include "machine.h"

extern const Op scalar_ops[], vector_ops[], double_ops[], convert_ops[], packed_ops[], compare_ops[], mfma_ops[],
    lane_ops[], ds_ops[], buffer_ops[], flat_ops[], control_ops[], small_float_ops[],
    dot_ops[];

ExecuteFn execute_nothing;

#endif

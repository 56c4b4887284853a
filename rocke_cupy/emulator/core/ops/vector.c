#include "../lanes.h"
#include "../arithmetic.h"
#include "../machine_tables.h"

#include "../define_lanes.h"
#include "vector.inc"

#include "../list_lanes.h"
const Op vector_ops[] = {
#include "vector.inc"
    {0}};

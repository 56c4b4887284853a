#include "../lanes.h"
#include "../arithmetic.h"
#include "../machine_tables.h"

#include "../define_lanes.h"
#include "compare.inc"

#include "../list_lanes.h"
const Op compare_ops[] = {
#include "compare.inc"
    {0}};

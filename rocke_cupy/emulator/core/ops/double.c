#include "../lanes.h"
#include "../arithmetic.h"
#include "../machine_tables.h"

#include "../define_lanes.h"
#include "double.inc"

#include "../list_lanes.h"
const Op double_ops[] = {
#include "double.inc"
    {0}};

#include "../lanes.h"
#include "../arithmetic.h"
#include "../machine_tables.h"

#include "../define_lanes.h"
#include "convert.inc"

#include "../list_lanes.h"
const Op convert_ops[] = {
#include "convert.inc"
    {0}};

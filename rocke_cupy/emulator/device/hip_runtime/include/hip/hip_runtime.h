/* hipRTC has the device side of the HIP runtime built in; there is no host side to compile for. */
#pragma once
#include <hip/hip_version.h>

/* hipRTC gives the parts of the version as macros; CuPy's headers ask for the whole. */
#pragma once
#define HIP_VERSION (HIP_VERSION_MAJOR * 10000000 + HIP_VERSION_MINOR * 100000 + HIP_VERSION_PATCH)

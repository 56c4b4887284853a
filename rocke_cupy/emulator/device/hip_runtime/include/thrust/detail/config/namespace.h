/* The two macros of rocThrust that CuPy's complex numbers are wrapped in. */
#pragma once
#define THRUST_NAMESPACE_BEGIN namespace thrust {
#define THRUST_NAMESPACE_END }

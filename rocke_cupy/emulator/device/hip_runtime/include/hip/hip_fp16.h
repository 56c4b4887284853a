/* __half is built into hipRTC. */
#pragma once

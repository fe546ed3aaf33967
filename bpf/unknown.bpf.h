/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Values that the verifier should not follow.
 */
#pragma once

#include "kernel.h"

/* Return the value itself. The verifier knows nothing of it then: so it finds that ways through a loop, or past a branch, are
 * alike. */
SUBPROGRAM u64 unknown(u64 value)
{
	asm volatile("" : "+r"(value)); /* else the compiler knows it */
	return value;
}

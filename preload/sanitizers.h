/* SPDX-License-Identifier: MIT
 *
 * AddressSanitizer ends a program in which its library is not the first one, unless an option says that it may be another.
 * It asks this function for options; those in ASAN_OPTIONS and in a program's own function of this name come first.
 */
#pragma once

#include "library.h"

EXPORTED const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

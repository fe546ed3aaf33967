/* SPDX-License-Identifier: MIT
 *
 * What is used of the headers of the C library and of the kernel: types, constants and declarations.
 */
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

/* SPDX-License-Identifier: MIT
 *
 * What programs of 32 bits preload, in the place of preload.c: nothing. Without it their dynamic linker
 * would complain to the user of a library for another architecture.
 */

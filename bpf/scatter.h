/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The hash of a connection's id by which sampling chooses; sslsniff/capture/sampling/self_sampling.py has it, too. For BPF
 * programs and for the preloaded library.
 */
#pragma once

/* The finalizer of MurmurHash3 (public domain): each bit of an id decides with the same weight. */
static __attribute__((always_inline)) inline __u32 scatter(__u64 value)
{
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdULL;
	value ^= value >> 33;
	value *= 0xc4ceb9fe1a85ec53ULL;
	return (__u32)(value ^ value >> 33);
}

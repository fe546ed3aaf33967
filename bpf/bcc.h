/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What the same source needs under bcc, in the place of kernel.h. bcc finds maps by its own macros and turns
 * method calls on them into helper calls; sslsniff/kernel/loaders/bcc_loader.py writes map_lookup(m, k) as m.lookup(k), and
 * so on. The kernel's types come from its headers.
 */
#pragma once

#include <uapi/linux/ptrace.h>
#include <linux/cgroup.h>
#include <linux/fdtable.h>
#include <linux/kernfs.h>
#include <linux/net.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/tcp.h>
#include <net/sock.h>

#define SEC(name)
#define LICENSE(name)
#define SUBPROGRAM static __always_inline
#define KEEP_TYPE(name)

#define HAS_KNOWN_REGISTERS() 0
#define KNOWN_REGISTERS() ((const struct pt_regs *)0)
#define KERNEL_STACK_BYTES (THREAD_SIZE - TOP_OF_KERNEL_STACK_PADDING)

#define PT_REGS_FLAGS(ctx) ((ctx)->flags)

/* Debian 12's bcc attaches without cookies: every library has layout 0. */
#define ATTACH_COOKIE(ctx) 0

#define MAP_HASH(name, key_type, value_type, entries) \
	BPF_F_TABLE("hash", key_type, value_type, name, entries, HASH_FLAGS)
#define MAP_LRU_HASH(name, key_type, value_type, entries) BPF_TABLE("lru_hash", key_type, value_type, name, entries)
#define MAP_ARRAY(name, value_type, entries) BPF_TABLE("array", u32, value_type, name, entries)
#define MAP_PROGRAMS(name) BPF_PROG_ARRAY(name, 1)
#define MAP_RING(name, bytes) BPF_RINGBUF_OUTPUT(name, (bytes) / 4096)

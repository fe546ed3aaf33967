/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Entries of the maps that evict (LRU). The kernel may give the memory of an entry to another key while a program works with
 * it: on another processor, or while the thread is preempted. Maps compare the key only when they look an entry up. So entries have
 * their key inside, in front: the kernel copies it first. A program compares it before each write, and after it has read what belongs
 * together.
 */
#pragma once

#include "maps.bpf.h"

/* No read or write moves across this line. */
#define BARRIER() asm volatile("" ::: "memory")

/* Whether an entry is still that of the connection with this key. */
static __always_inline int is_entry_of(const struct connection *entry, const struct connection_key *key)
{
	BARRIER();
	/* One branch, for the verifier. */
	u64 differing = (entry->key.object ^ key->object) | (entry->key.pid ^ key->pid);
	BARRIER();
	return !differing;
}

/* Whether an entry is still that of the socket. */
static __always_inline int is_carrier_of(const struct carrier *entry, u64 socket)
{
	BARRIER();
	int is_own = entry->socket == socket;
	BARRIER();
	return is_own;
}

/* Whether a slot still has a call of the caller's process, entered with this stack pointer. */
static __always_inline int is_call_at(const struct call *slot, u64 stack)
{
	u64 tgid = bpf_get_current_pid_tgid() >> 32;
	BARRIER();
	u64 differing = (slot->stack ^ stack) | (slot->tgid ^ tgid);
	BARRIER();
	return !differing;
}

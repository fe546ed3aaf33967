/* SPDX-License-Identifier: MIT
 *
 * What this process knows of itself, and of its threads. A forked child forgets it: the kernel wipes the memory
 * (MADV_WIPEONFORK, Linux 4.14), also where nothing is called at the fork. After vfork parent and child share it, and the
 * parent waits.
 */
#pragma once

#include "ring.h"
#include "thread_number.h"

struct thread {
	u32 pid, tid;
	u32 records;  /* that it is writing (ring.h) */
	int received; /* the descriptor of the last receive, plus 1; 0: none since the last read */
	u64 received_bytes;
	u64 written; /* the object that was written to last, until the next send */
};

#define DESCRIPTIONS 8

struct description {
	u32 is_taken;
	struct event_failure event; /* or only its first part */
};

struct process {
	u32 pid;   /* in its own PID namespace; 0: not watched, as after a fork that no handler saw */
	u32 looks; /* how often threads wanted to look at the files in memory since one began to */
	struct description descriptions[DESCRIPTIONS];
	struct ring ring;
};

static struct process unwatched;
static struct process *process = &unwatched;
static const struct control_page *control; /* 0: there is no sslsniff */
static __thread struct thread this_thread_state;

static struct ring *own_ring(void)
{
	return &process->ring;
}

static u32 *own_records(void)
{
	return &this_thread_state.records;
}

/* The calling thread. Not inlined: a coroutine may go on on another thread, whose state is elsewhere. */
static __attribute__((noinline)) struct thread *this_thread(void)
{
	struct thread *thread = &this_thread_state;
	u32 pid = __atomic_load_n(&process->pid, __ATOMIC_RELAXED);
	if (thread->pid != pid)
		*thread = (struct thread){.pid = pid, .tid = thread_number()};
	return thread;
}

static inline int is_watched(void)
{
	return __atomic_load_n(&process->ring.writer, __ATOMIC_RELAXED) &&
	       !__atomic_load_n(&control->stopped, __ATOMIC_RELAXED);
}

/* Add to a counter of this process, as if it were a record: the child of a fork inside of this has no ring at that place. */
static __attribute__((noinline)) void add_count(u64 counter, u64 value)
{
	struct writer_page *writer = enter_record();
	if (writer)
		add_to((u64 *)((u8 *)writer + counter), value);
	leave_record();
}

#define COUNT(counter, value) add_count(__builtin_offsetof(struct writer_page, counter), value)

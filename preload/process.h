/* SPDX-License-Identifier: MIT
 *
 * What this process knows of itself, and of its threads. A forked child forgets it: the kernel wipes the memory
 * (MADV_WIPEONFORK, Linux 4.14), so nothing has to be called at a fork. After vfork parent and child share it, and the
 * parent waits.
 */
#include <linux/mman.h>
#include <linux/prctl.h>
#include <fcntl.h>

#define BLOCK_BITS 14 /* as in bpf/maps.bpf.h */
#define OPEN_CALLS 8  /* of one thread: a TLS connection inside another has two, coroutines have more */

/* A call of the library that has begun and not ended. It is known by its stack pointer: coroutines switch inside of
 * calls, and may end them on another thread. */
struct open_call {
	u64 object, stack;
};

struct thread {
	u32 pid, tid;
	int received; /* the descriptor of the last receive, plus 1; 0: none since the last read */
	int stream;   /* a descriptor that carries a stream, plus 1: the last that was asked about */
	u32 next_call;
	u64 written; /* the object that was written to last, until the next send */
	struct open_call calls[OPEN_CALLS];
};

struct process {
	u32 pid; /* 0: not asked yet, as after a fork */
	u32 uid;
	char comm[COMM_BYTES];
};

static struct process *process;
static __thread struct thread this_thread_state;

static void ask_process(void)
{
	system_call(__NR_prctl, PR_GET_NAME, (long)process->comm, 0, 0, 0, 0);
	process->uid = (u32)system_call(__NR_getuid, 0, 0, 0, 0, 0, 0);
	__atomic_store_n(&process->pid, (u32)system_call(__NR_getpid, 0, 0, 0, 0, 0, 0), __ATOMIC_RELEASE);
}

/* The calling thread. Not inlined: a coroutine may go on on another thread, whose state is elsewhere. */
static __attribute__((noinline)) struct thread *this_thread(void)
{
	struct thread *thread = &this_thread_state;
	u32 pid = __atomic_load_n(&process->pid, __ATOMIC_ACQUIRE);
	if (!pid) {
		ask_process();
		pid = process->pid;
	}
	if (thread->pid != pid) {
		*thread = (struct thread){.pid = pid};
		thread->tid = (u32)system_call(__NR_gettid, 0, 0, 0, 0, 0, 0);
	}
	return thread;
}

static inline int is_watched(void)
{
	return reader && !__atomic_load_n(&reader->stopped, __ATOMIC_RELAXED);
}

/* Note a call that begins. The stack pointer is that of the wrapper, below its caller's. */
static inline void open_call(struct thread *thread, u64 object, u64 stack)
{
	struct open_call *free = 0;
	for (int i = 0; i < OPEN_CALLS; i++)
		if (!thread->calls[i].stack || thread->calls[i].stack == stack)
			free = &thread->calls[i];
	/* Those that never ended (longjmp, coroutines that were dropped) give way. */
	if (!free)
		free = &thread->calls[thread->next_call++ % OPEN_CALLS];
	*free = (struct open_call){.object = object, .stack = stack};
}

static inline void close_call(struct thread *thread, u64 stack)
{
	for (int i = 0; i < OPEN_CALLS; i++)
		if (thread->calls[i].stack == stack)
			thread->calls[i].stack = 0;
}

/* Whether an open call is around `stack`: higher, and not so far away that another coroutine's stack may be between. */
static inline int encloses(const struct open_call *call, u64 stack)
{
	return call->stack > stack && call->stack - stack < 1 << BLOCK_BITS;
}

/* The open call around `stack` that is nearest; 0: there is none. */
static inline const struct open_call *innermost_call(const struct thread *thread, u64 stack)
{
	const struct open_call *nearest = 0;
	for (int i = 0; i < OPEN_CALLS; i++) {
		const struct open_call *call = &thread->calls[i];
		if (encloses(call, stack) && (!nearest || call->stack < nearest->stack))
			nearest = call;
	}
	return nearest;
}

/* SPDX-License-Identifier: MIT
 *
 * What this process knows of itself, and of its threads. A forked child forgets it: the kernel wipes the memory
 * (MADV_WIPEONFORK, Linux 4.14), so nothing has to be called at a fork. After vfork parent and child share it, and the
 * parent waits.
 *
 * Numbers of processes and threads are sslsniff's, also in a PID namespace of the program's own.
 */
#include <linux/prctl.h>
#include <fcntl.h>

struct thread {
	u32 pid, tid;
	int received; /* the descriptor of the last receive, plus 1; 0: none since the last read */
	int stream;   /* a descriptor that carries a stream, plus 1: the last that was asked about */
	u64 written;  /* the object that was written to last, until the next send */
};

struct process {
	u32 pid; /* 0: not asked yet, as after a fork */
	u32 inner_pid;
	u32 uid;
	char comm[COMM_BYTES];
};

static struct process *process;
static __thread struct thread this_thread_state;
static u8 is_numbered_apart; /* the program has a PID namespace of its own */

struct numbers {
	u32 pid, tid;
};

/* The caller's numbers as /proc has them; 0: they are not there. If sslsniff's memory was found in /proc, these are its. */
static struct numbers numbers_in_proc(void)
{
	char link[40]; /* PID/task/TID */
	long size = system_call(__NR_readlinkat, AT_FDCWD, (long)"/proc/thread-self", (long)link, sizeof(link), 0, 0);
	u32 numbers[2] = {0};
	u32 at = 0;
	for (long i = 0; i < size; i++) {
		if (link[i] >= '0' && link[i] <= '9')
			numbers[at] = numbers[at] * 10 + (u32)(link[i] - '0');
		else
			at = 1;
	}
	return (struct numbers){numbers[0], numbers[1]};
}

static void ask_process(void)
{
	system_call(__NR_prctl, PR_GET_NAME, (long)process->comm, 0, 0, 0, 0);
	process->uid = (u32)system_call(__NR_getuid, 0, 0, 0, 0, 0, 0);
	u32 pid = (u32)system_call(__NR_getpid, 0, 0, 0, 0, 0, 0);
	process->inner_pid = is_numbered_apart ? pid : 0;
	__atomic_store_n(&process->pid, is_numbered_apart ? numbers_in_proc().pid : pid, __ATOMIC_RELEASE);
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
		thread->tid =
		    is_numbered_apart ? numbers_in_proc().tid : (u32)system_call(__NR_gettid, 0, 0, 0, 0, 0, 0);
	}
	return thread;
}

static inline int is_watched(void)
{
	return reader && !__atomic_load_n(&reader->stopped, __ATOMIC_RELAXED);
}

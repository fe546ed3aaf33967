/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Stops the threads of a held command where they map a file that user space has not handled: before its first
 * instruction. The holder (sslsniff/capture/holding/holder.py) traces them by ptrace(2). A signal, even an ignored one, makes a traced
 * thread stop on its way back to user space, unseen by its parent. Threads without this tracer get no signal: it would
 * be delivered to their program.
 */
#pragma once

#include "process.bpf.h"

#define SYSCALL_MMAP 9
#define PROT_EXEC 4
#define MAP_ANONYMOUS 0x20
#define MOST_ERRNO 4095

#define SIGCONT 18
#define SIGURG 23
#define CHANGED_NS_MASK 0x7fffffff /* the other bit: it was read since (I_CTIME_QUERIED) */

/* A file as it is now: after a write, or for another file with the same inode number, the time of change differs. */
struct file_identity {
	u64 inode;
	u64 changed_s;
	u32 changed_ns;
	u32 device; /* as the kernel numbers it: 12 bits major, 20 bits minor */
};

MAP_ARRAY(holders, u32, 1); /* the process that traces; 0: none */
MAP_HASH(handled, struct file_identity, u32, 16384);
MAP_LRU_HASH(held, u32, struct file_identity, 4096); /* by the thread's number, until user space takes it out */

static __always_inline void identify(const struct file *file, struct file_identity *identity)
{
	struct inode *inode = 0;
	struct super_block *system = 0;
	bpf_probe_read_kernel(&inode, sizeof(inode), &file->f_inode);
	bpf_probe_read_kernel(&system, sizeof(system), &inode->i_sb);
	bpf_probe_read_kernel(&identity->inode, sizeof(identity->inode), &inode->i_ino);
	bpf_probe_read_kernel(&identity->device, sizeof(identity->device), &system->s_dev);
	if (HAS_FIELD(inode->i_ctime_sec)) {
		bpf_probe_read_kernel(&identity->changed_s, sizeof(identity->changed_s), &inode->i_ctime_sec);
		bpf_probe_read_kernel(&identity->changed_ns, sizeof(identity->changed_ns), &inode->i_ctime_nsec);
	} else {
		const struct inode___since_6_6 *since = (const void *)inode;
		const struct inode___before_6_6 *before = (const void *)inode;
		struct timespec64 changed = {};
		if (HAS_FIELD(since->__i_ctime))
			bpf_probe_read_kernel(&changed, sizeof(changed), &since->__i_ctime);
		else
			bpf_probe_read_kernel(&changed, sizeof(changed), &before->i_ctime);
		identity->changed_s = changed.tv_sec;
		identity->changed_ns = changed.tv_nsec;
	}
	identity->changed_ns &= CHANGED_NS_MASK;
}

/* Whether the holder, and no other, traces the calling thread. */
static __always_inline int is_held(const struct config *config, const struct task_struct *task)
{
	const struct task_struct *tracer = 0;
	u32 zero = 0, traced = 0, pid = 0;
	const u32 *holder = map_lookup(holders, &zero);
	bpf_probe_read_kernel(&traced, sizeof(traced), &task->ptrace);
	if (!holder || !*holder || !traced)
		return 0;
	bpf_probe_read_kernel(&tracer, sizeof(tracer), &task->parent);
	if (in_pid_namespace)
		pid = shown_number(config, tracer);
	else
		bpf_probe_read_kernel(&pid, sizeof(pid), &tracer->tgid);
	return pid == *holder;
}

static __always_inline int has_signal(u64 set, u32 signal)
{
	return set >> (signal - 1) & 1;
}

/* Stop the thread before it runs what is in `file`. */
static __always_inline void hold(const struct config *config, const struct task_struct *task, const struct file *file)
{
	struct file_identity identity = {};
	u64 blocked = 0, pending = 0;
	identify(file, &identity);
	if (map_lookup(handled, &identity))
		return;
	u32 tid = (u32)current_pid_tgid(config);
	bpf_probe_read_kernel(&blocked, sizeof(blocked), &task->blocked);
	bpf_probe_read_kernel(&pending, sizeof(pending), &task->pending.signal);
	int is_stopping = map_lookup(held, &tid) && has_signal(pending, SIGURG); /* exec maps two files */
	if (!tid || map_update(held, &tid, &identity) || is_stopping)
		return;
	/* SIGCONT if SIGURG would not be delivered: to send it stops a traced thread, even one that blocks it, but also all
	 * other threads of the process (kernel/signal.c, prepare_signal and ptrace_trap_notify). */
	bpf_send_signal_thread(has_signal(blocked | pending, SIGURG) ? SIGCONT : SIGURG);
}

/* Two ways to see a mapping. The first costs time only where files are mapped; it needs a kernel with kprobes. */

SEC("kprobe/security_mmap_file")
int hold_file(struct pt_regs *ctx)
{
	const struct file *file = (const struct file *)PT_REGS_PARM1(ctx);
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	const struct config *config = get_config();
	if (file && PT_REGS_PARM2(ctx) & PROT_EXEC && config && is_held(config, task))
		hold(config, task, file);
	return 0;
}

/* The second costs all processes of the host time, at the end of every system call. */
SEC("raw_tp/sys_exit")
int hold_mapping(struct bpf_raw_tracepoint_args *ctx)
{
	const struct pt_regs *user = (const struct pt_regs *)ctx->args[0];
	struct pt_regs registers = {};
	u64 number = 0;
	bpf_probe_read_kernel(&number, sizeof(number), &user->orig_ax);
	if (number != SYSCALL_MMAP || ctx->args[1] >= (u64)-MOST_ERRNO)
		return 0;
	bpf_probe_read_kernel(&registers, sizeof(registers), user);
	if (!(registers.dx & PROT_EXEC) || registers.r10 & MAP_ANONYMOUS)
		return 0;
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	const struct config *config = get_config();
	if (!config || !is_held(config, task))
		return 0;
	hold(config, task, opened_file(task, registers.r8));
	return 0;
}

SEC("raw_tp/sched_process_exec")
int hold_program(struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *task = (const struct task_struct *)ctx->args[0];
	const struct linux_binprm *program = (const struct linux_binprm *)ctx->args[2];
	const struct config *config = get_config();
	struct file *file = 0;
	if (!config || !is_held(config, task))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), &program->file);
	hold(config, task, file);
	return 0;
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Which processes are watched, and their life: fork, exec, exit.
 */
#pragma once

#include "event_header.bpf.h"
#include "open_calls.bpf.h"

static __always_inline struct config *get_config(void)
{
	u32 zero = 0;
	return map_lookup(configs, &zero);
}

/* Whether the offsets in kernel structs are right: with CO-RE always, with bcc if its headers are this kernel's. They are
 * not if the task's own number is wrong. */
static __always_inline int types_are_reliable(const struct task_struct *task)
{
	s32 tgid = 0;
	bpf_probe_read_kernel(&tgid, sizeof(tgid), &task->tgid);
	if ((u32)tgid == bpf_get_current_pid_tgid() >> 32)
		return 1;
	count(COUNTER_UNRELIABLE_TYPES, 1);
	return 0;
}

/* MAX_PID_NS_LEVEL, include/linux/pid_namespace.h */
#define MOST_PID_NAMESPACES 32

/* The number of a thread as sslsniff's own /proc shows it; 0: not visible there. In the namespaces inside of sslsniff's
 * it has others. */
static __always_inline u32 shown_number(const struct config *config, const struct task_struct *task)
{
	struct pid *pid = 0;
	u32 level = 0;
	bpf_probe_read_kernel(&pid, sizeof(pid), &task->thread_pid);
	bpf_probe_read_kernel(&level, sizeof(level), &pid->level);
	for (u32 i = 0; i <= MOST_PID_NAMESPACES && i <= level; i++) {
		struct upid number = {};
		u32 inode = 0;
		bpf_probe_read_kernel(&number, sizeof(number), (const void *)&pid->numbers + i * sizeof(number));
		bpf_probe_read_kernel(&inode, sizeof(inode), &number.ns->ns.inum);
		if (inode == config->pid_namespace_inode)
			return number.nr;
	}
	return 0;
}

/* The caller's process in the innermost PID namespace that it is in; 0: that is sslsniff's own. */
static __always_inline u32 inner_number(const struct config *config)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	const struct task_struct *leader = 0;
	const struct pid *pid = 0;
	u32 level = 0, inode = 0;
	struct upid number = {};
	if (!types_are_reliable(task))
		return 0;
	bpf_probe_read_kernel(&leader, sizeof(leader), &task->group_leader);
	bpf_probe_read_kernel(&pid, sizeof(pid), &leader->thread_pid);
	bpf_probe_read_kernel(&level, sizeof(level), &pid->level);
	bpf_probe_read_kernel(&number, sizeof(number), (const void *)&pid->numbers + (u64)level * sizeof(number));
	bpf_probe_read_kernel(&inode, sizeof(inode), &number.ns->ns.inum);
	int is_own = in_pid_namespace ? inode == config->pid_namespace_inode : !level;
	return is_own ? 0 : number.nr;
}

/* The caller's process and thread as sslsniff's own /proc numbers them; 0: not visible there. */
static __always_inline u64 current_pid_tgid(const struct config *config)
{
	if (!in_pid_namespace)
		return bpf_get_current_pid_tgid();
	struct bpf_pidns_info info = {};
	if (!bpf_get_ns_current_pid_tgid(config->pid_namespace_device, config->pid_namespace_inode, &info,
					 sizeof(info)))
		return (u64)info.tgid << 32 | info.pid;
	/* The helper knows the processes of this namespace only, and not of those inside it (kernel/bpf/helpers.c). */
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	const struct task_struct *leader = 0;
	if (!types_are_reliable(task))
		return 0;
	bpf_probe_read_kernel(&leader, sizeof(leader), &task->group_leader);
	return (u64)shown_number(config, leader) << 32 | shown_number(config, task);
}

/* The process's name, not the thread's: servers give their threads other names. */
static __always_inline void get_process_comm(struct comm *comm)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct task_struct *leader = 0;
	if (types_are_reliable(task) && !bpf_probe_read_kernel(&leader, sizeof(leader), &task->group_leader) &&
	    !bpf_probe_read_kernel(comm->name, sizeof(comm->name), &leader->comm))
		return;
	bpf_get_current_comm(comm->name, sizeof(comm->name));
}

/* The file name of the process's program: runtimes rename their main thread ("MainThread" in Node.js 24). */
static __always_inline void get_program_name(struct comm *name)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct mm_struct *memory = 0;
	struct file *file = 0;
	struct dentry *entry = 0;
	const unsigned char *start = 0;
	if (!types_are_reliable(task))
		return;
	bpf_probe_read_kernel(&memory, sizeof(memory), &task->mm);
	bpf_probe_read_kernel(&file, sizeof(file), &memory->exe_file);
	bpf_probe_read_kernel(&entry, sizeof(entry), &file->f_path.dentry);
	bpf_probe_read_kernel(&start, sizeof(start), &entry->d_name.name);
	bpf_probe_read_kernel_str(name->name, sizeof(name->name), start);
}

/* Whether the process's own name or its program's is in `comms`. */
static __always_inline int has_name(void)
{
	struct comm found = {};
	get_process_comm(&found);
	struct comm name = {}; /* without the bytes of earlier names, which may be after the end of this one */
	bpf_probe_read_kernel_str(name.name, sizeof(name.name), found.name);
	if (map_lookup(comms, &name))
		return 1;
	struct comm program = {};
	get_program_name(&program);
	return map_lookup(comms, &program) != 0;
}

/* Whether the caller's cgroup v2 is one to watch: enum watched. User space knows the names of cgroups, and chooses. A
 * process of a cgroup that is new is watched until then; user space leaves out what it should not show. */
static __always_inline int is_cgroup_watched(void)
{
	u64 id = bpf_get_current_cgroup_id();
	const struct cgroup_choice *choice = map_lookup(cgroups, &id);
	u32 watched = choice ? choice->watched : MAYBE_WATCHED;
	BARRIER();
	return choice && choice->cgroup == id ? watched : MAYBE_WATCHED;
}

/* Whether the caller, whose process is `pid`, is watched: enum watched. */
SUBPROGRAM int is_watched(u32 pid)
{
	const struct config *config = get_config();
	if (!config || pid == config->own_pid || pid == 0)
		return NOT_WATCHED;
	if (config->by_pid && !map_lookup(pids, &pid))
		return NOT_WATCHED;
	if (config->by_uid) {
		u32 uid = (u32)bpf_get_current_uid_gid();
		if (!map_lookup(uids, &uid))
			return NOT_WATCHED;
	}
	if (config->by_comm && !has_name())
		return NOT_WATCHED;
	return config->by_cgroup ? is_cgroup_watched() : WATCHED;
}

static __always_inline void keep_name(u32 pid)
{
	struct comm name = {};
	get_process_comm(&name);
	map_update(names, &pid, &name);
}

/* The caller's state; made on its first TLS call. 0 where the process is not watched. */
static __always_inline struct thread *get_thread(void)
{
	u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = map_lookup(threads, &id);
	if (thread && !thread->is_undecided)
		return thread;
	if (thread) {
		int decided = is_watched(thread->pid);
		thread->is_undecided = decided != WATCHED;
		return decided ? thread : 0;
	}
	const struct config *config = get_config();
	if (!config)
		return 0;
	u64 shown = current_pid_tgid(config);
	u32 pid = shown >> 32;
	int is_now_watched = is_watched(pid);
	if (!is_now_watched)
		return 0;
	u32 zero = 0;
	const struct thread *blank = map_lookup(blank_threads, &zero);
	if (!blank)
		return 0;
	map_update(threads, &id, blank);
	u32 tgid = id >> 32;
	map_update(watched, &tgid, &pid);
	thread = map_lookup(threads, &id);
	if (!thread) {
		count(COUNTER_UNTRACKED_CALLS, 1);
		return 0;
	}
	thread->pid = pid;
	thread->tid = (u32)shown;
	thread->is_undecided = is_now_watched != WATCHED;
	return thread;
}

/* The file that a task has open as `descriptor`; 0: none. */
static __always_inline struct file *opened_file(const struct task_struct *task, u32 descriptor)
{
	struct files_struct *files = 0;
	struct fdtable *table = 0;
	struct file **entries = 0;
	struct file *file = 0;
	u32 most = 0;
	bpf_probe_read_kernel(&files, sizeof(files), &task->files);
	bpf_probe_read_kernel(&table, sizeof(table), &files->fdt);
	bpf_probe_read_kernel(&most, sizeof(most), &table->max_fds);
	bpf_probe_read_kernel(&entries, sizeof(entries), &table->fd);
	if (descriptor < most)
		bpf_probe_read_kernel(&file, sizeof(file), entries + descriptor);
	return file;
}

/* Delete a thread that ended, and its open calls. */
static __always_inline void forget_thread(u64 id)
{
	const struct thread *thread = map_lookup(threads, &id);
	if (!thread)
		return;
	forget_blocks(thread, id >> 32);
	map_delete(threads, &id);
}

/* Emit the end of a process, or of its program by exec, once, if it was watched. */
static __always_inline void forget_process(u32 tgid, u8 is_exec)
{
	u32 *pid = map_lookup(watched, &tgid);
	if (!pid)
		return;
	struct event_exited *event = ring_reserve(events, sizeof(struct event_exited));
	if (event) {
		fill_header(&event->header, EVENT_EXITED, 0, 0);
		event->pid = *pid;
		event->is_exec = is_exec;
		ring_submit(events, event);
	} else {
		count(COUNTER_LOST_EXITS, 1);
	}
	map_delete(watched, &tgid);
}

SEC("raw_tp/sched_process_fork")
int process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	const struct config *config = get_config();
	if (!config || !config->by_pid)
		return 0;
	u32 parent = current_pid_tgid(config) >> 32;
	if (!map_lookup(pids, &parent))
		return 0;
	const struct task_struct *child = (const struct task_struct *)ctx->args[1];
	if (!types_are_reliable((const struct task_struct *)ctx->args[0]))
		return 0;
	s32 tgid = 0;
	bpf_probe_read_kernel(&tgid, sizeof(tgid), &child->tgid);
	if ((u32)tgid == bpf_get_current_pid_tgid() >> 32)
		return 0; /* a thread */
	u32 pid = in_pid_namespace ? shown_number(config, child) : tgid;
	if (pid && map_update(pids, &pid, &parent))
		count(COUNTER_UNFOLLOWED, 1);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int process_exec(struct bpf_raw_tracepoint_args *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	/* A thread that is not the first gets the first one's number (fs/exec.c, de_thread); the second argument is
	 * its old number, the key of its calls. All other threads have ended. */
	u64 old_id = id >> 32 << 32 | (u32)ctx->args[1];
	forget_thread(old_id);
	forget_process(id >> 32, 1);
	const struct config *config = get_config();
	if (!config)
		return 0;
	u32 pid = current_pid_tgid(config) >> 32;
	if (is_watched(pid))
		keep_name(pid);
	else
		map_delete(names, &pid);
	return 0;
}

/* Whether the process of the caller, a thread that ends, has other threads. The tracepoint fires for each thread; `live` was
 * decremented before (kernel/exit.c, do_exit). If it cannot be read, the end of the first thread counts as the end of the
 * process. */
static __always_inline int is_thread_left(const struct task_struct *task)
{
	u64 id = bpf_get_current_pid_tgid();
	struct signal_struct *signal = 0;
	s32 live = (u32)id != id >> 32;
	if (types_are_reliable(task)) {
		bpf_probe_read_kernel(&signal, sizeof(signal), &task->signal);
		bpf_probe_read_kernel(&live, sizeof(live), &signal->live.counter);
	}
	return live != 0;
}

SEC("raw_tp/sched_process_exit")
int process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	forget_thread(id);

	const struct config *config = get_config();
	if (!config || is_thread_left((const struct task_struct *)ctx->args[0]))
		return 0;
	forget_process(id >> 32, 0);
	u32 pid = current_pid_tgid(config) >> 32;
	if (map_lookup(pids, &pid)) {
		keep_name(pid);
		map_delete(pids, &pid);
	}
	return 0;
}

/* The names of cgroups: a short-lived one may be gone before user space looks for it. */
SEC("raw_tp/cgroup_mkdir")
int cgroup_made(struct bpf_raw_tracepoint_args *ctx)
{
	const struct cgroup *cgroup = (const struct cgroup *)ctx->args[0];
	const struct config *config = get_config();
	const struct cgroup_root *root = 0;
	const struct kernfs_node *node = 0;
	s32 hierarchy = -1;
	u64 id = 0;
	if (!config || config->stopped || !types_are_reliable((const struct task_struct *)bpf_get_current_task()))
		return 0;
	bpf_probe_read_kernel(&root, sizeof(root), &cgroup->root);
	bpf_probe_read_kernel(&hierarchy, sizeof(hierarchy), &root->hierarchy_id);
	bpf_probe_read_kernel(&node, sizeof(node), &cgroup->kn);
	bpf_probe_read_kernel(&id, sizeof(id), &node->id);
	if (hierarchy != 0) /* of cgroup v1, whose ids are numbers of their own (kernel/cgroup/cgroup.c, cgroup_init) */
		return 0;
	struct event_cgroup *event = ring_reserve(events, sizeof(struct event_cgroup));
	if (!event)
		return 0;
	fill_header(&event->header, EVENT_CGROUP, 0, 0);
	event->cgroup = id;
	event->path[0] = 0;
	bpf_probe_read_kernel_str(event->path, sizeof(event->path), (const void *)ctx->args[1]);
	ring_submit(events, event);
	return 0;
}

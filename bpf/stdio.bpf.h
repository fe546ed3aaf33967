/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What processes of a started command say to each other by standard input and output, for --stdio: a program starts a server,
 * writes requests to its standard input, and reads answers from its standard output. Both are pipes or Unix sockets.
 *
 * A program that begins with such an input and output is a server. Only these two ways of bytes are looked at, and only what
 * processes of the command write there: nothing that the command itself was started with, no terminal, no named pipe.
 *
 * A write counts at the end of its system call, with as many bytes as it moved. All kernels have a tracepoint there; functions
 * of pipes have other names in other kernels, and some kernels can probe none. Writes that a program orders itself keep their
 * order. An answer may be seen before its request, if the thread that sent the request was interrupted at the end of the call:
 * user space pairs them by their ids.
 */
#pragma once

#include "moved_bytes.bpf.h"

/* include/uapi/linux/stat.h, include/uapi/linux/magic.h, include/linux/socket.h */
#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFSOCK 0140000
#define PIPEFS_MAGIC 0x50495045
#define AF_UNIX 1

#define STANDARD_INPUT 0
#define STANDARD_OUTPUT 1
/* The pair of a way that leads out of the command's processes: it is never looked at. Others have the number of a connection. */
#define FOREIGN 1
/* So many files that the command begins with are looked at: what they lead to is not its own. */
#define INHERITED_FILES 32
/* What comes from a server before the first request: beyond, it is none. */
#define MOST_UNASKED_BYTES (64 << 10)
#define SYSCALL_EXECVE 59
#define SYSCALL_EXECVEAT 322
/* Calls that write what is not in the caller's memory (arch/x86/entry/syscalls/syscall_64.tbl). */
#define SYSCALL_SENDFILE 40
#define SYSCALL_SPLICE 275
#define SYSCALL_TEE 276
#define SYSCALL_VMSPLICE 278
/* The most buffers of one write (include/uapi/linux/uio.h, UIO_MAXIOV). */
#define MOST_WRITTEN_BUFFERS 1024

MAP_HASH(stdio_ways, u64, struct stdio_way, 4096);
MAP_ARRAY(blank_stdio_pairs, struct stdio_pair, 1);
MAP_HASH(stdio_pairs, u64, struct stdio_pair, 512);
/* Processes -> the pair that is their standard input and output. */
MAP_HASH(stdio_servers, u32, u64, 4096);

static __always_inline u64 inode_of_socket(const struct socket *socket)
{
	u64 number = 0;
	const struct inode *inode = &((const struct socket_alloc *)socket)->vfs_inode;
	if (socket)
		bpf_probe_read_kernel(&number, sizeof(number), &inode->i_ino);
	return number;
}

/* The socket whose owner sends to this one; 0: it is no Unix socket, or has no peer. */
static __always_inline const struct socket *peer_of(const struct socket *socket)
{
	const struct sock *sock = 0, *peer = 0;
	const struct socket *found = 0;
	bpf_probe_read_kernel(&sock, sizeof(sock), &socket->sk);
	if (!sock || socket_family(sock) != AF_UNIX)
		return 0;
	bpf_probe_read_kernel(&peer, sizeof(peer), &((const struct unix_sock *)sock)->peer);
	if (peer)
		bpf_probe_read_kernel(&found, sizeof(found), &peer->sk_socket);
	return found;
}

/* The ways of the bytes that a task reads from an open file, and writes to it, by the inode numbers that a writer shows: of the
 * pipe, or of the socket that is written to; 0: it is neither. Pipes and sockets get their numbers from one sequence. */
struct ways {
	u64 read;
	u64 written;
};

/* The ways of a file of the caller. No subprogram, as all that reads types of the kernel here: libbpf looks up the types of all
 * subprograms of the object, also of those that no loaded program calls, and needs 1 to 2 ms for each type. */
static __always_inline struct ways ways_of(u64 descriptor)
{
	const struct file *file = opened_file((const struct task_struct *)bpf_get_current_task(), descriptor);
	const struct inode *inode = 0;
	const struct super_block *filesystem = 0;
	const struct socket *socket = 0;
	struct ways none = {};
	u64 number = 0, magic = 0;
	u16 mode = 0;
	if (!file)
		return none;
	bpf_probe_read_kernel(&inode, sizeof(inode), &file->f_inode);
	bpf_probe_read_kernel(&mode, sizeof(mode), &inode->i_mode);
	bpf_probe_read_kernel(&number, sizeof(number), &inode->i_ino);
	if ((mode & S_IFMT) == S_IFIFO) {
		bpf_probe_read_kernel(&filesystem, sizeof(filesystem), &inode->i_sb);
		bpf_probe_read_kernel(&magic, sizeof(magic), &filesystem->s_magic);
		return magic == PIPEFS_MAGIC ? (struct ways){.read = number, .written = number} : none;
	}
	if ((mode & S_IFMT) != S_IFSOCK)
		return none;
	bpf_probe_read_kernel(&socket, sizeof(socket), &file->private_data);
	const struct socket *peer = socket ? peer_of(socket) : 0;
	return peer ? (struct ways){.read = inode_of_socket(peer), .written = number} : none;
}

/* The pair that a way is one of; 0: it was not seen yet. */
static __always_inline u64 pair_of(u64 number)
{
	const struct stdio_way *way = map_lookup(stdio_ways, &number);
	return way ? way->pair : 0;
}

/* Note what the command was started with: its ways lead out of the tree, both of each file. */
static __always_inline void leave_out_inherited(void)
{
	struct stdio_way foreign = {.pair = FOREIGN};
	for (u32 descriptor = 0; descriptor < INHERITED_FILES; descriptor++) {
		struct ways ways = ways_of(descriptor);
		/* Unknown to the verifier: else it follows each kind of file to the end of the loop. */
		u64 read = unknown(ways.read), written = unknown(ways.written);
		if (read)
			map_insert(stdio_ways, &read, &foreign);
		if (written)
			map_insert(stdio_ways, &written, &foreign);
	}
}

/* Forget a pair when its last server has ended, and report its end. */
SUBPROGRAM int forget_server(u32 tgid)
{
	const u64 *known = map_lookup(stdio_servers, &tgid);
	if (!known)
		return 0;
	u64 id = *known;
	map_delete(stdio_servers, &tgid);
	struct stdio_pair *pair = map_lookup(stdio_pairs, &id);
	if (!pair || --pair->servers)
		return 0;
	struct event_closed *event = pair->announced ? ring_reserve(events, sizeof(struct event_closed)) : 0;
	if (event) {
		fill_header(&event->header, EVENT_CLOSED, 0, id);
		event->positions[DIRECTION_READ] = pair->positions[DIRECTION_READ];
		event->positions[DIRECTION_WRITE] = pair->positions[DIRECTION_WRITE];
		ring_submit(events, event);
	} else if (pair->announced) {
		count(COUNTER_LOST_ENDS, 1);
	}
	u64 input = pair->input, output = pair->output;
	map_delete(stdio_ways, &input);
	map_delete(stdio_ways, &output);
	map_delete(stdio_pairs, &id);
	return 0;
}

/* Note the command line of the caller, a server. */
static __always_inline void describe_server(struct stdio_pair *pair)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	const struct mm_struct *memory = 0;
	u64 start = 0, end = 0;
	struct comm own = {};
	get_process_comm(&own);
	__builtin_memcpy(pair->server_comm, own.name, COMM_BYTES);
	bpf_probe_read_kernel(&memory, sizeof(memory), &task->mm);
	bpf_probe_read_kernel(&start, sizeof(start), &memory->arg_start);
	bpf_probe_read_kernel(&end, sizeof(end), &memory->arg_end);
	u64 size = end - start;
	/* Keep it in a register, so that the verifier uses this comparison. */
	asm volatile("" : "+r"(size));
	if (size > COMMAND_BYTES)
		size = COMMAND_BYTES;
	if (size && !bpf_probe_read_user(pair->command, size, (const void *)start))
		pair->command_bytes = size;
}

/* Announce a pair to user space, also again when the server's command line is known. Who writes to the server's input is the
 * client; until somebody does, it is who started the server. Returns whether it could be done. */
static __always_inline int announce_pair(const struct config *config, u32 pid, u32 tid, struct stdio_pair *pair,
					 int is_client)
{
	struct event_stdio *event = ring_reserve(events, sizeof(struct event_stdio));
	if (!event)
		return 0;
	if (is_client) {
		struct comm comm = {};
		get_process_comm(&comm);
		__builtin_memcpy(pair->client_comm, comm.name, COMM_BYTES);
		pair->client_pid = pid;
		pair->client_uid = (u32)bpf_get_current_uid_gid();
		pair->client_inner_pid = inner_number(config);
	}
	__builtin_memset(event, 0, sizeof(*event));
	struct event_opened *opened = &event->opened;
	fill_header(&opened->header, EVENT_STDIO, tid, pair->id);
	opened->role = ROLE_CLIENT;
	opened->from_start = 1;
	opened->cgroup = bpf_get_current_cgroup_id();
	opened->pid = pair->client_pid;
	opened->uid = pair->client_uid;
	opened->inner_pid = pair->client_inner_pid;
	__builtin_memcpy(opened->comm, pair->client_comm, COMM_BYTES);
	event->input = pair->input;
	event->output = pair->output;
	event->server_pid = pair->server_pid;
	event->command_bytes = pair->command_bytes;
	__builtin_memcpy(event->server_comm, pair->server_comm, COMM_BYTES);
	bpf_probe_read_kernel(event->command, sizeof(event->command), pair->command);
	ring_submit(events, event);
	pair->announced = 1;
	return 1;
}

/* Note who started the caller. */
static __always_inline void note_client(struct stdio_pair *pair, u32 pid)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	const struct task_struct *parent = 0, *leader = 0;
	bpf_probe_read_kernel(&parent, sizeof(parent), &task->real_parent);
	bpf_probe_read_kernel(&leader, sizeof(leader), &parent->group_leader);
	bpf_probe_read_kernel(&pair->client_comm, sizeof(pair->client_comm), &leader->comm);
	pair->client_pid = pid;
	pair->client_uid = (u32)-1;
}

/* Make the pair of the caller's input and output, which no other program had. */
static __always_inline void make_pair(u32 tgid, u32 pid, u32 client_pid, u64 input, u64 output)
{
	u32 zero = 0;
	u64 id = new_connection_id();
	const struct stdio_pair *blank = map_lookup(blank_stdio_pairs, &zero);
	if (blank)
		map_insert(stdio_pairs, &id, blank);
	struct stdio_pair *pair = map_lookup(stdio_pairs, &id);
	if (!pair) {
		count(COUNTER_UNTRACKED_CALLS, 1);
		return;
	}
	pair->id = id;
	pair->input = input;
	pair->output = output;
	pair->server_pid = pid;
	pair->servers = 1;
	note_client(pair, client_pid);
	struct stdio_way written = {.pair = id, .direction = DIRECTION_WRITE}, read = {.pair = id};
	map_update(stdio_servers, &tgid, &id);
	map_update(stdio_ways, &input, &written);
	map_update(stdio_ways, &output, &read);
}

/* Add the caller, which is about to begin a program, as a server. */
static __always_inline void add_server(u32 tgid, u32 pid, u32 client_pid)
{
	u64 input = ways_of(STANDARD_INPUT).read, output = ways_of(STANDARD_OUTPUT).written;
	u64 id = pair_of(input), other = pair_of(output);
	const u64 *known = map_lookup(stdio_servers, &tgid);
	if (known && *known == id && id == other)
		return; /* a shell, or another program that replaces itself by the server */
	forget_server(tgid);
	if (!input || !output || input == output || id == FOREIGN || other == FOREIGN)
		return;
	if (!id && !other) {
		make_pair(tgid, pid, client_pid, input, output);
		return;
	}
	/* Another program with the same input and output: npx starts node. In a pipeline it has only one of them. */
	struct stdio_pair *pair = id == other ? map_lookup(stdio_pairs, &id) : 0;
	if (pair && !map_insert(stdio_servers, &tgid, &id))
		pair->servers++;
}

/* (struct pt_regs *, long number), for every system call of the host. The tracepoint of exec is too late: who started the
 * program may go on, and write, before it. */
SEC("raw_tp/sys_enter")
int stdio_exec_begins(struct bpf_raw_tracepoint_args *ctx)
{
	u64 number = ctx->args[1];
	if (number != SYSCALL_EXECVE && number != SYSCALL_EXECVEAT)
		return 0;
	const struct config *config = get_config();
	if (!config || config->stopped)
		return 0;
	u32 pid = current_pid_tgid(config) >> 32;
	const u32 *parent = map_lookup(pids, &pid);
	if (!parent)
		return 0;
	if (!*parent)
		leave_out_inherited(); /* the command itself */
	else
		add_server(bpf_get_current_pid_tgid() >> 32, pid, *parent);
	return 0;
}

/* A program has begun: its command line is known. */
SEC("raw_tp/sched_process_exec")
int stdio_exec(void)
{
	u64 caller = bpf_get_current_pid_tgid();
	u32 tgid = caller >> 32;
	const struct config *config = get_config();
	const u64 *known = map_lookup(stdio_servers, &tgid);
	if (!config || config->stopped || !known)
		return 0;
	u64 id = *known;
	struct stdio_pair *pair = map_lookup(stdio_pairs, &id);
	if (!pair || pair->command_bytes || pair->server_pid != current_pid_tgid(config) >> 32)
		return 0;
	describe_server(pair);
	if (pair->announced)
		announce_pair(config, 0, 0, pair, 0);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int stdio_exit(struct bpf_raw_tracepoint_args *ctx)
{
	const struct config *config = get_config();
	if (config && !config->stopped && !is_thread_left((const struct task_struct *)ctx->args[0]))
		forget_server(bpf_get_current_pid_tgid() >> 32);
	return 0;
}

/* Set where the `size` bytes are that a system call wrote, as the thread's plaintext: in `buffer`, or in a list of buffers. */
static __always_inline void set_written(struct thread *thread, u64 size, u64 buffer, u64 list)
{
	thread->plaintext = (struct plaintext){
	    .list = list,
	    .count = list ? MOST_WRITTEN_BUFFERS : 1,
	    .left = size,
	    .only = {.address = buffer, .size = size},
	};
}

/* Whether the first bytes to a server may begin a message: a JSON text, or a header before one. */
static __always_inline int may_be_message(const struct thread *thread)
{
	const struct plaintext *written = &thread->plaintext;
	u64 first = written->list ? read_pointer(written->list) : written->only.address;
	u8 byte = 0;
	if (bpf_probe_read_user(&byte, sizeof(byte), (const void *)first))
		return 1;
	return byte == '{' || byte == '[' || byte == 'C' || byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Stop looking at a pair that is not of a server. */
static __always_inline void leave_out_pair(struct stdio_pair *pair, u32 tid)
{
	pair->is_other = 1;
	struct event_left_out *event = pair->announced ? ring_reserve(events, sizeof(struct event_left_out)) : 0;
	if (!event)
		return;
	fill_header(&event->header, EVENT_LEFT_OUT, tid, pair->id);
	ring_submit(events, event);
}

/* Pass the `size` bytes that a system call of the caller wrote to a file, if that is a way of a pair. They are in `buffer`, or
 * in a list of buffers; both 0: where they are is not known. */
static __always_inline int pass_written(u64 descriptor, u64 size, u64 buffer, u64 list)
{
	u64 number = ways_of(descriptor).written;
	const struct stdio_way *way = map_lookup(stdio_ways, &number);
	if (!way)
		return 0;
	u64 id = way->pair;
	u32 direction = way->direction & 1;
	const struct config *config = get_config();
	struct stdio_pair *pair = map_lookup(stdio_pairs, &id);
	struct thread *thread = config && !config->stopped && pair && !pair->is_other ? get_thread() : 0;
	if (!thread)
		return 0;
	u64 position = pair->positions[direction];
	int is_known = buffer || list;
	set_written(thread, size, buffer, list);
	int is_first = direction == DIRECTION_WRITE && !position;
	int is_unasked =
	    direction == DIRECTION_READ && !pair->positions[DIRECTION_WRITE] && position + size > MOST_UNASKED_BYTES;
	if (is_unasked || (is_first && is_known && !may_be_message(thread))) {
		leave_out_pair(pair, thread->tid);
		return 0;
	}
	pair->positions[direction] = position + size;
	if (!pair->announced && !announce_pair(config, thread->pid, thread->tid, pair, direction == DIRECTION_WRITE)) {
		lose(CUT_NONE, size);
		return 0;
	}
	thread->piece = (struct piece){.connection = id, .position = position, .direction = direction};
	if (is_known)
		emit_plaintext(thread, config->call_limit_bytes);
	else
		emit_gap(thread, size);
	return 0;
}

/* (struct pt_regs *, long result), for every system call of the host: most end here after some instructions. */
SEC("raw_tp/sys_exit")
int stdio_written(struct bpf_raw_tracepoint_args *ctx)
{
	__s64 size = ctx->args[1];
	const struct pt_regs *registers = (const struct pt_regs *)ctx->args[0];
	u64 number = 0;
	if (size <= 0)
		return 0;
	bpf_probe_read_kernel(&number, sizeof(number), &registers->orig_ax);
	if (number != SYSCALL_WRITE && number != SYSCALL_WRITEV && number != SYSCALL_SENDTO &&
	    number != SYSCALL_SENDMSG && number != SYSCALL_SENDFILE && number != SYSCALL_SPLICE &&
	    number != SYSCALL_TEE && number != SYSCALL_VMSPLICE)
		return 0;
	const struct config *config = get_config();
	u32 pid = config ? current_pid_tgid(config) >> 32 : 0;
	if (!map_lookup(pids, &pid))
		return 0;
	struct pt_regs call = {};
	bpf_probe_read_kernel(&call, sizeof(call), registers);
	if ((u16)call.cs != USER_CODE_SEGMENT)
		return 0;
	u64 descriptor = call.di, buffer = 0, list = 0;
	switch (number) {
	case SYSCALL_WRITE:
	case SYSCALL_SENDTO:
		buffer = call.si;
		break;
	case SYSCALL_WRITEV:
		list = call.si;
		break;
	case SYSCALL_SENDMSG:
		list = read_pointer(call.si + MESSAGE_LIST);
		break;
	case SYSCALL_SPLICE:
		descriptor = call.dx;
		break;
	case SYSCALL_TEE:
		descriptor = call.si;
		break;
	}
	return pass_written(unknown(descriptor), size, unknown(buffer), unknown(list));
}

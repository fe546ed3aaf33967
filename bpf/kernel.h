/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What the CO-RE build needs of the kernel: the few types that are read (their
 * offsets are relocated at load time, so only the used fields stand here), helper
 * numbers (include/uapi/linux/bpf.h) and map declarations. With bcc, bcc.h takes
 * this file's place.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;

#define SEC(name) __attribute__((section(name), used))
#define LICENSE(name) char LICENSE[] SEC("license") = name
/* BTF keeps only types that something global uses: a pointer that nobody reads. */
#define KEEP_TYPE(name) const struct name *keep_##name
#define __always_inline inline __attribute__((always_inline))
/* Global, so that the verifier looks at it once and not at each call (kernel 5.6). */
#define SUBPROGRAM __attribute__((noinline))

/* x86-64 user registers at the probe (arch/x86/include/asm/ptrace.h): kernel ABI, not relocated. */
struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};
#define PT_REGS_PARM1(ctx) ((ctx)->di)
#define PT_REGS_PARM2(ctx) ((ctx)->si)
#define PT_REGS_PARM3(ctx) ((ctx)->dx)
#define PT_REGS_PARM4(ctx) ((ctx)->cx)
#define PT_REGS_PARM5(ctx) ((ctx)->r8)
#define PT_REGS_RC(ctx) ((ctx)->ax)
#define PT_REGS_SP(ctx) ((ctx)->sp)
#define PT_REGS_FLAGS(ctx) ((ctx)->flags)

/* Whether the running kernel's struct has this field; libbpf answers when it loads. */
#define HAS_FIELD(field) __builtin_preserve_field_info(field, 2)

/* 1: sslsniff is in a PID namespace that is not the host's. Set before the programs are loaded: where it is 0, the
 * verifier does not follow what is for it. With bcc a macro of this name. */
const volatile u32 in_pid_namespace;

/* 1: events of plaintext say how their reads waited (waits.bpf.h). Set like the one before. */
const volatile u32 notes_waits;

struct bpf_raw_tracepoint_args {
	u64 args[0];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	u8 in6_u[16];
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct socket;

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	s32 sk_err;
	u16 sk_type;
	u16 sk_protocol; /* since 5.6 a field of its own */
};

struct unix_sock {
	struct sock *peer;
};

struct tcp_sock {
	u64 bytes_received;
	u64 bytes_acked;
};

struct signal_struct {
	struct {
		s32 counter;
	} live;
};

struct ns_common {
	u32 inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	s32 nr;
	struct pid_namespace *ns;
};

struct pid {
	u32 level;
	struct upid numbers[1];
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct super_block {
	u32 s_dev;
	u64 s_magic;
};

/* The time of change has had three forms: since 6.11 this one, before it the next two. */
struct inode {
	u16 i_mode;
	u64 i_ino;
	struct super_block *i_sb;
	u64 i_ctime_sec;
	u32 i_ctime_nsec;
};

struct timespec64 {
	u64 tv_sec;
	u64 tv_nsec;
};

struct inode___since_6_6 {
	struct timespec64 __i_ctime;
};

struct inode___before_6_6 {
	struct timespec64 i_ctime;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};

struct socket {
	struct sock *sk;
};

struct socket_alloc {
	struct inode vfs_inode;
};

struct fdtable {
	u32 max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct kernfs_node {
	u64 id;
};

struct cgroup_root {
	s32 hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct linux_binprm {
	struct file *file;
};

struct mm_struct {
	u64 arg_start;
	u64 arg_end;
	struct file *exe_file;
};

struct thread_struct {
	u64 fsbase;
};

struct task_struct {
	u32 ptrace;
	s32 tgid;
	void *stack;
	struct mm_struct *mm;
	struct pid *thread_pid;
	struct task_struct *real_parent;
	struct task_struct *parent; /* who traces it, if anyone does */
	struct task_struct *group_leader;
	struct files_struct *files;
	unsigned long nvcsw; /* how often it gave up the CPU to wait */
	struct signal_struct *signal;
	struct {
		u64 sig[1];
	} blocked;
	struct {
		struct {
			u64 sig[1];
		} signal;
	} pending; /* for this thread alone */
	char comm[16];
	struct thread_struct thread;
};

#pragma clang attribute pop

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_NO_PREALLOC = 1 };

/* Only the helper asked for; libbpf resolves its presence at load time. */
enum bpf_func_id {
	BPF_FUNC_get_attach_cookie = 174,
	BPF_FUNC_task_pt_regs = 175,
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_tail_call)(void *ctx, void *programs, u32 index) = (void *)12;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static u64 (*bpf_get_current_uid_gid)(void) = (void *)15;
static long (*bpf_get_current_comm)(void *buffer, u32 size) = (void *)16;
static u64 (*bpf_get_current_task)(void) = (void *)35;
static u64 (*bpf_get_current_cgroup_id)(void) = (void *)80;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*bpf_probe_read_user_str)(void *to, u32 size, const void *from) = (void *)114;
static long (*bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
struct bpf_pidns_info {
	u32 pid;
	u32 tgid;
};
static long (*bpf_send_signal_thread)(u32 signal) = (void *)117;
static long (*bpf_get_ns_current_pid_tgid)(u64 dev, u64 ino, struct bpf_pidns_info *info, u32 size) = (void *)120;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *record, u64 flags) = (void *)132;
static void (*bpf_ringbuf_discard)(void *record, u64 flags) = (void *)133;
static long (*bpf_copy_from_user)(void *to, u32 size, const void *from) = (void *)148;
static void *(*bpf_get_current_task_btf)(void) = (void *)158;
static u64 (*bpf_get_attach_cookie)(void *ctx) = (void *)174;
static void *(*bpf_task_pt_regs)(void *task) = (void *)175;

/* Kernels before 5.15 have no cookies; libbpf then makes this 0 and the verifier drops the call. */
#define ATTACH_COOKIE(ctx)                                                                 \
	(__builtin_preserve_enum_value(*(enum bpf_func_id *)BPF_FUNC_get_attach_cookie, 0) \
	     ? bpf_get_attach_cookie(ctx)                                                  \
	     : 0)

/* The registers with which the task entered the kernel. Since 5.15 the verifier knows where they are, and lets them be read
 * without a helper. */
#define HAS_KNOWN_REGISTERS() __builtin_preserve_enum_value(*(enum bpf_func_id *)BPF_FUNC_task_pt_regs, 0)
#define KNOWN_REGISTERS() ((const struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf()))
#define KERNEL_STACK_BYTES (16 << 10) /* THREAD_SIZE, but in kernels that check for memory errors */

#define MAP(kind, name, key_type, value_type, entries, flags) \
	struct {                                              \
		int (*type)[BPF_MAP_TYPE_##kind];             \
		int (*max_entries)[entries];                  \
		int (*map_flags)[flags];                      \
		key_type *key;                                \
		value_type *value;                            \
	} name SEC(".maps")
#define MAP_HASH(name, key_type, value_type, entries) MAP(HASH, name, key_type, value_type, entries, BPF_F_NO_PREALLOC)
#define MAP_LRU_HASH(name, key_type, value_type, entries) MAP(LRU_HASH, name, key_type, value_type, entries, 0)
#define MAP_ARRAY(name, value_type, entries) MAP(ARRAY, name, u32, value_type, entries, 0)
#define MAP_PROGRAMS(name) MAP(PROG_ARRAY, name, u32, u32, 1, 0)
#define MAP_RING(name, bytes)                      \
	struct {                                   \
		int (*type)[BPF_MAP_TYPE_RINGBUF]; \
		int (*max_entries)[bytes];         \
	} name SEC(".maps")

/* Plain calls, so that the bcc loader can turn them into bcc's method form by text. */
#define map_lookup(map, key) bpf_map_lookup_elem(&map, key)
#define map_update(map, key, value) bpf_map_update_elem(&map, key, value, 0)
#define map_insert(map, key, value) bpf_map_update_elem(&map, key, value, 1) /* BPF_NOEXIST */
#define map_delete(map, key) bpf_map_delete_elem(&map, key)
#define ring_reserve(ring, size) bpf_ringbuf_reserve(&ring, size, 0)
#define ring_submit(ring, record) bpf_ringbuf_submit(record, 0)
#define tail_call(ctx, programs) bpf_tail_call(ctx, &programs, 0)

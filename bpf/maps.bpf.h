/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The maps, and the configuration that user space writes before it attaches.
 * Everything that user space may set lives in maps: bcc has no global variables.
 */
#pragma once

#include "kernel.h"
#include "event.h"

/* Open calls are found by their stack pointer, in blocks of 16 KB: the stack pointer of a socket call is lower on the
 * same stack, and leads to the block of the TLS call around it. */
#define BLOCK_BITS 14
#define BLOCK_CALLS 4 /* a TLS connection inside another has two; a coroutine's stack is larger than a block */
#define MOST_BLOCKS 16384
#define THREAD_BLOCKS 8 /* the latest blocks of a thread, deleted when it ends */

/* The default; user space sets another size before it loads. */
#ifndef RING_BYTES
#define RING_BYTES (16 << 20)
#endif

/* How many connections have an entry; then the least recently used one is evicted. */
#ifndef MOST_CONNECTIONS
#define MOST_CONNECTIONS 65536
#endif

/* How many probed libraries can have their own layout; later ones share layout 0. */
#define MOST_LAYOUTS 1024

struct config {
	u32 own_pid;	    /* sslsniff itself: never watched */
	u32 by_pid;	    /* 1: only processes in `pids`, and their later children */
	u32 by_uid;	    /* 1: only users in `uids` */
	u32 by_comm;	    /* 1: only processes named as in `comms`, or whose program is */
	u32 by_cgroup;	    /* 1: only processes in cgroups that `cgroups` chooses */
	u32 stopped;	    /* 1: the capture is over, though probes may still be attached */
	u32 sample_most;    /* connections whose hash is above are left out */
	u32 checks_sockets; /* 1: look for TLS that no probe sees */
	u64 call_limit_bytes;
	u64 pid_namespace_device; /* of sslsniff's PID namespace; 0 0: the host's */
	u64 pid_namespace_inode;
	u32 task_reads;	      /* how many reads lead to the number of the current task; 0: unknown */
	u32 task_in_register; /* 1: they begin at r14, in Go's code only; 0: at the thread pointer */
	s32 task_first;	      /* offset of the first read, then that of the second */
	s32 task_second;
};

/* Byte offsets in the library's object of a connection, -1 where unknown; see sslsniff/matching/object_layout.py. */
struct layout {
	u32 library;
	s32 server;
	s32 version;
	s32 alpn_base; /* a pointer to what the next two are in; -1: the object itself */
	s32 alpn;
	s32 alpn_length;
	s32 session;
	s32 session_cipher;
	s32 cipher_name;
	s32 references;
	s32 sni;
	s32 sni_base; /* a pointer to where `sni_inner` is; read where `sni` is null */
	s32 sni_inner;
	s32 shutdown;
	s32 client;	     /* a byte that is not 0 where the traced process is the client; -1: `server` says so */
	s32 sni_length;	     /* -1: it ends with a zero byte */
	s32 handshakes;	     /* how many were completed, 64 bits */
	s32 socket_type;     /* hash of the type *net.TCPConn in Go; 0 or -1: unknown */
	s32 is_typed;	     /* 1: the object begins with a type, and these offsets are for type 0 */
	s32 server_value;    /* what `server` is in a server; -1: anything but 0 */
	s32 version_base;    /* as `alpn_base`, for `version` */
	s32 settled;	     /* a byte that is 0 until `version` is the negotiated one; -1: it always is */
	s32 server_mask;     /* the bits of `server` that count; -1: all */
	s32 verified;	     /* what was found of the peer's certificate */
	s32 random_base;     /* as `alpn_base`, for `random` */
	s32 random;	     /* the client random */
	s32 alert;	     /* the number of the alert that was received last */
	s32 handshake_error; /* why the handshake failed, in Go: an interface; null: it did not */
	s32 read_error;	     /* why nothing more can be read, likewise */
	u32 tls_version;     /* of all connections of this library; 0: its objects have it */
};

/* Offsets in structs of rustls, and how often they were right; see sslsniff/libraries/rustls/plan.py. */
struct rustls_layout {
	s32 application_data; /* the type byte of application data; -1: there is no such layout */
	s32 message_type;     /* in the message to encrypt, whose plaintext is at its beginning */
	s32 has_slices;	      /* 1: that plaintext may be a list of slices */
	s32 result_data;      /* in the result of decrypting: a pointer, a length, a type byte */
	s32 result_size;
	s32 result_type;
	s32 encrypter; /* in the connection's state: pointers to the cipher objects; -1: unknown */
	s32 decrypter;
	u64 fits; /* records that matched the layout */
	u64 misfits;
};

/* What an error of Go says, by the hash of its type; see sslsniff/libraries/go/failures.py. */
struct go_error {
	s32 inner;	/* offset of the error that it is about; -1: there is none */
	s32 number;	/* offset of what distinguishes it from others of its type */
	u64 text_bytes; /* it counts only if the text that it begins with has this length; 0: it always does */
};

struct comm {
	char name[COMM_BYTES];
};

/* A TLS object's address identifies it only together with its process. */
struct connection_key {
	u64 object;
	u64 pid;
};

struct connection {
	struct connection_key key; /* see entries.bpf.h */
	u64 id;
	u64 positions[DIRECTIONS];
	u64 socket;   /* struct sock * that the connection was found to use; 0 unknown */
	u64 rival;    /* another socket, for which the last indirect evidence was */
	u64 sequence; /* of the next record; where the library counts them */
	u64 missed;   /* records that no probe saw, not reported yet */
	u64 partner;  /* id of the other half, if the pair was reported */
	u8 announced; /* user space has the EVENT_OPENED */
	u8 addressed; /* and the EVENT_ADDRESSES of `socket` */
	u8 from_start;
	u8 ended;    /* 1 << direction: its end was reported */
	u8 half;     /* enum half */
	u8 is_sure;  /* of a half's socket: what was sent had the length of its records */
	u8 left_out; /* enum left_out */
	u8 direct;   /* calls with direct evidence for the socket and none for another in between, CERTAIN at most */
	u8 is_fixed; /* the library's object names its socket: no evidence counts against that */
	u8 has_data; /* plaintext passed, though perhaps not to user space */
	u8 pad2[2];
	u32 layout; /* index of its library's, once announced */
	s32 verified; /* what the library found of the peer's certificate, 0: nothing, or nothing wrong; or more of its error */
	u32 pad3;
};

/* The cipher objects whose records a socket carries. */
struct carrier {
	u64 socket; /* the key; see entries.bpf.h */
	u64 objects[DIRECTIONS];
	u64 pid;
	u8 left_out; /* enum left_out */
	u8 pad[7];
};

#define MOST_RECEIVED 0xFFFF
/* A TLS call between its entry and its return. A process and a stack pointer identify it: a coroutine may end its call on
 * another thread, and many calls may be open on one. */
struct call {
	u64 stack; /* stack pointer at the entry; 0: the slot is free */
	u64 object;
	u64 buffer;
	union {
		u64 count;   /* where the call stores how many bytes it moved; 0: its return value says so */
		u64 buffers; /* if `buffer` is a list of buffers: how many they are */
	};
	union {
		u64 sequence;
		u64 skipped; /* if `buffer` is a list of buffers: how many bytes of them do not count */
	};
	u64 received; /* socket of the thread's last receive before the entry */
	u64 socket;   /* of the last socket call inside */
	u32 tid;      /* the thread that entered it, and its process, as the kernel numbers them */
	u32 tgid;
	u8 direction;
	u8 cut;		    /* why bytes beyond the limit are not copied */
	u8 has_no_io;	    /* no socket call is made inside */
	u8 is_replaced;	    /* its slot had a call that never returned */
	u16 received_bytes; /* by the last socket call inside that received; MOST_RECEIVED: more, or unknown; 0: none did */
	u8 pad[2];
};

struct call_block_key {
	u64 block; /* stack pointer >> BLOCK_BITS */
	u64 tgid;
};

struct call_block {
	struct call calls[BLOCK_CALLS];
};

#define FIRST_BYTES 8

/* What was looked at of a TCP socket; see tls_sockets.bpf.h. */
struct looks {
	u8 sends;     /* how many were looked at, or why no more need a look */
	u8 receives;  /* likewise */
	u8 header[5]; /* of a record that was received alone */
	u8 pad;
	u8 first[FIRST_BYTES]; /* that were received, if they are of no record */
};

/* The rest of a finished call that is still to emit. It is in the thread's entry, not on the stack: there the
 * verifier would follow its values through every turn of the loop. */
struct piece {
	u64 connection;
	u64 buffer; /* user memory; nothing is read where `size` is 0 */
	u64 size;   /* bytes to copy */
	u64 span;   /* bytes of the direction that it stands for, copied or cut off */
	u64 position;
	u64 task; /* 0: unknown */
	u8 direction;
	u8 cut;
	u8 pad[6];
};

/* Plaintext that is still to emit: `left` bytes of a list of `count` slices after the first `skipped`, or of the slice
 * `only` if `list` is 0. A slice is a struct iovec, or a slice of Rust. */
struct slice {
	u64 address;
	u64 size;
};
struct plaintext {
	u64 list;
	u64 count;
	u64 skipped;
	u64 left;
	u64 room; /* the most bytes that are copied */
	struct slice only;
};

struct thread {
	struct piece piece;
	struct plaintext plaintext;
	u64 blocks[THREAD_BLOCKS]; /* of its calls, the latest ones; 0: none */
	u64 received;		   /* socket of the last receive outside any TLS call */
	u64 written;		   /* TLS object of the last write, until the thread sends */
	u64 handshake;		   /* TLS object whose handshake the thread is in, where that is known */
	u64 shut;		   /* TLS object that is being shut down, until the thread sends */
	u64 written_bytes;	   /* plaintext bytes in the records of half `written` since then */
	u64 written_first;	   /* plaintext bytes in the first of these records */
	u64 written_records;	   /* the number of these records */
	u64 settled;		   /* the socket of the last send that check_send need not look at */
	u64 quiet;		   /* the socket of the last receive that check_receive need not look at */
	u64 settled_ends;	   /* `socket_ends` then: the addresses may be other sockets' since */
	u32 pid;
	u32 tid;
	u32 next_block; /* of `blocks`, counts up */
	u16 open_calls; /* calls that the thread entered and that are open, except those with has_no_io */
	u8 has_coroutines;
	u8 is_undecided; /* whether it is watched: user space does not know its cgroup yet */
	u8 waits;	 /* enum waits, of its open call */
	u8 pad[3];
	u64 switches; /* how often it had given up the CPU to wait when the call began */
};

enum watched {
	NOT_WATCHED = 0,
	WATCHED = 1,
	MAYBE_WATCHED = 2, /* user space decides when it reads the process's first event */
};

/* The bytes that are written to a pipe, or to a Unix socket. */
struct stdio_way {
	u64 pair;
	u32 direction;
	u32 pad;
};

/* The standard input and output of a server, and who started it: see stdio.bpf.h. */
struct stdio_pair {
	u64 id;
	u64 input; /* keys of `stdio_ways` */
	u64 output;
	u64 positions[DIRECTIONS];
	u32 client_pid;
	u32 client_uid; /* -1: unknown */
	u32 client_inner_pid;
	u32 server_pid;
	u32 servers; /* how many processes have them as standard input and output */
	u32 command_bytes;
	u8 announced;
	u8 is_other; /* 1: what passes are no messages */
	u8 pad[2];
	char client_comm[COMM_BYTES];
	char server_comm[COMM_BYTES];
	char command[COMMAND_BYTES];
};

/* Whether the processes of a cgroup are watched. */
struct cgroup_choice {
	u64 cgroup;  /* the key; see entries.bpf.h */
	u32 watched; /* enum watched */
	u32 pad;
};

enum counter {
	COUNTER_RING_FULL_EVENTS,
	COUNTER_RING_FULL_BYTES,
	COUNTER_CALL_LIMIT_EVENTS,
	COUNTER_CALL_LIMIT_BYTES,
	COUNTER_UNREADABLE_EVENTS,
	COUNTER_UNREADABLE_BYTES,
	COUNTER_SENDFILE_EVENTS,
	COUNTER_SENDFILE_BYTES,
	COUNTER_NOT_READ_EVENTS,
	COUNTER_NOT_READ_BYTES,
	COUNTER_EVICTED_EVENTS, /* calls during which a connection lost its entry */
	COUNTER_EVICTED_BYTES,
	COUNTER_UNTRACKED_CALLS,   /* the table of threads or connections was full */
	COUNTER_UNRELIABLE_TYPES,  /* bcc: kernel headers that are not this kernel's */
	COUNTER_LEFT_OUT,	   /* connections that sampling left out */
	COUNTER_LOST_EXITS,	   /* ends of processes for which the ring had no room */
	COUNTER_LOST_ENDS,	   /* ends of connections for which the ring had no room */
	COUNTER_LOST_CLOSES,	   /* EVENT_CLOSED for which the ring had no room: each half has its own */
	COUNTER_UNFOLLOWED,	   /* children for which the table of processes had no room */
	COUNTER_UNMATCHED_CALLS,   /* calls that moved bytes and whose entry was not seen */
	COUNTER_LOST_HITS,	   /* hits of functions for which the ring had no room */
	COUNTER_LIMITED_HITS,	   /* hits above the limit of a second */
	COUNTER_TLS_SOCKETS,	   /* sockets on which a watched process began TLS */
	COUNTER_UNCHECKED_SOCKETS, /* sockets for which the tables of sockets, or the ring, had no room */
	COUNTER_LOST_FAILURES,	   /* reports of failures of libraries for which the ring had no room */
	COUNTERS,
};

MAP_ARRAY(configs, struct config, 1);
MAP_ARRAY(counters, u64, COUNTERS);
MAP_ARRAY(layouts, struct layout, MOST_LAYOUTS);
MAP_ARRAY(rustls_layouts, struct rustls_layout, MOST_LAYOUTS);
MAP_HASH(go_errors, u32, struct go_error, 64);
MAP_HASH(pids, u32, u32, 65536);
/* The names of watched processes at their last exec, or at their end: the files that they mapped may be reported after
 * their end. */
MAP_LRU_HASH(names, u32, struct comm, 4096);
MAP_HASH(uids, u32, u32, 1024);
MAP_HASH(comms, struct comm, u32, 1024);
/* By the ids of cgroups v2. One that is not here, or was evicted, counts as MAYBE_WATCHED. */
MAP_LRU_HASH(cgroups, u64, struct cgroup_choice, 4096);
/* An empty entry for a new thread: it is too large for the stack. */
MAP_ARRAY(blank_threads, struct thread, 1);
MAP_HASH(threads, u64, struct thread, 65536);
MAP_HASH(watched, u32, u32, 65536);
/* Processes -> how many of their calls COUNTER_UNMATCHED_CALLS has. */
MAP_HASH(unmatched, u32, u64, 1024);
MAP_ARRAY(blank_blocks, struct call_block, 1);
MAP_LRU_HASH(call_blocks, struct call_block_key, struct call_block, MOST_BLOCKS);
MAP_LRU_HASH(connections, struct connection_key, struct connection, MOST_CONNECTIONS);
MAP_LRU_HASH(carriers, u64, struct carrier, MOST_CONNECTIONS);
MAP_HASH(looked_sockets, u64, struct looks, 65536);
MAP_ARRAY(blank_tls_sockets, struct tls_socket, 1);
MAP_ARRAY(socket_ends, u64, 1); /* how many of `looked_sockets` were destroyed */
/* Fewer: kernels that allocate all entries at once need 11 MB for these. */
MAP_HASH(tls_sockets, u64, struct tls_socket, 8192);
MAP_RING(events, RING_BYTES);

static __always_inline void count(u32 counter, u64 amount)
{
	u64 *value = map_lookup(counters, &counter);
	/* Relaxed: else compilers choose an instruction of kernel 5.12 that also fetches. */
	if (value)
		__atomic_fetch_add(value, amount, __ATOMIC_RELAXED);
}

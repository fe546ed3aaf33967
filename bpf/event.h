/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The contract between the kernel side and sslsniff/core/wire.py: the records of the
 * ring buffer. Plain C, fixed width, little padding, every layout asserted here;
 * tests/unit/core/test_wire.py compares wire.py with the built object.
 */
#pragma once

enum event_kind {
	EVENT_OPENED = 1,
	EVENT_DATA = 2,
	EVENT_ADDRESSES = 3,
	EVENT_CLOSED = 4,
	EVENT_EXITED = 5,
	EVENT_ENDED = 6,
	EVENT_PAIRED = 7,
	EVENT_SOCKET_GONE = 8,
	EVENT_LEFT_OUT = 9,
	EVENT_CGROUP = 10,
	EVENT_HIT = 11,
	EVENT_TLS_SOCKET = 12,
	EVENT_FAILURE = 13,
	EVENT_SOCKET_ENDED = 14,
	EVENT_STDIO = 15,
};

enum direction {
	DIRECTION_READ = 0,
	DIRECTION_WRITE = 1,
	DIRECTIONS = 2,
};

/* The role of the traced process; UNKNOWN if the library's object does not have it. */
enum role {
	ROLE_UNKNOWN = 0,
	ROLE_CLIENT = 1,
	ROLE_SERVER = 2,
};

/* If a library has an object for each direction, each is announced as a half of a connection. */
enum half {
	HALF_NONE = 0, /* a whole connection */
	HALF_READ = 1 + DIRECTION_READ,
	HALF_WRITE = 1 + DIRECTION_WRITE,
};

/* Why an event carries fewer bytes than it stands for. */
enum cut {
	CUT_NONE = 0,
	CUT_CALL_LIMIT = 1,
	CUT_UNREADABLE = 2,
	CUT_SENDFILE = 3,
	CUT_NOT_READ = 4, /* a byte for each record that no probe saw; slices after the first 64 */
	CUT_EVICTED = 5,  /* only counted: the connection lost its entry in the table during the call */
};

#define COMM_BYTES 16
#define ALPN_BYTES 32
#define SNI_BYTES 256
#define CIPHER_BYTES 48
#define COMMAND_BYTES 256
#define RANDOM_BYTES 32	       /* RFC 8446, section 4.1.2 */
#define CGROUP_PATH_BYTES 1024 /* TRACE_CGROUP_PATH_LEN, kernel/cgroup/cgroup-internal.h */

struct event_header {
	__u16 kind;
	__u8 direction; /* EVENT_DATA and EVENT_ENDED only */
	__u8 cut;	/* EVENT_DATA; in EVENT_CLOSED and EVENT_ENDED it says how */
	__u32 tid;
	__u64 time_ns;	  /* CLOCK_MONOTONIC */
	__u64 connection; /* unique within one capture; 0 in EVENT_EXITED, EVENT_SOCKET_GONE and EVENT_CGROUP */
};

/* A connection was seen for the first time, or an earlier announcement was lost. */
struct event_opened {
	struct event_header header;
	__u32 pid;
	__u32 uid;
	__u64 object;	   /* the TLS library's object, a user address */
	__u32 library;	   /* index given by user space at attach time */
	__u32 tls_version; /* as on the wire: 0x0304 is TLS 1.3; 0 unknown */
	__u8 role;
	__u8 from_start; /* 1: the connection was created during the capture */
	__u8 alpn_bytes;
	__u8 half;	 /* enum half */
	__u32 inner_pid; /* in the innermost PID namespace; 0: that is sslsniff's own */
	__u64 cgroup;	 /* of cgroup v2: the inode number of its folder */
	char comm[COMM_BYTES];
	char alpn[ALPN_BYTES];
	char sni[SNI_BYTES];
	char cipher[CIPHER_BYTES];
};

/* A piece of the plaintext of one successful call, followed by `captured` bytes. */
struct event_data {
	struct event_header header;
	__u64 position; /* of the first byte, in this direction of this connection */
	__u32 span;	/* bytes of the stream this event stands for, >= captured */
	__u32 captured; /* bytes that follow */
	__u64 task;	/* goroutine, or task of an async runtime, and enum waits; 0: unknown, or not asked for */
};

/* The addresses of a connection's socket, the traced process's first. */
struct event_addresses {
	struct event_header header;
	__u16 family; /* AF_INET or AF_INET6 */
	__u16 local_port;
	__u16 remote_port;
	__u16 pad;
	__u8 local[16];
	__u8 remote[16];
	__u64 socket; /* identifies the socket until its EVENT_SOCKET_GONE */
};

/* A library gives up a connection, whose handshake may not be over. */
struct event_failure {
	struct event_opened opened; /* with a header of its own */
	__s32 alert;		    /* that it sends; -1: none */
	__s32 error;		    /* as the library numbers them */
	__s32 verified;		    /* what it found of the peer's certificate, or more of the error; -1: unknown */
	__u8 has_data;		    /* plaintext passed before */
	__u8 is_sure;		    /* the library's object names its socket */
	__u8 pad[2];
	__u64 socket; /* 0: unknown */
	__u16 family;
	__u16 local_port;
	__u16 remote_port;
	__u16 pad2;
	__u8 local[16];
	__u8 remote[16];
	__u8 random[RANDOM_BYTES]; /* of the ClientHello; zeros: unknown */
};

/* Two processes of a started command are connected by the standard input and output of one of them, the server. */
struct event_stdio {
	struct event_opened opened; /* the client, with a header of its own */
	__u64 input;		    /* inode numbers of the ways to the server and back */
	__u64 output;
	__u32 server_pid;
	__u32 command_bytes; /* of `command`, the beginning of the server's command line */
	char server_comm[COMM_BYTES];
	char command[COMMAND_BYTES]; /* words, each ended by a zero byte */
};

/* Two directions belong to one connection: the header has the id of the written one, `reads` that of the read one. */
struct event_paired {
	struct event_header header;
	__u64 reads;
};

/* A socket was destroyed whose directions were announced one by one. */
struct event_socket_gone {
	struct event_header header;
	__u64 socket;
};

/* Sampling leaves out the connection of a direction that was announced by itself: its earlier events do not count. */
struct event_left_out {
	struct event_header header;
};

/* How a socket was found to carry TLS, by what the traced process sent or received first. */
enum tls_start {
	TLS_CLIENT_HELLO = 1,
	TLS_SERVER_HELLO = 2,
	TLS_JOINED = 3, /* application data: the connection is older than the capture */
	TLS_HELLO_RECEIVED = 4,
	TLS_ALERT_SENT = 5, /* first of all: what a server received was no ClientHello, or was not seen */
};

/* How the TCP connection of a socket began to end. */
enum socket_ending {
	ENDING_UNKNOWN = 0,
	ENDING_CLOSED = 1,	/* the traced process closed it first */
	ENDING_PEER_CLOSED = 2, /* the peer did */
	ENDING_RESET = 3,	/* the traced process, or its kernel, sent a reset */
	ENDING_PEER_RESET = 4,
	ENDING_TIMED_OUT = 5, /* TCP gave up: the peer acknowledged nothing */
};

/* So many sends are noted: more than a handshake has. Some libraries send each of its messages alone. */
#define NOTED_SENDS 10

#define HEAD_BYTES 16
#define HELLO_BYTES 1032 /* twice what is copied of it, and a record's header */

/* One of the first sends of a TLS socket. */
struct noted_send {
	__u8 head[HEAD_BYTES]; /* its first bytes: two record headers, if the first record is a ChangeCipherSpec */
	__u64 bytes;
	__u64 received; /* how many bytes the socket had received before */
	__u64 time_ns;
};

/* A TCP socket on which a watched process sends TLS records. */
struct tls_socket {
	__u64 since_ns;
	__u64 ended_ns; /* when the end of its TCP connection began; 0: it has not */
	__u64 cgroup;
	__u64 acknowledged; /* bytes, when the socket was destroyed; 0 before */
	__u64 received;	    /* bytes, when the end of its TCP connection began; 0 before */
	__u32 pid;
	__u32 uid;
	__u16 family;
	__u16 local_port;
	__u16 remote_port;
	__u8 start;	/* enum tls_start */
	__u8 is_probed; /* a connection of a probed library uses the socket */
	__u32 sends;	/* how many are in `noted` */
	__u32 hello_bytes;
	__u8 local[16];
	__u8 remote[16];
	__u8 ending;	  /* enum socket_ending */
	__u8 alert_level; /* of an alert that was received in clear; 0: none */
	__u8 alert;
	__u8 hello_start; /* where `hello` begins */
	__u8 is_gone;	  /* the socket was destroyed */
	__u8 is_complete; /* the library says that the handshake was completed; 0: it did not say */
	__u8 is_called;	  /* a call of a probed library sent on it */
	__u8 pad[1];
	__u8 answer[HEAD_BYTES]; /* the first bytes that were received */
	char comm[COMM_BYTES];
	char program[COMM_BYTES]; /* the file name of its program */
	struct noted_send noted[NOTED_SENDS];
	__u8 hello[HELLO_BYTES]; /* the beginning of the record with the ClientHello that was sent or received */
};

/* A TLS socket that no probed library is known to use: it ended, or so many sends were noted. */
struct event_tls_socket {
	struct event_header header;
	__u64 socket;
	struct tls_socket found;
};

/* Why the library says that nothing follows in a direction. */
enum ended_by {
	ENDED_UNSURE = 0,
	ENDED_BY_NOTIFY = 1, /* a close_notify */
	ENDED_BY_SOCKET = 2, /* the peer closed the TCP connection, and sent none */
};

/* A side closed: nothing follows in this direction. `cut` is an `ended_by`. */
struct event_ended {
	struct event_header header;
	__u64 position; /* after the last byte */
};

/* The end of the TCP connection of a socket began. */
struct event_socket_ended {
	struct event_header header; /* with the time when it began; the connection: 0 if only the socket is known */
	__u64 socket;
	__u8 ending; /* enum socket_ending */
	__u8 pad[7];
};

/* What is known of a connection at its end, in bits. */
enum closing {
	CLOSING_SOCKET_ENDS = 1, /* an EVENT_SOCKET_ENDED of its socket follows */
	CLOSING_FLAGS_KNOWN = 2, /* the library's object says which close_notify alerts passed: */
	CLOSING_SENT = 4,	 /* perhaps: a program can set the flag, or ask not to send one */
	CLOSING_RECEIVED = 8,
};

/* The connection ended; the final positions show what was lost after the last event. */
struct event_closed {
	struct event_header header;
	__u64 positions[DIRECTIONS];
};

/* A watched process ended, or replaced its program by exec: its connections ended. */
struct event_exited {
	struct event_header header;
	__u32 pid;
	__u32 is_exec; /* it replaced its program */
};

/* A cgroup v2 was made. */
struct event_cgroup {
	struct event_header header;
	__u64 cgroup;
	char path[CGROUP_PATH_BYTES]; /* from the root of the hierarchy, ended by a zero byte */
};

/* A probe of `sslsniff trace` was hit; followed by the bytes that it fetched. */
struct event_hit {
	struct event_header header;
	__u32 pid;
	__u32 place;   /* index given by user space at attach time */
	__u64 stack;   /* stack pointer at the entry of the call */
	__u64 task;    /* goroutine, or task of an async runtime; 0: none */
	__u64 failed;  /* 1 << item: it could not be read, its bytes are 0 */
	__u64 dropped; /* how many hits, of all threads, were not reported before this one */
	__u32 data_bytes;
	__u32 stack_at; /* where struct event_stack is in the record; 0: nobody asked for it */
};

/* As DWARF numbers them (System V ABI, AMD64, figure 3.36): rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip. */
#define STACK_REGISTERS 17
#define STACK_BYTES 16384

/* The stack of the thread at a hit, for `sslsniff trace --stack`. */
struct event_stack {
	__u64 registers[STACK_REGISTERS];
	__u64 captured;		 /* how many of `bytes` could be read */
	__u8 bytes[STACK_BYTES]; /* from the stack pointer up */
};

_Static_assert(sizeof(struct event_header) == 24, "event_header");
_Static_assert(sizeof(struct event_opened) == 24 + 40 + COMM_BYTES + ALPN_BYTES + SNI_BYTES + CIPHER_BYTES,
	       "event_opened");
_Static_assert(sizeof(struct event_failure) == sizeof(struct event_opened) + 64 + RANDOM_BYTES, "event_failure");
_Static_assert(sizeof(struct event_stdio) == sizeof(struct event_opened) + 24 + COMM_BYTES + COMMAND_BYTES,
	       "event_stdio");
_Static_assert(sizeof(struct event_data) == 24 + 24, "event_data");
_Static_assert(sizeof(struct event_addresses) == 24 + 48, "event_addresses");
_Static_assert(sizeof(struct event_paired) == 24 + 8, "event_paired");
_Static_assert(sizeof(struct event_socket_gone) == 24 + 8, "event_socket_gone");
_Static_assert(sizeof(struct event_left_out) == 24, "event_left_out");
_Static_assert(sizeof(struct event_ended) == 24 + 8, "event_ended");
_Static_assert(sizeof(struct event_socket_ended) == 24 + 16, "event_socket_ended");
_Static_assert(sizeof(struct event_closed) == 24 + 16, "event_closed");
_Static_assert(sizeof(struct event_exited) == 24 + 8, "event_exited");
_Static_assert(sizeof(struct event_cgroup) == 24 + 8 + CGROUP_PATH_BYTES, "event_cgroup");
_Static_assert(sizeof(struct tls_socket) == 64 + 32 + 8 + HEAD_BYTES + 2 * COMM_BYTES + 40 * NOTED_SENDS + HELLO_BYTES,
	       "tls_socket");
_Static_assert(sizeof(struct event_tls_socket) == 24 + 8 + sizeof(struct tls_socket), "event_tls_socket");
_Static_assert(sizeof(struct event_hit) == 24 + 48, "event_hit");
_Static_assert(sizeof(struct event_stack) == 8 * (STACK_REGISTERS + 1) + STACK_BYTES, "event_stack");

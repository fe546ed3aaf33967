/* SPDX-License-Identifier: MIT
 *
 * The memory that sslsniff shares with the programs that it preloads into: the contract with sslsniff/kernel/memory.
 *
 * sslsniff makes one page that all programs read and none can write. Each program makes a ring of its own, which no other
 * program has. The records in it are those of bpf/event.h, in the form of the kernel's ring buffer (kernel/bpf/ringbuf.c): a
 * page with the consumer's position, a page with the producer's, then the data.
 *
 * Two things differ from the kernel's form, since there is no lock: a word in which no record begins yet holds in its
 * upper half how often the ring was filled before (ring.h says why), and the second half of a record's header is the
 * thread that writes it.
 */
#pragma once

#include <linux/types.h>
#include "event.h"
#include "scatter.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define PAGE_BYTES 4096		    /* the least; the pages are as large as the kernel's */
#define MAGIC 0x36304c5053535373ULL /* of this layout: it changes with the layout */
#define RING_VARIABLE "SSLSNIFF_RING"
#define SOCKET_PATH_BYTES 64
#define SOCKET_NAME_BYTES 32 /* all of them count: abstract sockets, unix(7) */
#define TOKEN_BYTES 16
#define LIBRARIES 5		/* as enum library_name of library.h numbers them */
#define LARGEST_PIECE (1 << 16) /* bytes of a call's plaintext in one record */

/* What sslsniff says to all programs. */
struct control_page {
	u64 magic;
	u64 ring_bytes;	      /* of the data of a ring that is made now: a power of two */
	u64 call_limit_bytes; /* of one call's plaintext */
	u64 sample_most; /* connections whose hash is above are left out: more of them, from one moment to the next */
	u32 stopped;	 /* 1: the capture has ended */
	u32 filters;	 /* of system calls that sslsniff runs under itself (seccomp) */
	char socket_path[SOCKET_PATH_BYTES]; /* of the socket by which sslsniff gets a ring */
	char socket_name[SOCKET_NAME_BYTES]; /* the same without a file: in sslsniff's network namespace */
	u8 token[TOKEN_BYTES];		     /* which others than these programs cannot read */
};

/* What a program sends with its ring's descriptor. */
struct introduction {
	u64 magic;
	u32 pid; /* in its own PID namespace; the upper half of its connections' ids */
	u32 pad;
	char comm[COMM_BYTES];
	u8 token[TOKEN_BYTES];
};

/* The first page of a ring: sslsniff writes it. */
struct reader_page {
	u64 consumed; /* position after the last record that was read */
};

/* What was lost for each cause, in the order of enum cut. */
struct lost {
	u64 events, bytes;
};

#define CUTS 5
#define COPY_NAMES_BYTES 2048
#define LOADED_NAMES_BYTES 1600

/* The second page of a ring: its program writes it. */
struct writer_page {
	u64 produced; /* position after the last record that was begun */
	u8 pad[56];
	u64 connections; /* ids that were given out */
	u8 pad_2[56];
	struct lost lost[CUTS];
	u64 untracked;	     /* calls whose connection had no room in the table */
	u64 left_out;	     /* connections that are not in the sample */
	u64 lost_closes;     /* ends of connections that had no room in the ring */
	u64 separate;	     /* libraries that were loaded by dlmopen, into a namespace of their own */
	u64 bios;	     /* BIOs of OpenSSL with a connection inside */
	u64 several;	     /* references that may be to one of several TLS libraries, or could not be written */
	u64 copies;	     /* TLS libraries beyond those that there are wrappers for */
	u64 limited;	     /* processes that began to limit or lock their memory, and were left */
	u64 lost_handshakes; /* records of handshakes that had no room */
	u64 copy_bytes;	     /* of `named_copies` that are written */
	/* Those libraries: the number of each, its path, a zero byte. What there is no room for is only counted. */
	char named_copies[COPY_NAMES_BYTES];
	u64 loaded_bytes; /* of `loaded_files` that are written */
	/* The files in memory by their absolute paths, a zero byte after each: the process may end before anybody looks. */
	char loaded_files[LOADED_NAMES_BYTES];
};

_Static_assert(sizeof(struct control_page) <= PAGE_BYTES && sizeof(struct writer_page) <= PAGE_BYTES, "pages");
_Static_assert(__builtin_offsetof(struct control_page, socket_path) == 40, "control_page");
_Static_assert(__builtin_offsetof(struct writer_page, lost) == 128, "writer_page");
_Static_assert(__builtin_offsetof(struct writer_page, copy_bytes) == 280, "writer_page");
_Static_assert(__builtin_offsetof(struct writer_page, loaded_bytes) == 2336, "writer_page");
_Static_assert(sizeof(struct introduction) == 48, "introduction");

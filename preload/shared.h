/* SPDX-License-Identifier: MIT
 *
 * The memory that sslsniff shares with the programs that it preloads into: the contract with
 * sslsniff/kernel/memory/shared_ring.py. The records in the ring are those of bpf/event.h, in the form of the kernel's
 * ring buffer (kernel/bpf/ringbuf.c): a page with the consumer's position, a page with the producer's, then the data.
 *
 * Two things differ from the kernel's form, since there is no lock: a word in which no record begins yet holds in its
 * upper half how often the ring was filled before (ring.h says why), and the second half of a record's header is the
 * thread that writes it.
 */
#include <linux/types.h>
#include "event.h"
#include "scatter.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define PAGE_BYTES 4096		    /* the least; the pages are as large as the kernel's */
#define MAGIC 0x32304c5053535373ULL /* of this layout: it changes with the layout */
#define RING_VARIABLE "SSLSNIFF_RING"

/* The first page: the reader writes it. */
struct reader_page {
	u64 consumed; /* position after the last record that was read */
	u8 pad[56];
	u64 magic;
	u64 data_bytes;	      /* a power of two */
	u64 call_limit_bytes; /* of one call's plaintext */
	u64 sample_most; /* connections whose hash is above are left out: more of them, from one moment to the next */
	u32 stopped;	 /* 1: the capture has ended */
};

/* What was lost for each cause, in the order of enum cut. */
struct lost {
	u64 events, bytes;
};

#define CUTS 5

/* The second page: the programs write it. */
struct writer_page {
	u64 produced; /* position after the last record that was begun */
	u8 pad[56];
	u64 connections; /* ids that were given out */
	u8 pad_2[56];
	struct lost lost[CUTS];
	u64 untracked;	/* calls whose connection had no room in the table */
	u64 left_out;	/* connections that are not in the sample */
	u64 lost_exits; /* records about processes and connections that had no room in the ring */
	u64 lost_closes;
	u64 deep;     /* libraries that were loaded with RTLD_DEEPBIND */
	u64 separate; /* and by dlmopen, into a namespace of their own */
	u64 bios;     /* BIOs of OpenSSL with a connection inside */
	u64 several;  /* functions that dlsym gave unwrapped: of one TLS library of several of its kind */
};

_Static_assert(sizeof(struct reader_page) <= PAGE_BYTES && sizeof(struct writer_page) <= PAGE_BYTES, "pages");
_Static_assert(__builtin_offsetof(struct reader_page, magic) == 64, "reader_page");
_Static_assert(__builtin_offsetof(struct writer_page, lost) == 128, "writer_page");

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The one BPF object. Read in this order: the events, the maps, which processes are
 * watched, connections, their bytes, their sockets, the library's calls. Nothing is used before it is defined.
 */
#ifdef SSLSNIFF_BCC
#include "bcc.h"
#else
#include "kernel.h"
#endif
#include "event.h"

/* The default; user space sets another size before it loads. */
#ifndef RING_BYTES
#define RING_BYTES (16 << 20)
#endif

#include "maps.bpf.h"
#include "stack.bpf.h"
#include "convention.bpf.h"
#include "entries.bpf.h"
#include "user_registers.bpf.h"
#include "open_calls.bpf.h"
#include "emit.bpf.h"
#include "process.bpf.h"
#include "sample.bpf.h"
#include "announce.bpf.h"
#include "tasks.bpf.h"
#include "connection.bpf.h"
#include "data.bpf.h"
#include "slices.bpf.h"
#include "tls_sockets.bpf.h"
#include "socket.bpf.h"
#include "calls.bpf.h"
#include "openssl.bpf.h"
#include "go.bpf.h"
#include "rustls.bpf.h"
#ifndef SSLSNIFF_BCC
#include "hold.bpf.h"
#include "fetch.bpf.h"
#include "functions.bpf.h"
#endif

/* For the test that compares them with sslsniff/core/wire.py. */
KEEP_TYPE(event_opened);
KEEP_TYPE(event_data);
KEEP_TYPE(event_addresses);
KEEP_TYPE(event_ended);
KEEP_TYPE(event_closed);
KEEP_TYPE(event_exited);
KEEP_TYPE(event_paired);
KEEP_TYPE(event_socket_gone);
KEEP_TYPE(event_left_out);
KEEP_TYPE(event_cgroup);
KEEP_TYPE(event_tls_socket);
KEEP_TYPE(event_hit);
KEEP_TYPE(event_stack);

LICENSE("Dual MIT/GPL");

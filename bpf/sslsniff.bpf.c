/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The one BPF object. Read in this order: event.h, maps.bpf.h, process.bpf.h (which processes are watched),
 * connection.bpf.h, slices.bpf.h (their bytes), socket.bpf.h (their sockets); then the calls of libraries. Each header
 * includes what it needs, so it can be compiled, and read in an editor, by itself.
 */
#include "boringssl.bpf.h"
#include "calls.bpf.h"
#include "gnutls.bpf.h"
#include "go.bpf.h"
#include "nss.bpf.h"
#include "openssl.bpf.h"
#include "rustls.bpf.h"
#ifndef SSLSNIFF_BCC
#include "functions.bpf.h"
#include "hold.bpf.h"
#include "stdio.bpf.h"
#endif

/* For the test that compares them with sslsniff/core/wire.py. */
KEEP_TYPE(event_opened);
KEEP_TYPE(event_data);
KEEP_TYPE(event_addresses);
KEEP_TYPE(event_ended);
KEEP_TYPE(event_socket_ended);
KEEP_TYPE(event_closed);
KEEP_TYPE(event_exited);
KEEP_TYPE(event_paired);
KEEP_TYPE(event_socket_gone);
KEEP_TYPE(event_left_out);
KEEP_TYPE(event_cgroup);
KEEP_TYPE(event_tls_socket);
KEEP_TYPE(event_failure);
KEEP_TYPE(event_stdio);
KEEP_TYPE(event_hit);
KEEP_TYPE(event_stack);

LICENSE("Dual MIT/GPL");

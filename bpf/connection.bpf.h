/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * TLS connections: made at the first sight of a TLS object, announced to user space with their
 * first byte; each direction ended by a close_notify, the whole by the library's free call.
 */

/* openssl/ssl.h, SSL_get_shutdown */
#define SSL_SENT_SHUTDOWN 1
#define SSL_RECEIVED_SHUTDOWN 2

static __always_inline u64 new_connection_id(void)
{
	/* Unique: a CPU's clock does not stand still between two connections. */
	return bpf_ktime_get_ns() << 10 | (bpf_get_smp_processor_id() & 1023);
}

static __always_inline void fill_header(struct event_header *header, u16 kind, u32 tid, u64 connection)
{
	header->kind = kind;
	header->direction = 0;
	header->cut = CUT_NONE;
	header->tid = tid;
	header->time_ns = bpf_ktime_get_ns();
	header->connection = connection;
}

static __always_inline struct connection *make_connection(const struct connection_key *key, u8 from_start, u8 half)
{
	struct connection fresh = {.id = new_connection_id(), .from_start = from_start, .half = half};
	if (!half)
		fresh.left_out = choose(fresh.id);
	map_update(connections, key, &fresh);
	struct connection *connection = map_lookup(connections, key);
	if (!connection)
		count(COUNTER_UNTRACKED_CALLS, 1);
	return connection;
}

static __always_inline struct connection *get_connection(const struct connection_key *key)
{
	struct connection *connection = map_lookup(connections, key);
	return connection ? connection : make_connection(key, 0, HALF_NONE);
}

static __always_inline u64 read_pointer(u64 address)
{
	u64 value = 0;
	bpf_probe_read_user(&value, sizeof(value), (const void *)address);
	return value;
}

static __always_inline u32 read_u32(u64 address)
{
	u32 value = 0;
	bpf_probe_read_user(&value, sizeof(value), (const void *)address);
	return value;
}

/* Whether the offsets hold for this object. */
static __always_inline int has_layout(const struct layout *layout, u64 object)
{
	return layout->is_typed <= 0 || !read_u32(object);
}

/* What the library's own object says of the connection, as far as its layout is known. */
static __always_inline void describe(struct event_opened *event, u64 object, const struct layout *layout)
{
	if (!has_layout(layout, object))
		return;
	if (layout->server >= 0)
		event->role = read_u32(object + layout->server) ? ROLE_SERVER : ROLE_CLIENT;
	if (layout->version >= 0)
		event->tls_version = read_u32(object + layout->version);
	if (layout->alpn >= 0 && layout->alpn_length >= 0) {
		u64 base = layout->alpn_base >= 0 ? read_pointer(object + layout->alpn_base) : object;
		u32 size = read_u32(base + layout->alpn_length);
		if (size > ALPN_BYTES)
			size = ALPN_BYTES;
		u64 alpn = read_pointer(base + layout->alpn);
		if (alpn && !bpf_probe_read_user(event->alpn, ALPN_BYTES, (const void *)alpn))
			event->alpn_bytes = size;
	}
	if (layout->session >= 0 && layout->session_cipher >= 0 && layout->cipher_name >= 0) {
		u64 session = read_pointer(object + layout->session);
		u64 cipher = session ? read_pointer(session + layout->session_cipher) : 0;
		u64 name = cipher ? read_pointer(cipher + layout->cipher_name) : 0;
		if (name)
			bpf_probe_read_user_str(event->cipher, CIPHER_BYTES, (const void *)name);
	}
	u64 sni = layout->sni >= 0 ? read_pointer(object + layout->sni) : 0;
	if (!sni && layout->sni_base >= 0 && layout->sni_inner >= 0) {
		u64 base = read_pointer(object + layout->sni_base);
		sni = base ? read_pointer(base + layout->sni_inner) : 0;
	}
	if (sni)
		bpf_probe_read_user_str(event->sni, SNI_BYTES, (const void *)sni);
}

static __always_inline void announce_addresses(const struct thread *thread, struct connection *connection);

/* Tell user space of the connection, until it took it. Returns whether it knows. */
static __always_inline int announce_opened(void *ctx, const struct thread *thread, const struct connection_key *key,
					   struct connection *connection)
{
	if (connection->announced)
		return 1;
	u32 index = layout_index(ctx);
	const struct layout *layout = map_lookup(layouts, &index);
	struct event_opened *event = layout ? ring_reserve(events, sizeof(struct event_opened)) : 0;
	if (!event)
		return 0;
	__builtin_memset(event, 0, sizeof(*event));
	fill_header(&event->header, EVENT_OPENED, thread->tid, connection->id);
	event->pid = thread->pid;
	event->uid = (u32)bpf_get_current_uid_gid();
	event->object = key->object;
	event->from_start = connection->from_start;
	event->half = connection->half;
	struct comm comm = {};
	get_process_comm(&comm);
	__builtin_memcpy(event->comm, comm.name, COMM_BYTES);
	event->library = layout->library;
	event->tls_version = layout->tls_version;
	if (!connection->half)
		describe(event, key->object, layout);
	ring_submit(events, event);
	connection->announced = 1;
	connection->layout = index;
	return 1;
}

/* Before something is told of a connection: tell what user space does not know yet of the connection itself. Returns
 * whether it may be told. */
static __always_inline int announce(void *ctx, const struct thread *thread, const struct connection_key *key,
				    struct connection *connection)
{
	if (!announce_opened(ctx, thread, key, connection))
		return 0;
	announce_addresses(thread, connection);
	return 1;
}

/* Tell that nothing follows in `direction`, once. */
static __always_inline void end_direction(const struct thread *thread, struct connection *connection, u32 direction)
{
	if (!connection->announced || connection->ended & (1 << direction))
		return;
	struct event_ended *event = ring_reserve(events, sizeof(struct event_ended));
	if (!event)
		return;
	fill_header(&event->header, EVENT_ENDED, thread->tid, connection->id);
	event->header.direction = direction;
	event->position = connection->positions[direction];
	ring_submit(events, event);
	connection->ended |= 1 << direction;
}

/* Tell which directions the library's object knows to be over. */
static __always_inline void check_ends(const struct thread *thread, u64 object)
{
	struct connection_key key = {.object = object, .pid = thread->pid};
	struct connection *connection = map_lookup(connections, &key);
	if (!connection || !connection->announced)
		return;
	u32 index = connection->layout;
	const struct layout *layout = map_lookup(layouts, &index);
	if (!layout || layout->shutdown < 0 || !has_layout(layout, object))
		return;
	u32 flags = read_u32(object + layout->shutdown);
	if (flags & SSL_SENT_SHUTDOWN)
		end_direction(thread, connection, DIRECTION_WRITE);
	if (flags & SSL_RECEIVED_SHUTDOWN)
		end_direction(thread, connection, DIRECTION_READ);
}

static __always_inline void close_connection(u32 tid, const struct connection_key *key)
{
	const struct connection *connection = map_lookup(connections, key);
	if (!connection)
		return;
	if (connection->announced) {
		struct event_closed *event = ring_reserve(events, sizeof(struct event_closed));
		if (event) {
			fill_header(&event->header, EVENT_CLOSED, tid, connection->id);
			event->positions[DIRECTION_READ] = connection->positions[DIRECTION_READ];
			event->positions[DIRECTION_WRITE] = connection->positions[DIRECTION_WRITE];
			ring_submit(events, event);
		} else {
			count(COUNTER_LOST_CLOSES, 1);
			if (!connection->half)
				count(COUNTER_LOST_ENDS, 1);
		}
	}
	map_delete(connections, key);
}

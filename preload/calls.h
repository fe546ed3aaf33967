/* SPDX-License-Identifier: MIT
 *
 * What the wrappers of all libraries do around the real call. Only bytes of successful calls count: one that would block
 * is called again with the same bytes.
 */

/* A call that is being wrapped. */
struct wrapped {
	struct library *library;
	u64 object, stack;
	struct open_call *open;
	int counts; /* 0: nobody watches, or the library calls itself, inside of a call that counts */
};

/* Whether code at `address` is in a file in memory. */
static inline int is_within(u64 address, u64 start, u64 end)
{
	return address - start < end - start;
}

/* Begin a call on `object`, by the code at `address`. */
static inline struct wrapped begin_call(enum family family, const void *object, const void *address, const void *stack)
{
	/* A function of the library that ends in a jump to another one has this library's address to return to. */
	int is_jump = is_within((u64)address, own_file.start, own_file.end);
	const struct connection *jumping = is_jump && reader ? find_connection((u64)object) : 0;
	struct wrapped call = {
	    .library = jumping ? jumping->library : library_of(family, address),
	    .object = (u64)object,
	    .stack = (u64)stack,
	};
	if (!is_watched() || !call.library)
		return call;
	call.counts = 1;
	if (is_jump || is_within((u64)address, call.library->start, call.library->end))
		call.counts = innermost_object(call.stack) != call.object;
	if (call.counts)
		call.open = open_call(call.object, call.stack);
	return call;
}

static inline struct connection *connection_of(const struct wrapped *call)
{
	struct connection *connection = find_connection(call->object);
	return connection ? connection : add_connection(call->object, call->library, 0);
}

/* End a call that moved `size` bytes; 0: none. Returns its connection; 0: it does not count, or there is no room. */
static inline struct connection *end_call(const struct wrapped *call, u32 direction, const void *data, u64 size, u8 cut)
{
	if (!call->counts)
		return 0;
	struct thread *thread = this_thread();
	close_call(call->open, call->stack);
	struct connection *connection = connection_of(call);
	if (!connection)
		return 0;
	int inside = GET(connection->inside);
	if (inside)
		bind_inside(connection, inside - 1);
	if (!size)
		return connection;
	if (direction == DIRECTION_READ) {
		int received = thread->received;
		thread->received = 0;
		if (received && !inside)
			bind_descriptor(connection, received - 1, 0);
	} else if (!inside && !innermost_object(call->stack)) {
		thread->written = call->object;
	}
	u64 most = cut == CUT_SENDFILE ? 0 : reader->call_limit_bytes;
	u64 captured = size < most ? size : most;
	emit_plaintext(connection, thread->tid, direction, data, captured, size, captured == size ? (u8)CUT_NONE : cut);
	return connection;
}

/* An object for a new connection: one that had the same address is over. */
static struct connection *new_object(enum family family, const void *object, const void *address)
{
	struct library *library = library_of(family, address);
	if (!object || !library || !is_watched())
		return 0;
	struct connection *connection = find_connection((u64)object);
	if (connection)
		close_connection(connection, this_thread()->tid);
	return add_connection((u64)object, library, 1);
}

/* An object is about to be freed, or one reference to it. */
static void free_object(const void *object)
{
	struct connection *connection = reader && object ? find_connection((u64)object) : 0;
	if (connection && __atomic_sub_fetch(&connection->references, 1, __ATOMIC_RELAXED) <= 0)
		close_connection(connection, this_thread()->tid);
}

/* SPDX-License-Identifier: MIT
 *
 * The connections of this process, by the address of the library's object. The table has a fixed size, and the kernel gives
 * a forked child an empty one: what parent and child do with their copies of an object are two connections.
 */
#define BUCKETS 8192
#define BUCKET_CONNECTIONS 8
#define PROBED_BUCKETS 4

struct connection {
	u64 object; /* 0: free. Other threads look at it; at the rest, only those that use the object */
	u64 id;
	u64 positions[DIRECTIONS];
	struct library *library; /* 0: a thread is just filling this in */
	u64 pending;		 /* bytes that count already, and that a later call will return (GnuTLS) */
	int descriptor, rival;	 /* of the socket, plus 1; and of one that may be it instead */
	int without_addresses;	 /* of one that is of another family, plus 1: asked once */
	int references;
	u8 is_announced, has_addresses, from_start, ended, role, is_left_out;
};

static struct connection *connections;
static u8 had_connection;

/* Whether there was any connection. Before that, socket calls tell nothing. */
static inline int has_connections(void)
{
	return __atomic_load_n(&had_connection, __ATOMIC_RELAXED);
}

static inline u64 mix(u64 value)
{
	value *= 0x9E3779B97F4A7C15ULL;
	return value ^ value >> 32;
}

static inline struct connection *bucket(u64 object, u32 probe)
{
	return connections + ((mix(object) + probe) & (BUCKETS - 1)) * BUCKET_CONNECTIONS;
}

/* A connection that is filled in; else 0. */
static inline struct connection *if_ready(struct connection *connection)
{
	return __atomic_load_n(&connection->library, __ATOMIC_ACQUIRE) ? connection : 0;
}

static inline struct connection *find_connection(u64 object)
{
	for (u32 probe = 0; probe < PROBED_BUCKETS; probe++) {
		struct connection *first = bucket(object, probe);
		for (u32 i = 0; i < BUCKET_CONNECTIONS; i++)
			if (__atomic_load_n(&first[i].object, __ATOMIC_ACQUIRE) == object)
				return if_ready(first + i);
	}
	return 0;
}

static void begin_connection(struct connection *connection, struct library *library, int from_start)
{
	u64 id =
	    (u64)this_thread()->pid << 32 | (u32)(__atomic_fetch_add(&writer->connections, 1, __ATOMIC_RELAXED) + 1);
	__atomic_store_n(&had_connection, 1, __ATOMIC_RELAXED);
	memset((u8 *)connection + sizeof(connection->object), 0, sizeof(*connection) - sizeof(connection->object));
	connection->id = id;
	connection->references = 1;
	connection->from_start = from_start != 0;
	connection->is_left_out = (u32)mix(id) >= reader->sample;
	if (connection->is_left_out)
		add_to(&writer->left_out, 1);
	__atomic_store_n(&connection->library, library, __ATOMIC_RELEASE);
}

/* A connection for an object that has none; 0: there is no room. */
static __attribute__((noinline)) struct connection *add_connection(u64 object, struct library *library, int from_start)
{
	for (u32 probe = 0; probe < PROBED_BUCKETS; probe++) {
		struct connection *first = bucket(object, probe);
		for (u32 i = 0; i < BUCKET_CONNECTIONS; i++) {
			u64 free = 0;
			if (__atomic_compare_exchange_n(&first[i].object, &free, object, 0, __ATOMIC_ACQ_REL,
							__ATOMIC_ACQUIRE)) {
				begin_connection(first + i, library, from_start);
				return first + i;
			}
			if (free == object) { /* another thread was faster, and may not be done */
				struct connection *made = if_ready(first + i);
				if (!made)
					add_to(&writer->untracked, 1);
				return made;
			}
		}
	}
	add_to(&writer->untracked, 1);
	return 0;
}

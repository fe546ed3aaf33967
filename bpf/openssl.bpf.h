/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A connection's life in OpenSSL and in libraries with its interface (BoringSSL, LibreSSL). Its
 * reads and writes are in calls.bpf.h; which function carries which program is data:
 * sslsniff/plans/openssl.py.
 */

/* SSL_new returned an object: whatever was known under its address is over. */
SEC("uprobe")
int openssl_new_return(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	u64 object = PT_REGS_RC(ctx);
	if (!thread || !object)
		return 0;
	struct connection_key key = {.object = object, .pid = thread->pid};
	close_connection(thread->tid, &key);
	make_connection(&key, 1, HALF_NONE);
	return 0;
}

/* SSL_free only counts down while others hold the object. */
SEC("uprobe")
int openssl_free_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	u64 object = PT_REGS_PARM1(ctx);
	if (!thread || !object)
		return 0;
	u32 index = ATTACH_COOKIE(ctx);
	const struct layout *layout = map_lookup(layouts, &index);
	if (layout && layout->references >= 0 && (s32)read_u32(object + layout->references) > 1)
		return 0;
	struct connection_key key = {.object = object, .pid = thread->pid};
	close_connection(thread->tid, &key);
	return 0;
}

/* SSL_clear makes the object ready for another connection. The library also calls it before a
 * first handshake: nothing has passed then. */
SEC("uprobe")
int openssl_clear_enter(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	if (!thread)
		return 0;
	struct connection_key key = {.object = PT_REGS_PARM1(ctx), .pid = thread->pid};
	const struct connection *connection = map_lookup(connections, &key);
	if (!connection || !(connection->positions[DIRECTION_READ] | connection->positions[DIRECTION_WRITE]))
		return 0;
	close_connection(thread->tid, &key);
	make_connection(&key, 1, HALF_NONE);
	return 0;
}

/* SSL_shutdown may have to be called again, and says so in several ways; the object's flags tell what it did. */
SEC("uprobe")
int openssl_shutdown_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_WRITE, 0, CUT_NONE);
}

SEC("uprobe")
int openssl_shutdown_return(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = map_lookup(threads, &id);
	struct call call;
	if (thread && leave_call(ctx, thread, &call))
		check_ends(ctx, thread, call.object);
	return 0;
}

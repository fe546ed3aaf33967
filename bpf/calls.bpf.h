/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Read and write calls of libraries with C's calling convention: arguments at the
 * entry, the result at the return, the plaintext in between. A program for each place
 * of the count; the return is one program for all.
 */

/* Return the place for a call that begins. */
static __always_inline struct call *open_call(struct thread *thread, u64 stack)
{
	/* The slot of a call with this stack pointer (one that never returned: longjmp, a killed fiber),
	 * else a free one, else the next in turn. */
	int slot = -1;
	for (int i = CALL_SLOTS - 1; i >= 0; i--)
		if (!thread->calls[i].stack)
			slot = i;
	for (int i = 0; i < CALL_SLOTS; i++)
		if (thread->calls[i].stack == stack)
			slot = i;
	if (slot < 0)
		slot = thread->next_slot++;
	struct call *call = &thread->calls[slot & (CALL_SLOTS - 1)];
	call->stack = stack;
	return call;
}

/* Remember a call's arguments: (object, buffer, ...), and where it will store its count. */
static __always_inline int enter_call(struct pt_regs *ctx, u8 direction, u64 count_pointer, u8 cut)
{
	keep_thread_stack(ctx);
	struct thread *thread = get_thread();
	if (!thread)
		return 0;
	struct call *call = open_call(thread, PT_REGS_SP(ctx));
	call->object = PT_REGS_PARM1(ctx);
	call->buffer = PT_REGS_PARM2(ctx);
	call->count = count_pointer;
	call->direction = direction;
	call->cut = cut;
	call->has_no_io = 0;
	return 0;
}

/* Take the call that returns out of its slot into `call`; 0 where its entry was not seen. A return probe's stack
 * pointer stands behind the return address, a return instruction's on it. */
static __always_inline int leave_call(struct pt_regs *ctx, struct thread *thread, struct call *call)
{
	u64 stack = PT_REGS_SP(ctx);
	for (int i = 0; i < CALL_SLOTS; i++) {
		struct call *open = &thread->calls[i];
		if (open->stack && (open->stack == stack || open->stack == stack - 8)) {
			*call = *open;
			open->stack = 0;
			return 1;
		}
	}
	return 0;
}

/* `size` bytes passed. User space gets `limit` of them at most and learns why the rest is missing. */
static __always_inline void pass_data(struct pt_regs *ctx, struct thread *thread, const struct call *call, u64 size,
				      u64 limit)
{
	struct connection_key key = {.object = call->object, .pid = thread->pid};
	struct connection *connection = get_connection(&key);
	if (!connection)
		return;
	u32 direction = call->direction & 1;
	if (direction == DIRECTION_READ)
		bind_received(thread, &key, connection);
	else
		thread->written = call->object;
	u64 position = connection->positions[direction];
	connection->positions[direction] += size;
	if (leave_out(thread->tid, connection))
		return;
	thread->piece = (struct piece){
	    .connection = connection->id,
	    .buffer = call->buffer,
	    .size = size < limit ? size : limit,
	    .span = size,
	    .position = position,
	    .call_bytes = size,
	    .direction = direction,
	    .cut = size <= limit ? CUT_NONE : call->cut,
	};
	if (announce(ctx, thread, &key, connection))
		emit_piece(thread);
	else
		lose(CUT_NONE, size);
}

/* (object, buffer, size, size_t *count) */
SEC("uprobe")
int c_read_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_READ, PT_REGS_PARM4(ctx), CUT_CALL_LIMIT);
}

SEC("uprobe")
int c_write_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_WRITE, PT_REGS_PARM4(ctx), CUT_CALL_LIMIT);
}

/* (object, buffer, size, flags, size_t *count) */
SEC("uprobe")
int c_write_flags_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_WRITE, PT_REGS_PARM5(ctx), CUT_CALL_LIMIT);
}

/* (object, buffer, size), the result is the count */
SEC("uprobe")
int c_read_plain_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_READ, 0, CUT_CALL_LIMIT);
}

SEC("uprobe")
int c_write_plain_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_WRITE, 0, CUT_CALL_LIMIT);
}

/* (object, fd, ...), the result is the count: the kernel moves a file's bytes, the process never has them */
SEC("uprobe")
int c_sendfile_enter(struct pt_regs *ctx)
{
	return enter_call(ctx, DIRECTION_WRITE, 0, CUT_SENDFILE);
}

/* The return of any of these calls. Only bytes of successful calls count: one that would block is called again
 * with the same bytes. */
SEC("uprobe")
int c_return(struct pt_regs *ctx)
{
	keep_thread_stack(ctx);
	u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = map_lookup(threads, &id);
	struct call call;
	if (!thread || !leave_call(ctx, thread, &call))
		return 0;
	/* An int, or a ssize_t that the kernel keeps below 2^31: the low half says it all. */
	s32 result = (s32)PT_REGS_RC(ctx);
	const struct config *config = get_config();
	if (!result)
		check_ends(ctx, thread, call.object);
	if (result <= 0 || !config || config->stopped)
		return 0;
	u64 size = call.count ? read_pointer(call.count) : (u64)(u32)result;
	u64 limit = call.cut == CUT_SENDFILE ? 0 : config->call_limit_bytes;
	if (size && size <= 0xffffffff)
		pass_data(ctx, thread, &call, size, limit);
	return 0;
}

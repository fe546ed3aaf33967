/* A library whose constructor waits for a thread that uses sockets. Prints what the thread received. */
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void *pass_bytes(void *none)
{
	int ends[2];
	char got[9] = {0};
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	struct iovec sent = {"passed", 6}, received = {got, sizeof(got) - 1};
	struct msghdr message = {.msg_iov = &sent, .msg_iovlen = 1}, answer = {.msg_iov = &received, .msg_iovlen = 1};
	sendmsg(ends[0], &message, 0);
	recvmsg(ends[1], &answer, 0);
	puts(got);
	return none;
}

__attribute__((constructor)) static void start(void)
{
	pthread_t thread;
	pthread_create(&thread, 0, pass_bytes, 0);
	pthread_join(thread, 0);
}

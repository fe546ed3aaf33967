/* A plugin whose constructor waits for a thread; the thread's first call sends. */
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

int plugin_sent;

static void *send_once(void *argument)
{
	int fds[2];
	struct iovec part = {"x", 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	(void)argument;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		return NULL;
	plugin_sent = (int)(sendmsg(fds[0], &message, 0) + send(fds[0], "y", 1, 0) + writev(fds[0], &part, 1));
	close(fds[0]);
	close(fds[1]);
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;
	if (!pthread_create(&thread, NULL, send_once, NULL))
		pthread_join(thread, NULL);
}

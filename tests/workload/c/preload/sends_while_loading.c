/* A forked child and a thread send for the first time while another thread loads a library: that ends only after they have. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int pipes[2][2];

int (*loading_pipes(void))[2]
{
	return pipes;
}

static void *load(void *path)
{
	return dlopen(path, RTLD_NOW);
}

int main(int count, char **arguments)
{
	int ends[2], status = 0;
	char one;
	void *handle = 0;
	pthread_t thread;
	if (count < 2 || pipe(pipes[0]) || pipe(pipes[1]) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 2;
	pthread_create(&thread, 0, load, arguments[1]);
	if (read(pipes[0][0], &one, 1) != 1) /* it is in the constructor */
		return 2;
	if (!fork())
		_exit(send(ends[0], "a", 1, 0) != 1);
	wait(&status);
	ssize_t sent = send(ends[0], "b", 1, 0);
	if (write(pipes[1][1], "", 1) != 1)
		return 2;
	pthread_join(thread, &handle);
	printf("child %d, sent %zd, loaded %d\n", status, sent, handle != 0);
	return 0;
}

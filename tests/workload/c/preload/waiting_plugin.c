/* A library whose constructor takes until the program lets it go on. */
#include <unistd.h>

__attribute__((constructor)) static void start(void)
{
	char one;
	extern int (*loading_pipes(void))[2];
	int(*pipes)[2] = loading_pipes();
	if (write(pipes[0][1], "", 1) == 1 && read(pipes[1][0], &one, 1) == 1)
		return;
	_exit(3);
}

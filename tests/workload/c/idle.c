/* `idle COUNT`: so many processes that have mapped a TLS library and wait; prints a line when all do. */

#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	SSL_CTX_free(SSL_CTX_new(TLS_method()));
	for (int left = atoi(arguments[count - 1]); left > 1; left--)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}

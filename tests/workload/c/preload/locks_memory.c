/* Locks its memory, of which it has little. */
#include <stdio.h>
#include <sys/mman.h>

int main(void)
{
	printf("%d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
	return 0;
}

/* A static probe with a semaphore, by sys/sdt.h of SystemTap: for each line that is read, the probe
 * is passed if it is enabled, and the semaphore printed. */
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <string.h>
#include <sys/sdt.h>

unsigned short shop_sold_semaphore __attribute__((section(".probes")));

int main(void)
{
	char line[64];
	for (int number = 1; fgets(line, sizeof(line), stdin); number++) {
		line[strcspn(line, "\n")] = 0;
		if (shop_sold_semaphore)
			STAP_PROBE3(shop, sold, number, (short)-number, line);
		printf("%d\n", shop_sold_semaphore);
		fflush(stdout);
	}
}

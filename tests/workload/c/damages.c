/* Overwrites the ring of the preloaded library of its own process, before the program begins: the producer's POSITION, and each
 * word of the data with WORD. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void damage(void)
{
	char line[512];
	uint64_t data_bytes = 0, page = (uint64_t)sysconf(_SC_PAGESIZE);
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long start, end, offset;
		if (!strstr(line, "/memfd:sslsniff (deleted)") ||
		    sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) != 3 || offset)
			continue;
		uint64_t *produced = (uint64_t *)(start + page);
		data_bytes = end - start - 2 * page;
		for (uint64_t i = 0; i < data_bytes / 8; i++)
			((uint64_t *)(start + 2 * page))[i] = WORD;
		*produced = POSITION;
		break;
	}
	if (maps)
		fclose(maps);
	if (!data_bytes)
		puts("there is no ring");
}

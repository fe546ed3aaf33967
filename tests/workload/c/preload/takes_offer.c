/* Loads a plugin, after one into another namespace if there is a further argument, and calls what the plugin offers. It asks the
 * dynamic linker for nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int (*offered)(const char *certificate, const char *key);

int main(int count, char **arguments)
{
	if (count == 5 && !dlmopen(LM_ID_NEWLM, arguments[4], RTLD_NOW))
		return 2;
	if (count < 4 || !dlopen(arguments[1], RTLD_NOW)) {
		puts(dlerror());
		return 3;
	}
	return offered(arguments[2], arguments[3]);
}

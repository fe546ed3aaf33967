/* Loads the library in the first argument. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
	if (count > 1 && !dlopen(arguments[1], RTLD_NOW))
		puts(dlerror());
	return 0;
}

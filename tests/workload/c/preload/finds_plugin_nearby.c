/* Loads a plugin by a name without a folder, as the program's own search path has it, and lets it pass a message. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
	void *plugin = dlopen("tls_plugin", RTLD_LAZY);
	if (count != 3 || !plugin) {
		puts(dlerror());
		return 3;
	}
	int (*pass_message)(const char *, const char *) =
	    (int (*)(const char *, const char *))dlsym(plugin, "pass_message");
	return pass_message(arguments[1], arguments[2]);
}

/* Loads a plugin, and asks the dynamic linker for a function in another thread while the plugin is relocated. Then it lets the plugin
 * pass a message. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define RELOCATING 100

static void *ask(void *pipe_end)
{
	char byte;
	if (read(*(int *)pipe_end, &byte, 1) == 1)
		puts(dlsym(RTLD_DEFAULT, "getpid") ? "found" : "lost");
	return 0;
}

int main(int count, char **arguments)
{
	int ends[2];
	pthread_t thread;
	if (count != 4 || pipe(ends) || dup2(ends[1], RELOCATING) != RELOCATING ||
	    pthread_create(&thread, 0, ask, &ends[0]))
		return 2;
	void *plugin = dlopen(arguments[1], RTLD_NOW);
	pthread_join(thread, 0);
	if (!plugin) {
		puts(dlerror());
		return 3;
	}
	int (*pass_message)(const char *, const char *) =
	    (int (*)(const char *, const char *))dlsym(plugin, "pass_message");
	return pass_message(arguments[2], arguments[3]);
}

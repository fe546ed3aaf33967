/* Loads a plugin by a name without a folder, as the program's own search path has it, sets a filter that kills for what only the
 * dynamic linker does, and asks the plugin for a function. */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../filter_rules.h"

int main(void)
{
	struct sock_filter rules[] = {
	    LOAD_NUMBER,
	    KILL(SYS_mprotect),
	    ALLOW_OTHERS,
	};
	struct sock_fprog program = {sizeof(rules) / sizeof(*rules), rules};
	void *plugin = dlopen("tls_plugin", RTLD_NOW);
	if (!plugin || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		return 2;
	puts(dlsym(plugin, "pass_message") ? "found" : dlerror());
	return 0;
}

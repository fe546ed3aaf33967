/* Loads a plugin by a name without a folder, as the program's own search path has it, sets a filter that kills for what only the
 * dynamic linker does, and asks the plugin for a function. */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define KILL(number) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

int main(void)
{
	struct sock_filter rules[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    KILL(SYS_mprotect),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(rules) / sizeof(*rules), rules};
	void *plugin = dlopen("tls_plugin", RTLD_NOW);
	if (!plugin || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		return 2;
	puts(dlsym(plugin, "pass_message") ? "found" : dlerror());
	return 0;
}

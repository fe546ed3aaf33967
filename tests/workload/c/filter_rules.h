/* Rules of a filter of system calls (seccomp(2)): LOAD_NUMBER first, then what is allowed or ends the process, and what holds for
 * all others. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ALLOW_OTHERS BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL_OTHERS BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), ALLOW_OTHERS
#define KILL(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), KILL_OTHERS

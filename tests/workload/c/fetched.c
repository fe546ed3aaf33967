/* Passes one place, the symbol `probed`, with known values in registers and memory; as often as each line of standard
 * input says, after its first letter:
 *   c: by this thread     f: by a child process     t: by another thread
 * s: calls `timed`, which ends at `timed_end`, this often.
 * It prints the process and the thread that did, and its `semaphore`. Linked at fixed addresses (-no-pie).
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Beyond all places of the heap: it begins at most 1 GiB after the program (arch_randomize_brk in Linux). */
#define MEMORY 0x50000000L
#define MAPPED 8192L
#define UNUSED 0x60000000L /* never read nor written: not mapped yet; 0 */
#define TEXT (MEMORY + 0x1000)

/* As of a static probe: counts who probes it. */
static volatile unsigned short semaphore __attribute__((section(".probes")));

/* All registers but rdi, the argument, and rsp; the carry flag is set. */
__attribute__((naked, noinline)) static void pass(long number __attribute__((unused)))
{
	__asm__("push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
		"movabs $0xF0E0D0C0B0A00000, %r15\n"
		"lea 1(%r15), %r14; lea 2(%r15), %r13; lea 3(%r15), %r12; lea 4(%r15), %rbp; lea 5(%r15), %rbx\n"
		"lea 6(%r15), %r11; lea 7(%r15), %r10; lea 8(%r15), %r9; lea 9(%r15), %r8; lea 10(%r15), %rax\n"
		"lea 11(%r15), %rcx; lea 12(%r15), %rdx; lea 13(%r15), %rsi\n"
		"stc\n"
		".globl probed\n"
		"probed: nop\n"
		"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
		"ret");
}

/* Takes 2 ms. Its entry and its end have the same stack pointer. */
__attribute__((naked, noinline)) static void sleep_timed(void)
{
	__asm__(".globl timed, timed_end\n"
		"timed: nop; sub $8, %rsp; mov $2000, %edi; call usleep; add $8, %rsp\n"
		"timed_end: nop; ret");
}

static void *pass_all(void *count)
{
	for (long number = 0; number < *(long *)count; number++)
		pass(number);
	printf("%d %ld %u\n", getpid(), syscall(SYS_gettid), semaphore);
	fflush(stdout);
	return 0;
}

static void pass_in_child(long count)
{
	pid_t child = fork();
	if (!child) {
		pass_all(&count);
		_exit(0);
	}
	waitpid(child, 0, 0);
}

static void pass_in_thread(long count)
{
	pthread_t thread;
	pthread_create(&thread, 0, pass_all, &count);
	pthread_join(thread, 0);
}

int main(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	unsigned char *memory = mmap((void *)MEMORY, MAPPED, PROT_READ | PROT_WRITE, flags, -1, 0);
	void *unused = mmap((void *)UNUSED, 16 * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (memory == MAP_FAILED || unused == MAP_FAILED)
		return 1;
	for (long at = 0; at < MAPPED; at++)
		memory[at] = at % 251 + 1;
	strcpy((char *)TEXT, "short");
	long count;
	char mode;
	while (scanf(" %c%ld", &mode, &count) == 2) {
		for (long i = 0; mode == 's' && i < count; i++)
			sleep_timed();
		if (mode == 'f')
			pass_in_child(count);
		else if (mode == 't')
			pass_in_thread(count);
		else
			pass_all(&count);
	}
	return 0;
}

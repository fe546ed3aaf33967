/* Places that begin with a nop of 5 bytes, which Linux 6.18 makes a call, in leaf functions that keep a
 * value below the stack pointer. The program counts its calls and wrong results; it ends with 1 if
 * there are some. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOP5 ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t"
#define NOP10 ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n\t"
#define LEAF __attribute__((noinline, naked)) unsigned long

LEAF in_the_middle(unsigned long value)
{
	__asm__ volatile("movq %rdi, -8(%rsp)\n\t"
			 ".globl nop_site\nnop_site:\n\t" NOP5 "movq -8(%rsp), %rax\n\t"
			 "ret\n\t");
}

LEAF longer(unsigned long value)
{
	__asm__ volatile("movq %rdi, -8(%rsp)\n\t"
			 ".globl long_nop_site\nlong_nop_site:\n\t" NOP10 "movq -8(%rsp), %rax\n\t"
			 "ret\n\t");
}

LEAF at_the_entry(unsigned long value)
{
	__asm__ volatile(NOP5 "movq %rdi, %rax\n\t"
			      "ret\n\t");
}

/* The loop leads back to the instruction after the nop: a probe there would count each turn. */
LEAF before_a_loop(unsigned long value)
{
	__asm__ volatile("movq %rdi, -8(%rsp)\n\t"
			 "movl $3, %ecx\n\t"
			 ".globl loop_site\nloop_site:\n\t" NOP5 "1:\tdecl %ecx\n\t"
			 "jne 1b\n\t"
			 "movq -8(%rsp), %rax\n\t"
			 "ret\n\t");
}

/* The same, from another part of the code. */
LEAF reached_from_afar(unsigned long value)
{
	__asm__ volatile("movq %rdi, -8(%rsp)\n\t"
			 "testq %rdi, %rdi\n\t"
			 "je 2f\n\t"
			 ".globl far_site\nfar_site:\n\t" NOP5 "3:\tmovq -8(%rsp), %rax\n\t"
			 "ret\n\t"
			 ".pushsection .text.unlikely\n\t"
			 ".skip 256\n"
			 "2:\tjmp 3b\n\t"
			 ".popsection\n\t");
}

LEAF of_a_static_probe(unsigned long value)
{
	__asm__ volatile("movq %rdi, -8(%rsp)\n"
			 "990:\t" NOP5 ".pushsection .note.stapsdt, \"\", \"note\"\n\t"
			 ".balign 4\n\t.4byte 992f - 991f, 994f - 993f, 3\n"
			 "991:\t.asciz \"stapsdt\"\n"
			 "992:\t.balign 4\n"
			 "993:\t.8byte 990b\n\t.8byte _.stapsdt.base\n\t.8byte 0\n\t"
			 ".asciz \"nops\"\n\t.asciz \"leaf\"\n\t.asciz \"8@%rdi 4@nop_number(%rip)\"\n"
			 "994:\t.balign 4\n\t.popsection\n\t"
			 ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n\t"
			 ".weak _.stapsdt.base\n\t.hidden _.stapsdt.base\n"
			 "_.stapsdt.base:\t.space 1\n\t.size _.stapsdt.base, 1\n\t.popsection\n\t"
			 "movq -8(%rsp), %rax\n\t"
			 "ret\n\t");
}

unsigned nop_number = 77;

__attribute__((noinline)) unsigned long of_a_line(unsigned long value)
{
	unsigned long twice = value * 2;
	__asm__ volatile("# kept: %0" : "+r"(twice));
	__asm__ volatile(NOP5); /* LINE */
	return twice;
}

static unsigned long wrong;

static void call_all(unsigned long value)
{
	wrong += in_the_middle(value) != value;
	wrong += longer(value) != value;
	wrong += at_the_entry(value) != value;
	wrong += before_a_loop(value) != value;
	wrong += reached_from_afar(value) != value;
	wrong += reached_from_afar(0) != 0;
	wrong += of_a_static_probe(value) != value;
	wrong += of_a_line(value) != 2 * value;
}

int main(int count, char **arguments)
{
	unsigned long calls = count > 1 ? strtoul(arguments[1], NULL, 10) : 20;
	for (unsigned long each = 1; each <= calls; each++)
		call_all(each);
	pid_t child = fork();
	if (child == 0) {
		call_all(calls + 1);
		_exit(wrong != 0);
	}
	int status;
	waitpid(child, &status, 0);
	printf("%lu wrong, child %d\n", wrong, status);
	return wrong != 0 || status != 0;
}

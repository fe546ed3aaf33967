/* Static probes as sys/sdt.h of SystemTap makes them, with operands of all forms. */
#include <stdint.h>
#include <stdio.h>

#define NOTE(name, semaphore, arguments)                                      \
	".pushsection .note.stapsdt,\"?\",\"note\"\n"                         \
	".balign 4\n .4byte 992f-991f, 994f-993f, 3\n"                        \
	"991: .asciz \"stapsdt\"\n"                                           \
	"992: .balign 4\n"                                                    \
	"993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                   \
	" .asciz \"test\"\n .asciz \"" name "\"\n .asciz \"" arguments "\"\n" \
	"994: .balign 4\n .popsection\n"

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
	".weak _.stapsdt.base\n .hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n .size _.stapsdt.base, 1\n .popsection\n");

__attribute__((used)) int64_t counters[2] = {77, -78};
__attribute__((used)) int64_t table[4] = {10, -11, 12, 13};
__attribute__((used, section(".probes"))) volatile uint16_t test_guarded_semaphore;

static void all_forms(const char *text)
{
	__asm__ volatile("mov $0x11223344aabbccfb, %%rdi\n mov $0x8877, %%rax\n mov $2, %%rbx\n"
			 "lea table(%%rip), %%rcx\n movq $-9, -16(%%rsp)\n"
			 "990: nop\n" NOTE("forms", "0",
					   "-4@%%edi 4@%%edi -2@%%di 1@%%dil 8@%%rdi 1@%%ah -4@$-5 8@$5 8@(%%rcx) "
					   "-4@8(%%rcx) 8@(%%rcx,%%rbx,8) 8@8(%%rcx,%%rbx,8) -8@counters(%%rip) "
					   "-8@8+counters(%%rip) 8@%%rsi 8f@%%xmm0 -8@-16(%%rsp) 4@nowhere(%%rip)")
			 :
			 : "S"(text)
			 : "rdi", "rax", "rbx", "rcx", "memory");
}

static void guarded(int64_t number)
{
	if (!test_guarded_semaphore)
		return;
	__asm__ volatile("990: nop\n" NOTE("guarded", "test_guarded_semaphore", "-8@%%rdi") : : "D"(number));
}

int main(void)
{
	all_forms("SELECT 1");
	guarded(5);
	puts("done");
}

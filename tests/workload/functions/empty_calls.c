/* Calls functions whose first instruction is their return. */

void in_assembler(int a);
void jumps_there(int a);
__asm__(".text\n"
	".globl in_assembler\n.type in_assembler,@function\n"
	"in_assembler: ret\n.size in_assembler,.-in_assembler\n"
	".globl jumps_there\n.type jumps_there,@function\n"
	"jumps_there: jmp in_assembler\n.size jumps_there,.-jumps_there\n");

__attribute__((noipa)) void empty(int n)
{
}

__attribute__((noipa)) int after(int n)
{
	return n + 1;
}

__attribute__((noipa)) int outer(int n)
{
	empty(n);
	in_assembler(n);
	jumps_there(n);
	int result = after(n);
	empty(result);
	return result * 2;
}

int main(void)
{
	empty(1);
	outer(2);
	return outer(3) != 8;
}

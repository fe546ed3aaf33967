/* Calls that end in uncommon ways: tail calls, longjmp over frames, longjmp in a loop; and recursion. */
#include <setjmp.h>
#include <stdio.h>

#define SEPARATE __attribute__((noipa))

static jmp_buf outer_jump, loop_jump;

SEPARATE int deeper(int n)
{
	int got = n ? deeper(n - 1) : 0;
	__asm__ volatile("" : "+r"(got)); /* no tail call, and no loop instead of it */
	return got + 1;
}

SEPARATE int tail_called(int n)
{
	return n + 1;
}

SEPARATE int tail_caller(int n)
{
	return tail_called(n + 1);
}

SEPARATE int after(int n)
{
	return n;
}

SEPARATE void inner(int n)
{
	longjmp(outer_jump, n);
}

SEPARATE int middle(int n)
{
	inner(n + 1);
	return n;
}

SEPARATE int outer(int n)
{
	if (!setjmp(outer_jump))
		middle(n + 1);
	after(n + 3);
	return n;
}

SEPARATE void jumper(int n)
{
	if (n < 3)
		longjmp(loop_jump, n + 1);
}

SEPARATE int hidden(int n)
{
	return n + 1;
}

SEPARATE int mixed(int n)
{
	return n ? hidden(n) : 0; /* a tail call of a function that is not traced */
}

int main(void)
{
	volatile int turns = 0;
	int sum = deeper(2) + tail_caller(3) + after(5) + outer(6);
	setjmp(loop_jump);
	turns++;
	jumper(turns);
	sum += mixed(11);
	printf("%d\n", sum + after(10));
	return 0;
}

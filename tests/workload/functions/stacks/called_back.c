/* Prints its stack where it calls `probed`: from a callback of the C library, below a recursion and a signal. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int compared;

__attribute__((noinline)) int probed(int n) {
    void *at[64];
    int count = backtrace(at, 64);
    for (int i = 1; i < count; i++)
        printf("%p\n", at[i]);
    puts("end");
    fflush(stdout);
    return n + count;
}

static inline __attribute__((always_inline)) int inlined(int n) { return probed(n + 1) * 3; }

__attribute__((noinline)) int compare(const void *a, const void *b) {
    if (!compared++ && !inlined(*(const int *)a))
        return 0;
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) int recurse(int n) {
    volatile char room[100];
    room[n] = n;
    if (n)
        return recurse(n - 1) + room[n];
    int values[] = {3, 2, 1};
    qsort(values, 3, sizeof(int), compare);
    return values[0];
}

static void handle(int number) { compared += probed(number); }

int main(void) {
    signal(SIGUSR1, handle);
    int first = recurse(4);
    raise(SIGUSR1);
    return first == 11 ? 0 : 1;
}

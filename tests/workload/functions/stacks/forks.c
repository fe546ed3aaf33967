/* Calls `probed` in a thread, and in a child that ends at once. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int total;

__attribute__((noinline)) void probed(long n) { total += n; }

__attribute__((noinline)) void *work(void *n) {
    probed((long)n);
    total++;
    return 0;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, (void *)1L);
    pthread_join(thread, 0);
    if (!fork()) {
        work((void *)2L);
        _exit(0);
    }
    wait(0);
    return 0;
}

/* A wall clock that can be stepped while programs run: preload it, and write seconds as text to the file that
 * DATABUS_STEP_CLOCK names. The monotonic clock is left alone, as by a real step. libfaketime 0.9.10 cannot stand here:
 * under it Python's time.sleep fails with EINVAL. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char *page;

__attribute__((constructor)) static void open_page(void) {
    const char *name = getenv("DATABUS_STEP_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, 64, PROT_READ, MAP_SHARED, file, 0);
    page = mapped == MAP_FAILED ? NULL : mapped;
    close(file);
}

static long offset(void) { return page ? atol(page) : 0; }

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, at);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += offset();
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

/* Deadlines by the wall clock go to the kernel, whose clock was not stepped. Those by the monotonic one are smaller
 * than any date. */
static struct timespec of_kernel(const struct timespec *deadline) {
    struct timespec at = *deadline;
    if (at.tv_sec > 1000000000) at.tv_sec -= offset();
    return at;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *deadline) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real)
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlvsym(
            RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec at = of_kernel(deadline);
    return real(cond, mutex, &at);
}

int cnd_timedwait(void *cond, void *mutex, const struct timespec *deadline) {
    static int (*real)(void *, void *, const struct timespec *);
    if (!real) real = (int (*)(void *, void *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec at = of_kernel(deadline);
    return real(cond, mutex, &at);
}

int sem_timedwait(sem_t *sem, const struct timespec *deadline) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real) real = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec at = of_kernel(deadline);
    return real(sem, &at);
}

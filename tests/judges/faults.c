/* Makes calls of the C library fail, for LD_PRELOAD.
 *
 * FAULT_CALL names a function of the table below, FAULT_FROM is the number of the first call that
 * fails (0: none), FAULT_COUNT how many do. Calls count from access("/faults/on", …) to
 * access("/faults/off", …); access("/faults/<function>", N) says whether more than N were made,
 * of malloc, calloc and realloc those of FAULT_BYTES or more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { MMAP, MPROTECT, MALLOC, WRITE, FORK, PTHREAD_CREATE, MEMFD_CREATE, FTRUNCATE, CALLS };
static const char *const names[CALLS] = {"mmap",           "mprotect",     "malloc",   "write", "fork",
                                         "pthread_create", "memfd_create", "ftruncate"};
static const int errors[CALLS] = {ENOMEM, EACCES, ENOMEM, ENOSPC, EAGAIN, EAGAIN, EMFILE, ENOSPC};

static atomic_long counts[CALLS];
static atomic_int on;
static int chosen = -1;
static long from, how_many = 1, least_bytes = 1 << 20;

__attribute__((constructor)) static void start(void) {
    const char *name = getenv("FAULT_CALL"), *text;
    for (int k = 0; name && k < CALLS; k++)
        if (!strcmp(name, names[k])) chosen = k;
    if ((text = getenv("FAULT_FROM"))) from = atol(text);
    if ((text = getenv("FAULT_COUNT"))) how_many = atol(text);
    if ((text = getenv("FAULT_BYTES"))) least_bytes = atol(text);
}

static int fails(int call) {
    if (!atomic_load(&on)) return 0;
    long number = atomic_fetch_add(&counts[call], 1) + 1;
    if (call != chosen || !from || number < from || number - from >= how_many) return 0;
    errno = errors[call];
    return 1;
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

int access(const char *path, int mode) {
    static const char prefix[] = "/faults/";
    if (strncmp(path, prefix, sizeof prefix - 1)) return (int)syscall(SYS_access, path, mode);
    const char *word = path + sizeof prefix - 1;
    if (!strcmp(word, "on")) atomic_store(&on, 1);
    if (!strcmp(word, "off")) atomic_store(&on, 0);
    for (int k = 0; k < CALLS; k++)
        if (!strcmp(word, names[k])) return atomic_load(&counts[k]) > mode ? 0 : -1;
    return 0;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    if (fails(MMAP)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}
void *mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    return mmap(address, size, protection, flags, file, offset);
}
int mprotect(void *address, size_t size, int protection) {
    return fails(MPROTECT) ? -1 : (int)syscall(SYS_mprotect, address, size, protection);
}
ssize_t write(int file, const void *bytes, size_t size) {
    return file > 2 && fails(WRITE) ? -1 : (ssize_t)syscall(SYS_write, file, bytes, size);
}
int memfd_create(const char *name, unsigned flags) {
    return fails(MEMFD_CREATE) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}
int ftruncate(int file, off_t size) {
    return fails(FTRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, file, size);
}
int ftruncate64(int file, off_t size) { return ftruncate(file, size); }
pid_t fork(void) {
    static pid_t (*real)(void);
    if (!real) real = (pid_t(*)(void))next("fork");
    return fails(FORK) ? -1 : real();
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *given) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))next("pthread_create");
    return fails(PTHREAD_CREATE) ? EAGAIN : real(thread, attributes, run, given);
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static int refused(size_t size) { return size >= (size_t)least_bytes && fails(MALLOC); }

void *malloc(size_t size) { return refused(size) ? NULL : __libc_malloc(size); }
void *calloc(size_t number, size_t size) {
    return refused(number * size) ? NULL : __libc_calloc(number, size);
}
void *realloc(void *old, size_t size) { return refused(size) ? NULL : __libc_realloc(old, size); }

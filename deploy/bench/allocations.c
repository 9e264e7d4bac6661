// Counts the allocations of a process, for deploy/bench.sh: how many an operation asks for does not depend on how busy
// the machine is.
//
//   gcc -O2 -shared -fPIC -o allocations.so allocations.c
//   ALLOCATIONS=FILE LD_PRELOAD=./allocations.so PROGRAM
//
// FILE holds a number of 8 bytes for each thread, 64 bytes apart, so that threads do not share a cache line. Threads
// beyond 512 share the last number.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { threads = 512, line = 64 };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static char *counts;
static atomic_uint next_thread;
// Another model would allocate memory at the first use.
static __thread uint64_t *mine __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("ALLOCATIONS");
  int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (file < 0) return;
  void *memory = MAP_FAILED;
  if (ftruncate(file, threads * line) == 0)
    memory = mmap(NULL, threads * line, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) counts = memory;
}

static void count(void) {
  if (!counts) return;
  if (!mine) {
    unsigned thread = atomic_fetch_add(&next_thread, 1);
    mine = (uint64_t *)(counts + (thread < threads ? thread : threads - 1) * line);
  }
  ++*mine;
}

void *malloc(size_t size) {
  count();
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  count();
  return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) {
  count();
  return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
  void *made = memalign(alignment, size);
  if (!made) return ENOMEM;
  *memory = made;
  return 0;
}

// Valgrind 3.19 writes to the mask, which libdispatch has in memory that is only to be read.
int sigsuspend(const sigset_t *mask) {
  sigset_t copy = *mask;
  return (int)syscall(SYS_rt_sigsuspend, &copy, 8);
}

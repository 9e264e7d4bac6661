// What the disk alone asks for a commit: the floor that a publish is measured against.
//
//   fsync FILE COUNT
//
// Writes 4 kB into a file of 4 MB and calls fdatasync(2), COUNT times. Prints the mean time and CPU of each, in
// milliseconds.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double cpu(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
  static char page[4096];
  int count = argc == 3 ? atoi(argv[2]) : 0;
  int file = count > 0 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
  if (file < 0) {
    fprintf(stderr, "fsync FILE COUNT\n");
    return 2;
  }
  // Overwriting takes no new blocks, as in a write-ahead log that is used again.
  for (int index = 0; index < 1024; index++)
    if (write(file, page, sizeof page) != sizeof page) return 1;
  if (fsync(file) != 0) return 1;
  double began = now(), used = cpu();
  for (int index = 0; index < count; index++) {
    off_t place = (off_t)(index % 1024) * (off_t)sizeof page;
    if (pwrite(file, page, sizeof page, place) != sizeof page || fdatasync(file) != 0) return 1;
  }
  printf("fsync %.3f ms, %.3f ms of CPU each\n", (now() - began) * 1e3 / count, (cpu() - used) * 1e3 / count);
  return 0;
}

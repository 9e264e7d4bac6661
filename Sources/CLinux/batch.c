#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif
#if defined(__NR_io_uring_setup) && __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif

// Names that are younger than the system calls: Linux 6.0 and 6.1.
#if defined(IORING_SETUP_SINGLE_ISSUER) && defined(IORING_SETUP_DEFER_TASKRUN)

struct stalecast_batch {
    int ring;
    unsigned count;
    // What is shared with the kernel: submissions, and completions.
    void *memory[2];
    size_t sizes[2];
    _Atomic unsigned *submitted, *completed_head, *completed_tail;
    unsigned submission_mask, completion_mask, *order;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
    struct {
        int fd;
        const void *bytes;
        size_t count;
    } sends[STALECAST_BATCH];
};

static void *map(int ring, size_t size, off_t part) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, part);
    return memory == MAP_FAILED ? NULL : memory;
}

stalecast_batch *stalecast_batch_open(void) {
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    int ring = (int)syscall(__NR_io_uring_setup, STALECAST_BATCH, &params);
    if (ring < 0) return NULL;
    stalecast_batch *batch = calloc(1, sizeof *batch);
    // Every kernel that knows the two flags above maps both rings at once.
    size_t rings = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    size_t submissions = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    if (submissions > rings) rings = submissions;
    char *shared = batch ? map(ring, rings, IORING_OFF_SQ_RING) : NULL;
    size_t size = params.sq_entries * sizeof(struct io_uring_sqe);
    void *entries = shared ? map(ring, size, IORING_OFF_SQES) : NULL;
    if (!entries) {
        if (shared) munmap(shared, rings);
        free(batch);
        close(ring);
        return NULL;
    }
    batch->ring = ring;
    batch->memory[0] = shared, batch->sizes[0] = rings;
    batch->memory[1] = entries, batch->sizes[1] = size;
    batch->entries = entries;
    batch->submitted = (_Atomic unsigned *)(shared + params.sq_off.tail);
    batch->submission_mask = *(unsigned *)(shared + params.sq_off.ring_mask);
    batch->order = (unsigned *)(shared + params.sq_off.array);
    batch->completed_head = (_Atomic unsigned *)(shared + params.cq_off.head);
    batch->completed_tail = (_Atomic unsigned *)(shared + params.cq_off.tail);
    batch->completion_mask = *(unsigned *)(shared + params.cq_off.ring_mask);
    batch->completions = (struct io_uring_cqe *)(shared + params.cq_off.cqes);
    return batch;
}

void stalecast_batch_close(stalecast_batch *batch) {
    for (int part = 0; part < 2; part++) munmap(batch->memory[part], batch->sizes[part]);
    close(batch->ring);
    free(batch);
}

void stalecast_batch_add(stalecast_batch *batch, int fd, const void *bytes, size_t count) {
    unsigned place = batch->count++;
    unsigned tail = atomic_load_explicit(batch->submitted, memory_order_relaxed);
    unsigned index = (tail + place) & batch->submission_mask;
    batch->sends[place].fd = fd, batch->sends[place].bytes = bytes, batch->sends[place].count = count;
    batch->entries[index] = (struct io_uring_sqe){
        .opcode = IORING_OP_SEND,
        .fd = fd,
        .addr = (uint64_t)(uintptr_t)bytes,
        .len = (unsigned)count,
        .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
        .user_data = place,
    };
    batch->order[index] = index;
}

// Takes the results that are there; returns how many.
static unsigned take(stalecast_batch *batch, ssize_t *results) {
    unsigned head = atomic_load_explicit(batch->completed_head, memory_order_relaxed), taken = 0;
    unsigned tail = atomic_load_explicit(batch->completed_tail, memory_order_acquire);
    for (; head != tail; head++, taken++) {
        struct io_uring_cqe *completion = &batch->completions[head & batch->completion_mask];
        results[completion->user_data] = completion->res;
    }
    atomic_store_explicit(batch->completed_head, head, memory_order_release);
    return taken;
}

unsigned stalecast_batch_send(stalecast_batch *batch, ssize_t *results) {
    unsigned count = batch->count, begun = 0, done = 0;
    unsigned tail = atomic_load_explicit(batch->submitted, memory_order_relaxed);
    atomic_store_explicit(batch->submitted, tail + count, memory_order_release);
    while (done < count) {
        long taken =
            syscall(__NR_io_uring_enter, batch->ring, count - begun, count - done, IORING_ENTER_GETEVENTS, NULL, 0);
        if (taken > 0) begun += (unsigned)taken;
        done += take(batch, results);
        if (taken >= 0 || errno == EINTR) continue;
        // The kernel has no memory for more: what it has not begun is sent one by one.
        if (done < begun) continue;
        atomic_store_explicit(batch->submitted, tail + begun, memory_order_release);
        for (; begun < count; begun++, done++) {
            ssize_t sent = stalecast_send(batch->sends[begun].fd, batch->sends[begun].bytes, batch->sends[begun].count);
            results[begun] = sent < 0 ? -errno : sent;
        }
    }
    batch->count = 0;
    return count;
}

#else

stalecast_batch *stalecast_batch_open(void) { return NULL; }
void stalecast_batch_close(stalecast_batch *batch) { (void)batch; }
void stalecast_batch_add(stalecast_batch *batch, int fd, const void *bytes, size_t count) {
    (void)batch, (void)fd, (void)bytes, (void)count;
}
unsigned stalecast_batch_send(stalecast_batch *batch, ssize_t *results) { return (void)batch, (void)results, 0; }

#endif

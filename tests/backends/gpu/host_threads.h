// Threads of a block as coroutines, for kernels that have barriers, shuffles and shared memory:
// each runs until it waits for the others. Included before host_cuda.h's last part.
#include <setjmp.h>
#include <ucontext.h>

enum { MOST_THREADS = 1024, STACK_BYTES = 1 << 16 };

// Shared memory; what a launch has not asked for is poisoned and never read by a right kernel.
static uint4 pool[(228 << 10) / 16];

struct Thread {
    ucontext_t first;
    jmp_buf here;
    int state;  // 0 not begun, 1 waiting for its turn, 2 done
};
struct Meeting {
    unsigned int arrived, round;
};
static Thread threads[MOST_THREADS];
static char stacks[MOST_THREADS][STACK_BYTES];
static jmp_buf scheduler;
static unsigned int running, progress;
static Meeting block_meeting, warp_meetings[MOST_THREADS / 32];
static unsigned int offered[MOST_THREADS];

static void take_turns() {
    if (_setjmp(threads[running].here) == 0) _longjmp(scheduler, 1);
    threadIdx.x = running;
}

// Wait until `count` threads have come.
static void meet(Meeting& meeting, unsigned int count) {
    const unsigned int round = meeting.round;
    ++progress;
    if (++meeting.arrived == count) {
        meeting.arrived = 0;
        ++meeting.round;
        return;
    }
    while (meeting.round == round) take_turns();
    ++progress;
}

static inline void __syncthreads() { meet(block_meeting, blockDim.x); }

static inline unsigned int __shfl_xor_sync(unsigned int mask, unsigned int value, int distance) {
    const unsigned int me = threadIdx.x;
    if (mask != 0xffffffffu || blockDim.x % 32 != 0) __builtin_trap();
    offered[me] = value;
    meet(warp_meetings[me / 32], 32);
    const unsigned int other = offered[me ^ distance];
    meet(warp_meetings[me / 32], 32);
    return other;
}

typedef void (*Kernel)(const void*);
static Kernel current_kernel;
static const void* current_arguments;

static void thread_main() {
    threadIdx.x = running;
    current_kernel(current_arguments);
    threads[running].state = 2;
    ++progress;
    _longjmp(scheduler, 1);
}

// Turns go forwards in even blocks and backwards in odd ones: a missing barrier shows.
static void run_block(Kernel kernel, const void* arguments) {
    current_kernel = kernel;
    current_arguments = arguments;
    __builtin_memset(pool, 0xa5, sizeof(pool));
    for (unsigned int t = 0; t < blockDim.x; ++t) threads[t].state = 0;
    for (;;) {
        const unsigned int before = progress;
        unsigned int done = 0;
        for (unsigned int turn = 0; turn < blockDim.x; ++turn) {
            volatile unsigned int at = turn, ended = done;
            running = blockIdx.x % 2 ? blockDim.x - 1 - turn : turn;
            Thread& thread = threads[running];
            if (thread.state == 2) {
                ++done;
                continue;
            }
            if (_setjmp(scheduler) == 0) {
                if (thread.state == 1) _longjmp(thread.here, 1);
                thread.state = 1;
                getcontext(&thread.first);
                thread.first.uc_stack.ss_sp = stacks[running];
                thread.first.uc_stack.ss_size = STACK_BYTES;
                thread.first.uc_link = 0;
                makecontext(&thread.first, thread_main, 0);
                setcontext(&thread.first);
            }
            turn = at;
            done = ended + (threads[running].state == 2);
        }
        if (done == blockDim.x) return;
        if (progress == before) __builtin_trap();  // a barrier that not all threads reach
    }
}

#define RUN_TOGETHER(kernel, Arguments)                                                         \
    static void call_##kernel(const void* a) { kernel(*(const Arguments*)a); }                  \
    extern "C" void run_##kernel(unsigned int grid, unsigned int block, const Arguments* a) {   \
        if (block > MOST_THREADS) __builtin_trap();                                             \
        gridDim.x = grid;                                                                       \
        blockDim.x = block;                                                                     \
        for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) run_block(call_##kernel, a);      \
    }

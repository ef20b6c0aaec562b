// Threads of a block as coroutines, for kernels that have barriers, shuffles and shared memory:
// each runs until it waits for the others. Several blocks are resident, and take turns at random
// where their threads wait. Included before the generated text.
#include <setjmp.h>
#include <ucontext.h>

enum { RESIDENT = CLUSTER > 3 ? CLUSTER : 3, MOST_THREADS = 512, STACK_BYTES = 1 << 16, POOL_BYTES = 228 << 10 };
enum { UNTOUCHED = 0xa5 };
// What the host does for itself is no access of a kernel: host_races.h does not look at it.
#define PLAIN __attribute__((no_sanitize("thread")))

struct Thread {
    ucontext_t first;
    jmp_buf here;
    int state;  // 0 not begun, 1 waiting for its turn, 2 done
};
struct Meeting {
    unsigned int arrived, round;
};
struct Block {
    unsigned int number, done;
    bool active, any;
    Meeting meeting, warps[MOST_THREADS / 32];
    unsigned int offered[MOST_THREADS];
    Thread threads[MOST_THREADS];
};
static Block blocks[RESIDENT];
static jmp_buf scheduler;
static unsigned int running, at_block, progress, idle, chance = 1, launches;
static char* memory;  // shared memory of each resident block, then its threads' stacks

// Shared memory; what a launch has not asked for is looked at when the block has ended.
#define pool ((uint4*)(memory + at_block * (unsigned long)POOL_BYTES))

PLAIN static void take_turns() {
    Thread& thread = blocks[at_block].threads[running];
    if (_setjmp(thread.here) == 0) _longjmp(scheduler, 1);
    threadIdx.x = running;
    blockIdx.x = blocks[at_block].number;
}

// Wait until `count` threads have come.
PLAIN static void meet(Meeting& meeting, unsigned int count) {
    const unsigned int round = meeting.round;
    ++progress;
    if (++meeting.arrived == count) {
        meeting.arrived = 0;
        ++meeting.round;
        return;
    }
    while (*(volatile unsigned int*)&meeting.round == round) take_turns();
    ++progress;
}

PLAIN static inline void __syncthreads() { meet(blocks[at_block].meeting, blockDim.x); }

PLAIN static inline int __syncthreads_or(int mine) {
    Block& block = blocks[at_block];
    if (mine) block.any = true;
    meet(block.meeting, blockDim.x);
    const int any = block.any;
    meet(block.meeting, blockDim.x);
    block.any = false;
    return any;
}

#if CLUSTER > 1
// Blocks of a cluster wait for each other, and read each other's shared memory.
static Meeting clusters[RESIDENT];

PLAIN static void cluster_meet() {
    meet(clusters[blocks[at_block].number / CLUSTER % RESIDENT], blockDim.x * CLUSTER);
}
PLAIN static unsigned int cluster_word(const unsigned int* mine, unsigned int block) {
    const unsigned long place = (const char*)mine - (const char*)pool;
    const unsigned int wanted = blocks[at_block].number / CLUSTER * CLUSTER + block;
    for (unsigned int k = 0; k < RESIDENT; ++k)
        if (blocks[k].active && blocks[k].number == wanted)
            return *(const unsigned int*)(memory + k * (unsigned long)POOL_BYTES + place);
    fault = CLUSTER_ENDED;
    return 0;
}
#endif

// Threads of the host see what others have written; only barriers and counters let blocks meet.
PLAIN static inline void __threadfence() {
    ++progress;
    take_turns();
}
PLAIN static inline unsigned int atomicInc(unsigned int* at, unsigned int most) {
    const unsigned int before = *at;
    *at = before >= most ? 0 : before + 1;
    return before;
}

PLAIN static inline unsigned int __shfl_xor_sync(unsigned int mask, unsigned int value, int distance) {
    const unsigned int me = threadIdx.x;
    Block& block = blocks[at_block];
    if (mask != 0xffffffffu || blockDim.x % 32 != 0) __builtin_trap();
    block.offered[me] = value;
    meet(block.warps[me / 32], 32);
    const unsigned int other = block.offered[me ^ distance];
    meet(block.warps[me / 32], 32);
    return other;
}

// Copies are made when the thread waits for them, no sooner.
enum { MOST_COPIES = 64 };
struct Copy { void* to; const void* from; unsigned int size; };
static Copy copies[RESIDENT][MOST_THREADS][MOST_COPIES];
static unsigned int copy_counts[RESIDENT][MOST_THREADS];

template <class Word> PLAIN static void copy_later(Word* to, const Word* from) {
    if ((unsigned long)from % sizeof(Word) != 0) misaligned();
    unsigned int& count = copy_counts[at_block][running];
    if (count == MOST_COPIES) __builtin_trap();
    copies[at_block][running][count++] = {to, from, sizeof(Word)};
}
PLAIN static void copies_wait() {
    unsigned int& count = copy_counts[at_block][running];
    for (unsigned int k = 0; k < count; ++k) {
        const Copy& copy = copies[at_block][running][k];
        __builtin_memcpy(copy.to, copy.from, copy.size);
    }
    count = 0;
}

typedef void (*Kernel)(const void*);
static Kernel current_kernel;
static const void* current_arguments;

PLAIN static void thread_main() {
    threadIdx.x = running;
    blockIdx.x = blocks[at_block].number;
    current_kernel(current_arguments);
    blocks[at_block].threads[running].state = 2;
    ++blocks[at_block].done;
    ++progress;
    _longjmp(scheduler, 1);
}

PLAIN static unsigned int random_below(unsigned int count) {
    chance = chance * 1664525u + 1013904223u;
    return (unsigned int)(((unsigned long long)chance * count) >> 32);
}

// One thread runs until it waits, or ends.
PLAIN static __attribute__((noinline)) void resume() {
    Thread& thread = blocks[at_block].threads[running];
    if (_setjmp(scheduler) != 0) return;
    if (thread.state == 1) _longjmp(thread.here, 1);
    thread.state = 1;
    getcontext(&thread.first);
    const unsigned long place = (unsigned long)at_block * MOST_THREADS + running;
    thread.first.uc_stack.ss_sp = memory + RESIDENT * (unsigned long)POOL_BYTES + place * STACK_BYTES;
    thread.first.uc_stack.ss_size = STACK_BYTES;
    thread.first.uc_link = 0;
    makecontext(&thread.first, thread_main, 0);
    setcontext(&thread.first);
}

// Every thread of the block takes a turn, beginning anywhere, forwards or backwards.
PLAIN static void take_round() {
    const unsigned int first = random_below(blockDim.x), before = progress;
    const bool back = random_below(2);
    for (unsigned int turn = 0; turn < blockDim.x; ++turn) {
        const unsigned int moved = back ? blockDim.x - turn : turn;
        running = (first + moved) % blockDim.x;
        if (blocks[at_block].threads[running].state != 2) resume();
    }
    idle = progress == before ? idle + 1 : 0;
    if (idle > (CLUSTER > 1 ? 1000 : 0)) fault = BARRIER_MISSED;  // a barrier that not all threads reach
}

PLAIN static void begin_block(unsigned int number) {
    Block& block = blocks[at_block];
    block.number = number;
    block.done = 0;
    block.active = true;
    block.any = false;
    block.meeting.arrived = 0;
    for (unsigned int w = 0; w < MOST_THREADS / 32; ++w) block.warps[w].arrived = 0;
    for (unsigned int t = 0; t < blockDim.x; ++t) {
        block.threads[t].state = 0;
        copy_counts[at_block][t] = 0;
    }
    __builtin_memset(pool, UNTOUCHED, POOL_BYTES);
}

PLAIN static void end_block(unsigned int shared) {
    blocks[at_block].active = false;
    const char* rest = (const char*)pool + shared;
    const unsigned long size = POOL_BYTES - shared;
    if (size && (*rest != (char)UNTOUCHED || __builtin_memcmp(rest, rest + 1, size - 1) != 0))
        fault = BEYOND_SHARED;
}

PLAIN static int run_grid(
    Kernel kernel, unsigned int grid, unsigned int block, unsigned int shared,
    const void* arguments, char* given
) {
    fault = block > MOST_THREADS ? TOO_MANY_THREADS : shared > POOL_BYTES ? BEYOND_SHARED : 0;
    if (grid % CLUSTER != 0) fault = CLUSTER_CUT;
    idle = 0;
    ++launches;
    current_kernel = kernel;
    current_arguments = arguments;
    memory = given;
    gridDim.x = grid;
    blockDim.x = block;
    unsigned int begun = 0, ended = 0;
    for (unsigned int k = 0; k < RESIDENT; ++k) blocks[k].active = false;
    while (ended < grid && !fault) {
        at_block = random_below(RESIDENT);
        if (!blocks[at_block].active) {
            if (begun == grid) continue;
            begin_block(begun++);
        }
        take_round();
        if (blocks[at_block].done == blockDim.x) {
            end_block(shared);
            ++ended;
        }
    }
    return fault;
}

#define RUN_TOGETHER(kernel, Arguments)                                                         \
    static void call_##kernel(const void* a) { kernel(*(const Arguments*)a); }                  \
    extern "C" const unsigned int size_##kernel = sizeof(Arguments);                            \
    extern "C" int run_##kernel(unsigned int grid, unsigned int block, unsigned int shared,     \
                                const Arguments* a, char* memory) {                             \
        return run_grid(call_##kernel, grid, block, shared, a, memory);                         \
    }

// Finds races: the compiler calls these functions at every access (as for ThreadSanitizer, whose
// run-time library is not linked). Included after host_threads.h.
//
// In shared memory, two threads of a block that touch a word between the same barriers race, where
// one of them writes it. In the device's memory, a block sees what another one has written in the
// same launch only after a fence there, an atomic operation of both on one word, and a fence here; a
// thread what others of its block have written only after a barrier; and what is read through the
// read-only path may not be written in the launch at all.
#define UNWATCHED extern "C" __attribute__((no_sanitize("thread"), used))

enum { POOL_WORDS = POOL_BYTES / 4, SEVERAL = 0xffff };
struct Watched {
    unsigned int wrote, read;                // rounds of barriers, counted over all blocks
    unsigned short writer, reader;
};
static Watched watched[RESIDENT][POOL_WORDS];
extern "C" { int race_count; }

// Of memory: who wrote a word, after how many of its fences; in which launch it was read as if
// nobody could write it. Of two words that want one place the older is forgotten.
enum { CELLS = 1 << 18, MOST_BLOCKS = 512, COUNTERS = 64 };
struct Cell {
    unsigned long word;
    unsigned int wrote, block, fences, read_only, thread, round;
};
static Cell cells[CELLS];
static unsigned int fences[MOST_BLOCKS], known_launch;
// How many fences of each other block are before what a block sees; what it will see after a fence
// of its own; what those have left that came to a counter.
typedef unsigned int Clock[MOST_BLOCKS];
static Clock seen[MOST_BLOCKS], met[MOST_BLOCKS], left_at[COUNTERS];

PLAIN static unsigned int this_block() {
    if (known_launch != launches) {
        known_launch = launches;
        __builtin_memset(fences, 0, sizeof(fences));
        __builtin_memset(seen, 0, sizeof(seen));
        __builtin_memset(met, 0, sizeof(met));
        __builtin_memset(left_at, 0, sizeof(left_at));
    }
    if (gridDim.x > MOST_BLOCKS) __builtin_trap();
    return blocks[at_block].number;
}

PLAIN static void join(Clock& one, const Clock& other) {
    for (unsigned int k = 0; k < gridDim.x; ++k)
        if (one[k] < other[k]) one[k] = other[k];
}

PLAIN static inline void watched_fence() {
    const unsigned int me = this_block();
    ++fences[me];
    join(seen[me], met[me]);
    __threadfence();
}
#define __threadfence() watched_fence()

PLAIN static inline unsigned int watched_count(unsigned int* at, unsigned int most) {
    const unsigned int me = this_block();
    Clock& left = left_at[(unsigned long)at / 4 % COUNTERS];
    join(left, seen[me]);
    if (left[me] < fences[me]) left[me] = fences[me];
    join(met[me], left);
    return atomicInc(at, most);
}
#define atomicInc(at, most) watched_count(at, most)

PLAIN static Cell& cell_of(unsigned long word) {
    Cell& cell = cells[(word ^ word >> 18) % CELLS];
    if (cell.word != word) {
        cell.word = word;
        cell.wrote = cell.read_only = 0;
    }
    return cell;
}

PLAIN static void watch_memory(unsigned long address, unsigned long size, bool writes, bool only) {
    const unsigned long places = RESIDENT * (POOL_BYTES + (unsigned long)MOST_THREADS * STACK_BYTES);
    if (address - (unsigned long)memory < places) return;  // a thread's own
    const unsigned int me = this_block();
    const unsigned long step = size < 4 ? 1 : 4;
    const unsigned int round = blocks[at_block].meeting.round;
    for (unsigned long word = address; word < address + size; word += step) {
        Cell& cell = cell_of(word);
        const bool written = cell.wrote == launches;
        const bool others = written && cell.block != me;
        const bool apart = written && cell.block == me && cell.thread != running && cell.round == round;
        const bool unseen = others && (writes || cell.fences >= seen[me][cell.block]);
        if (only ? written : apart || unseen) ++race_count;
        if (writes && cell.read_only == launches) ++race_count;
        if (writes) {
            cell.wrote = launches;
            cell.block = me;
            cell.fences = fences[me];
            cell.thread = running;
            cell.round = round;
        } else if (only) {
            cell.read_only = launches;
        }
    }
}

template <class T> PLAIN static inline T watched_ldg(const T* from) {
    watch_memory((unsigned long)from, sizeof(T), false, true);
    return __ldg(from);
}
#define __ldg(from) watched_ldg(from)

PLAIN static inline void watch(const void* address, unsigned long size, bool writes) {
    const unsigned long first = (unsigned long)address - (unsigned long)pool;
    if (first >= POOL_BYTES) return watch_memory((unsigned long)address, size, writes, false);
    const unsigned int now = blocks[at_block].meeting.round + 1;  // grows from block to block too
    const unsigned short me = (unsigned short)running;
    for (unsigned long word = first / 4; word <= (first + size - 1) / 4; ++word) {
        Watched& at = watched[at_block][word];
        const bool written = at.wrote == now && at.writer != me;
        const bool read = at.read == now && at.reader != me;
        if (written || (writes && read)) ++race_count;
        if (writes) {
            at.wrote = now;
            at.writer = me;
        } else {
            at.reader = at.read == now && at.reader != me ? (unsigned short)SEVERAL : me;
            at.read = now;
        }
    }
}

#define WATCH(size)                                                                       \
    UNWATCHED void __tsan_read##size(void* at) { watch(at, size, false); }                \
    UNWATCHED void __tsan_write##size(void* at) { watch(at, size, true); }                \
    UNWATCHED void __tsan_unaligned_read##size(void* at) { watch(at, size, false); }      \
    UNWATCHED void __tsan_unaligned_write##size(void* at) { watch(at, size, true); }
WATCH(1) WATCH(2) WATCH(4) WATCH(8) WATCH(16)
UNWATCHED void __tsan_read_range(void* at, unsigned long size) { watch(at, size, false); }
UNWATCHED void __tsan_write_range(void* at, unsigned long size) { watch(at, size, true); }
UNWATCHED void __tsan_func_entry(void*) {}
UNWATCHED void __tsan_func_exit() {}
UNWATCHED void __tsan_init() {}
UNWATCHED void __tsan_vptr_update(void**, void*) {}

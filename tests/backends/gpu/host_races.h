// Finds races in shared memory: the compiler calls these functions at every access (as for
// ThreadSanitizer, whose run-time library is not linked). Two threads of a block that touch a word
// between the same barriers, one of them to write it, race. Included after host_threads.h.
#define UNWATCHED extern "C" __attribute__((no_sanitize("thread"), used))

enum { POOL_WORDS = POOL_BYTES / 4, SEVERAL = 0xffff };
struct Watched {
    unsigned int wrote, read;                // rounds of barriers, counted over all blocks
    unsigned short writer, reader;
};
static Watched watched[RESIDENT][POOL_WORDS];
extern "C" { int race_count; }

__attribute__((no_sanitize("thread")))
static inline void watch(const void* address, unsigned long size, bool writes) {
    const unsigned long first = (unsigned long)address - (unsigned long)pool;
    if (first >= POOL_BYTES) return;
    const unsigned int now = blocks[at_block].meeting.round + 1;  // grows from block to block too
    const unsigned short me = (unsigned short)running;
    for (unsigned long word = first / 4; word <= (first + size - 1) / 4; ++word) {
        Watched& at = watched[at_block][word];
        const bool written = at.wrote == now && at.writer != me;
        const bool seen = at.read == now && at.reader != me;
        if (written || (writes && seen)) ++race_count;
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

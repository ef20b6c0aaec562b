"""Device functions of reductions: exact addition, the better of two, threads merged in order."""

from __future__ import annotations

#: name -> definition; a function is defined after those that it calls.
REDUCTION_HELPERS: dict[str, str] = {}

REDUCTION_HELPERS["add_exactly"] = """\
// high + x with what rounding lost put into low: not a number once the sum is not finite.
template <class T> INLINE void add_exactly(T& high, T& low, T x) {
    const T total = high + x;
    const T part = total - high;
    low += (high - (total - part)) + (x - part);
    high = total;
}"""

REDUCTION_HELPERS["corrected"] = """\
// A sum with what its additions lost.
template <class T> INLINE T corrected(T high, T low) { return low == low ? high + low : high; }"""

REDUCTION_HELPERS["finite_or_zero"] = """\
template <class T> INLINE T finite_or_zero(T x) { return x - x == 0 ? x : (T)0; }"""

REDUCTION_HELPERS["sum_of"] = """\
// N numbers, halves first.
template <class T, int N> INLINE T sum_of(T (&x)[N]) {
    #pragma unroll
    for (int half = N / 2; half > 0; half /= 2) {
        #pragma unroll
        for (int j = 0; j < half; ++j) x[j] += x[j + half];
    }
    return x[0];
}"""

REDUCTION_HELPERS["take_better"] = """\
// The extreme of two candidates and its place: the first place wins ties, NaN wins over numbers.
// A place of -1 is no candidate.
template <class T>
INLINE void take_better(T& best, long long& at, T x, long long place, bool greatest) {
    if (place < 0) return;
    if (at >= 0) {
        const bool old = best != best, now = x != x;
        const bool tie = old ? now : !now && x == best;
        const bool more = old ? false : now || (greatest ? x > best : x < best);
        if (!more && !(tie && place < at)) return;
    }
    best = x;
    at = place;
}"""

REDUCTION_HELPERS["exchange"] = """\
// The state of the lane whose number differs in one bit.
template <class S> INLINE S exchange(const S& mine, int apart) {
    union { S state; unsigned int word[sizeof(S) / 4]; } x;
    x.state = mine;
    #pragma unroll
    for (int k = 0; k < (int)(sizeof(S) / 4); ++k)
        x.word[k] = __shfl_xor_sync(0xffffffffu, x.word[k], apart);
    return x.state;
}"""

REDUCTION_HELPERS["comes_last"] = """\
// Whether this block is the last of `count` that come here: it sees all that they have written.
// The counter is 0 before and after.
template <class Count> INLINE bool comes_last(Count* counter, Count count) {
    bool last = false;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(counter, count - 1) == count - 1;
        __threadfence();
    }
    return __syncthreads_or(last);
}"""

REDUCTION_HELPERS["combine_lanes"] = """\
// The states of `count` neighbouring lanes, merged in their order where that tells: all of them
// get the same result.
template <class S> INLINE void combine_lanes(S& s, unsigned int count) {
    for (unsigned int apart = 1; apart < count; apart *= 2) {
        S other = exchange(s, apart);
        if (S::ORDERED && (threadIdx.x & apart)) {
            other.merge(s);
            s = other;
        } else {
            s.merge(other);
        }
    }
}"""

REDUCTION_HELPERS["combine_row"] = """\
// The states of the threads that share a row: part of a warp, or the whole block.
template <class S> INLINE void combine_row(S& s, unsigned int team, S* room) {
    combine_lanes(s, team < 32 ? team : 32);
    if (team <= 32) return;
    const unsigned int warps = team >> 5;
    __syncthreads();  // the room may still be read
    if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = s;
    __syncthreads();
    s = room[threadIdx.x & (warps - 1)];
    combine_lanes(s, warps);
}"""

REDUCTION_HELPERS["combine_cluster"] = """\
// The states of the blocks of a cluster, merged in their order; all threads get the same result.
#if CLUSTER > 1
#ifndef FUSER_HOST
INLINE void cluster_meet() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
INLINE unsigned int cluster_word(const unsigned int* mine, unsigned int block) {
    unsigned int word;
    asm volatile(
        "{ .reg .u32 at; mapa.shared::cluster.u32 at, %1, %2; ld.shared::cluster.u32 %0, [at]; }"
        : "=r"(word) : "r"((unsigned int)__cvta_generic_to_shared(mine)), "r"(block) : "memory");
    return word;
}
#endif
template <class S> INLINE void combine_cluster(S& s, S* room) {
    if (threadIdx.x == 0) *room = s;
    cluster_meet();
    union { S state; unsigned int word[sizeof(S) / 4]; } x;
    #pragma unroll
    for (unsigned int block = 0; block < CLUSTER; ++block) {
        #pragma unroll
        for (int k = 0; k < (int)(sizeof(S) / 4); ++k)
            x.word[k] = cluster_word((const unsigned int*)room + k, block);
        if (block == 0) s = x.state;
        else s.merge(x.state);
    }
    cluster_meet();  // the room may still be read
}
#endif"""

REDUCTION_HELPERS["copy_ahead"] = """\
// Copies that run while the thread goes on, until it waits for all of its own.
#if AHEAD
#if !defined(FUSER_HOST) && __CUDA_ARCH__ >= 800
template <class Word> INLINE void copy_later(Word* to, const Word* from) {
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
    if constexpr (sizeof(Word) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                     :: "r"(at), "l"(from), "n"(sizeof(Word)) : "memory");
}
INLINE void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#elif !defined(FUSER_HOST)
template <class Word> INLINE void copy_later(Word* to, const Word* from) { *to = *from; }
INLINE void copies_wait() {}
#endif
template <class T, int N> INLINE void copy_ahead(Lanes<T, N>* to, const char* from) {
    typedef typename Lanes<T, N>::Word Word;
    #pragma unroll
    for (int k = 0; k < Lanes<T, N>::WORDS; ++k) copy_later(to->words + k, (const Word*)from + k);
}
#endif"""

REDUCTION_HELPERS["combine_column"] = """\
// The states of the threads of a block that share a column: those `across` apart, a power of two.
template <class S> INLINE void combine_column(S& s, unsigned int across, S* room) {
    __syncthreads();  // the room may still be read
    room[threadIdx.x] = s;
    for (unsigned int apart = across; apart < blockDim.x; apart *= 2) {
        __syncthreads();
        if ((threadIdx.x & (2 * apart - 1)) < across) {
            s.merge(room[threadIdx.x + apart]);
            room[threadIdx.x] = s;
        }
    }
    __syncthreads();
    s = room[threadIdx.x & (across - 1)];
}"""

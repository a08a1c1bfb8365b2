// bench/search_hash.cuh: "hash", an open-addressing hash table with linear probing.
//
// The search of the engines that do not sort (MinkowskiEngine, TorchSparse, spconv). The capacity
// is a power of two of at least twice the voxels; key and value stand side by side, so that a probe
// is one load, and a probe's neighbours come with its 32-byte sector. The free slot is all ones,
// which no word is (spira::word_none), and which a memset writes.
#ifndef SPIRA_BENCH_SEARCH_HASH_CUH
#define SPIRA_BENCH_SEARCH_HASH_CUH

#include "search_query.cuh"

enum { hash_threads = 256 };

template <typename W>
struct alignas(2 * sizeof(W)) hash_slot {
    W key, value; // value: the position in the set
};

template <typename W>
struct search_hash {
    hash_slot<W> *slots; // [capacity] device memory
    int64_t capacity;    // a power of two
};

SPIRA_API int64_t hash_capacity(int64_t voxels) {
    return (int64_t)1 << spira::bits_for((uint64_t)(2 * voxels - 1));
}

// The finalisers of MurmurHash3: the words of neighbours differ in few bits, and go far apart.
SPIRA_DEVICE uint32_t hash_mix(uint32_t h) {
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

SPIRA_DEVICE uint64_t hash_mix(uint64_t h) {
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

// Puts a word into a slot if it is free. 32-bit words: key and value at once.
SPIRA_DEVICE bool hash_put(hash_slot<uint32_t> *slot, uint32_t word, int position) {
    unsigned long long both = (unsigned long long)(uint32_t)position << 32 | word;
    return atomicCAS((unsigned long long *)slot, ~0ull, both) == ~0ull;
}

// 64-bit words: the value follows; nobody reads it before the kernel's end.
SPIRA_DEVICE bool hash_put(hash_slot<uint64_t> *slot, uint64_t word, int position) {
    bool mine = atomicCAS((unsigned long long *)&slot->key, ~0ull, word) == ~0ull;
    if (mine) {
        slot->value = (uint64_t)position;
    }
    return mine;
}

// The words are distinct: what is in a slot is never the one that is put.
template <typename W>
SPIRA_KERNEL void hash_insert_kernel(search_hash<W> table, const W *__restrict__ words,
                                     const int32_t *count, int32_t capacity) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < spira::min_of(*count, capacity)) {
        W word = words[i], mask = (W)(table.capacity - 1);
        for (W at = hash_mix(word) & mask; !hash_put(table.slots + at, word, i);) {
            at = (at + 1) & mask;
        }
    }
}

// At least half of the slots are free: the walk ends.
template <typename W>
SPIRA_DEVICE int search_find(const search_hash<W> &table, W word) {
    W mask = (W)(table.capacity - 1);
    for (W at = hash_mix(word) & mask;; at = (at + 1) & mask) {
        hash_slot<W> slot = table.slots[at];
        if (slot.key == word) {
            return (int)slot.value;
        }
        if (slot.key == spira::word_none<W>()) {
            return -1;
        }
    }
}

// Empties the table and puts the set into it.
template <typename W>
SPIRA_API spira::status hash_build(const search_case<W> *c, const search_hash<W> *table,
                                   cudaStream_t stream) {
    spira::voxel_set<W> set = c->set.device;
    size_t bytes = (size_t)table->capacity * sizeof(hash_slot<W>);
    SPIRA_TRY(spira::status_from_cuda(cudaMemsetAsync(table->slots, 0xff, bytes, stream), "table"));
    hash_insert_kernel<<<(unsigned)spira::ceil_div(set.capacity, hash_threads), hash_threads, 0,
                         stream>>>(*table, set.words, set.count, set.capacity);
    return spira::status_of_launch("hash_build");
}

#endif

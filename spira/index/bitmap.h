// spira/index/bitmap.h: sizes of a bitmap whose set bits are listed (bitmap.cuh).
#ifndef SPIRA_INDEX_BITMAP_H
#define SPIRA_INDEX_BITMAP_H

#include "../config.h"

namespace spira {

enum {
    bitmap_threads = 256,
    bitmap_words = 4,       // words of a thread
    bitmap_words_small = 1, // the same where that makes at most bitmap_tiles_few tiles
    bitmap_words_large = 8, // the same where there are many tiles
    bitmap_tile = bitmap_threads * bitmap_words,
    bitmap_tiles_few = 64,    // so many or fewer small tiles count the bits in front by themselves
    bitmap_tiles_many = 1024, // of bitmap_tile words: about what a large GPU runs at a time
    bitmap_batch = 4096,      // set bits of a tile that are listed at a time
};

} // namespace spira

#endif

// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/search.cu: voxel searches compared, as in Figure 12 of the Spira paper.
//
//     build/bench_search data/*.vox32
//     build/bench_search --minuet 256,512 my.xyz32
//     build/bench_search --sweep minuet data/*.vox32
//
// Each search builds the same submanifold kernel map from the same sorted words, and each is
// explained where it is: "zdelta" is spira::map_build, "bsearch", "hash" and "grid" are in
// search_query.cuh, "minuet" in search_minuet.cuh. "hash" builds its table and "grid" fills and
// clears its cells every time. `B` and `C` are the block sizes of "minuet".
//
// Bench "minuet" (--sweep minuet): Minuet's search over B and C, K = 3 and 5, 32-bit words.
#include "search_all.cuh"

template <typename W>
static void search_run_words(bench_session *s, const bench_input *input) {
    const bool sweep = s->options.sweep_minuet;
    const int most = sweep || s->options.quick ? 5 : 7;
    bench_words<W>(s, input, [&](const bench_scene<W> *scene) {
        search_work<W> work = search_work_make(&s->pool, &scene->layout, scene->fine, input->name);
        for (int K = 3; K <= most; K += 2) {
            if (sweep) {
                search_sweep_minuet(s, &work, bench_row_make("minuet", scene), K);
            } else {
                search_run(s, &work, bench_row_make("search", scene), K, bench_most_us);
            }
        }
    });
}

static void search_run_input(bench_session *s, const bench_input *input) {
    search_run_words<uint32_t>(s, input);
    if (!s->options.sweep_minuet && !s->options.quick) {
        search_run_words<uint64_t>(s, input);
    }
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, search_run_input);
}

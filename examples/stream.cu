// examples/stream.cu: one convolution in a stream that exists, with memory that the caller owns.
//   nvcc -std=c++17 -arch=native examples/stream.cu -o stream && ./stream
#include "../spira.cuh"

// Submanifold 3x3x3, 16 to 32 channels, ReLU: `set` and `features` come from the engine around it.
// memory: device memory of at least `*bytes`, aligned to 256; null asks how much that is.
static spira::status convolve(const spira::word_layout *layout, spira::voxel_set<uint32_t> set,
                              const void *features, const void *packed, void *out, void *memory,
                              size_t *bytes, cudaStream_t stream) {
    spira::kernel_shape kernel = spira::kernel_cube(3, 1);
    spira::workspace w = spira::workspace_begin(memory);
    spira::tile_layout tiles = spira::tile_layout_take(&w, set.capacity, 27, spira::tile_rows(27));
    *bytes = w.used;
    if (!memory) {
        return spira::status_success();
    }
    spira::map_forms forms = spira::map_forms_tiles(tiles);
    SPIRA_TRY(spira::map_build_forms(layout, &kernel, set, set, &forms, stream));
    spira::conv_args args = {};
    args.shape = {27, 16, 0, 32, spira::numeric_f16};
    args.in = features;
    args.weights = packed; // of conv_weights_pack, once
    args.layout = &tiles;
    args.count = set.count;
    args.capacity = set.capacity;
    args.epilogue.act = spira::activation_relu;
    args.out = out;
    return spira::conv(&args, nullptr, 0, stream);
}

int main() { // what it needs for 100,000 voxels
    size_t bytes;
    spira::voxel_set<uint32_t> set = {nullptr, nullptr, 100000};
    spira::status s = convolve(nullptr, set, nullptr, nullptr, nullptr, nullptr, &bytes, nullptr);
    printf("%s: %.1f MB of workspace\n", spira::status_string(s.code), (double)bytes * 1e-6);
    return spira::status_failed(s);
}

// examples/stream.cu: one convolution in a stream that exists, with memory that the caller owns.
//   nvcc -std=c++17 -arch=native examples/stream.cu -o stream && ./stream
#include "../spira.cuh"

// Submanifold 3x3x3, 16 to 32 channels, ReLU: `set` and `features` come from the engine around it.
// So few channels read the ordered layout, on sm_80 and later (conv_form_of).
// memory: device memory of at least `*bytes`, aligned to 256; null asks how much that is.
static spira::status convolve(const spira::word_layout *layout, spira::voxel_set<uint32_t> set,
                              const void *features, const void *packed, void *out, void *memory,
                              size_t *bytes, cudaStream_t stream) {
    spira::kernel_shape kernel = spira::kernel_cube(3, 1);
    spira::workspace w = spira::workspace_begin(memory);
    spira::order_layout order = spira::order_layout_take(&w, set.capacity, 27);
    int32_t *map = spira::workspace_take<int32_t>(&w, (int64_t)set.capacity * 27);
    spira::order_request request = {kernel,       spira::map_all, map,    set.count,
                                    set.capacity, order,          nullptr};
    size_t scratch_bytes;
    SPIRA_TRY(spira::order_workspace(&request, 1, &scratch_bytes));
    void *scratch = spira::workspace_take<char>(&w, (int64_t)scratch_bytes);
    *bytes = w.used;
    if (!memory) {
        return spira::status_success();
    }
    SPIRA_TRY(spira::map_build(layout, &kernel, set, set, map, stream));
    SPIRA_TRY(spira::order_build(&request, 1, scratch, scratch_bytes, stream));
    spira::conv_args args = {};
    args.shape = {27, 16, 0, 32, spira::numeric_f16};
    args.in = features;
    args.weights = packed; // of conv_weights_pack, once
    args.order = &order;
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

// tests/build/units/voxelize.cu: points to a sorted set of 32-bit words.
#include "../../../spira.cuh"

spira::status unit(const spira::word_layout *layout, const spira::voxel_input *in,
                   spira::voxel_set<uint32_t> set, spira::voxel_rows rows,
                   spira::device_status *trouble, void *scratch, size_t bytes, cudaStream_t stream);

spira::status unit(const spira::word_layout *layout, const spira::voxel_input *in,
                   spira::voxel_set<uint32_t> set, spira::voxel_rows rows,
                   spira::device_status *trouble, void *scratch, size_t bytes,
                   cudaStream_t stream) {
    return spira::voxelize(layout, in, set, rows, trouble, scratch, bytes, stream);
}
